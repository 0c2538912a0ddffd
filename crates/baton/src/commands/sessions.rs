//! `baton sessions`: the conversations of this project: listed, shown, changed, searched, carried elsewhere and pruned.

mod carry;
mod change;
mod list;
mod prune;
mod show;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_agent::RandomIds;
use baton_core::{Area, Fault, SessionId, Tier, Timestamp};
use baton_session::{ChangeError, FindError, Index, IndexError, LoadError, OpenError, Sessions};

use crate::exit::Exit;
use crate::setup::locate;
use crate::{Global, keeping};

pub use prune::prune_daily;

/// List, show, search, change and move the sessions of this project
#[derive(clap::Args)]
#[command(after_help = "\
A session is named by its id, or by an end of it that no other has.

Examples:
  baton sessions list                         `baton exec -r ID` goes on with one of them
  baton sessions search \"rate limit\" --all    in all projects
  baton sessions show 7QK2M4X8 --entries      what can be forked at, or gone back to
  baton sessions rollback 7QK2M4X8 --to 9F3A  what came after that entry stays in the file
  baton sessions export -o all.tar            elsewhere: baton sessions import all.tar
  baton sessions import ~/.claude/projects    from Claude Code; ~/.codex/sessions: from Codex

Exit codes: 0 done · 2 there is nothing like it · 3 `check` found damage · 8 open elsewhere, or
  unusable
")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show the sessions, the last used first
    List(list::ListArgs),
    /// Show what was said and done in a session
    Show(show::ShowArgs),
    /// Find words in all sessions
    Search(list::SearchArgs),
    /// Make a session that goes on from an entry of another one
    Fork(change::ForkArgs),
    /// Let a session go on from one of its entries
    Rollback(change::RollbackArgs),
    /// Give a session a name
    Rename(change::RenameArgs),
    /// Put sessions into the trash, or take them out again
    Rm(change::RmArgs),
    /// Write sessions, what belongs to them and the project's definitions to a tar file
    Export(carry::ExportArgs),
    /// Read such a file, or conversations of Claude Code or Codex
    Import(carry::ImportArgs),
    /// Free disk space by the rules of the setting `sessions`
    Prune(prune::PruneArgs),
    /// Read whole files and report what in them is damaged
    Check(show::CheckArgs),
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let here = Here::new(global)?;
    match &args.action {
        Action::List(args) => list::list(&here, args),
        Action::Show(args) => show::show(&here, args),
        Action::Search(args) => list::search(&here, args),
        Action::Fork(args) => change::fork(&here, args),
        Action::Rollback(args) => change::roll_back(&here, args),
        Action::Rename(args) => change::rename(&here, args),
        Action::Rm(args) => change::remove(&here, args),
        Action::Export(args) => carry::export(global, &here, args),
        Action::Import(args) => carry::import(global, &here, args),
        Action::Prune(args) => prune::prune(global, &here, args),
        Action::Check(args) => show::check(&here, args),
    }
}

/// The sessions of the project that the command is about.
struct Here {
    sessions: Sessions,
    projects: PathBuf,
    root: PathBuf,
    cwd: PathBuf,
    now: Timestamp,
    ids: RandomIds,
}

impl Here {
    fn new(global: &Global) -> Result<Self, Fault> {
        let (places, cwd, project) = locate(global.dir.as_deref())?;
        Ok(Self {
            sessions: Sessions::new(&places.project_state(&project.id)),
            projects: places.state_dir.join("projects"),
            root: project.root,
            cwd,
            now: Timestamp::now(),
            ids: RandomIds::default(),
        })
    }

    /// The session that is meant; the last one if none is named.
    fn find(&self, name: Option<&str>) -> Result<SessionId, Fault> {
        keeping::find(&self.sessions, name)
    }

    /// The sessions of this project, or of all of them, with the names of the projects.
    fn scope(&self, is_all: bool) -> Vec<(String, Sessions)> {
        let own = self.sessions.state_dir().to_owned();
        let mut states = vec![own.clone()];
        if is_all && let Ok(listing) = std::fs::read_dir(&self.projects) {
            states.extend(listing.flatten().map(|entry| entry.path()).filter(|path| *path != own));
            states[1..].sort();
        }
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        states.iter().map(|path| (name(path), Sessions::new(path))).collect()
    }
}

