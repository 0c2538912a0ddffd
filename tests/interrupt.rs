//! Ctrl-C in every phase: exit code 130, and no process is left.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Live, World, sleeping, with_sleeps};

/// Waits until the process catches a signal, so that the test cannot be quicker than it.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & (1 << (signal.as_raw() - 1)) != 0
}

fn live(world: &World, script: &str) -> Live {
    let model = world.script(&with_sleeps(script));
    Live::start(world.command(&["exec", "--json", "--permission-mode", "auto", "-m", &model, "go"]))
}

#[test]
fn while_reading_standard_input() {
    let world = World::new();
    let model = world.script(r#"{"say":"never"}"#);
    let mut command = world.command(&["exec", "-m", &model, "-"]);
    let stdin = command.stdin(Stdio::piped());
    let mut child = stdin.spawn().unwrap();
    let _held_open = child.stdin.take();
    while !catches(child.id(), Signal::INT) {
        std::thread::yield_now();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn while_the_model_is_silent() {
    let world = World::new();
    let mut live = live(&world, r#"{"say":"late","delay_ms":600000}"#);
    live.until("step.start");
    live.signal(Signal::INT);
    assert_eq!(live.until("turn.end")["reason"], "cancelled");
    assert_eq!(live.wait(), 130);
}

#[test]
fn while_waiting_for_a_rate_limit() {
    let world = World::new();
    let mut live = live(&world, "{\"fail\":{\"status\":429,\"retry_after\":500}}\n{\"say\":\"late\"}");
    live.until("retry");
    live.signal(Signal::TERM);
    assert_eq!(live.until("turn.end")["reason"], "cancelled");
    assert_eq!(live.wait(), 143);
}

#[test]
fn while_a_tool_runs_with_children() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"bash","input":{"command":"SLEEP11 & setsid SLEEP12 & echo ready; SLEEP13"}},{"tool":"ls","input":{}}]}
                    {"say":"never"}"#;
    let mut live = live(&world, script);
    live.until("tool.update");
    live.signal(Signal::INT);
    let end = live.until("tool.end");
    assert!(end["output"].as_str().unwrap().contains("ready"), "what was printed is kept: {end}");
    assert_eq!(live.until("turn.end")["reason"], "cancelled");
    assert_eq!(live.wait(), 130);
    assert!(sleeping("1").is_empty());
}

#[test]
fn what_ignores_every_polite_signal_is_gone_within_nine_seconds() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"bash","input":{"command":"trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; echo ready; while :; do SLEEP21; done' & while :; do SLEEP22; done"}}]}
                    {"say":"never"}"#;
    let mut live = live(&world, script);
    live.until("tool.update");
    let start = Instant::now();
    live.signal(Signal::INT);
    live.until("turn.end");
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert_eq!(live.wait(), 130);
    assert!(sleeping("2").is_empty());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"bash","input":{"command":"trap 'touch heard' INT; trap '' TERM; echo ready; while :; do SLEEP31; done"}}]}
                    {"say":"never"}"#;
    let mut live = live(&world, script);
    live.until("tool.update");
    let start = Instant::now();
    live.signal(Signal::INT);
    // The first has been heard when the shell, which goes on, leaves a sign of it.
    while !world.project().join("heard").exists() {
        std::thread::yield_now();
    }
    live.signal(Signal::INT);
    assert_eq!(live.until("turn.end")["reason"], "cancelled");
    assert_eq!(live.wait(), 130);
    assert!(start.elapsed() < Duration::from_secs(4), "the stages would take longer: {:?}", start.elapsed());
    assert!(sleeping("3").is_empty());
}

#[test]
fn while_nobody_reads_the_output() {
    let world = World::new();
    // Far more than a pipe holds, and the test does not read it.
    let script = r#"{"call":[{"tool":"bash","input":{"command":"date +%N; seq 1 8000"}}],"repeat":true}"#;
    let mut live = live(&world, script);
    live.until("tool.end");
    while live.unread() < 30_000 {
        std::thread::yield_now();
    }
    live.signal(Signal::INT);
    assert_eq!(live.child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_file_that_never_ends_is_not_waited_for() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"read","input":{"path":"/proc/kmsg"}},{"tool":"grep","input":{"pattern":"x","path":"/proc/kmsg"}}]}
                    {"say":"went on"}"#;
    let run = world.play(script, &[]).expect(0);
    assert_eq!(run.tool_ends()[0]["is_error"], true);
}
