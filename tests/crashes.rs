//! `kill -9` at random points of whole sessions: they go on, all that was shown is kept exactly once, and no command runs
//! twice unless the model was told that it ran before and insisted.
//!
//! `BATON_CRASHES=500 cargo test -p baton --test scenarios crashes -- --nocapture` kills 500 times and prints what it saw.

mod record;
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::World;
use record::Record;
use session::{LAST_WORDS, script};

/// How often is killed if nobody says so.
const POINTS: usize = 25;
/// How many tokens a script can read.
const CONTEXT: u64 = 1_000_000;
/// How often one session is started at most, whatever happens to it.
const STARTS_MAX: usize = 60;

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// After so many bytes of its output.
    Bytes(usize),
    /// When the event of this kind is seen for the so-manieth time.
    Event(&'static str, usize),
    /// So long after that; only where time does not count.
    Later(&'static str, Duration),
}

impl Point {
    fn random(dice: &mut fastrand::Rng, is_full: bool) -> Self {
        let kind = *dice
            .choice(&["tool.start", "tool.start", "tool.update", "message.end", "tool.end", "notice"])
            .unwrap_or(&"notice");
        match dice.u8(..10) {
            0 => Self::Bytes(dice.usize(..2_000)),
            1..=4 => Self::Bytes(dice.usize(..40_000)),
            5..=6 if is_full => Self::Later(kind, Duration::from_micros(dice.u64(..30_000))),
            _ => Self::Event(kind, dice.usize(1..5)),
        }
    }
}

/// What was seen over all sessions.
#[derive(Default)]
struct Counts {
    sessions: usize,
    kills: usize,
    starts: usize,
    shown: usize,
    torn: usize,
    unknown: usize,
    compactions: usize,
    blobs: usize,
    commands: usize,
    questioned: usize,
    insisted: usize,
    phases: BTreeMap<&'static str, usize>,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} sessions, {} kills, {} starts", self.sessions, self.kills, self.starts)?;
        for (phase, times) in &self.phases {
            writeln!(f, "  killed {phase}: {times}")?;
        }
        writeln!(f, "{} durable events shown, all kept exactly once; {} torn ends", self.shown, self.torn)?;
        writeln!(f, "{} compactions, {} texts kept apart", self.compactions, self.blobs)?;
        writeln!(f, "{} commands ran, {} ended with Baton", self.commands, self.unknown)?;
        writeln!(f, "{} questioned, {} insisted on, 0 silent repeats", self.questioned, self.insisted)
    }
}

