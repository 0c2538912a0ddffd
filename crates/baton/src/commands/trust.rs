//! `baton trust`: shows what a repository would make Baton and git do, and trusts it as it is.

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use baton_config::{Places, Project};
use baton_core::Fault;
use baton_guard::audit::Decision;
use baton_guard::path::escaped;
use baton_guard::trust::{Change, Item, Keep, Ledger, LedgerError, Record, State, Survey, purpose, state, survey};
use jiff::Timestamp;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use crate::exit::Exit;
use crate::setup::locate;
use crate::{Global, asking, trusting};

const BOLD: Style = Style::new().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();

/// Look at what a repository would make Baton and git do, and trust it as it is
#[derive(clap::Args)]
#[command(after_help = "\
Trust covers the project's settings, workflows, agents, skills, commands, hooks and MCP servers, and what
git would start there. It is for the present content: when a file changes, it is shown and asked for again.
Until then nothing of it is used and nothing of it runs, in any permission mode.

Examples:
  baton trust                    show every file, or what has changed, and ask
  baton trust --json             the same for programs
  baton trust --yes              say yes without being asked
  baton trust --revoke           trust it no more

Exit codes: 0 it is trusted, or has nothing to trust · 2 something in it cannot be trusted · 4 a yes is missing
")]
pub struct Args {
    /// The repository [default: the one of the working directory]
    dir: Option<PathBuf>,
    #[command(flatten)]
    action: Action,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(multiple = false)]
struct Action {
    /// Trust it without being asked
    #[arg(long)]
    yes: bool,
    /// Trust it no more
    #[arg(long)]
    revoke: bool,
    /// List every repository that is trusted
    #[arg(long)]
    list: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let dir = match (&global.dir, &args.dir) {
        (Some(base), Some(dir)) => Some(base.join(dir)),
        (base, dir) => dir.clone().or_else(|| base.clone()),
    };
    let (places, _, project) = locate(dir.as_deref())?;
    let ledger = Ledger::new(&places.state_dir);
    if args.action.list {
        return list(&ledger, args.json);
    }
    if args.action.revoke {
        return revoke(&ledger, &places, &project);
    }
    let found = survey(&project.root, Keep::Contents);
    let trusted = ledger.get(&project.root).map_err(|error| unusable(&error))?;
    let state = state(&found, trusted.as_ref());
    let shown = Shown { project: &project, found: &found, trusted: trusted.as_ref(), state: &state, ledger: &ledger };
    let written = if args.json { shown.json() } else { shown.text() };
    written.map_err(|error| unwritable(&error))?;
    if matches!(state, State::Nothing | State::Trusted) {
        return Ok(Exit::Done);
    }
    if let Some(item) = found.items().iter().find(|item| item.problem.is_some()) {
        let problem = item.problem.as_deref().unwrap_or_default();
        return Err(Fault::input(format!("this repository cannot be trusted: {} {problem}", item.path))
            .hint("remove it, or put a plain file in its place; nothing of the repository is used until then"));
    }
    let question = "Trust this repository with what is shown above?";
    if !asking::yes(question, args.action.yes, "look at what is shown, then: baton trust --yes")? {
        say("not trusted; nothing of it is used");
        return Ok(Exit::NeedsPerson);
    }
    let what = format!("trusted {} files with the hash {}", found.items().len(), found.hash());
    // What was shown is what is trusted: a file that has changed meanwhile is a change.
    ledger.put(&project.root, &found, Timestamp::now()).map_err(|error| unusable(&error))?;
    trusting::log(&places, &project, "person", what, Decision::Approved)?;
    say(&format!("trusted as it is now: {}", project.root.display()));
    Ok(Exit::Done)
}

fn list(ledger: &Ledger, as_json: bool) -> Result<Exit, Fault> {
    let all = ledger.list().map_err(|error| unusable(&error))?;
    let mut out = io::stdout().lock();
    let written = if as_json {
        let row = |(root, record): (&String, &Record)| json!({"root": root, "at": record.at, "hash": record.hash, "files": record.files});
        writeln!(out, "{:#}", all.iter().map(row).collect::<Value>())
    } else {
        all.iter()
            .try_for_each(|(root, record)| writeln!(out, "{root}  {} files, {:.0}", record.files.len(), record.at))
    };
    written.map_err(|error| unwritable(&error))?;
    Ok(Exit::Done)
}

fn revoke(ledger: &Ledger, places: &Places, project: &Project) -> Result<Exit, Fault> {
    let was = ledger.remove(&project.root).map_err(|error| unusable(&error))?;
    if was {
        trusting::log(places, project, "person", "trust was taken back".to_owned(), Decision::Denied)?;
        say(&format!("not trusted any more: {}", project.root.display()));
    } else {
        say(&format!("{} was not trusted", project.root.display()));
    }
    Ok(Exit::Done)
}

