//! Runs on a machine whose disk is full or whose clock jumps: nothing is lost, and nothing happens twice.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::odd_machine::{Jump, among_mounts};
use crate::support::runs::{Repo, call, shell, submit};
use crate::support::{Live, run};

const GREET: &str = r#"workflow(
    name = "greet",
    roles = {"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)},
    states = {
        "GREET": state("greeter", gate = evidence({"file": "path"}), on = {"pass": "CHECK"}, timeout = "20m"),
        "CHECK": state("greeter", gate = command(project.test), on = {"pass": "COMMIT"}, timeout = "20m"),
        "COMMIT": action(commit(message = "Greet"), on = {"pass": "DONE"}),
        "DONE": done(),
    },
)
"#;

/// An agent that waits in its command until it is let go on.
const HELD: &str = "echo waiting; until [ -x .git/HEAD ] || [ ! -d .git ]; do sleep 0.01; done";

/// A greeter that runs a command.
fn script(command: &str) -> Vec<Value> {
    vec![
        call("greeter", "write", json!({"path": "hello.txt", "content": "hello\n"})),
        shell("greeter", command),
        submit("greeter", json!({"file": "hello.txt"})),
        json!({"role": "greeter", "say": "checked"}),
    ]
}

/// Starts a run and waits for its agent's command. What it waits for is a mode, which costs no room on a disk.
fn at_its_command(command: Command) -> (Live, PathBuf) {
    let mut live = Live::start(command);
    let tree = PathBuf::from(live.until("run.start")["clone"].as_str().unwrap());
    live.until("tool.update");
    (live, tree.join(".git/HEAD"))
}

