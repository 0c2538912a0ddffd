//! Real commands: how they end, what they leave, what the model reads.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Progress, Reach, Tool, Typed, Workspace};

struct Scene {
    dir: TempDir,
    cx: CallContext,
    limits: Limits,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let workspace = Workspace::new(&dir.path().join("work"), dir.path().join("outputs"), Reach::Inside).unwrap();
        let cx = CallContext::alone(workspace);
        Self { dir, cx, limits: Limits::default() }
    }

    /// Graces in milliseconds, so that the stages can be seen without waiting for them.
    fn hasty() -> Self {
        let grace = Duration::from_millis(200);
        let limits =
            Limits { interrupt_grace: grace, terminate_grace: grace, leftover_grace: grace, ..Limits::default() };
        Self { limits, ..Self::new() }
    }

    /// As [`Self::hasty`], with these limits.
    fn limited(idle: Duration, total: Duration) -> Self {
        let scene = Self::hasty();
        Self { limits: Limits { idle, total, ..scene.limits }, ..scene }
    }

    async fn run(&self, command: &str) -> Outcome {
        Typed::new(Bash { limits: self.limits }).run(json!({ "command": command }), &self.cx).await
    }

    /// Runs a command that tells the pids of its processes in the file `pids`, and cancels it once `count` are there.
    async fn cancel_after(&self, command: &str, count: usize) -> (Outcome, Vec<u32>, Duration) {
        let file = self.cx.workspace.root().join("pids");
        let cancel = async {
            let pids = wait_for(|| pids(&file).filter(|pids| pids.len() >= count)).await;
            self.cx.cancel.cancel();
            (pids, Instant::now())
        };
        let (outcome, (pids, since)) = tokio::join!(self.run(command), cancel);
        (outcome, pids, since.elapsed())
    }
}

async fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited too long");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn pids(file: &Path) -> Option<Vec<u32>> {
    fs::read_to_string(file).ok()?.lines().map(|line| line.parse().ok()).collect()
}

fn alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn output_and_exit_codes() {
    let scene = Scene::new();
    for (command, text, code) in [
        ("echo hello", "hello", 0),
        ("true", "(no output)", 0),
        ("false", "[exit 1]", 1),
        ("echo a; echo b >&2; echo c; exit 3", "a\nb\nc\n[exit 3]", 3),
        ("trap 'echo bye' EXIT; exit 4", "bye\n[exit 4]", 4),
        ("exec sh -c 'exit 5'", "[exit 5]", 5),
        ("echo \"[$1]$#\"", "[]0", 0),
        ("printf 'caf\\303\\251 \\377'", "café \u{FFFD}", 0),
        ("printf '\\033[31mred\\033[0m\\n10%%\\r20%%\\n'", "red\n20%", 0),
        ("cat", "(no output)", 0),
        ("echo 'quo\"te' '$HOME' \"\\`\"", "quo\"te $HOME `", 0),
    ] {
        let outcome = scene.run(command).await;
        assert_eq!(outcome.text, text, "{command}");
        assert_eq!(outcome.meta["exit_code"], json!(code), "{command}");
        assert_eq!(outcome.is_error, code != 0, "{command}");
    }
    let killed = scene.run("kill -9 $$").await;
    assert_eq!((killed.text.as_str(), &killed.meta["signal"]), ("[ended by signal 9]", &json!(9)));
    assert!(scene.run("if then").await.is_error);
}

#[tokio::test]
async fn the_directory_is_kept_between_calls() {
    let scene = Scene::new();
    let root = scene.cx.workspace.root().to_owned();
    scene.run("mkdir -p 'a b/c'; cd 'a b/c'; exit 7").await;
    assert_eq!(scene.run("pwd").await.text, root.join("a b/c").display().to_string());
    assert_eq!(scene.run("(cd /); pwd").await.text, root.join("a b/c").display().to_string());

    let gone = scene.run("rm -r ../c").await;
    assert_eq!(gone.text, format!("[the working directory is gone; it is {} now]", root.display()));
    assert_eq!(scene.run("pwd").await.text, root.display().to_string());

    scene.run("cd 'a b'").await;
    fs::remove_dir(root.join("a b")).unwrap();
    let refused = scene.run("touch made").await;
    assert!(refused.is_error && refused.text.starts_with("not run: the working directory"), "{}", refused.text);
    assert!(!root.join("made").exists());
    assert_eq!(scene.run("pwd").await.text, root.display().to_string());
    assert_eq!(fs::read_dir(scene.cx.workspace.temp()).unwrap().count(), 0, "no file is left behind");
}

