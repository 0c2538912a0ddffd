//! `baton demo`: a whole workflow, seen without a key and without a network.

use std::path::{Path, PathBuf};

use anstream::eprintln;
use anstyle::{AnsiColor, Style as Colour};
use baton_core::{Area, Fault, Tier};
use baton_guard::git;
use baton_store::{Journal, Recorded, Store};
use baton_workflow::{EventBody, RunId};

use crate::Global;
use crate::commands::run::{Order, Style, start};
use crate::exit::Exit;
use crate::setup::Setup;

/// Watch a workflow that agents cannot leave, without a key and without a network
#[derive(clap::Args)]
#[command(after_help = "\
Two agents develop test first, a third reviews; each can write what its role may write, and nothing else. The
answers of the model come from a script; everything else is real: a git repository, the tools, the sandbox,
the tests, the commits. Needs git and sh. Interrupted, it goes on: baton demo --dir DIR
")]
pub struct Args {
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
    /// Do it in this directory, and keep it; what was interrupted there goes on
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the sample repository and say where it is
    #[arg(long)]
    keep: bool,
}

const FILES: [(&str, &str); 5] = [
    (".baton/config.jsonc", include_str!("../../../../demo/slug/.baton/config.jsonc")),
    ("README.md", include_str!("../../../../demo/slug/README.md")),
    ("src/slug.sh", include_str!("../../../../demo/slug/src/slug.sh")),
    ("tests/run.sh", include_str!("../../../../demo/slug/tests/run.sh")),
    ("tests/words_test.sh", include_str!("../../../../demo/slug/tests/words_test.sh")),
];
const SCRIPT: &str = include_str!("../../../../demo/slug.jsonl");
const WORKFLOW: &str = "tdd-ping-pong";
const SCENARIOS: [&str; 2] = [
    "A title that ends with punctuation gives a slug without a dash at its end",
    "A title without a letter or digit gives the slug untitled",
];

/// Variables that point git at another repository than the one it stands in; hooks have them set.
const GIT_PLACES: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"];

const BOLD: Colour = Colour::new().bold();
const GREEN: Colour = AnsiColor::Green.on_default();

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let mut temp = None;
    let dir = if let Some(dir) = &args.dir {
        std::fs::create_dir_all(dir).map_err(unusable(dir))?;
        dir.canonicalize().map_err(unusable(dir))?
    } else {
        let made = tempfile::Builder::new().prefix("baton-demo-").tempdir().map_err(no_room)?;
        temp.insert(made).path().canonicalize().map_err(no_room)?
    };
    let repository = dir.join("slug");
    if !repository.join(".git").exists() {
        prepare(&repository)?;
    }
    eprintln!("{BOLD}A small repository:{BOLD:#} {}", repository.display());
    eprintln!(
        "{BOLD}The workflow:{BOLD:#} {WORKFLOW}. One agent writes tests and cannot touch the code; another writes code and"
    );
    eprintln!("cannot touch the tests; a third reviews. Baton runs the tests itself, and commits.");
    for scenario in SCENARIOS {
        eprintln!("{BOLD}Wanted:{BOLD:#} {scenario}");
    }
    eprintln!();
    let state = dir.join("state");
    let exit = conduct(global, args, &repository, &dir, &state)?;
    if matches!(exit, Exit::Signal(_)) {
        if let Some(temp) = &mut temp {
            temp.disable_cleanup(true);
        }
        eprintln!("go on with: baton demo --dir {}", dir.display());
        return Ok(exit);
    }
    if exit == Exit::Done {
        sum_up(&repository, &state)?;
    }
    if let Some(temp) = temp.as_mut().filter(|_| args.keep) {
        temp.disable_cleanup(true);
    }
    if args.keep || args.dir.is_some() {
        eprintln!("\nkept in {}", repository.display());
    }
    Ok(exit)
}

fn conduct(global: &Global, args: &Args, repository: &Path, dir: &Path, state: &Path) -> Result<Exit, Fault> {
    let Global { verbose, no_color, .. } = *global;
    let in_repository = Global { dir: Some(repository.to_owned()), add_dir: Vec::new(), verbose, no_color };
    let mut setup = Setup::vouched(&in_repository, true)?;
    // Leaves no trace of the sample among the person's projects, and none of the sample's agents in their repository.
    state.clone_into(&mut setup.places.state_dir);
    setup.hidden = GIT_PLACES.map(str::to_owned).to_vec();
    let script = dir.join("script.jsonl");
    std::fs::write(&script, SCRIPT).map_err(unusable(&script))?;
    let model = format!("script/{}", script.display());
    let params = SCENARIOS.map(|scenario| ("scenario".to_owned(), scenario.to_owned()));
    let model = Some(model.as_str());
    let order = Order { name: WORKFLOW, params: &params, model, is_new: false, is_rehearsal: false, is_passing: true };
    start(setup, &order, if args.json { Style::Json } else { Style::Text })
}

