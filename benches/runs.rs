//! Speed of runs: what a whole tdd-ping-pong costs beside its own test commands, and a journal of a million events.
//!
//! `cargo bench --bench runs` prints the cost of a rehearsal as a multiple of what the disk needs for one fsync, and how long
//! the journal takes to open beside a plain read of its file.

mod figures;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use baton_core::Timestamp;
use baton_store::{Beginning, Commit, Journal, Store};
use baton_workflow::{Caps, Definition, Event, EventBody, Params, Run, RunId, Sources, WorkflowName, step};
use figures::{median, timed};
use serde_json::{Value, json};

const ROUNDS: usize = 7;
const SCRIPT: &str = include_str!("../demo/slug.jsonl");
const HELLO: &str = include_str!("../workflows/hello.star");

fn main() {
    let is_full = figures::is_full();
    rehearsal(if is_full { ROUNDS } else { 1 });
    journal(if is_full { 1_000_000 } else { 2_000 });
}

/// How long the disk needs until something lasts.
fn fsync(dir: &Path) -> f64 {
    let mut file = File::create(dir.join("fsync")).unwrap();
    let once = |file: &mut File| {
        file.write_all(&[7; 4096]).unwrap();
        timed(|| file.sync_data().unwrap()).0
    };
    median((0..50).map(|_| once(&mut file)).collect())
}

/// One scenario of the demo, from the command to the branch.
fn rehearsal(rounds: usize) {
    let dir = tempfile::tempdir().unwrap();
    let disk = fsync(dir.path());
    let mut spent = Vec::new();
    let mut tests = Vec::new();
    for round in 0..rounds {
        let (wall, own) = once(&dir.path().join(round.to_string()), &[]);
        spent.push(wall - own);
        tests.push(own);
    }
    let (cost, own) = (median(spent), median(tests));
    println!("a tdd-ping-pong of one scenario, rehearsed: 5 agents' turns, 1 commit, 1 branch");
    println!("  its own test commands                    {own:9.1} ms");
    println!(
        "  everything else                          {cost:9.1} ms  {:6.1}x an fsync of this disk ({disk:.2} ms)",
        cost / disk
    );
    match fsyncs(&dir.path().join("counted")) {
        Some(count) => println!("  times that it waits for the disk         {count:9}     counted by strace"),
        None => println!("  times that it waits for the disk    not counted: strace is not there"),
    }
}

/// How often one run, with all that it starts, waits until something lasts.
fn fsyncs(dir: &Path) -> Option<usize> {
    let log = dir.with_extension("strace");
    let traced = ["strace", "--follow-forks", "--trace=fsync,fdatasync", "--output"].map(OsString::from);
    let traced: Vec<OsString> = traced.into_iter().chain([log.clone().into()]).collect();
    Command::new("strace").arg("--version").stdout(Stdio::null()).status().ok()?;
    once(dir, &traced);
    Some(fs::read_to_string(log).ok()?.lines().filter(|line| line.contains("sync(")).count())
}

/// The whole time of one run, and the part of it that its test commands took. It is started by these words.
fn once(dir: &Path, by: &[OsString]) -> (f64, f64) {
    let repository = dir.join("slug");
    copy(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/slug")), &repository);
    for args in [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message", "base"]] {
        let who = ["-c", "user.name=Bench", "-c", "user.email=bench@localhost"];
        assert!(Command::new("git").args(who).args(args).current_dir(&repository).status().unwrap().success());
    }
    let one: String = SCRIPT.split("# The second scenario").next().unwrap_or_default().to_owned();
    let script = dir.join("script.jsonl");
    fs::write(&script, one).unwrap();
    let baton = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(args).current_dir(&repository).env("BATON_HOME", dir.join("home")).stderr(Stdio::piped());
        command
    };
    assert!(baton(&["trust", "--yes"]).output().unwrap().status.success());
    let model = format!("script/{}", script.display());
    let args = ["run", "start", "tdd-ping-pong", "--json", "-m", &model, "-p", "scenario=It ends with punctuation"];
    let (wall, output) = timed(|| started_by(by, baton(&args)).output().unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let events: Vec<Value> =
        output.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let verified = events.iter().filter(|event| event["kind"] == "gate.verified");
    let by_agents = events.iter().filter(|event| event["kind"] == "tool.end" && event["tool"] == "bash");
    let took = |event: &Value| event["duration_ms"].as_f64().unwrap_or(0.0);
    let own: f64 = verified.clone().chain(by_agents).map(took).sum();
    // The tests on the base take as long as any.
    let of_base = verified.map(took).fold(f64::INFINITY, f64::min);
    (wall, own + of_base)
}

fn started_by(by: &[OsString], command: Command) -> Command {
    let [program, words @ ..] = by else { return command };
    let mut outer = Command::new(program);
    outer.args(words).arg(command.get_program()).args(command.get_args()).stderr(Stdio::piped());
    outer.current_dir(command.get_current_dir().unwrap());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place);
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// A journal with so many events, opened as it is after a crash.
fn journal(events: u64) {
    const TOGETHER: u64 = 1000;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.db");
    let at = Timestamp::from_second(1_800_000_000).unwrap();
    let workflow = WorkflowName::parse("hello").unwrap();
    let sources = Sources { files: [("hello.star".to_owned(), HELLO.to_owned())].into(), ..Sources::default() };
    let definition = Definition::load(&sources, &workflow).unwrap();
    let fresh = Run::new(RunId::new("run_1"), &definition, &workflow, at).unwrap();
    let params = Params::given(&definition.main().unwrap().params, &BTreeMap::new()).unwrap();
    let started = Event { at, body: EventBody::Started { params, players: BTreeMap::new(), caps: Caps::default() } };
    let (run, owes) = step(&definition, &fresh, &started).unwrap();
    let effect = owes[0].id.clone();
    let begins = Some(Beginning { pin: definition.pin().clone(), parent: None, facts: json!({}) });
    let first = Commit { after: 0, event: started, run: run.clone(), owes, settles: vec![], metrics: vec![], begins };
    let store = Store::open(&file).unwrap();
    store.commit(vec![first]).unwrap();
    let noted = |after: u64| {
        let text = format!("bash: src/{after}.rs is not among the files that this role may write (tests/**)");
        let event = Event { at, body: EventBody::Noted { effect: effect.clone(), text } };
        Commit { after, event, run: run.clone(), owes: vec![], settles: vec![], metrics: vec![], begins: None }
    };
    let (making, ()) = timed(|| {
        for from in (1..events).step_by(usize::try_from(TOGETHER).unwrap()) {
            store.commit((from..(from + TOGETHER).min(events)).map(noted).collect()).unwrap();
        }
    });
    drop(store);
    let bytes = fs::metadata(&file).unwrap().len();
    let read = median((0..3).map(|_| timed(|| fs::read(&file).unwrap().len()).0).collect());
    let open = median(
        (0..ROUNDS)
            .map(|_| {
                let (took, ()) = timed(|| {
                    let store = Store::open(&file).unwrap();
                    assert_eq!(store.runs(None).unwrap()[0].events, events);
                    assert!(!store.owed().unwrap().is_empty());
                    assert!(store.run(&RunId::new("run_1")).unwrap().is_some());
                });
                took
            })
            .collect(),
    );
    println!("a journal of {events} events, {} MB", bytes / 1_000_000);
    println!(
        "  open, with the run and what it owes      {open:9.1} ms  {:6.3}x a plain read of it ({read:.1} ms)",
        open / read
    );
    println!(
        "  an event, of {TOGETHER} written together     {:9.1} µs",
        making * 1000.0 / f64::from(u32::try_from(events).unwrap())
    );
}
