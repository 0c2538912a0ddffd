//! The record: every call is written down in the audit log before it runs.

use std::sync::Arc;
use std::time::Duration;

use baton_core::{Clock, ToolUse};
use baton_guard::Plan;
use baton_guard::audit::{self, Audit};

/// How long an entry may take. Somebody who holds the log for longer has been stopped half-way.
const APPEND_MAX: Duration = Duration::from_secs(10);

/// Where the calls of one agent are written down.
#[derive(Clone)]
pub struct Record {
    audit: Arc<Audit>,
    clock: Arc<dyn Clock>,
    actor: String,
}

impl Record {
    /// Writes down what this agent does.
    pub fn new(audit: Audit, clock: Arc<dyn Clock>, actor: String) -> Self {
        Self { audit: Arc::new(audit), clock, actor }
    }

    /// Writes down a call and what was decided about it; why it could not be, in which case nothing may run.
    pub(crate) async fn note(&self, call: &ToolUse, decision: audit::Decision) -> Result<(), String> {
        self.append("tool", format!("{} {}", call.tool, call.input), decision).await
    }

    /// Writes down what the person said about a plan; why it could not be, in which case nothing is granted.
    pub(crate) async fn note_plan(&self, plan: &Plan, decision: audit::Decision) -> Result<(), String> {
        self.append("plan", plan.in_one_line(), decision).await
    }

    async fn append(&self, kind: &str, what: String, decision: audit::Decision) -> Result<(), String> {
        let record = audit::Record { kind: kind.to_owned(), actor: self.actor.clone(), what, decision: Some(decision) };
        let (audit, at) = (Arc::clone(&self.audit), self.clock.now());
        let appending = tokio::task::spawn_blocking(move || audit.append(at, record));
        match tokio::time::timeout(APPEND_MAX, appending).await {
            Ok(Ok(Ok(_))) => Ok(()),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the audit log at {} is held by somebody else", self.audit.file().display())),
        }
    }

    /// Makes what was written down so far survive power loss; why it may not.
    pub(crate) async fn sync(&self) -> Result<(), String> {
        let audit = Arc::clone(&self.audit);
        let syncing = tokio::task::spawn_blocking(move || audit.sync());
        match tokio::time::timeout(APPEND_MAX, syncing).await {
            Ok(Ok(synced)) => synced.map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the disk takes too long".to_owned()),
        }
    }
}
