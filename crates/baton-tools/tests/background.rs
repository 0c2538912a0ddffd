//! Background processes: started, read in pieces, ended, and never in the way of others.

mod scene;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_tools::Outcome;
use futures_util::future::join_all;
use scene::Scene;
use serde_json::{Value, json};

const TOOL: &str = "bash_background";

async fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited too long for {what}");
        tokio::task::yield_now().await;
    }
}

fn alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The pids in a file, once there are so many.
async fn pids(file: &Path, count: usize) -> Vec<u32> {
    wait_for("pids", || {
        let text = fs::read_to_string(file).ok()?;
        let pids: Vec<u32> = text.lines().map(|line| line.parse().ok()).collect::<Option<_>>()?;
        (pids.len() >= count).then_some(pids)
    })
    .await
}

fn pid(outcome: &Outcome) -> u32 {
    u32::try_from(outcome.meta["pid"].as_u64().unwrap()).unwrap()
}

/// The output without the words about it.
fn output(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('[') && *line != "(no new output)").collect()
}

#[tokio::test]
async fn output_comes_in_pieces_and_each_piece_once() {
    let scene = Scene::new();
    let command =
        "for n in 1 2 3; do while [ ! -e go$n ]; do sleep 0.01; done; echo line $n; printf 'half %s,' $n; done";
    let started = scene.run(TOOL, json!({"command": command, "wait": 0})).await;
    assert!(started.text.starts_with("(no output yet)\n[full output: "), "{}", started.text);
    assert!(started.text.contains("\n[1: running for "), "{}", started.text);
    assert_eq!((&started.meta["id"], &started.meta["running"]), (&json!(1), &json!(true)));
    let mut seen = String::new();
    for n in 1..=3 {
        scene.file(&format!("go{n}"), "");
        while !seen.ends_with(&format!("half {n},")) {
            seen += &output(&scene.ok(TOOL, json!({"id": 1, "wait": 60})).await);
        }
    }
    assert_eq!(seen, "line 1half 1,line 2half 2,line 3half 3,");
    let last = scene.run(TOOL, json!({"id": 1, "wait": 60})).await;
    assert!(last.text.starts_with("(no new output)\n[1: exit 0 after "), "{}", last.text);
    assert_eq!((&last.meta["exit_code"], &last.meta["running"]), (&json!(0), &json!(false)));
    let kept = fs::read_to_string(last.meta["output_path"].as_str().unwrap()).unwrap();
    assert_eq!(kept, "line 1\nhalf 1,line 2\nhalf 2,line 3\nhalf 3,");
}

#[tokio::test]
async fn many_small_reads_lose_nothing() {
    let scene = Scene::new();
    let mut seen = output(&scene.ok(TOOL, json!({"command": "for n in {1..3000}; do echo $n; done", "wait": 0})).await);
    seen = seen.replace("(no output yet)", "");
    loop {
        // What follows the process runs on the same thread here.
        tokio::task::yield_now().await;
        let read = scene.run(TOOL, json!({"id": 1})).await;
        seen += &output(&read.text);
        if read.meta["running"] == json!(false) {
            break;
        }
    }
    assert_eq!(seen, (1..=3000).map(|n| n.to_string()).collect::<String>());
}

#[tokio::test]
async fn what_ends_at_once_is_told_by_the_start() {
    let scene = Scene::new();
    let failed = scene.run(TOOL, json!({"command": "sleep 0.1; echo 'address in use' >&2; exit 3"})).await;
    assert!(failed.is_error && failed.text.starts_with("address in use\n["), "{}", failed.text);
    assert!(failed.text.contains("\n[1: exit 3 after "), "{}", failed.text);
    let done = scene.run(TOOL, json!({"command": "printf '\\033[31mred\\033[0m'"})).await;
    assert!(!done.is_error && done.text.starts_with("red\n["), "{}", done.text);
    let listed = scene.ok(TOOL, json!({})).await;
    assert!(listed.starts_with("1: exit 3 after ") && listed.contains("\n2: exit 0 after "), "{listed}");
    assert!(scene.executor.workspace().background().running().is_empty());
}

