//! The executor: runs calls so that whatever happens, each gets one answer of bounded size.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::ToolUse;
use futures_util::FutureExt;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::shape::{HeadTail, within_limits};
use crate::spool::Spool;
use crate::{CallContext, Outcome, Progress, Registry, Workspace};

/// How many calls run beside each other at most.
const PARALLEL_MAX: usize = 8;

/// A cancelled tool that takes longer is given up. `bash` needs up to nine seconds for the most stubborn processes.
const CANCEL_GRACE: Duration = Duration::from_secs(12);

/// Runs the calls of an agent in its workspace.
#[derive(Clone)]
pub struct Executor {
    registry: Registry,
    workspace: Arc<Workspace>,
}

impl Executor {
    /// Runs these tools in this workspace.
    pub fn new(registry: Registry, workspace: Arc<Workspace>) -> Self {
        Self { registry, workspace }
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where they work.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// Splits the calls of one answer, in their order, into groups whose calls may run at the same time.
    pub fn groups<'a>(&self, calls: &'a [ToolUse]) -> Vec<&'a [ToolUse]> {
        calls
            .chunk_by(|one, next| self.parallel(one) && self.parallel(next))
            .flat_map(|group| group.chunks(PARALLEL_MAX))
            .collect()
    }

    fn parallel(&self, call: &ToolUse) -> bool {
        self.registry.get(&call.tool).is_some_and(|tool| tool.parallel())
    }

    /// Runs one call. Never fails and never panics: what goes wrong is an outcome that the model reads.
    pub async fn run(&self, call: &ToolUse, cancel: CancellationToken, progress: Progress) -> Outcome {
        if let Some(raw) = &call.malformed {
            return Outcome::error(malformed(&call.tool, raw));
        }
        let Some(tool) = self.registry.get(&call.tool) else {
            let names: Vec<_> = self.registry.names().collect();
            return Outcome::error(format!("there is no tool `{}`; the tools are: {}", call.tool, names.join(", ")));
        };
        if cancel.is_cancelled() {
            return Outcome::error("cancelled");
        }
        let cx = CallContext { call: call.id.clone(), workspace: Arc::clone(&self.workspace), cancel, progress };
        let work = AssertUnwindSafe(tool.run(call.input.clone(), &cx)).catch_unwind();
        let outcome = tokio::select! {
            outcome = work => outcome.unwrap_or_else(|panic| {
                Outcome::error(format!("the tool `{}` crashed: {}", call.tool, reason(&*panic)))
            }),
            () = overdue(&cx.cancel) => Outcome::error("cancelled; the tool did not stop in time"),
        };
        self.bounded(call, outcome).await
    }

    /// Cuts what a tool let through and keeps the whole in a file.
    async fn bounded(&self, call: &ToolUse, mut outcome: Outcome) -> Outcome {
        if within_limits(&outcome.text) {
            return outcome;
        }
        let mut shaped = HeadTail::default();
        shaped.push(&outcome.text);
        let mut spool = Spool::new(self.workspace.outputs(), call.id.as_str());
        spool.push(&outcome.text, true).await;
        let kept = spool.finish().await;
        outcome.text = shaped.finish().text;
        outcome.text.push_str(&kept.note());
        outcome.meta.insert("truncated".to_owned(), true.into());
        kept.tell(&mut outcome.meta);
        outcome
    }
}

/// Waits until a tool should have noticed that it is cancelled.
async fn overdue(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CANCEL_GRACE).await;
}

fn malformed(tool: &str, raw: &str) -> String {
    let problem = match serde_json::from_str::<Map<String, Value>>(raw) {
        Ok(_) => "it could not be taken as JSON".to_owned(),
        Err(error) => error.to_string(),
    };
    let start = &raw[..raw.floor_char_boundary(200)];
    let more = if start.len() < raw.len() { "..." } else { "" };
    format!("the input for `{tool}` is not a JSON object: {problem}; the call did not run. It was: {start}{more}")
}

fn reason(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}
