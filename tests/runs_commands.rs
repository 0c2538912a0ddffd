//! What people see of runs and say to them: status, log, watch, resume, stop, submit, whatever state the runs are in.

use std::fmt::Write as _;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::runs::{Repo, call, submit};
use crate::support::{Live, Run, World, run};

/// The shipped `hello`, played well.
fn hello() -> Vec<Value> {
    vec![
        call("greeter", "write", json!({"path": "hello.txt", "content": "hello world\n"})),
        submit("greeter", json!({"file": "hello.txt"})),
    ]
}

/// The same by a model that thinks longer than any test lasts.
fn slow() -> Vec<Value> {
    let mut script = hello();
    script[0]["delay_ms"] = json!(600_000);
    script
}

/// Starts a run whose agent does not come to a word.
fn started(repo: &Repo) -> Live {
    let mut live = Live::start(repo.starting("hello", &slow(), &["--new"]));
    live.until("step.start");
    live
}

/// A run that was killed; its id.
fn killed(repo: &Repo) -> String {
    let live = started(repo);
    live.signal(Signal::KILL);
    live.wait();
    last(repo)
}

/// The id of the run that changed last.
fn last(repo: &Repo) -> String {
    repo.status()["run"].as_str().unwrap().to_owned()
}

fn status_of(repo: &Repo, id: &str) -> Value {
    let told = repo.world.baton(&["run", "status", id, "--json"]).expect(0);
    serde_json::from_str(&told.stdout).unwrap()
}

/// A workflow of one agent with this gate.
fn one(gate: &str) -> String {
    format!(
        r#"workflow(
    name = "one",
    roles = {{"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)}},
    states = {{"GREET": state("greeter", gate = {gate}, on = {{"pass": "DONE"}}, retries = 0), "DONE": done()}},
)
"#
    )
}

const ASKS: &str = r#"workflow(
    name = "asks",
    states = {
        "SURE": human("Really?", options = ["yes", "no"], on = {"yes": "DONE", "no": "FAILED"}),
        "DONE": done(),
        "FAILED": done(failed = True),
    },
)
"#;

fn database(repo: &Repo) -> PathBuf {
    let mut projects = std::fs::read_dir(repo.world.home().join("projects")).unwrap();
    projects.next().unwrap().unwrap().path().join("baton.db")
}

#[test]
fn a_journal_that_cannot_be_used_is_no_empty_one() {
    let repo = Repo::new();
    repo.world.baton(&["run", "status"]).expect(0);
    repo.start("hello", &hello(), &[]).expect(0);
    let file = database(&repo);
    let whole = std::fs::read(&file).unwrap();
    let damage = |at: u64, bytes: &[u8]| {
        std::fs::write(&file, &whole).unwrap();
        let mut database = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        database.seek(SeekFrom::Start(at)).unwrap();
        database.write_all(bytes).unwrap();
    };
    // `user_version` in the header of an SQLite file.
    damage(60, &9999_u32.to_be_bytes());
    repo.world.baton(&["run", "status"]).expect_error(8, "newer Baton", "use the newer Baton");
    damage(0, &[b'x'; 4096]);
    repo.world.baton(&["run", "status", "--json"]).expect_error(8, "is not a database of Baton", "move the file away");
    // The list of tables is whole, and the tables are not.
    damage(4096, &vec![0xff; whole.len() - 4096]);
    for command in ["status", "log", "watch", "resume", "stop"] {
        repo.world.baton(&["run", command]).expect_error(8, "malformed", "put a copy of the file back");
    }
}

