//! `baton demo`: the main job, seen without a key and without a network.

use std::path::Path;
use std::process::{Command, Stdio};

use anstream::eprintln;
use anstyle::{AnsiColor, Style};
use baton_agent::TurnLimits;
use baton_core::{Area, Block, Fault, Op, PermissionMode, Tier, TurnReason};
use baton_guard::git;
use baton_headless::{Format, Signals, exec};

use crate::Global;
use crate::exit::Exit;
use crate::setup::{Request, Setup, Which, block_on};

/// Watch an agent fix a bug, without a key and without a network
#[derive(clap::Args)]
#[command(after_help = "\
The model's answers come from a script; everything else is real: a git repository in a temporary
directory, the tools, the edit, the test run. Needs git and sh.
")]
pub struct Args {
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
    /// Keep the sample repository and say where it is
    #[arg(long)]
    keep: bool,
}

const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../../../demo/slug/README.md")),
    ("slug.sh", include_str!("../../../../demo/slug/slug.sh")),
    ("test.sh", include_str!("../../../../demo/slug/test.sh")),
];
const SCRIPT: &str = include_str!("../../../../demo/slug.jsonl");
const PROMPT: &str = "The tests fail. Find out why and fix it.";

/// Variables that point git at another repository than the one it stands in; hooks have them set.
const GIT_PLACES: [&str; 6] =
    ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"];

const BOLD: Style = Style::new().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let mut temp = tempfile::Builder::new().prefix("baton-demo-").tempdir().map_err(|error| unusable(&error))?;
    let repository = temp.path().join("slug");
    prepare(&repository)?;
    eprintln!("{BOLD}A small repository with a bug:{BOLD:#} {}", repository.display());
    eprintln!("{BOLD}Its tests before:{BOLD:#} {}", verdict(tests_pass(&repository)?));
    eprintln!("{BOLD}The agent is told:{BOLD:#} {PROMPT}\n");
    let exit = rehearse(global, args, &repository, temp.path())?;
    if args.keep {
        temp.disable_cleanup(true);
        eprintln!("\nkept in {}", repository.display());
    }
    if exit != Exit::Done {
        return Ok(exit);
    }
    // Baton does not believe the agent: it runs the tests itself.
    let passed = tests_pass(&repository)?;
    eprintln!("\n{BOLD}Its tests after, run by Baton itself:{BOLD:#} {}", verdict(passed));
    eprintln!("{BOLD}What the agent changed:{BOLD:#}");
    let diff = git(&repository, &["diff", "--color=never"])?;
    for line in diff.lines().skip(4) {
        match line.as_bytes().first() {
            Some(b'+') => eprintln!("{GREEN}{line}{GREEN:#}"),
            Some(b'-') => eprintln!("{RED}{line}{RED:#}"),
            _ => eprintln!("{line}"),
        }
    }
    Ok(if passed { Exit::Done } else { Exit::Failed })
}

fn rehearse(global: &Global, args: &Args, repository: &Path, temp: &Path) -> Result<Exit, Fault> {
    let Global { verbose, no_color, .. } = *global;
    let in_repository = Global { dir: Some(repository.to_owned()), add_dir: Vec::new(), verbose, no_color };
    let mut setup = Setup::new(&in_repository)?;
    // Leaves no trace of the sample among the person's projects, and none of the sample's agent in their repository.
    setup.places.state_dir = temp.join("state");
    setup.hidden = GIT_PLACES.map(str::to_owned).to_vec();
    let script = temp.join("script.jsonl");
    std::fs::write(&script, SCRIPT).map_err(|error| unusable(&error))?;
    let model = format!("script/{}", script.display());
    let limits = TurnLimits::default();
    // The commands of the sample are known, so it goes on where there is no sandbox.
    setup.mode = None;
    let is_held = setup.guarding(None, setup.begin_guarding(None))?.mode == PermissionMode::Auto;
    let mode = Some(if is_held { PermissionMode::Auto } else { PermissionMode::Yolo });
    let request = Request {
        model: Some(&model),
        effort: None,
        web_search: false,
        mode,
        limits,
        record: None,
        session: Which::New,
    };
    block_on(async {
        let mut signals = Signals::new().map_err(|error| unusable(&error))?;
        let (options, _) = setup.conversation(request)?;
        let format = if args.json { Format::Events } else { Format::Text };
        let finish = exec(options, Op::Prompt { content: vec![Block::text(PROMPT)] }, format, &mut signals).await;
        Ok(if finish.reason == TurnReason::Done { Exit::Done } else { Exit::from(&finish) })
    })
}

fn prepare(repository: &Path) -> Result<(), Fault> {
    std::fs::create_dir(repository).map_err(|error| unusable(&error))?;
    for (name, text) in FILES {
        std::fs::write(repository.join(name), text).map_err(|error| unusable(&error))?;
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
        .map_err(|error| missing("git", &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Fault::new(Area::Workspace, Tier::Permanent, format!("git {} failed: {why}", args[0])))
}

fn tests_pass(repository: &Path) -> Result<bool, Fault> {
    let mut test = Command::new("sh");
    test.arg("test.sh").current_dir(repository).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(test.status().map_err(|error| missing("sh", &error))?.success())
}

fn verdict(passed: bool) -> String {
    if passed { format!("{GREEN}pass{GREEN:#}") } else { format!("{RED}fail{RED:#}") }
}

fn missing(program: &str, error: &std::io::Error) -> Fault {
    Fault::input(format!("cannot run {program}: {error}")).hint(format!("the demo needs {program}: install it"))
}

fn unusable(error: &std::io::Error) -> Fault {
    Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot prepare the demo: {error}"))
        .hint("is there room in the temporary directory (TMPDIR)?")
}
