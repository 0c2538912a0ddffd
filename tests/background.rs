//! Background processes of a session: there while it lasts, gone when it ends, however it ends.

use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::support::{Live, World, sleeping, with_sleeps};

/// Starts a server, a real one, with a grandchild in a session of its own (`SLEEPn`).
fn start_server(sleep: &str) -> String {
    let baton = env!("CARGO_BIN_EXE_baton");
    let command = format!("setsid {sleep} & exec {baton} dev model-server --script answers.jsonl");
    format!(r#"{{"call":[{{"tool":"bash_background","input":{{"command":"{command}","until":"http://"}}}}]}}"#)
}

/// A session whose commands are kept in.
fn session(world: &World, lines: &[&str], extra: &[&str]) -> Live {
    session_in("auto", world, lines, extra)
}

/// A session whose commands can be reached from here.
fn open_session(world: &World, lines: &[&str], extra: &[&str]) -> Live {
    session_in("yolo", world, lines, extra)
}

fn session_in(mode: &str, world: &World, lines: &[&str], extra: &[&str]) -> Live {
    world.file("answers.jsonl", r#"{"say":"hi"}"#);
    let model = world.script(&with_sleeps(&lines.join("\n")));
    let args = ["exec", "--json", "--permission-mode", mode, "-m", &model, "go"];
    Live::start(world.command(&[&args[..], extra].concat()))
}

/// The address that a server printed.
fn address(end: &Value) -> String {
    let output = end["output"].as_str().unwrap();
    let address = output.lines().find_map(|line| line.strip_prefix("http://"));
    address.unwrap_or_else(|| panic!("no address: {end}")).to_owned()
}

fn answers(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::yield_now();
    }
}

const HOLD: &str =
    r#"{"call":[{"tool":"bash","input":{"command":"echo held; until [ -e go ]; do sleep 0.01; done"}}]}"#;

#[test]
fn a_server_is_there_while_the_session_lasts() {
    let world = World::new();
    let mut live = open_session(&world, &[&start_server("SLEEP51"), HOLD, r#"{"say":"done"}"#], &[]);
    let address = address(&live.until("tool.end"));
    live.until("tool.update");
    assert!(answers(&address) && !sleeping("51").is_empty());
    world.file("go", "");
    assert_eq!(live.wait(), 0);
    assert!(!answers(&address) && sleeping("51").is_empty());
}

#[test]
fn a_signal_ends_it_with_the_session() {
    for (signal, code, sleep) in [(Signal::INT, 130, "52"), (Signal::TERM, 143, "53")] {
        let world = World::new();
        let mut live =
            open_session(&world, &[&start_server(&format!("SLEEP{sleep}")), HOLD, r#"{"say":"never"}"#], &[]);
        let address = address(&live.until("tool.end"));
        live.until("tool.update");
        assert!(answers(&address));
        live.signal(signal);
        assert_eq!(live.wait(), code);
        assert!(!answers(&address) && sleeping(sleep).is_empty());
    }
}

#[test]
fn a_second_signal_ends_the_stubborn_at_once() {
    let world = World::new();
    let stubborn = r#"{"call":[{"tool":"bash_background","input":{"command":"trap 'touch heard' INT; trap '' TERM; setsid sh -c 'trap \"\" INT TERM; while :; do SLEEP54; done' & echo up; while :; do SLEEP55; done","until":"up"}}]}"#;
    let mut live = session(&world, &[stubborn, HOLD, r#"{"say":"never"}"#], &[]);
    live.until("tool.update");
    let start = Instant::now();
    live.signal(Signal::INT);
    wait_until("the first signal", || world.project().join("heard").exists());
    live.signal(Signal::INT);
    assert_eq!(live.wait(), 130);
    assert!(start.elapsed() < Duration::from_secs(4), "the stages would take longer: {:?}", start.elapsed());
    assert!(sleeping("54").is_empty() && sleeping("55").is_empty());
}

#[test]
fn a_signal_after_the_turn_ends_the_stubborn_at_once() {
    let world = World::new();
    let stubborn = r#"{"call":[{"tool":"bash_background","input":{"command":"trap 'touch heard' INT; trap '' TERM; echo up; while :; do SLEEP56; done","until":"up"}}]}"#;
    let mut live = session(&world, &[stubborn, r#"{"say":"done"}"#], &[]);
    assert_eq!(live.until("turn.end")["reason"], "done");
    wait_until("the polite signal", || world.project().join("heard").exists());
    live.signal(Signal::INT);
    assert_eq!(live.wait(), 130);
    assert!(sleeping("56").is_empty());
}

#[test]
fn an_error_or_a_cap_ends_it_too() {
    for (last, extra, code) in [
        (r#"{"fail":{"status":400}}"#, &[][..], 6),
        (r#"{"say":"never"}"#, &["--max-steps", "1"], 5),
        (r#"{"say":"late","delay_ms":600000}"#, &["--max-time", "3"], 5),
    ] {
        let world = World::new();
        let mut live = open_session(&world, &[&start_server("SLEEP57"), last], extra);
        let address = address(&live.until("tool.end"));
        assert_eq!(live.wait(), code, "{last}");
        assert!(!answers(&address) && sleeping("57").is_empty(), "{last}");
    }
}

#[test]
fn what_is_kept_survives_and_can_be_read() {
    let world = World::new();
    let keep = r#"{"call":[{"tool":"bash_background","input":{"command":"echo up; until [ -e go ]; do sleep 0.01; done; echo still here; SLEEP58","keep":true,"until":"up"}}]}"#;
    let mut live = open_session(&world, &[keep, r#"{"say":"done"}"#], &[]);
    let meta = live.until("tool.end")["meta"].take();
    assert_eq!(live.wait(), 0);
    world.file("go", "");
    let output = Path::new(meta["output_path"].as_str().unwrap());
    assert!(output.starts_with(world.home()), "{output:?}");
    wait_until("its output", || std::fs::read_to_string(output).unwrap() == "up\nstill here\n");
    wait_until("its next command", || !sleeping("58").is_empty());
    let pid = Pid::from_raw(i32::try_from(meta["pid"].as_i64().unwrap()).unwrap()).unwrap();
    kill_process_group(pid, Signal::KILL).unwrap();
    wait_until("its end", || sleeping("58").is_empty());
}

#[test]
fn nothing_runs_that_may_not() {
    let world = World::new();
    let model = world.script(
        r#"{"call":[{"tool":"bash_background","input":{"command":"touch made"}}]}
           {"say":"ok"}"#,
    );
    let run = world.baton(&["exec", "--permission-mode", "ask", "-m", &model, "--json", "go"]).expect(0);
    assert!(run.outputs()[0].starts_with("refused: `bash_background` was not run"), "{:?}", run.outputs());
    assert!(!world.project().join("made").exists());
}

#[test]
fn what_is_kept_in_ends_with_the_session_and_cannot_outlive_it() {
    let world = World::new();
    let linger = r#"{"call":[{"tool":"bash_background","input":{"command":"setsid SLEEP59 & echo up","until":"up"}}]}"#;
    let keep = r#"{"call":[{"tool":"bash_background","input":{"command":"SLEEP60","keep":true}}]}"#;
    let mut live = session(&world, &[linger, keep, HOLD, r#"{"say":"done"}"#], &[]);
    live.until("tool.end");
    assert!(live.until("tool.end")["output"].as_str().unwrap().contains("outlives the session"));
    live.until("tool.update");
    assert!(!sleeping("59").is_empty(), "what a command left running is what was asked for");
    world.file("go", "");
    assert_eq!(live.wait(), 0);
    assert!(sleeping("59").is_empty() && sleeping("60").is_empty());
}