#[test]
fn without_a_name_the_last_run_that_can_go_on_is_meant() {
    let repo = Repo::new();
    let open = killed(&repo);
    repo.start("hello", &hello(), &["--new"]).expect(0);
    let done = last(&repo);
    assert_ne!(open, done);
    repo.world.baton(&["run", "resume"]).expect(0);
    assert_eq!(status_of(&repo, &open)["phase"], "done");
    // Stop: again one that was killed, before one that is done.
    let open = killed(&repo);
    repo.start("hello", &hello(), &["--new"]).expect(0);
    let stopped = repo.world.baton(&["run", "stop"]).expect(0);
    assert!(stopped.stderr.contains(&open) && !stopped.stderr.contains("goes on"), "{stopped:#?}");
    assert_eq!(status_of(&repo, &open)["phase"], "stopped");
    // Nothing is left that could be stopped or spoken to.
    let none = repo.world.baton(&["run", "stop"]).expect(2);
    assert!(none.stderr.contains("no run can be stopped") && none.stderr.contains(&open), "{none:#?}");
    let none = repo.world.baton(&["run", "submit", "-p", "file=hello.txt"]).expect(2);
    assert!(none.stderr.contains("no evidence is waited for") && none.stderr.contains(&open), "{none:#?}");
}

#[test]
fn an_answer_goes_to_the_run_that_asks() {
    let repo = Repo::new();
    repo.workflow("asks", ASKS);
    repo.start("asks", &[], &[]).expect(4);
    let asking = last(&repo);
    repo.start("hello", &hello(), &[]).expect(0);
    repo.world.baton(&["run", "submit", "--answer", "yes"]).expect(0);
    assert_eq!(status_of(&repo, &asking)["phase"], "done");
    let none = repo.world.baton(&["run", "submit", "--answer", "yes"]).expect(2);
    assert!(none.stderr.contains("nobody has asked anything") && none.stderr.contains(&asking), "{none:#?}");
    let over = repo.world.baton(&["run", "submit", &asking, "--answer", "yes"]).expect(2);
    assert!(over.stderr.contains("is at its end: done"), "{over:#?}");
    // One that was answered in another way has failed, and says so.
    repo.start("asks", &[], &["--new"]).expect(4);
    repo.world.baton(&["run", "submit", "--answer", "no"]).expect(3);
    let over = repo.world.baton(&["run", "resume", &last(&repo)]).expect(3);
    assert!(over.stderr.contains("is over: failed in FAILED"), "{over:#?}");
}

