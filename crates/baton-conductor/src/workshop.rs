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
    /// What it wrote, shortened in the middle.
    pub(crate) output: String,
    pub(crate) duration_ms: u64,
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
    let code =
        outcome.meta.get("exit_code").and_then(serde_json::Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let duration_ms = outcome.meta.get("duration_ms").and_then(serde_json::Value::as_u64).unwrap_or(0);
    Ran { code, output: outcome.text, duration_ms }
}