fn let_go_on(held: &Path) {
    std::fs::set_permissions(held, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const YEAR_S: i64 = 365 * 24 * 3600;

fn greeting() -> Repo {
    let repo = Repo::new();
    repo.workflow("greet", GREET);
    repo
}

fn assert_greeted_once(repo: &Repo) {
    let brought = repo.brought_back();
    assert_eq!(brought.iter().map(|(subject, _)| subject.as_str()).collect::<Vec<_>>(), ["Greet"]);
    let status = repo.status();
    assert_eq!(status["phase"], "done", "{status:#}");
}

#[test]
fn a_clock_that_jumps_while_a_run_works_changes_nothing() {
    for seconds in [YEAR_S, -YEAR_S] {
        let repo = greeting();
        let jump = Jump::new(&repo.world.home());
        let (mut live, held) = at_its_command(jump.inject(repo.starting("greet", &script(HELD), &[])));
        jump.by(seconds);
        let_go_on(&held);
        let mut events = Vec::new();
        while let Some(event) = live.next_event() {
            events.push(event);
        }
        assert_eq!(live.wait(), 0, "{events:#?}");
        let ended = events.iter().find(|event| event["kind"] == "run.end").unwrap();
        let at: jiff::Timestamp = ended["at"].as_str().unwrap().parse().unwrap();
        let off = at.duration_since(jiff::Timestamp::now()).as_secs();
        assert!((off - seconds).abs() < YEAR_S / 2, "the clock did jump: {ended}");
        assert_greeted_once(&repo);
        let log = repo.log();
        assert!(!log.contains("ran out"), "no timer ran out: {log}");
        let (first, last) = (log.lines().next().unwrap(), log.lines().last().unwrap());
        assert!(first.contains("started") && last.contains("ended"), "what happened later is told later: {log}");
    }
}

/// Kills a run at its agent's command, with the clock here and there, and goes on with the clock elsewhere.
fn killed_between(before: i64, after: i64) -> Repo {
    let repo = greeting();
    let jump = Jump::new(&repo.world.home());
    jump.by(before);
    let (live, held) = at_its_command(jump.inject(repo.starting("greet", &script(HELD), &[])));
    live.signal(Signal::KILL);
    live.wait();
    jump.by(after);
    let_go_on(&held);
    run(jump.inject(repo.world.command(&["run", "resume", "--json"]))).expect(0);
    repo
}

#[test]
fn a_clock_that_jumps_between_two_starts_costs_nobody_an_attempt() {
    for (before, after) in [(YEAR_S, 0), (0, YEAR_S)] {
        let repo = killed_between(before, after);
        assert_greeted_once(&repo);
        let log = repo.log();
        assert!(!log.contains("ran out"), "no timer ran out: {log}");
    }
}

/// A run whose home is a small disk. It is full from when there is a file `fill` in the project until there is one `free`:
/// whatever becomes free is taken. Then the held command is let go on.
fn on_a_small_disk(repo: &Repo, workflow: &str, script: &[Value], held: &str, after: &str) -> Live {
    let (home, project) = (repo.world.home(), repo.world.project());
    repo.workflow("greet", workflow);
    let model = repo.world.script(&script.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
    let mounts = format!(
        "cp -r {home} {project}/../kept && mount -t tmpfs -o size=6m none {home} && cp -r {project}/../kept/. {home}
        (set +e; until [ -e fill ] || [ ! -d {project} ]; do sleep 0.01; done
        while [ -d {project} ] && [ ! -e free ]; do cat /dev/zero >> {home}/filler; chmod +x {held}; sleep 0.01; done
        rm {home}/filler; touch freed
        while [ -d {project} ]; do chmod +x {held}; sleep 0.01; done) >/dev/null 2>&1 &",
        home = home.display(),
        project = project.display(),
        held = home.join("projects/*/clones/*").join(held).display(),
    );
    let args = ["run", "start", "greet", "--json", "-m", &model];
    Live::start(among_mounts(&repo.world, &mounts, &args, after))
}

/// Goes on with what a full disk has stopped.
const GO_ON: &str = "if [ $code = 8 ]; then
    touch free; until [ -e freed ]; do sleep 0.01; done
    \"$0\" run resume --json; code=$?
fi";

#[test]
fn a_disk_that_is_full_while_an_agent_works_costs_no_work() {
    let repo = Repo::new();
    let mut live = on_a_small_disk(&repo, GREET, &script(HELD), "tree/.git/HEAD", GO_ON);
    live.until("tool.update");
    repo.world.file("fill", "");
    // A session waits for the disk, git does not: whichever comes first.
    let (mut decided, mut ended) = (Vec::new(), Vec::new());
    while let Some(event) = live.next_event() {
        match event["kind"].as_str().unwrap() {
            "notice" => drop(repo.world.file("free", "")),
            "gate.decided" => decided.push(event["outcome"].clone()),
            "run.end" => ended.push(event["end"].clone()),
            _ => {}
        }
    }
    assert_eq!((live.wait(), ended), (0, vec![json!("done")]));
    assert!(decided.iter().all(|outcome| outcome == "pass"), "no attempt failed: {decided:?}");
    assert_eq!(repo.brought_back().len(), 1);
}

#[test]
fn a_journal_on_a_full_disk_stops_the_run_with_a_reason_and_it_goes_on_later() {
    let repo = Repo::new();
    let held = r#"command(["sh", "-c", "until [ -x src/add.sh ]; do sleep 0.01; done"])"#;
    let after = format!("echo '{{\"kind\":\"stopped\",\"code\":'$code'}}'\n{GO_ON}");
    let workflow = GREET.replace("command(project.test)", held);
    let mut live = on_a_small_disk(&repo, &workflow, &script("true"), "proof-*/src/add.sh", &after);
    // The second one is that of the held gate.
    live.until("gate.submitted");
    live.until("gate.submitted");
    repo.world.file("fill", "");
    let stopped = live.until("stopped");
    assert_eq!(stopped["code"], 8, "{stopped}");
    assert_eq!(live.until("run.end")["end"], "done");
    assert_eq!(live.wait(), 0);
    assert_eq!(repo.brought_back().len(), 1);
}
