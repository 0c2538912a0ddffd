//! `baton sandbox`: what a person sees of the sandbox. What it keeps in is tested with the guard.

use std::process::Stdio;

use crate::support::{Live, World, run, run_with_stdin};

#[test]
fn a_command_writes_in_the_project_and_nowhere_else() {
    let world = World::new();
    let outside = world.project().parent().unwrap().join("outside");
    let script = format!("echo in > made; echo out > {}", outside.display());
    // It may seem to succeed: inside, /tmp is another one.
    let run = world.baton(&["sandbox", "--", "sh", "-c", &script]);
    assert!(!outside.exists(), "{run:?}");
    assert_eq!(world.read("made"), "in\n");
    let dir = tempfile::tempdir().unwrap();
    let script = format!("echo more > {}/x", dir.path().display());
    world.baton(&["sandbox", "--write", dir.path().to_str().unwrap(), "--", "sh", "-c", &script]).expect(0);
    assert_eq!(std::fs::read_to_string(dir.path().join("x")).unwrap(), "more\n");
}

#[test]
fn exit_codes_and_streams_are_the_commands() {
    let world = World::new();
    assert_eq!(world.baton(&["sandbox", "--", "sh", "-c", "exit 42"]).code, 42);
    assert_eq!(world.baton(&["sandbox", "--", "sh", "-c", "kill -TERM $$"]).code, 143);
    assert!(world.baton(&["sandbox", "--", "no-such-program"]).expect(127).stderr.contains("no-such-program"));
    let run = run_with_stdin(world.command(&["sandbox", "--", "tr", "a-z", "A-Z"]), b"input");
    assert_eq!((run.code, run.stdout.as_str()), (0, "INPUT"));
}

#[test]
fn secrets_stay_out() {
    let world = World::new();
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::write(world.home().join("credentials"), "hidden-key").unwrap();
    let mut command = world.command(&["sandbox", "--", "sh", "-c", "env; cat \"$1\"", "sh"]);
    command.arg(world.home().join("credentials")).env("OPENAI_API_KEY", "hidden-key").env("LC_ALL", "C");
    let run = run(command);
    assert!(!run.stdout.contains("hidden-key") && run.stdout.contains("LC_ALL=C"), "{run:?}");
}

#[test]
fn an_interrupt_reaches_the_command() {
    let world = World::new();
    let script = "trap 'echo interrupted; exit 5' INT; echo '{\"kind\":\"begun\"}'; while :; do sleep 0.05; done";
    let mut command = world.command(&["sandbox", "--", "bash", "-c", script]);
    command.stdin(Stdio::null());
    let mut live = Live::start(command);
    live.until("begun");
    live.signal(rustix::process::Signal::INT);
    assert_eq!(live.wait(), 5);
}

#[test]
fn what_it_does_is_shown() {
    let world = World::new();
    let shown = world.baton(&["sandbox", "--show"]).expect(0).stdout;
    let root = world.project().canonicalize().unwrap();
    assert!(shown.starts_with("level: ") && shown.contains(&format!("{}/.baton", root.display())), "{shown}");
    let checks = world.baton(&["doctor", "--json"]).expect(0).stdout;
    assert!(checks.contains("\"sandbox\""), "{checks}");
}