#[test]
fn a_run_that_is_over_does_not_go_on() {
    let repo = Repo::new();
    repo.start("hello", &hello(), &[]).expect(0);
    for args in [&["run", "resume"][..], &["run", "resume", &last(&repo)]] {
        let over = repo.world.baton(args).expect(0);
        assert!(over.stderr.contains("is over: done") && over.stderr.contains("baton run start hello"), "{over:#?}");
        assert!(over.stderr.contains("--new") && !over.stderr.contains("goes on"), "{over:#?}");
    }
    repo.workflow("one", &one(r#"evidence({"file": "path"})"#));
    repo.start("one", &[json!({"role": "greeter", "say": "no"}), json!({"role": "greeter", "say": "no"})], &[])
        .expect(4);
    let over = repo.world.baton(&["run", "resume", &last(&repo)]).expect(4);
    assert!(over.stderr.contains("is over: escalated at GREET"), "{over:#?}");
}

#[test]
fn a_run_that_another_process_conducts_is_left_to_it() {
    let repo = Repo::new();
    let other = killed(&repo);
    let live = started(&repo);
    let id = last(&repo);
    let pid = live.child.id().to_string();
    let held = repo.world.baton(&["run", "resume", &id]).expect(8);
    assert!(held.stderr.contains(&pid) && held.stderr.contains(&format!("conducts {id} already")), "{held:#?}");
    // Another run of the same project cannot be conducted meanwhile, and is not taken for one that is.
    assert_eq!(status_of(&repo, &other)["phase"], "interrupted");
    assert_eq!(status_of(&repo, &id)["phase"], "working");
    for args in [&["run", "resume", &other][..], &["run", "stop", &other]] {
        let held = repo.world.baton(args).expect(8);
        assert!(held.stderr.contains(&pid) && held.stderr.contains(&format!("conducts {id} in this")), "{held:#?}");
    }
    let stopped = repo.world.baton(&["run", "stop", &id, "--reason", "enough", "--json"]).expect(0);
    let stopped: Value = serde_json::from_str(&stopped.stdout).unwrap();
    assert_eq!((&stopped["phase"], &stopped["end"]["reason"]), (&json!("stopped"), &json!("enough")), "{stopped}");
    assert_eq!(live.wait(), 3);
}

#[test]
fn what_is_stopped_is_told_whoever_conducts_it() {
    let repo = Repo::new();
    let live = started(&repo);
    let from_outside = repo.world.baton(&["run", "stop", "--reason", "enough"]).expect(0);
    assert_eq!(live.wait(), 3);
    let outside = last(&repo);
    let here = killed(&repo);
    let from_here = repo.world.baton(&["run", "stop", "--reason", "enough"]).expect(0);
    for (told, id) in [(from_outside, outside), (from_here, here)] {
        assert!(told.stderr.contains(&format!("stopped {id} (hello)")), "{told:#?}");
        assert!(told.stderr.contains("GREET") && told.stderr.contains("why: enough"), "{told:#?}");
        assert_eq!(told.stdout, "");
    }
}

#[test]
fn a_run_that_was_killed_is_interrupted() {
    let repo = Repo::new();
    let id = killed(&repo);
    let told = repo.world.baton(&["run", "status"]).expect(0);
    assert!(told.stdout.contains("interrupted in GREET"), "{told:#?}");
    let told = repo.world.baton(&["run", "status", &id]).expect(0);
    assert!(told.stdout.contains(&format!("go on with: baton run resume {id}")), "{told:#?}");
    assert_eq!(repo.status()["phase"], "interrupted");
    let watched = repo.world.baton(&["run", "watch"]).expect(4);
    assert!(watched.stdout.contains("interrupted in GREET"), "{watched:#?}");
}

#[test]
fn a_run_at_its_cap_says_what_is_used_and_how_it_goes_on() {
    let repo = Repo::new();
    let text = one(r#"evidence({"file": "path"})"#).replace("name = \"one\",", "name = \"one\", tokens = 100,");
    repo.workflow("one", &text);
    repo.start("one", &hello(), &[]).expect(5);
    let parked = "rests: the cap of 100 tokens is used up";
    for args in [&["run", "status"][..], &["run", "status", &last(&repo)], &["run", "watch"]] {
        let told = repo.world.baton(args);
        assert_eq!(told.code, if args.contains(&"watch") { 5 } else { 0 });
        assert!(told.stdout.contains(parked), "{told:#?}");
    }
    let status = repo.status();
    assert_eq!((&status["phase"], status["rests"].as_str().unwrap().contains("0 tokens")), (&json!("parked"), true));
    let told = repo.world.baton(&["run", "resume"]).expect(5);
    assert!(told.stderr.contains(parked) && told.stderr.contains("--max-tokens N (or --max-usd X)"), "{told:#?}");
    assert!(!told.stderr.contains("goes on"), "{told:#?}");
    repo.world.baton(&["run", "resume", "--max-tokens", "100000"]).expect(0);
    let log = repo.log();
    let (rests, raised) = (log.find("rests · ").unwrap(), log.find("the cap was raised to 100000 tokens").unwrap());
    assert!(rests < raised, "{log}");
}

#[test]
fn a_run_is_where_the_runs_inside_it_are() {
    let repo = Repo::new();
    let part = ASKS.replace("workflow(\n    name = \"asks\"", "part = workflow(\n    name = \"part\"");
    let whole = r#"workflow(name = "whole", states = {"SUB": call(part, on = {"pass": "DONE"}), "DONE": done()})"#;
    repo.workflow("whole", &format!("{part}{whole}\n"));
    repo.start("whole", &[], &[]).expect(4);
    assert_eq!(repo.status()["phase"], "waiting");
    let told = repo.world.baton(&["run", "status"]).expect(0);
    assert!(told.stdout.contains("SURE waits for a person"), "{told:#?}");
    repo.world.baton(&["run", "submit", "--answer", "yes"]).expect(0);
    assert_eq!(repo.status()["phase"], "done");
    // A part that works is interrupted with the whole.
    let part = one(r#"evidence({"file": "path"})"#).replace("workflow(\n", "part = workflow(\n");
    repo.workflow("whole", &format!("{part}{whole}\n"));
    let mut live = Live::start(repo.starting("whole", &slow(), &[]));
    live.until("step.start");
    assert_eq!(repo.status()["phase"], "working");
    live.signal(Signal::KILL);
    live.wait();
    let told = repo.world.baton(&["run", "status"]).expect(0);
    assert!(told.stdout.contains("interrupted in GREET"), "{told:#?}");
    std::fs::write(repo.clone_tree().join("hello.txt"), "hello\n").unwrap();
    repo.world.baton(&["run", "submit", "-p", "file=hello.txt"]).expect(0);
    let log = repo.log();
    assert!(log.contains("SUB.1 GREET pass → DONE") && log.contains(" SUB pass → DONE"), "{log}");
}

#[test]
fn the_log_tells_the_way_of_a_run() {
    let repo = Repo::new();
    repo.workflow(
        "asks",
        r#"workflow(
    name = "asks",
    roles = {"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)},
    states = {
        "GREET": state("greeter", gate = evidence({"word": "text"}, verify = lambda c: c.run(["false"]).failed), on = {"pass": "SURE"}),
        "SURE": human("Really?", options = ["yes", "no"], on = {"yes": "DONE", "no": "GREET"}),
        "DONE": done(),
    },
)
"#,
    );
    let evil = "hi\u{1b}[2J\u{1b}]0;mine\u{7} there\u{9b}31m";
    repo.start("asks", &[submit("greeter", json!({"word": evil}))], &[]).expect(4);
    repo.world.baton(&["run", "submit", "--answer", "yes", "--comment", "do\u{1b}[31m it"]).expect(0);
    let log = repo.log();
    let mut rest = log.as_str();
    for line in [
        " started\n",
        "GREET handed in · word: hi there31m",
        "GREET verified · ",
        "GREET pass → SURE\n",
        "asks a person · Really? [yes, no]\n",
        "a person answers: yes · do it\n",
        "SURE yes → DONE\n",
        "ended · done\n",
    ] {
        let at = rest.find(line).unwrap_or_else(|| panic!("{line} is not in its place: {log}"));
        rest = &rest[at..];
    }
    assert!(!log.contains('\u{1b}') && !log.contains('\u{9b}') && !log.contains('\u{7}'), "{log:?}");
    assert!(log.lines().filter(|line| line.contains('→')).all(|line| line.as_bytes()[2] == b':'), "{log}");
    let told = repo.world.baton(&["run", "log", "--json"]).expect(0).events();
    let kinds: Vec<&str> =
        told.iter().filter_map(|line| line["kind"].as_str()).filter(|kind| kind.contains('.')).collect();
    assert_eq!(kinds, ["gate.decided", "run.question", "gate.decided", "run.end"]);
}

#[test]
fn a_branch_is_shown_once_it_is_there() {
    let repo = Repo::new();
    repo.workflow("asks", ASKS);
    repo.start("asks", &[], &[]).expect(4);
    assert_eq!(repo.status()["branch"], Value::Null);
    repo.world.baton(&["run", "submit", "--answer", "yes"]).expect(0);
    assert_eq!(repo.status()["branch"], Value::Null, "nothing was changed, so nothing came back");
    repo.start("hello", &hello(), &[]).expect(0);
    let branch = repo.status()["branch"].as_str().unwrap().to_owned();
    assert!(repo.world.baton(&["run", "status", &last(&repo)]).expect(0).stdout.contains(&branch));
    repo.git(&["rev-parse", "--verify", &branch]);
}

#[test]
fn a_long_reason_stays_on_its_line() {
    let repo = Repo::new();
    let id = killed(&repo);
    let reason = format!("first line\u{1b}[2J\nsecond {}", "long ".repeat(100));
    repo.world.baton(&["run", "stop", "--reason", &reason]).expect(0);
    let listed = repo.world.baton(&["run", "status"]).expect(0).stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.contains("stopped: first line…  ") && listed.ends_with("0 tokens, $0\n"), "{listed}");
    let full = repo.world.baton(&["run", "status", &id]).expect(0).stdout;
    assert!(full.contains("    second long") && !full.contains('\u{1b}'), "{full}");
    let id = killed(&repo);
    repo.world.baton(&["run", "stop", &id, "--reason", &"long ".repeat(100)]).expect(0);
    let listed = repo.world.baton(&["run", "status"]).expect(0).stdout;
    assert!(listed.lines().next().unwrap().contains('…'), "{listed}");
}

#[test]
fn evidence_is_read_as_its_fields_want_it() {
    let repo = Repo::new();
    let fields = r#"{"n": "number", "t": "text", "ok": "bool", "all": "list", "file": "path"}"#;
    repo.workflow("one", &one(&format!("evidence({fields})")));
    let mut script = hello();
    script[0]["delay_ms"] = json!(600_000);
    let mut live = Live::start(repo.starting("one", &script, &[]));
    live.until("step.start");
    let hand_in = |fields: &[&str]| -> Run {
        let pairs: Vec<&str> = fields.iter().flat_map(|field| ["-p", field]).collect();
        repo.world.baton(&[&["run", "submit"], pairs.as_slice()].concat())
    };
    hand_in(&["n=one", "t=x", "ok=yes", "all=a", "file=README.md"]).expect_error(2, "`n`: `one` is not a number", "");
    hand_in(&["n=1", "t=x", "ok=maybe", "all=a", "file=README.md"]).expect_error(2, "true or false", "");
    hand_in(&["n=1", "n=2", "t=x", "ok=no", "all=a", "file=README.md"]).expect_error(2, "given 2 times", "");
    hand_in(&["n=1", "t=x", "ok=no", "all=a", "file=README.md", "nn=2"]).expect_error(2, "`nn` is not asked for", "");
    let told = hand_in(&["n=1.5", "t=true", "ok=yes", "all=a", "all=b", "file=README.md"]).expect(0);
    assert!(told.stderr.contains("has your evidence"), "{told:#?}");
    assert_eq!(live.wait(), 0);
    let evidence = &repo.status()["evidence"]["GREET"];
    let wanted = json!({"n": 1.5, "t": "true", "ok": true, "all": ["a", "b"], "file": "README.md"});
    assert_eq!(evidence, &wanted);
}

#[test]
fn a_graph_is_there_for_programs() {
    let world = World::new();
    let told = world.baton(&["workflow", "graph", "hello", "--json"]).expect(0);
    let graph: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(graph["workflow"], "hello");
    assert!(graph["mermaid"].as_str().unwrap().starts_with("stateDiagram-v2"), "{graph}");
    assert!(graph["dot"].as_str().unwrap().starts_with("digraph"), "{graph}");
}

#[test]
fn a_program_watches_every_change() {
    let repo = Repo::new();
    let live = started(&repo);
    let mut watching = Live::start(repo.world.command(&["run", "watch", "--json"]));
    let first = watching.next_event().unwrap();
    assert_eq!((&first["phase"], &first["state"]), (&json!("working"), &json!("GREET")), "{first}");
    repo.world.baton(&["run", "stop"]).expect(0);
    let mut end = first;
    while let Some(next) = watching.next_event() {
        assert_ne!(next, end, "a line is a change");
        end = next;
    }
    assert_eq!(end["phase"], "stopped", "{end}");
    assert_eq!((watching.wait(), live.wait()), (3, 3));
    assert_eq!(end, repo.status());
}

/// A command on a terminal of so many columns.
struct Terminal {
    child: Child,
    stdout: ChildStdout,
    columns: usize,
    written: String,
}

const ON_A_TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    try:
        some = os.read(fd, 4096)
    except OSError:
        break
    if not some:
        break
    os.write(1, some)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

impl Terminal {
    fn start(command: &Command, columns: usize) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", ON_A_TERMINAL, &columns.to_string()]).arg(command.get_program()).args(command.get_args());
        python.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        python.current_dir(command.get_current_dir().unwrap());
        let mut child = python.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        Self { child, stdout, columns, written: String::new() }
    }

    fn until(&mut self, text: &str) {
        let mut some = [0; 4096];
        while !self.written.contains(text) {
            let count = self.stdout.read(&mut some).unwrap();
            assert!(count > 0, "it ended without {text}: {}", self.written);
            self.written.push_str(&String::from_utf8_lossy(&some[..count]));
        }
    }

    fn wait(mut self) -> (i32, Vec<String>) {
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        self.written.push_str(&String::from_utf8_lossy(&rest));
        (self.child.wait().unwrap().code().unwrap(), on_screen(&self.written, self.columns))
    }
}

/// What stands on a screen after this was written to it: lines wrap, the cursor goes up, and what is below is wiped.
fn on_screen(written: &str, columns: usize) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![String::new()], 0, 0);
    let mut chars = written.chars();
    while let Some(char) = chars.next() {
        match char {
            '\n' => row += 1,
            '\r' => column = 0,
            '\u{1b}' => {
                assert_eq!(chars.next(), Some('['));
                let mut count = String::new();
                let end = loop {
                    match chars.next().unwrap() {
                        digit @ '0'..='9' => count.push(digit),
                        end => break end,
                    }
                };
                match end {
                    'A' => row -= count.parse::<usize>().unwrap(),
                    'J' => {
                        rows.truncate(row + 1);
                        rows[row] = rows[row].chars().take(column).collect();
                    }
                    other => panic!("nobody writes {other}"),
                }
            }
            char => {
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
                rows.resize(rows.len().max(row + 1), String::new());
                rows[row] = rows[row].chars().take(column).collect();
                rows[row].push(char);
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), String::new());
    }
    rows
}