#[tokio::test]
async fn a_line_can_be_waited_for() {
    let scene = Scene::new();
    let command = "for n in {1..2000}; do echo compiling $n; done; sleep 0.2; printf 'listening on port 80'; sleep 300";
    let ready = scene.ok(TOOL, json!({"command": command, "until": "^listening on port \\d+$"})).await;
    assert!(ready.contains("\nlistening on port 80\n[full output: "), "{ready}");
    let missed = scene.ok(TOOL, json!({"id": 1, "until": "never", "wait": 0})).await;
    assert!(missed.starts_with("(no new output)\n[nothing matched `never` within 0 ms]\n[1: running"), "{missed}");
    let ended = scene.ok(TOOL, json!({"command": "echo over", "until": "never"})).await;
    assert!(ended.starts_with("over\n") && ended.contains("[2: exit 0"), "{ended}");
    assert!(scene.error(TOOL, json!({"id": 1, "until": "("})).await.starts_with("`until` is not a regex"));
    assert_eq!(scene.error(TOOL, json!({"id": 7})).await, "there is no background process 7; known: 1, 2");
    let killed = scene.ok(TOOL, json!({"id": 1, "action": "kill"})).await;
    assert!(killed.contains("[1: killed after "), "{killed}");
}

const STUBBORN: &str = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; echo $$ >>pids; while :; do sleep 1; done' & \
     echo $$ >>pids; while :; do sleep 1; done";

#[tokio::test]
async fn the_stubborn_are_killed() {
    let scene = Scene::new();
    scene.ok(TOOL, json!({"command": STUBBORN, "wait": 0})).await;
    let pids = pids(&scene.root.join("pids"), 2).await;
    let killed = scene.ok(TOOL, json!({"id": 1, "action": "kill"})).await;
    assert!(killed.contains("[1: killed after "), "{killed}");
    assert!(pids.iter().all(|pid| !alive(*pid)));
    assert_eq!(scene.ok(TOOL, json!({"id": 1, "action": "kill"})).await.lines().next(), Some("(no new output)"));
}

