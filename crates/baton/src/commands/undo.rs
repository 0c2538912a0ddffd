//! `baton undo`: puts back what agents have changed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use baton_config::Project;
use baton_core::{Area, Fault, Tier};
use baton_guard::undo::{Change, Changed, History, How, Plan, Refusal, Turn, TurnId, Undone, Which, path_text};
use serde_json::{Value, json};

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// Take back what an agent has changed
#[derive(clap::Args)]
#[command(after_help = "\
Without options it takes back the last turn that changed something and was not taken back yet; again
goes one turn further. Files, links, permissions, empty directories, and git's index, stash and refs
become exactly what they were. Files that you have changed since are refused, and then nothing is done
at all: --skip leaves them alone, --force takes them back as well. Nothing is lost by it: an undo keeps
what it finds, and --redo brings that back.

What changes while a command runs counts as its work; what a background process changes after its start
counts as changed by somebody else. Ignored files are only kept where a command names them to delete or
overwrite them.

Examples:
  baton undo --dry-run      what would be done
  baton undo                the last turn
  baton undo --session      all turns of the last session
  baton undo --redo         what the last undo took away

Exit codes: 0 done · 2 there is nothing like it · 8 refused: files were changed since
")]
#[allow(clippy::struct_excessive_bools, reason = "options of a command line")]
pub struct Args {
    /// This turn, of the last session or of the one that is named
    #[arg(long, value_name = "[SESSION/]N", value_parser = turn, group = "which")]
    turn: Option<(Option<String>, u32)>,
    /// All turns of the last session, or of the one that is named
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "", group = "which")]
    session: Option<String>,
    /// The last undo
    #[arg(long, group = "which")]
    redo: bool,
    /// Show the turns that changed something; nothing is done
    #[arg(long, group = "which")]
    list: bool,
    /// Show what would be done; nothing is done
    #[arg(long)]
    dry_run: bool,
    /// Leave files alone that were changed since, and do the rest
    #[arg(long, conflicts_with = "force")]
    skip: bool,
    /// Take files back although they were changed since
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn turn(text: &str) -> Result<(Option<String>, u32), String> {
    let (session, number) = match text.rsplit_once('/') {
        Some((session, number)) => (Some(session.to_owned()), number),
        None => (None, text),
    };
    number.parse().map(|number| (session, number)).map_err(|_| "a number, or SESSION/NUMBER".to_owned())
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let unusable = |error: io::Error| {
        Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot undo: {error}"))
            .hint("mend that and run it again: what was kept is still there")
    };
    let (root, history) = history(&setup).map_err(unusable)?;
    let root = &root;
    if args.list {
        return print(&list(&history, root, args.json));
    }
    let which = match (&args.turn, &args.session) {
        _ if args.redo => Which::Undo,
        (Some((session, number)), _) => Which::Turn(session.clone(), *number),
        (None, Some(session)) => Which::Session(Some(session.clone()).filter(|session| !session.is_empty())),
        (None, None) => Which::Last,
    };
    let changed = if args.force { Changed::Overwrite } else { Changed::Refuse };
    match history.undo(&which, How { changed, skips: args.skip, is_dry: args.dry_run }) {
        Ok(undone) => print(&done(&undone, root, args)),
        Err(Refusal::Conflicts(plan)) => {
            print(&refused(&plan, root, args.json))?;
            let fault = Fault::new(Area::Workspace, Tier::UserFixable, Refusal::Conflicts(plan).to_string())
                .hint("nothing was done; --skip leaves those files alone, --force takes them back, too");
            Err(fault)
        }
        Err(Refusal::Io(error)) => Err(unusable(error)),
        Err(refusal @ Refusal::Running(_)) => {
            Err(Fault::new(Area::Workspace, Tier::UserFixable, refusal.to_string()).hint("end it first"))
        }
        Err(refusal @ (Refusal::Nothing | Refusal::Unknown(_))) => {
            Err(Fault::input(refusal.to_string()).hint("`baton undo --list` shows the turns that changed something"))
        }
    }
}

/// The history of the project, or of what it was before it lost its repository: the one in which something happened last.
fn history(setup: &Setup) -> io::Result<(PathBuf, History)> {
    let own = (setup.project.root.clone(), setup.places.project_state(&setup.project.id));
    let mut found: Option<(PathBuf, History)> = None;
    for (root, state) in [own].into_iter().chain(Project::states_at(&setup.cwd, &setup.places)) {
        let history = History::read(&state.join("undo"))?;
        let at = |history: &History| history.turns().last().map(|turn| turn.at);
        if found.as_ref().is_none_or(|(_, best)| at(&history) > at(best)) {
            found = Some((root, history));
        }
    }
    found.ok_or_else(|| io::Error::other("there is no project"))
}

