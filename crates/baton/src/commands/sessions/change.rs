//! `baton sessions fork`, `rollback`, `rename` and `rm`: a session is changed as a whole.

use std::io::{self, Write};

use baton_core::{EventId, Fault, SessionId};
use baton_session::View;
use serde_json::json;

use super::{Here, print_json, talk, unchanged, unfound, unread, unusable, unwritable};
use crate::asking;
use crate::exit::Exit;

#[derive(clap::Args)]
pub struct ForkArgs {
    /// The session
    id: String,
    /// The last entry that the new one has [default: all]; `show --entries` lists them
    #[arg(long, value_name = "ENTRY")]
    at: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct RollbackArgs {
    /// The session
    id: String,
    /// The entry that it goes on from; `show --entries` lists them
    #[arg(long, value_name = "ENTRY")]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct RenameArgs {
    /// The session
    id: String,
    /// Its name
    title: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct RmArgs {
    /// The sessions
    #[arg(required = true)]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Take them out of the trash again
    #[arg(long, conflicts_with = "yes")]
    restore: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn entry(here: &Here, id: &SessionId, name: &str) -> Result<EventId, Fault> {
    let view = View::open(&here.sessions, id).map_err(|error| unread(id, &error))?;
    view.find(name).map_err(|error| unfound(id, &error))
}

pub fn fork(here: &Here, args: &ForkArgs) -> Result<Exit, Fault> {
    let id = here.find(Some(&args.id))?;
    let at = args.at.as_deref().map(|name| entry(here, &id, name)).transpose()?;
    let fresh = SessionId::fresh(&here.ids);
    let forked = here.sessions.fork(&id, at.as_ref(), fresh.clone(), here.now, &here.ids);
    let mut log = forked.map_err(|error| unusable(&format!("cannot fork {id}"), error))?;
    let synced = log.unsynced().and_then(|unsynced| unsynced.map_or(Ok(()), |unsynced| unsynced.sync()));
    synced.map_err(|error| unusable(&format!("cannot fork {id}"), error))?;
    if args.json {
        return print_json(&json!({"id": fresh, "forked": {"session": id, "entry": at}}));
    }
    writeln!(io::stdout(), "{fresh}").map_err(|error| unwritable(&error))?;
    talk(&format!("forked from {id}; `baton exec -r {}` goes on with it", super::short(fresh.as_str())));
    Ok(Exit::Done)
}

pub fn roll_back(here: &Here, args: &RollbackArgs) -> Result<Exit, Fault> {
    let id = here.find(Some(&args.id))?;
    let to = entry(here, &id, &args.to)?;
    let moved = here.sessions.roll_back(&id, to.clone(), here.now, &here.ids);
    moved.map_err(|error| unchanged(&format!("cannot roll back {id}"), &error))?;
    if args.json {
        return print_json(&json!({"id": id, "to": to}));
    }
    talk(&format!("{id} goes on from {to}; what came after it is still in the file"));
    Ok(Exit::Done)
}

pub fn rename(here: &Here, args: &RenameArgs) -> Result<Exit, Fault> {
    let title = args.title.trim();
    if title.is_empty() {
        return Err(Fault::input("the name is empty").hint("give it one word at least"));
    }
    let id = here.find(Some(&args.id))?;
    let renamed = here.sessions.rename(&id, title, here.now, &here.ids);
    renamed.map_err(|error| unchanged(&format!("cannot rename {id}"), &error))?;
    if args.json {
        return print_json(&json!({"id": id, "title": title}));
    }
    talk(&format!("{id} is called {title:?} now"));
    Ok(Exit::Done)
}

pub fn remove(here: &Here, args: &RmArgs) -> Result<Exit, Fault> {
    let mut done = Vec::new();
    if args.restore {
        for name in &args.ids {
            let restored = here.sessions.restore(name);
            done.push(restored.map_err(|error| unchanged(&format!("cannot restore {name}"), &error))?);
        }
    } else {
        let ids: Vec<SessionId> = args.ids.iter().map(|name| here.find(Some(name))).collect::<Result<_, _>>()?;
        let names: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
        let question = format!("Put {} into the trash?", names.join(", "));
        if !asking::yes(&question, args.yes, "say it on the command line: --yes")? {
            talk("nothing was removed");
            return Ok(Exit::NeedsPerson);
        }
        for id in ids {
            let gone = here.sessions.discard(&id, here.now);
            gone.map_err(|error| unchanged(&format!("cannot remove {id}"), &error))?;
            done.push(id);
        }
    }
    if args.json {
        return print_json(&json!({ (if args.restore { "restored" } else { "removed" }): done }));
    }
    for id in &done {
        if args.restore {
            talk(&format!("{id} is back"));
        } else {
            talk(&format!("{id} is in the trash; `baton sessions rm --restore {id}` brings it back"));
        }
    }
    Ok(Exit::Done)
}