struct Shown<'a> {
    project: &'a Project,
    found: &'a Survey,
    trusted: Option<&'a Record>,
    state: &'a State,
    ledger: &'a Ledger,
}

impl Shown<'_> {
    fn change(&self, path: &str) -> Option<Change> {
        match self.state {
            State::Nothing | State::Trusted => None,
            State::Changed(files) | State::Untrusted(files) => {
                files.iter().find(|file| file.path == path).map(|file| file.change)
            }
        }
    }

    fn removed(&self) -> Vec<&str> {
        match self.state {
            State::Changed(files) => {
                files.iter().filter(|file| file.change == Change::Removed).map(|file| file.path.as_str()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// What the file held when it was trusted.
    fn before(&self, path: &str) -> Option<String> {
        let hash = self.trusted?.files.get(path)?;
        self.ledger.content(hash).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn json(&self) -> io::Result<()> {
        let state = match self.state {
            State::Nothing => "nothing",
            State::Trusted => "trusted",
            State::Changed(_) => "changed",
            State::Untrusted(_) => "untrusted",
        };
        let file = |item: &Item| {
            json!({
                "path": item.path,
                "purpose": purpose(&item.path),
                "hash": item.hash,
                "change": self.change(&item.path),
                "problem": item.problem,
                "content": item.content.as_ref().map(|bytes| String::from_utf8_lossy(bytes)),
            })
        };
        let files: Vec<Value> = self.found.items().iter().map(file).collect();
        let whole = json!({
            "root": self.project.root.to_string_lossy(),
            "state": state,
            "hash": self.found.hash(),
            "files": files,
            "removed": self.removed(),
        });
        writeln!(io::stdout().lock(), "{whole:#}")
    }

    fn text(&self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        let state = match self.state {
            State::Nothing => "has nothing that needs trust",
            State::Trusted => "is trusted as it is",
            State::Changed(_) => "has changed since it was trusted",
            State::Untrusted(_) => "is not trusted",
        };
        writeln!(out, "{BOLD}{}{BOLD:#} {state}", escaped(&self.project.root.to_string_lossy()))?;
        for item in self.found.items() {
            let change = self.change(&item.path);
            let mark = match change {
                None => "trusted",
                Some(Change::New | Change::Removed) => "new",
                Some(Change::Changed) => "changed",
                Some(Change::Refused) => "refused",
            };
            writeln!(out, "\n{BOLD}{}{BOLD:#}  {mark}: {}", item.path, purpose(&item.path))?;
            match (&item.problem, change) {
                (Some(problem), _) => writeln!(out, "  {RED}{problem}{RED:#}")?,
                (None, None) => {}
                (None, Some(_)) => content(&mut out, item, self.before(&item.path))?,
            }
        }
        for path in self.removed() {
            writeln!(out, "\n{BOLD}{path}{BOLD:#}  removed: {}", purpose(path))?;
        }
        out.flush()
    }
}

/// What a file holds, or how it differs from what was trusted.
fn content(out: &mut impl Write, item: &Item, before: Option<String>) -> io::Result<()> {
    let Some(bytes) = &item.content else {
        return writeln!(out, "  (too long to be shown; its hash is {})", item.hash);
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => text,
        _ => return writeln!(out, "  (no text; {} bytes, its hash is {})", bytes.len(), item.hash),
    };
    let Some(before) = before else {
        return text.lines().enumerate().try_for_each(|(n, line)| writeln!(out, "{:5}  {}", n + 1, escaped(line)));
    };
    let diff = TextDiff::from_lines(before.as_str(), text);
    for group in diff.grouped_ops(3) {
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let line = escaped(change.value().trim_end_matches('\n'));
            match change.tag() {
                ChangeTag::Delete => writeln!(out, "  {RED}- {line}{RED:#}")?,
                ChangeTag::Insert => writeln!(out, "  {GREEN}+ {line}{GREEN:#}")?,
                ChangeTag::Equal => writeln!(out, "    {line}")?,
            }
        }
    }
    Ok(())
}

fn unusable(error: &LedgerError) -> Fault {
    let fault = Fault::input(error.to_string());
    match error {
        LedgerError::Io { .. } => fault.hint("make it writable, or set BATON_HOME to a directory that is"),
        LedgerError::Foreign { file } | LedgerError::Damaged { file, .. } => {
            fault.hint(format!("move {} away and trust your repositories again", file.display()))
        }
    }
}

fn unwritable(error: &io::Error) -> Fault {
    Fault::internal(format!("cannot write the output: {error}"))
}

fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}