#[tokio::test]
async fn commands_get_a_tame_environment() {
    let scene = Scene::new();
    let outcome = scene.run("echo $TERM $PAGER $GIT_TERMINAL_PROMPT; echo $TMPDIR; env | grep -c ^PATH=").await;
    assert_eq!(outcome.text, format!("dumb cat 0\n{}\n1", scene.cx.workspace.temp().display()));
}

#[tokio::test]
async fn hidden_variables_are_not_handed_on() {
    let mut scene = Scene::new();
    let count = "env | grep -c ^HOME=";
    assert_eq!(scene.run(count).await.text, "1");
    let workspace = Workspace::new(scene.cx.workspace.root(), scene.dir.path(), Reach::Inside).unwrap();
    scene.cx.workspace = Arc::new(workspace.hide_env(["HOME".to_owned()]));
    assert_eq!(scene.run(count).await.text, "0\n[exit 1]");
}

#[tokio::test]
async fn background_jobs_end_with_the_shell() {
    let scene = Scene::new();
    let command = "sleep 300 & echo $! >pids; setsid sleep 300 & sleep 0.05; echo started";
    let outcome = scene.run(command).await;
    assert_eq!(outcome.text, "started\n[ended 2 processes that ran on in the background]");
    assert!(!outcome.is_error);
    let pid = pids(&scene.cx.workspace.root().join("pids")).unwrap()[0];
    assert!(!alive(pid));
}

#[tokio::test]
async fn what_hides_is_found() {
    let scene = Scene::hasty();
    // Its own session, its own group, no mark in its environment, and its parent is gone.
    let hide = |how: &str| {
        format!(
            "({how} sh -c 'trap \"\" INT TERM; echo $$ >>pids; while :; do sleep 1; done' &) ; while [ ! -s pids ]; do :; done"
        )
    };
    for how in ["setsid", "setsid -f", "nohup", "env -i setsid", "env -i"] {
        let _ = fs::remove_file(scene.cx.workspace.root().join("pids"));
        let outcome = scene.run(&hide(how)).await;
        let pids = pids(&scene.cx.workspace.root().join("pids")).unwrap();
        assert!(outcome.text.contains("in the background"), "{how}: {}", outcome.text);
        assert!(!alive(pids[0]), "{how}");
    }
}

#[tokio::test]
async fn commands_do_not_end_each_others_processes() {
    let (one, other) = (Scene::new(), Scene::new());
    let file = other.cx.workspace.root().join("pids");
    let long =
        "setsid sleep 300 & echo $! >pids; while [ ! -e stop ]; do sleep 0.01; done; kill -0 $(cat pids) && echo alive";
    let meanwhile = async {
        let pids = wait_for(|| pids(&file).filter(|pids| !pids.is_empty())).await;
        let outcome = one.run("sleep 300 & echo x").await;
        assert_eq!(outcome.text, "x\n[ended 1 process that ran on in the background]");
        assert!(alive(pids[0]));
        fs::write(other.cx.workspace.root().join("stop"), "").unwrap();
        pids
    };
    let (outcome, pids) = tokio::join!(other.run(long), meanwhile);
    assert!(outcome.text.starts_with("alive"), "{}", outcome.text);
    assert!(!alive(pids[0]));
}

#[tokio::test]
async fn silence_ends_a_command() {
    // However slow the machine is, this can only end one way.
    let idle = Duration::from_millis(500);
    let noises = ["sleep 300", "printf .", "printf '\\r|'; printf '\\r/'", "echo 45%", "echo", "echo again"].map(
        |noise| async move {
            let scene = Scene::limited(idle, Duration::from_mins(10));
            let outcome = scene.run(&format!("while :; do {noise}; sleep 0.05; done")).await;
            assert!(outcome.text.ends_with("[killed: no progress for 500 ms]"), "{noise}: {}", outcome.text);
            assert!(outcome.is_error);
        },
    );
    join_all(noises).await;
}