#[test]
fn a_session_survives_being_killed_anywhere() {
    let asked = std::env::var("BATON_CRASHES").ok().map(|points| points.parse().expect("a number"));
    let (points, is_full) = (asked.unwrap_or(POINTS), asked.is_some());
    let (counts, seeds) = (Mutex::new(Counts::default()), AtomicU64::new(0));
    let full_at = full_at();
    let is_enough = || counts.lock().map_or(true, |counts| counts.kills >= points);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_enough() {
                    session(seeds.fetch_add(1, Ordering::Relaxed), full_at, is_full, &counts);
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("{counts}");
    assert!(counts.compactions > 0 && counts.blobs > 0 && counts.commands > 0);
}

/// How many tokens may be used before a session is compacted: a little more than its first request has.
fn full_at() -> u64 {
    let run = World::new().play(r#"{"say":"x"}"#, &[]).expect(0);
    run.of("usage")[0]["usage"]["input_tokens"].as_u64().unwrap() * 4 / 3 + 800
}

/// One session, killed again and again until it is done.
fn session(seed: u64, full_at: u64, is_full: bool, counts: &Mutex<Counts>) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let world = World::new();
    let model = world.script(&script(&mut dice));
    let mut shown: Vec<Value> = Vec::new();
    let mut prompts = 0;
    for start in 0..STARTS_MAX {
        let goes_on = Record::is_there(&world);
        prompts += 1;
        let prompt = format!("prompt {prompts}: go on");
        let mut args = vec!["exec", "--json", "--permission-mode", "auto", "-m", &model, &prompt];
        args.extend(goes_on.then_some("-c"));
        let mut command = world.command(&args);
        command.env("BATON_COMPACTION__RESERVE_TOKENS", (CONTEXT - full_at).to_string());
        command.env("BATON_COMPACTION__KEEP_TOKENS", "600");
        // Every session is let end at last.
        let point = (start + 10 < STARTS_MAX && dice.u8(..5) > 0).then(|| Point::random(&mut dice, is_full));
        let run = play(command, point);
        let name = format!("seed {seed}, start {start}, {point:?}");
        let mut counts = counts.lock().unwrap();
        counts.starts += 1;
        if run.is_killed {
            counts.kills += 1;
            *counts.phases.entry(phase(&run.events)).or_default() += 1;
        } else {
            assert_eq!(run.code, Some(0), "{name}: {}\n{:#?}", run.stderr, run.events.last());
        }
        drop(counts);
        let is_done = run.events.last().is_some_and(|end| end["text"] == LAST_WORDS);
        shown.extend(durable(run.events));
        Record::read(&world).check(&name, &shown);
        if is_done {
            break;
        }
        assert!(start + 1 < STARTS_MAX, "{name}: it does not come to its end");
    }
    let record = Record::read(&world);
    let name = format!("seed {seed}");
    record.check(&name, &shown);
    let log = std::fs::read_to_string(world.project().join("log")).unwrap_or_default();
    let told = record.check_commands(&name, &log);
    let mut counts = counts.lock().unwrap();
    counts.sessions += 1;
    counts.shown += shown.len();
    counts.torn += record.torn;
    counts.compactions += record.of("compacted").count();
    counts.blobs += record.entries.iter().filter(|entry| entry.get("refs").is_some()).count();
    counts.commands += told.ran;
    counts.unknown += told.unknown;
    counts.questioned += told.questioned;
    counts.insisted += told.insisted;
}

/// What came of one process.
struct Played {
    events: Vec<Value>,
    is_killed: bool,
    code: Option<i32>,
    stderr: String,
}

/// Runs a command and kills it at this point, if it gets there.
fn play(mut command: Command, point: Option<Point>) -> Played {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let hearing = std::thread::spawn(move || {
        let mut text = String::new();
        drop(std::io::Read::read_to_string(&mut stderr, &mut text));
        text
    });
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut events, mut bytes, mut seen, mut is_killed) = (Vec::new(), 0, 0, false);
    if matches!(point, Some(Point::Bytes(0))) {
        child.kill().unwrap();
        is_killed = true;
    }
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).unwrap() > 0 {
        bytes += line.len();
        // What was cut off in the middle of a line was not shown.
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { break };
        line.clear();
        let kind = event["kind"].as_str().unwrap_or_default().to_owned();
        events.push(event);
        if is_killed {
            continue;
        }
        let is_there = match point {
            Some(Point::Bytes(most)) => bytes >= most,
            Some(Point::Event(wanted, times)) => {
                seen += usize::from(kind == wanted);
                seen == times
            }
            Some(Point::Later(wanted, _)) => kind == wanted,
            None => false,
        };
        if is_there {
            if let Some(Point::Later(_, time)) = point {
                std::thread::sleep(time);
            }
            child.kill().unwrap();
            is_killed = true;
        }
    }
    let code = child.wait().unwrap().code();
    // It may have been quicker.
    Played { events, is_killed: is_killed && code.is_none(), code, stderr: hearing.join().unwrap() }
}

/// What was going on when the last event was shown.
fn phase(events: &[Value]) -> &'static str {
    let is = |event: &Value, kind: &str| event["kind"] == kind;
    let Some(last) = events.iter().rfind(|event| !is(event, "message.delta")) else { return "before the first event" };
    if !events.iter().any(|event| is(event, "turn.start")) {
        return "before the prompt was kept";
    }
    let compacts = |event: &Value| event["text"].as_str().is_some_and(|text| text.starts_with("compacting"));
    if is(last, "notice") && compacts(last) {
        return "in a compaction";
    }
    let open = events.iter().filter(|event| is(event, "tool.start")).count()
        - events.iter().filter(|event| is(event, "tool.end")).count();
    match last["kind"].as_str() {
        _ if open > 0 => "while tools ran",
        Some("turn.end") => "after the turn",
        Some("message.start" | "message.delta" | "thinking.delta") => "in an answer",
        _ => "between",
    }
}

/// The events that have to be kept. Before the prompt is kept, nothing is.
fn durable(events: Vec<Value>) -> Vec<Value> {
    let is_passing =
        |event: &Value| ["message.delta", "thinking.delta", "tool.update"].iter().any(|kind| event["kind"] == *kind);
    if !events.iter().any(|event| event["kind"] == "turn.start") {
        return Vec::new();
    }
    events.into_iter().filter(|event| !is_passing(event)).collect()
}