/// What is printed: text for people, or a value.
enum Output {
    Text(Vec<String>),
    Json(Value),
}

fn print(output: &Output) -> Result<Exit, Fault> {
    let mut out = io::stdout().lock();
    let written = match output {
        Output::Text(lines) => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
        Output::Json(value) => writeln!(out, "{value:#}"),
    };
    written.map(|()| Exit::Done).map_err(|error| Fault::internal(format!("cannot write the output: {error}")))
}

fn shown(path: &Path, root: &Path) -> String {
    path_text::of(path.strip_prefix(root).ok().filter(|path| !path.as_os_str().is_empty()).unwrap_or(path))
}

/// A turn as `--turn` takes it.
fn name(id: &TurnId) -> String {
    format!("{}/{}", id.session, id.turn)
}

fn line(change: &Change, root: &Path, words: [&str; 3]) -> String {
    let word = words[["created", "deleted", "changed"].iter().position(|word| *word == change.word()).unwrap_or(2)];
    format!("  {word} {}", shown(&change.path, root))
}

fn done(undone: &Undone, root: &Path, args: &Args) -> Output {
    let names: Vec<String> = undone.turns.iter().map(name).collect();
    if args.json {
        let changes =
            undone.changes.iter().map(|change| json!({ "path": path_text::of(&change.path), "done": change.word() }));
        let left = undone.left.iter().map(|(path, why)| json!({ "path": path, "why": why }));
        return Output::Json(json!({
            "turns": names,
            "dry_run": args.dry_run,
            "changes": changes.collect::<Vec<_>>(),
            "left": left.collect::<Vec<_>>(),
            "interrupted": undone.is_found_later,
        }));
    }
    let (verb, words) = if args.dry_run {
        ("would take back", ["restore", "remove", "put back"])
    } else {
        ("took back", ["restored", "removed", "put back"])
    };
    let mut lines = vec![format!("{verb} {}: {} paths", names.join(", "), undone.changes.len())];
    if undone.is_found_later {
        lines
            .push("  Baton was killed in that turn: all that changed from then until it was noticed counts".to_owned());
    }
    lines.extend(undone.changes.iter().map(|change| line(change, root, words)));
    lines.extend(undone.left.iter().map(|(path, why)| {
        let path = path_text::to_path(path);
        format!("  left as it is {}: {why}", shown(&path, root))
    }));
    Output::Text(lines)
}

fn refused(plan: &Plan, root: &Path, json: bool) -> Output {
    if json {
        let conflicts =
            plan.conflicts.iter().map(|(path, why)| json!({ "path": path_text::of(path), "why": why.to_string() }));
        return Output::Json(json!({ "changes": [], "conflicts": conflicts.collect::<Vec<_>>() }));
    }
    Output::Text(plan.conflicts.iter().map(|(path, why)| format!("  refused {}: {why}", shown(path, root))).collect())
}

fn list(history: &History, root: &Path, json: bool) -> Output {
    let state = |turn: &Turn| match (turn.is_undo(), turn.is_undone) {
        (true, false) => "  [undo]",
        (true, true) => "  [undo, taken back]",
        (false, true) => "  [taken back]",
        (false, false) => "",
    };
    if json {
        let turns = history.turns().iter().rev().map(|turn| {
            json!({
                "turn": name(&turn.id),
                "at": turn.at,
                "calls": turn.calls,
                "paths": paths(turn).iter().map(|path| path_text::of(path)).collect::<Vec<_>>(),
                "undo": turn.is_undo(),
                "undone": turn.is_undone,
            })
        });
        return Output::Json(turns.collect());
    }
    if history.turns().is_empty() {
        return Output::Text(vec!["no turn has changed anything".to_owned()]);
    }
    let mut lines = Vec::new();
    for turn in history.turns().iter().rev() {
        let paths = paths(turn);
        let mut names: Vec<_> = paths.iter().take(4).map(|path| shown(path, root)).collect();
        if paths.len() > names.len() {
            names.push(format!("and {} more", paths.len() - names.len()));
        }
        lines.push(format!("{:.0}  {}{}  {}", turn.at, name(&turn.id), state(turn), names.join(", ")));
        lines.extend(turn.calls.iter().map(|call| format!("    {}", call.escape_debug())));
    }
    Output::Text(lines)
}

fn paths(turn: &Turn) -> Vec<&PathBuf> {
    let mut paths: Vec<_> = turn.changes.iter().map(|change| &change.path).collect();
    paths.sort();
    paths.dedup();
    paths
}
