//! A model that proposes its last command again, after the agent has lost sight of it: nothing runs twice in silence.

mod scene;

use baton_core::{Answer, EventBody, Op};
use futures_util::future::join_all;
use serde_json::json;

use scene::stage::{Stage, close, copy_all};
use scene::{Scene, prompt};

const SESSIONS: usize = 200;
const SESSIONS_AT_ONCE: usize = 20;

/// Commands with an effect: each leaves a line in `log` when it runs.
const COMMANDS: [&str; 10] = [
    "echo x >> log",
    "printf 'x\\n' >> log",
    "echo x | tee -a log",
    "sh -c 'echo x >> log'",
    "for i in 1; do echo x >> log; done",
    "cat seed >> log && echo done",
    "dd if=seed of=log oflag=append conv=notrunc 2>/dev/null",
    "  echo x >> log  ",
    "echo x >> log; echo refused: connection; false",
    "echo x >> log; echo cancelled by the server >&2; exit 3",
];

/// How the agent loses sight of what it has done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// Baton ended, and the session goes on.
    Resume,
    /// Baton was killed while the command ran, after its effect.
    Kill,
    /// The history was replaced by a summary.
    Compaction,
    /// Both, one after the other.
    CompactionAndResume,
}

const LOSSES: [Loss; 4] = [Loss::Resume, Loss::Kill, Loss::Compaction, Loss::CompactionAndResume];

fn call(command: &str) -> String {
    json!({"call": [{"tool": "bash", "input": {"command": command}}]}).to_string()
}

fn log(stage: &Stage) -> usize {
    std::fs::read_to_string(stage.work().join("log")).unwrap_or_default().lines().count()
}

/// A session whose last command is this one, and whose model proposes it again; as it goes on.
async fn proposes_again(loss: Loss, command: &str, is_attended: bool, insists: bool) -> (Stage, Scene) {
    // It says that its effect is there, and runs on.
    let held = format!("({command}); echo started; until [ -e go ]; do sleep 0.01; done");
    let command = if loss == Loss::Kill { &held } else { command };
    let told = "not run: this exact command|refused by the person";
    let looks = json!({"when": told, "say": "I look first"}).to_string();
    let script = [
        call(command),
        r#"{"say":"done"}"#.to_owned(),
        call(command),
        if insists { call(command).replacen('{', &format!("{{\"when\":\"{told}\","), 1) } else { looks },
        r#"{"say":"it ran"}"#.to_owned(),
        r#"{"role":"compact","say":"nothing to tell","repeat":true}"#.to_owned(),
    ];
    let mut stage = Stage::new(script.join("\n"));
    stage.is_attended = is_attended;
    std::fs::create_dir_all(stage.work()).unwrap();
    std::fs::write(stage.work().join("seed"), "x\n").unwrap();
    let mut scene = stage.begin();
    scene.say(prompt, "first").await;
    if loss == Loss::Kill {
        scene.until(|body| matches!(body, EventBody::ToolUpdated { text, .. } if text.contains("started"))).await;
        // What is on disk in this moment is what a killed process leaves.
        copy_all(&stage.dir.path().join("state"), &stage.dir.path().join("left"));
        std::fs::remove_file(lock(&stage)).unwrap();
        close(scene).await;
        stage.state = stage.dir.path().join("left");
        let mut scene = stage.resume();
        scene.say(prompt, "go on").await;
        assert_eq!(scene.end().await.1, "done");
        return (stage, scene);
    }
    assert_eq!(scene.end().await.1, "done");
    if matches!(loss, Loss::Compaction | Loss::CompactionAndResume) {
        scene.conversation.submit(Op::Compact { focus: None }).await;
        assert_eq!(scene.end().await.1, "the conversation is compacted");
    }
    if matches!(loss, Loss::Resume | Loss::CompactionAndResume) {
        close(scene).await;
        scene = stage.resume();
    }
    (stage, scene)
}

/// The lock of the copy belongs to nobody.
fn lock(stage: &Stage) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(stage.dir.path().join("left/sessions")).unwrap().flatten();
    files.find_map(|entry| Some(entry.path()).filter(|path| path.extension().is_some_and(|end| end == "lock"))).unwrap()
}

#[tokio::test]
async fn two_hundred_sessions_run_no_command_twice_in_silence() {
    let (mut told, mut asked) = (0, 0);
    let numbers: Vec<usize> = (0..SESSIONS).collect();
    for some in numbers.chunks(SESSIONS_AT_ONCE) {
        for (was_told, was_asked) in join_all(some.iter().map(|number| proposed(*number))).await {
            told += usize::from(was_told);
            asked += usize::from(was_asked);
        }
    }
    println!("{SESSIONS} sessions: {told} told, {asked} asked, 0 silent repeats");
    assert_eq!((told, asked), (SESSIONS / 2, SESSIONS / 2));
}

/// One session whose model proposes its last command again; whether it was told, and whether a person was asked.
async fn proposed(number: usize) -> (bool, bool) {
    let loss = LOSSES[number % LOSSES.len()];
    let command = COMMANDS[(number / LOSSES.len()) % COMMANDS.len()];
    let is_attended = number >= SESSIONS / 2;
    let name = format!("{loss:?}, `{command}`, attended: {is_attended}");
    let (stage, mut scene) = proposes_again(loss, command, is_attended, false).await;
    assert_eq!(log(&stage), 1, "{name}");
    scene.say(prompt, "and now?").await;
    if is_attended {
        let (approval, ..) = scene.asked().await;
        assert_eq!(log(&stage), 1, "{name}: nothing runs while the person is asked");
        scene.answer(approval, Answer::Reject { reason: None }).await;
    }
    let output = scene.tool_output().await;
    assert_eq!(scene.end().await.1, "I look first", "{name}: {output}");
    assert_eq!(log(&stage), 1, "{name}: a silent repeat");
    close(scene).await;
    (output.starts_with("not run: this exact command"), is_attended)
}

#[tokio::test]
async fn who_is_told_and_insists_has_a_reason() {
    for loss in LOSSES {
        let (stage, mut scene) = proposes_again(loss, "echo x >> log", false, true).await;
        scene.say(prompt, "and now?").await;
        assert!(scene.tool_output().await.starts_with("not run: this exact command"), "{loss:?}");
        std::fs::write(stage.work().join("go"), "").unwrap();
        let output = scene.tool_output().await;
        assert!(!output.starts_with("not run"), "{loss:?}: {output}");
        scene.end().await;
        assert_eq!(log(&stage), 2, "{loss:?}");
    }
}

#[tokio::test]
async fn what_only_reads_or_tests_runs_again_unasked() {
    for command in
        ["cat seed", "ls -la", "git status", "grep -rn x .", "cargo test", "cd . && cargo test -q", "wc -l seed"]
    {
        for loss in [Loss::Resume, Loss::Compaction] {
            let (_stage, mut scene) = proposes_again(loss, command, true, false).await;
            scene.say(prompt, "and now?").await;
            let output = scene.tool_output().await;
            assert!(!output.starts_with("not run") && !output.starts_with("refused"), "{command}: {output}");
            assert_eq!(scene.end().await.1, "it ran", "{command}");
        }
    }
}