/// Asks the index, and tells how far it is where that takes long.
fn ask<T>(sessions: &Sessions, question: impl Fn(&Index) -> Result<T, IndexError>) -> Result<(Index, T), Fault> {
    let mut progress = Progress::new();
    let asked = Index::ask(sessions, &mut |done, total| progress.tell(done, total), question);
    progress.end();
    let (index, answer) = asked.map_err(|error| {
        Fault::new(Area::Workspace, Tier::UserFixable, error.to_string()).hint("mend that and run it again")
    })?;
    if let Some(why) = index.why_unkept() {
        talk(&format!(
            "note: the index in {} cannot be kept ({why}): the sessions were read anew",
            sessions.state_dir().display()
        ));
    }
    Ok((index, answer))
}

/// How far the index is, on a terminal, when it takes long.
struct Progress {
    since: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    fn new() -> Self {
        Self { since: Instant::now(), shown: None, is_terminal: io::stderr().is_terminal() }
    }

    fn tell(&mut self, done: usize, total: usize) {
        let is_due = self.shown.unwrap_or(self.since).elapsed() > Duration::from_millis(200);
        if self.is_terminal && is_due {
            self.shown = Some(Instant::now());
            drop(write!(io::stderr(), "\r\x1b[Kreading sessions: {done} of {total}"));
        }
    }

    fn end(&self) {
        if self.shown.is_some() {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }
}

/// Says something to the person.
fn talk(text: &str) {
    // Whoever closed stderr does not want to hear.
    drop(writeln!(anstream::stderr(), "{text}"));
}

fn unwritable(error: &io::Error) -> Fault {
    Fault::internal(format!("cannot write the output: {error}"))
}

/// Prints a value, and that is all.
fn print_json(value: &impl serde::Serialize) -> Result<Exit, Fault> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Fault::internal(error.to_string()))?;
    writeln!(io::stdout().lock(), "{text}").map(|()| Exit::Done).map_err(|error| unwritable(&error))
}

fn unusable(what: &str, error: impl std::fmt::Display) -> Fault {
    Fault::new(Area::Workspace, Tier::UserFixable, format!("{what}: {error}"))
}

fn unread(id: &SessionId, error: &LoadError) -> Fault {
    unusable(&format!("cannot read {id}"), error)
}

fn unfound(id: &SessionId, error: &FindError) -> Fault {
    Fault::input(format!("{id}: {error}")).hint(format!("`baton sessions show {id} --entries` shows them"))
}

fn unchanged(what: &str, error: &ChangeError) -> Fault {
    match error {
        ChangeError::Open(OpenError::Held(_)) => unusable(what, error).hint("end it there first"),
        ChangeError::NotTrashed(_) => {
            Fault::input(error.to_string()).hint("`ls` its directory `trash` to see what is there")
        }
        ChangeError::Several(..) => Fault::input(error.to_string()).hint("give more of its id"),
        ChangeError::Occupied(_) => unusable(what, error).hint("remove that one first"),
        _ => unusable(what, error).hint("nothing was changed"),
    }
}

/// Text of models and people as one line that no terminal obeys.
fn line(text: &str, max: usize) -> Cow<'_, str> {
    let is_plain = text.chars().all(|c| !c.is_control()) && text.len() <= max;
    if is_plain {
        return Cow::Borrowed(text);
    }
    let mut plain: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !c.is_control()).collect();
    if plain.chars().count() > max {
        plain = plain.chars().take(max.saturating_sub(1)).collect();
        plain.push('…');
    }
    Cow::Owned(plain)
}

/// The end of an id, which is enough to name it.
fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_stands_on_one_line() {
        assert_eq!(line("a\nb\x1b[2J", 10), "a b[2J");
        assert_eq!(line("äöüß", 3), "äö…");
        assert_eq!(short("ses_01ABCDEFGH"), "ABCDEFGH");
        assert_eq!(short("x"), "x");
    }
}