/// Says what happened, what came of it, and what to do next.
fn sum_up(repository: &Path, state: &Path) -> Result<(), Fault> {
    let unreadable = |error: baton_store::StoreError| Fault::internal(error.to_string());
    let projects = state.join("projects");
    let projects = std::fs::read_dir(&projects).map_err(unusable(&projects))?;
    let file = projects.flatten().map(|entry| entry.path().join("baton.db")).find(|file| file.exists());
    let store = file.map(|file| Store::read(&file)).transpose().map_err(unreadable)?.flatten();
    let Some(store) = store else { return Ok(()) };
    let Some(row) = store.runs(None).map_err(unreadable)?.into_iter().next() else { return Ok(()) };
    let events = all_events(&store, &row.id).map_err(unreadable)?;
    let count = |is_one: fn(&EventBody) -> bool| events.iter().filter(|one| is_one(&one.event.body)).count();
    let refused = count(|body| matches!(body, EventBody::Noted { .. }));
    let verified = count(|body| matches!(body, EventBody::Verified { .. }));
    let handed_in = count(|body| matches!(body, EventBody::EvidenceSubmitted { .. }));
    let total = store.run(&row.id).map_err(unreadable)?.map(|standing| standing.run.total()).unwrap_or_default();
    eprintln!("\n{BOLD}What happened{BOLD:#}");
    eprintln!("  {refused} attempts to write what the role may not write, all of them in vain");
    eprintln!(
        "  {handed_in} times work was handed in; Baton ran the tests {verified} times itself and believed nobody"
    );
    let branch = git(repository, &["for-each-ref", "--format=%(refname:short)", "refs/heads/baton/"])?;
    let branch = branch.lines().next().unwrap_or("baton").to_owned();
    eprintln!("\n{BOLD}git log {branch}{BOLD:#}");
    let log = git(repository, &["log", "--format=  %h %s%n    %(trailers:key=Baton-Effect)", &branch])?;
    eprintln!("{}", log.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n"));
    eprintln!("\n{GREEN}{} tokens; at the prices of a large model about {}{GREEN:#}", total.tokens, total.usd);
    eprintln!("\n{BOLD}With a real model, in a repository of yours{BOLD:#}");
    eprintln!("  baton init                                    finds out how your project is tested");
    eprintln!("  baton run start {WORKFLOW} -p scenario=\"…\"");
    eprintln!("  baton workflow graph {WORKFLOW}           and docs/first-workflow.md to write your own");
    Ok(())
}

/// The events of a run and of those inside it.
fn all_events(store: &Store, id: &RunId) -> Result<Vec<Recorded>, baton_store::StoreError> {
    let mut events = store.events(id, 1, usize::MAX)?;
    for row in store.runs(Some(id))? {
        events.extend(all_events(store, &row.id)?);
    }
    Ok(events)
}

fn prepare(repository: &Path) -> Result<(), Fault> {
    for (name, text) in FILES {
        let file = repository.join(name);
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir).map_err(unusable(dir))?;
        }
        std::fs::write(&file, text).map_err(unusable(&file))?;
    }
    for args in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "A slug function and its tests"]]
    {
        git(repository, args)?;
    }
    Ok(())
}

/// Runs git without the person's settings.
fn git(repository: &Path, args: &[&str]) -> Result<String, Fault> {
    let output = git::command(repository)
        .args(["-c", "user.name=Baton", "-c", "user.email=baton@localhost", "-c", "init.defaultBranch=main"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .map_err(|error| Fault::input(format!("cannot run git: {error}")).hint("the demo needs git: install it"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Fault::new(Area::Workspace, Tier::Permanent, format!("git {} failed: {why}", args[0])))
}

fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> Fault + '_ {
    move |error| {
        Fault::new(
            Area::Workspace,
            Tier::UserFixable,
            format!("cannot prepare the demo in {}: {error}", path.display()),
        )
        .hint("name a directory that can be made and written: baton demo --dir DIR")
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is what becomes of an error")]
fn no_room(error: std::io::Error) -> Fault {
    let dir = std::env::temp_dir();
    Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot prepare the demo in {}: {error}", dir.display()))
        .hint("is there room, and may it be written? TMPDIR names another place, and so does --dir DIR")
}
