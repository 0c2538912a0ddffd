//! The executor: runs calls so that whatever happens, each gets one answer of bounded size.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::ToolUse;
use futures_util::FutureExt;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::redacting::redacted;
use crate::shape::{HeadTail, in_words, within_limits};
use crate::spool::Spool;
use crate::{Ask, CallContext, Nobody, Outcome, Permit, Progress, Registry, Tool, Workspace};

/// How many calls run beside each other at most.
const PARALLEL_MAX: usize = 8;

/// A tool without limits of its own that takes longer is given up: it may hang in a file system that is gone.
const DEADLINE: Duration = Duration::from_mins(2);

/// A cancelled tool that takes longer is given up. `bash` needs up to nine seconds for the most stubborn processes, and it
/// is good to know whether a change was made; what only looks need not be waited for.
const CANCEL_GRACE: Duration = Duration::from_secs(12);
const CANCEL_GRACE_READ: Duration = Duration::from_secs(1);

/// Runs the calls of an agent in its workspace.
#[derive(Clone)]
pub struct Executor {
    registry: Registry,
    workspace: Arc<Workspace>,
    deadline: Duration,
    person: Arc<dyn Ask>,
}

impl Executor {
    /// Runs these tools in this workspace.
    pub fn new(registry: Registry, workspace: Arc<Workspace>) -> Self {
        Self { registry, workspace, deadline: DEADLINE, person: Arc::new(Nobody) }
    }

    /// Gives tools that have no limits of their own this much time instead of two minutes.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Tools may ask this person; without this there is nobody to ask.
    #[must_use]
    pub fn with_person(mut self, person: Arc<dyn Ask>) -> Self {
        self.person = person;
        self
    }

    /// One tool more, behind the others.
    #[must_use]
    pub fn with_tool(mut self, tool: impl Tool + 'static) -> Self {
        self.registry = self.registry.with(tool);
        self
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

    /// Runs one call that may do what nobody has to be asked for.
    pub async fn run(&self, call: &ToolUse, cancel: CancellationToken, progress: Progress) -> Outcome {
        self.run_with(call, Permit::default(), cancel, progress).await
    }

    /// Runs one call. Never fails and never panics: what goes wrong is an outcome that the model reads.
    pub async fn run_with(
        &self,
        call: &ToolUse,
        Permit { grant, leave }: Permit,
        cancel: CancellationToken,
        progress: Progress,
    ) -> Outcome {
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
        let cancel = cancel.child_token();
        // Work in other threads that is given up here, or dropped with the turn, is told to stop.
        let _stop = cancel.clone().drop_guard();
        let (workspace, person) = (Arc::clone(&self.workspace), Arc::clone(&self.person));
        let cx = CallContext { call: call.id.clone(), workspace, cancel, progress, person, grant, leave };
        let work = AssertUnwindSafe(tool.run(call.input.clone(), &cx)).catch_unwind();
        let outcome = tokio::select! {
            outcome = work => outcome.unwrap_or_else(|panic| {
                Outcome::error(format!("the tool `{}` crashed: {}", call.tool, reason(&*panic)))
            }),
            why = self.overdue(tool.as_ref(), &cx.cancel) => Outcome::error(why),
        };
        self.bounded(call, redacted(self.workspace.redactor(), outcome)).await
    }

    /// Waits until a tool has to be given up; why, for the model. A thread that hangs in the kernel cannot be ended: it is
    /// left behind.
    async fn overdue(&self, tool: &dyn Tool, cancel: &CancellationToken) -> String {
        let deadline = async {
            if tool.own_limits() {
                std::future::pending::<()>().await;
            } else {
                tokio::time::sleep(self.deadline).await;
            }
        };
        let looks = !tool.access().changes();
        let doubt = if looks { "" } else { "; it is not known what it changed: look before you repeat it" };
        tokio::select! {
            () = cancel.cancelled() => {
                tokio::time::sleep(if looks { CANCEL_GRACE_READ } else { CANCEL_GRACE }).await;
                format!("cancelled; the tool did not stop in time{doubt}")
            }
            () = deadline => {
                let limit = in_words(self.deadline);
                format!("given up: `{}` did not finish within {limit}{doubt}", tool.spec().name)
            }
        }
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