#[tokio::test]
async fn what_a_shell_leaves_running_is_the_job() {
    let scene = Scene::new();
    let command = "(setsid sh -c 'echo $$ >pids; echo up; while :; do sleep 0.05; done' &) ; exit 7";
    scene.ok(TOOL, json!({"command": command, "until": "up"})).await;
    let pids = pids(&scene.root.join("pids"), 1).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !scene.ok(TOOL, json!({"id": 1})).await.contains("of its shell, which ended (exit 7)") {
        assert!(Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    assert!(alive(pids[0]));
    scene.ok(TOOL, json!({"id": 1, "action": "kill"})).await;
    assert!(!alive(pids[0]));
}

#[tokio::test]
async fn the_seventeenth_is_refused_and_the_end_ends_all() {
    let scene = Scene::new();
    let starts = (0..16).map(|_| scene.run(TOOL, json!({"command": "sleep 300", "wait": 0})));
    let pids: Vec<_> = join_all(starts).await.iter().map(pid).collect();
    let start = json!({"command": "sleep 300"});
    let refused = scene.error(TOOL, start.clone()).await;
    assert_eq!(refused, "not started: 16 background processes run already; kill one first");
    scene.ok(TOOL, json!({"id": 16, "action": "kill"})).await;
    let again = scene.run(TOOL, json!({"command": "sleep 300", "wait": 0})).await;
    assert_eq!(again.meta["id"], json!(17), "numbers are not used twice");

    let background = scene.executor.workspace().background();
    assert_eq!(background.running().len(), 16);
    background.end().await;
    assert!(background.running().is_empty() && pids.iter().all(|pid| !alive(*pid)));
    assert_eq!(scene.error(TOOL, start).await, "not started: the session is over");
}

/// A process in a session of its own, without a mark in its environment, whose parent is gone.
fn hidden(to: &str, file: &str) -> String {
    format!(
        "(env -i setsid sh -c 'echo $$ >>{file}; exec sleep 300' {to} &) ; while [ ! -s {file} ]; do sleep 0.01; done"
    )
}

#[tokio::test]
async fn commands_in_front_and_behind_leave_each_other_alone() {
    let scene = Scene::new();
    let behind = format!("setsid sleep 300 & echo $! >>marked; {}; echo up; sleep 300", hidden("", "behind"));
    scene.ok(TOOL, json!({"command": behind, "until": "up"})).await;
    let behind = [pids(&scene.root.join("marked"), 1).await, pids(&scene.root.join("behind"), 1).await].concat();

    let front = scene.ok("bash", json!({"command": "sleep 300 & setsid sleep 300 & sleep 0.05; echo x"})).await;
    assert_eq!(front, "x\n[ended 2 processes that ran on in the background]");
    scene.ok("bash", json!({"command": hidden("", "front")})).await;
    let front = pids(&scene.root.join("front"), 1).await;
    assert!(!alive(front[0]), "found by where it prints to");
    assert!(behind.iter().all(|pid| alive(*pid)));

    // Whose this is cannot be told; it is spared as long as it may belong to somebody.
    scene.ok("bash", json!({"command": hidden(">/dev/null 2>&1", "unknown")})).await;
    let unknown = pids(&scene.root.join("unknown"), 1).await;
    let background = scene.executor.workspace().background();
    background.end().await;
    assert!(behind.iter().all(|pid| !alive(*pid)));
    // Other tests of this process have background processes, too: it goes when theirs have ended.
    let deadline = Instant::now() + Duration::from_mins(1);
    while alive(unknown[0]) {
        assert!(Instant::now() < deadline);
        background.end().await;
    }
}

#[tokio::test]
async fn what_is_kept_goes_on() {
    let scene = Scene::new();
    let command = "echo TMPDIR=$TMPDIR; setsid sleep 300 & echo $! >pids; until [ -e go ]; do sleep 0.01; done; echo on; sleep 300";
    let kept = scene.run(TOOL, json!({"command": command, "keep": true, "until": "."})).await;
    assert!(!kept.text.contains(&scene.executor.workspace().temp().display().to_string()), "{}", kept.text);
    assert!(kept.text.contains("kept: it goes on when the session ends"), "{}", kept.text);
    let children = pids(&scene.root.join("pids"), 1).await;
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid(&kept))).unwrap();
    let session = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(3);
    assert_eq!(session, Some(pid(&kept).to_string().as_str()));

    scene.ok("bash", json!({"command": "true"})).await;
    let background = scene.executor.workspace().background();
    background.end().await;
    assert!(alive(pid(&kept)) && alive(children[0]));
    assert_eq!(background.running().iter().filter(|process| process.is_kept).count(), 1);
    scene.file("go", "");
    let file = kept.meta["output_path"].as_str().unwrap();
    wait_for("its output", || fs::read_to_string(file).ok()?.ends_with("\non\n").then_some(())).await;
    let read = scene.ok(TOOL, json!({"id": 1, "until": "on"})).await;
    assert!(read.starts_with("on\n[1: running"), "{read}");
    scene.ok(TOOL, json!({"id": 1, "action": "kill"})).await;
    assert!(!alive(pid(&kept)) && !alive(children[0]));
}

#[tokio::test]
async fn what_is_kept_prints_no_more_than_a_file_takes() {
    let scene = Scene::new();
    let command = "yes some line | head -c 80000000; echo done >done";
    let kept = scene.run(TOOL, json!({"command": command, "keep": true, "wait": 0})).await;
    wait_for("the end of a flood", || scene.root.join("done").exists().then_some(())).await;
    while scene.run(TOOL, json!({"id": 1, "wait": 60})).await.meta["running"] == json!(true) {}
    let len = fs::metadata(kept.meta["output_path"].as_str().unwrap()).unwrap().len();
    assert_eq!(len, 64 << 20);
}

#[test]
fn without_its_runtime_nothing_goes_on() {
    let scene = Scene::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    first.block_on(scene.run(TOOL, json!({"command": STUBBORN, "wait": 0})));
    let pids = first.block_on(pids(&scene.root.join("pids"), 2));
    first.shutdown_background();
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

#[tokio::test]
async fn a_cancelled_wait_takes_nothing_away() {
    let scene = Scene::new();
    scene.ok(TOOL, json!({"command": "until [ -e go ]; do sleep 0.01; done; echo late; sleep 300", "wait": 0})).await;
    let read: Value = json!({"id": 1, "until": "never", "wait": 60});
    tokio::time::timeout(Duration::from_millis(50), scene.run(TOOL, read)).await.unwrap_err();
    scene.file("go", "");
    assert!(scene.ok(TOOL, json!({"id": 1, "wait": 60})).await.starts_with("late\n"));
}
