//! Speed of sessions: listing many, resuming a long one, opening a huge one, writing to one.
//!
//! `cargo bench --bench sessions` prints each time beside what the disk needs for the same: a plain sequential read of the
//! file. With BATON_BENCH_HUGE=1 also a file of 1 GB with 1,000,000 entries; that takes minutes to make. What is measured
//! for memory runs in a process of its own.

mod figures;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use baton_core::{
    CallId, Event, EventBody, EventId, EventSource, FixedClock, IdSource, Message, SequentialIds, SessionId,
    StopReason, Timestamp,
};
use baton_session::{Carried, Compacted, Index, Log, Own, Sessions};
use figures::{median, timed};
use serde_json::{Map, json};

/// Makes this program one that does a single thing and prints what that cost.
const PROBE: &str = "--probe";
const ROUNDS: usize = 9;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, what, state, session] = args.as_slice()
        && flag == PROBE
    {
        return probe(what, Path::new(state), &SessionId::new(session.as_str()));
    }
    let is_full = figures::is_full();
    list(if is_full { 10_000 } else { 100 });
    let megabytes = if is_full { 200 } else { 2 };
    long("a long session that was compacted", "resume", megabytes, 4000, true);
    long("a long session that was never compacted", "resume", megabytes, 4000, false);
    if std::env::var_os("BATON_BENCH_HUGE").is_some() {
        long("a huge session", "open", 1000, 900, false);
        long("a huge session that was compacted", "open", 1000, 900, true);
    } else {
        long("a session of many small entries", "open", megabytes / 2, 900, false);
    }
    append(if is_full { 20_000 } else { 200 });
}

fn at() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

/// A session that is being made.
struct Making {
    log: Log,
    source: EventSource,
    ids: Arc<SequentialIds>,
}

impl Making {
    fn new(sessions: &Sessions, id: &str) -> Self {
        let ids = Arc::new(SequentialIds::default());
        let id = SessionId::new(id);
        let log = sessions.create(id.clone(), Path::new("/project"), at(), &*ids);
        let source = EventSource::new(id, Arc::new(FixedClock(at())), ids.clone());
        Self { log, source, ids }
    }

    fn event(&self, body: EventBody) -> Event {
        self.source.lone(body)
    }

    /// A turn with one call: about `bytes` in each of four entries.
    fn turn(&mut self, number: usize, bytes: usize) {
        let text = "the parser reads a line and says what is wrong with it; ".repeat(bytes / 56 + 1);
        let call = CallId::new(format!("call_{number}"));
        let (tool, input) = ("bash".to_owned(), json!({"command": format!("make check-{number}; # {text}")}));
        let output = text.clone();
        let prompt = Message::user(format!("turn {number}: look at the parser"));
        let bodies = [
            EventBody::TurnStarted { message: prompt, context: 0 },
            EventBody::MessageEnded { message: Message::assistant(text.clone()), stop: Some(StopReason::EndTurn) },
            EventBody::ToolStarted { call: call.clone(), tool: tool.clone(), input },
            EventBody::ToolEnded {
                call,
                tool,
                output,
                images: vec![],
                is_error: false,
                duration_ms: 1,
                meta: Map::new(),
            },
            EventBody::MessageEnded { message: Message::assistant(text), stop: Some(StopReason::EndTurn) },
        ];
        for body in bodies {
            let event = self.event(body);
            self.log.append(&event).unwrap();
        }
    }

    fn compact(&mut self) {
        let message = Message::user("What came before: the parser was mended.");
        let compacted = Compacted {
            message,
            kept: None,
            carried: Carried::default(),
            places: std::collections::BTreeMap::default(),
        };
        let id = EventId::new(format!("evt_{}", self.ids.fresh()));
        self.log.append_own(id, at(), Own::Compacted(Box::new(compacted))).unwrap();
    }
}

/// How long a plain read of a file takes, in milliseconds.
fn plain_read(file: &Path) -> f64 {
    let mut chunk = vec![0; 256 * 1024];
    let once = || {
        timed(|| {
            let mut file = File::open(file).unwrap();
            while file.read(&mut chunk).unwrap() > 0 {}
        })
        .0
    };
    median(std::iter::repeat_with(once).take(ROUNDS).collect())
}

