//! The workshop: runs the conductor's own commands (set-up, verification, actions), kept in, and tells how they ended.

use std::time::Duration;

use baton_core::{CallId, ToolUse};
use baton_tools::{Executor, Progress};
use baton_workflow::Argv;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A command of the project that is silent for longer hangs.
const SILENCE_MAX: Duration = Duration::from_mins(30);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    /// The exit code; none if it was stopped or could not be started.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// What it wrote, shortened in the middle.
    pub(crate) output: String,
    pub(crate) duration_ms: u64,
}

/// How often a command that was killed is tried.
const TRIES: usize = 3;
/// What a shell says of a command that was killed.
const KILLED: i32 = 128 + 9;

/// Runs a command whose end decides something. One that somebody killed has decided nothing: it is run again, and if that
/// is no help it has not ended by itself.
pub(crate) async fn run_to_its_end(tools: &Executor, argv: &Argv, cancel: &CancellationToken) -> Ran {
    let mut ran = run(tools, argv, cancel).await;
    for _ in 1..TRIES {
        if !ran.was_killed() || cancel.is_cancelled() {
            break;
        }
        ran = run(tools, argv, cancel).await;
    }
    if ran.was_killed() {
        ran.code = None;
    }
    ran
}

impl Ran {
    fn was_killed(&self) -> bool {
        self.signal == Some(9) || self.code == Some(KILLED)
    }
}

/// Runs a command where these tools work.
pub(crate) async fn run(tools: &Executor, argv: &Argv, cancel: &CancellationToken) -> Ran {
    let words = argv.words();
    let command = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default();
    let call = ToolUse {
        id: CallId::new("conductor"),
        tool: "bash".to_owned(),
        input: json!({"command": command, "timeout_s": SILENCE_MAX.as_secs()}),
        malformed: None,
    };
    let outcome = tools.run(&call, cancel.clone(), Progress::none()).await;
    let number = |key: &str| outcome.meta.get(key).and_then(serde_json::Value::as_i64);
    let small = |key: &str| number(key).and_then(|number| i32::try_from(number).ok());
    let duration_ms = number("duration_ms").and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let (code, signal) = (small("exit_code"), small("signal"));
    Ran { code, signal, output: outcome.text, duration_ms }
}