#[test]
fn a_person_watches_on_a_narrow_terminal() {
    for columns in [60, 80, 120] {
        let repo = Repo::new();
        let live = started(&repo);
        let mut watching = Terminal::start(&repo.world.command(&["run", "watch"]), columns);
        // Time goes by while nothing happens.
        watching.until("1 s in GREET");
        watching.until("2 s in GREET");
        std::fs::write(repo.clone_tree().join("hello.txt"), "hello, world\n").unwrap();
        repo.world.baton(&["run", "submit", "-p", "file=hello.txt"]).expect(0);
        assert_eq!(live.wait(), 0);
        let (code, rows) = watching.wait();
        assert_eq!(code, 0);
        let mut shown = String::new();
        for row in &rows {
            let _ = writeln!(shown, "{row}");
        }
        assert_eq!(shown.matches(&last(&repo)).count(), 1, "it stands there once:\n{shown}");
        assert!(shown.contains("done") && shown.contains("branch: baton/hello-"), "{shown}");
        assert!(!shown.contains("clone:") && !shown.contains("in the run"), "nothing is left of before:\n{shown}");
    }
}

#[test]
fn a_demo_and_a_rehearsal_send_nobody_to_runs_that_are_not_there() {
    let world = World::new();
    let dir = world.home().join("demo");
    let mut live = Live::start(world.command(&["demo", "--json", "--dir", dir.to_str().unwrap()]));
    live.until("run.state");
    live.signal(Signal::INT);
    let mut stderr = String::new();
    live.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(live.wait(), 130, "{stderr}");
    assert!(stderr.contains("go on with: baton demo --dir") && !stderr.contains("baton run resume"), "{stderr}");
    // Nothing is left of a rehearsal, so it cannot go on.
    let repo = Repo::new();
    let model = repo.world.script(&slow().iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
    let script = model.strip_prefix("script/").unwrap();
    let mut live = Live::start(repo.world.command(&["workflow", "rehearse", "hello", "--json", "--script", script]));
    live.until("step.start");
    live.signal(Signal::INT);
    let mut stderr = String::new();
    live.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(live.wait(), 130, "{stderr}");
    assert!(!stderr.contains("baton run resume"), "{stderr}");
    let nowhere = world.baton(&["demo", "--dir", "/proc/x"]).expect(8);
    assert!(nowhere.stderr.contains("/proc/x") && !nowhere.stderr.contains("TMPDIR"), "{nowhere:#?}");
    let mut nowhere = world.command(&["demo"]);
    nowhere.env("TMPDIR", "/proc/x");
    run(nowhere).expect_error(8, "/proc/x", "TMPDIR");
}