fn list(count: usize) {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    fs::create_dir_all(project.join(".git")).unwrap();
    let baton = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(&project).env_clear().env("BATON_HOME", dir.path().join("home"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout.len()
    };
    let script = dir.path().join("script.jsonl");
    fs::write(&script, "{\"say\":\"done\"}").unwrap();
    baton(&["exec", "-m", &format!("script/{}", script.display()), "--permission-mode", "deny", "one"]);
    let state = fs::read_dir(dir.path().join("home/projects")).unwrap().next().unwrap().unwrap().path();
    let sessions = Sessions::new(&state);
    for number in 1..count {
        let mut making = Making::new(&sessions, &format!("ses_{number:026}"));
        (0..3).for_each(|turn| making.turn(turn, 300));
    }
    println!("\n{count} sessions");
    let bytes: u64 = sessions.files().unwrap().iter().map(|file| file.bytes).sum();
    let read_all = || sessions.files().unwrap().iter().map(|file| fs::read(&file.path).unwrap().len()).sum::<usize>();
    let reading = timed(read_all).0;
    let first = timed(|| baton(&["sessions", "list"])).0;
    print("the first list, which reads all", first, "reading all files", reading);
    println!("    {:.0} MB of sessions", megabytes(bytes));
    let names = || sessions.files().unwrap().len();
    let stat = median((0..ROUNDS).map(|_| timed(names).0).collect());
    let listed = median((0..ROUNDS).map(|_| timed(|| baton(&["sessions", "list"])).0).collect());
    print("`baton sessions list`, the whole process", listed, "looking at every file (stat)", stat);
    let inside = || Index::ask(&sessions, &mut |_, _| {}, |index| index.list(Some(20))).unwrap().1.len();
    let inside = median((0..ROUNDS).map(|_| timed(inside).0).collect());
    print("the same without starting a process", inside, "looking at every file (stat)", stat);
    let found = median((0..ROUNDS).map(|_| timed(|| baton(&["sessions", "search", "parser", "wrong"])).0).collect());
    print("`baton sessions search`, the whole process", found, "reading all files", reading);
}

fn long(name: &str, what: &str, megabytes_wanted: usize, bytes: usize, is_compacted: bool) {
    let dir = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(dir.path());
    let id = "ses_LONG";
    let mut making = Making::new(&sessions, id);
    let turns = megabytes_wanted * 1_000_000 / (bytes * 4 + 1200);
    for number in 0..turns {
        making.turn(number, bytes);
        if is_compacted && number % 200 == 199 {
            making.compact();
        }
    }
    drop(making);
    let file = sessions.path(&SessionId::new(id));
    let length = fs::metadata(&file).unwrap().len();
    println!("\n{name}: {:.0} MB, {} entries", megabytes(length), turns * 5 + 1);
    let read = plain_read(&file);
    let cost = |what: &str| -> (f64, f64) {
        let runs: Vec<(f64, f64)> = (0..5).map(|_| probed(what, dir.path(), id)).collect();
        (median(runs.iter().map(|run| run.0).collect()), median(runs.iter().map(|run| run.1).collect()))
    };
    let (ms, peak) = cost(what);
    print(&format!("{what}: to its history, {peak:.0} MB of memory at most"), ms, "plain read of it", read);
    // One byte in the middle: the whole file has to be read.
    let mut damaged = File::options().write(true).open(&file).unwrap();
    std::io::Seek::seek(&mut damaged, std::io::SeekFrom::Start(length - 2000)).unwrap();
    damaged.write_all(b"\n").unwrap();
    let (ms, peak) = cost(what);
    print(&format!("the same after damage near its end, {peak:.0} MB"), ms, "plain read of it", read);
}

/// Runs one thing in a process of its own: milliseconds, and megabytes of memory at most.
fn probed(what: &str, state: &Path, session: &str) -> (f64, f64) {
    let program: PathBuf = std::env::current_exe().unwrap();
    let output = Command::new(program).args([PROBE, what]).arg(state).arg(session).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut figures = text.split_whitespace().map(|figure| figure.parse::<f64>().unwrap());
    (figures.next().unwrap(), figures.next().unwrap())
}

fn probe(what: &str, state: &Path, session: &SessionId) {
    let sessions = Sessions::new(state);
    let (ms, messages) = timed(|| match what {
        "open" => sessions.open(session, at(), &SequentialIds::default()).unwrap().1.history().messages.len(),
        _ => sessions.load(session).unwrap().history().messages.len(),
    });
    assert!(messages > 0);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: f64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
    println!("{ms} {}", kilobytes / 1000.0);
}

fn append(count: usize) {
    let dir = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(dir.path());
    let mut making = Making::new(&sessions, "ses_APPEND");
    making.turn(0, 100);
    let text = "a line of what a tool has said, as long as most of them are\n".repeat(16);
    let mut times = Vec::new();
    for _ in 0..count {
        let message = Message::assistant(text.clone());
        let event = making.event(EventBody::MessageEnded { message, stop: Some(StopReason::EndTurn) });
        times.push(timed(|| making.log.append(&event).unwrap()).0 * 1000.0);
    }
    let bytes = vec![b'x'; text.len() + 250];
    let mut plain = File::options().create(true).append(true).open(dir.path().join("plain")).unwrap();
    let plain = median((0..count).map(|_| timed(|| plain.write_all(&bytes).unwrap()).0 * 1000.0).collect());
    let time = median(times);
    println!("\nan entry of {} bytes, without fsync", bytes.len());
    println!(
        "  {:62} {time:>8.1} µs   {:>5.1}x a plain write of as many bytes ({plain:.1} µs)",
        "append",
        time / plain
    );
}

fn print(what: &str, ms: f64, beside: &str, limit: f64) {
    println!("  {what:62} {ms:>8.1} ms   {:>5.1}x {beside} ({limit:.1} ms)", ms / limit);
}

#[allow(clippy::cast_precision_loss, reason = "megabytes for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
