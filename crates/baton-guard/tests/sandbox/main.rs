//! The sandbox against real attempts to get out of it, and against what has to work in it.
//!
//! Has no harness: this program is the sandbox's helper, and the attempts, too. Everything runs at each level that the
//! kernel has, as the current user and, for root, as an ordinary one as well.

#![allow(missing_docs, reason = "tests speak by their names")]

mod attempts;
mod calls;
mod scene;
mod works;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use baton_guard::sandbox::{self, Level, Sandbox};
use scene::Scene;

/// A user that owns nothing.
const ORDINARY: u32 = 65_534;
const BASE: &str = "SANDBOX_TEST_BASE";

fn main() -> ExitCode {
    if let Some(code) = sandbox::helper_mode() {
        std::process::exit(code);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("call") => return calls::run(&args[1..]),
        Some("cost") => return scene::cost(),
        // Cargo asks every test for its names.
        Some("--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let only = args.iter().find(|arg| !arg.starts_with('-')).map(String::as_str);
    let mut failures = run_all(only);
    if rustix::process::geteuid().is_root() && std::env::var_os(BASE).is_none() {
        failures += as_ordinary_user(only);
    }
    println!(
        "{}",
        if failures == 0 { "test result: ok".to_owned() } else { format!("test result: {failures} FAILED") }
    );
    ExitCode::from(u8::from(failures > 0))
}

/// Where scenes are made: beside what is built, since `/tmp` is another one inside, unless others cannot get there.
fn default_base(for_others: bool) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let is_open = |dir: &Path| std::fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0);
    if target.is_dir() && (!for_others || target.ancestors().all(is_open)) {
        target.to_owned()
    } else {
        std::env::temp_dir()
    }
}

fn as_ordinary_user(only: Option<&str>) -> usize {
    let base = tempfile::tempdir_in(default_base(true)).unwrap();
    std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // What is built may lie where only root gets to.
    let program = base.path().join("program");
    std::fs::copy("/proc/self/exe", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let status = Command::new(&program)
        .args(only)
        .env(BASE, base.path())
        .env("HOME", base.path())
        .uid(ORDINARY)
        .gid(ORDINARY)
        .status()
        .unwrap();
    usize::from(!status.success())
}

fn run_all(only: Option<&str>) -> usize {
    let user = rustix::process::geteuid().as_raw();
    let base = std::env::var_os(BASE).map_or_else(|| default_base(false), Into::into);
    let mut exercised = 0;
    let mut failures = 0;
    for level in [Level::Namespaces, Level::Landlock] {
        let sandbox = Sandbox::only(level);
        let found = sandbox.found();
        if found.level != level {
            println!("user {user}: level {level} is not available here: {:?}", found.missing);
            continue;
        }
        exercised += 1;
        let mut tried = 0;
        for attempt in attempts::all().filter(|attempt| only.is_none_or(|only| attempt.name.contains(only))) {
            let scene = Scene::new(&base);
            tried += 1;
            if let Err(why) = scene.attempt(&sandbox, &attempt) {
                failures += 1;
                println!("user {user}, {level}: ESCAPE by {}: {why}", attempt.name);
            }
        }
        println!("user {user}, {level}: {tried} escapes tried");
        if only.is_none() && tried < 60 {
            failures += 1;
            println!("too few");
        }
        for (name, work) in
            works::all(level).into_iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only)))
        {
            let scene = Scene::new(&base);
            if let Err(why) = work(&scene, &sandbox) {
                failures += 1;
                println!("user {user}, {level}: {name} does not work: {why}");
            }
        }
    }
    if exercised == 0 {
        println!("no level could be exercised");
        failures += 1;
    }
    let mut real = 0;
    for attempt in
        attempts::all().filter(|attempt| attempt.is_harmless && only.is_none_or(|only| attempt.name.contains(only)))
    {
        real += 1;
        if Scene::new(&base).attempt_outside(&attempt).is_ok() {
            failures += 1;
            println!("user {user}: {} gets nowhere without a sandbox either, so it proves nothing", attempt.name);
        }
    }
    println!("user {user}: {real} of the escapes were shown to work without a sandbox");
    failures
}