#[tokio::test]
async fn progress_keeps_a_command_alive_up_to_its_limit() {
    // Sixty times as long without output as there is between two lines.
    let (idle, total) = (Duration::from_secs(3), Duration::from_secs(4));
    let signs = ["echo line $((n += 1))", "printf \"\\rReceiving $((n += 1))%%\"", "printf \"word$((n += 1)) \""];
    join_all(signs.map(|sign| async move {
        let outcome = Scene::limited(idle, total).run(&format!("while :; do {sign}; sleep 0.05; done")).await;
        assert!(outcome.text.ends_with("[killed: it ran for 4 s]"), "{sign}: {}", outcome.text);
    }))
    .await;
}

#[tokio::test]
async fn cancelling_asks_politely_first() {
    let scene = Scene::new();
    let command = "trap 'echo cleaning up; exit 9' INT; echo $$ >pids; while :; do sleep 0.02; done";
    let (outcome, ..) = scene.cancel_after(command, 1).await;
    assert_eq!(outcome.text, "cleaning up\n[cancelled]");
    assert_eq!(outcome.meta["exit_code"], json!(9));
}

const STUBBORN: &str = "trap '' INT TERM; setsid sh -c 'trap \"\" INT TERM; echo $$ >>pids; while :; do sleep 1; done' & \
     echo $$ >>pids; echo working; while :; do sleep 1; done";

#[tokio::test]
async fn the_stubborn_are_killed() {
    let (outcome, pids, took) = Scene::hasty().cancel_after(STUBBORN, 2).await;
    assert_eq!(outcome.text, "working\n[cancelled]");
    assert!(pids.iter().all(|pid| !alive(*pid)));
    assert!(took >= Duration::from_millis(400), "{took:?}");
}

#[tokio::test]
async fn the_stubborn_are_gone_before_the_executor_gives_up() {
    let (_, pids, took) = Scene::new().cancel_after(STUBBORN, 2).await;
    assert!(pids.iter().all(|pid| !alive(*pid)));
    // Nine seconds by themselves; the executor waits for twelve.
    assert!(took >= Duration::from_secs(8) && took < Duration::from_secs(12), "{took:?}");
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let scene = Scene::new();
    let file = scene.cx.workspace.root().join("pids");
    let pids = tokio::select! {
        _ = scene.run(STUBBORN) => unreachable!("it runs for ever"),
        pids = wait_for(|| pids(&file).filter(|pids| pids.len() == 2)) => pids,
    };
    assert!(pids.iter().all(|pid| !alive(*pid)));
}

#[tokio::test]
async fn a_survivor_of_the_pipe_is_not_waited_for() {
    // The grandchild is ended, but even while it holds the pipe the result does not wait for more than the grace.
    let scene = Scene::hasty();
    let outcome = scene.run("(trap '' TERM; sleep 300) & echo done").await;
    assert!(outcome.text.starts_with("done\n[ended"), "{}", outcome.text);
}

#[tokio::test]
async fn a_flood_is_cut_and_kept() {
    let scene = Scene::new();
    let outcome = scene.run("seq 1 100000; echo error: here; seq 1 100000; exit 2").await;
    assert!(crate::shape::within_limits(&outcome.text));
    assert!(outcome.text.contains("\n100001: error: here\n") && outcome.text.ends_with("[exit 2]"));
    let kept = outcome.meta["output_path"].as_str().unwrap();
    assert_eq!(kept, scene.dir.path().join("outputs/call_1.txt").to_str().unwrap());
    assert!(outcome.text.contains(kept));
    assert_eq!(fs::read_to_string(kept).unwrap().lines().count(), 200_001);
    assert_eq!(outcome.meta["truncated"], json!(true));
}

#[tokio::test]
async fn progress_is_reported_while_it_runs() {
    let mut scene = Scene::new();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&seen);
    scene.cx.progress = Progress::new(move |text| sink.lock().unwrap().push(text));
    let root = scene.cx.workspace.root().to_owned();
    let check = async {
        wait_for(|| seen.lock().unwrap().concat().contains("first\n").then_some(())).await;
        fs::write(root.join("go"), "").unwrap();
    };
    let (outcome, ()) =
        tokio::join!(scene.run("echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"), check);
    assert_eq!(outcome.text, "first\nsecond");
    assert!(seen.lock().unwrap().len() <= 2);
}

#[tokio::test]
async fn limits_of_the_input_are_told() {
    let scene = Scene::new();
    assert!(scene.run(&"x".repeat(200_000)).await.text.contains("too long"));
    let outcome =
        Typed::new(Bash::default()).run(json!({"command": "echo", "timeout_s": Value::Null}), &scene.cx).await;
    assert!(!outcome.is_error);
}
