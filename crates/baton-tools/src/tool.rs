//! The tool trait: what every tool is, whoever brings it.

use std::sync::Arc;

use async_trait::async_trait;
use baton_core::{Access, CallId, Image, ToolSpec};
use baton_guard::Grant;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::Leave;
use crate::workspace::Workspace;

/// Something an agent can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model is told.
    fn spec(&self) -> &ToolSpec;

    /// What it does to the world.
    fn access(&self) -> Access;

    /// Whether it may run beside other calls of the same answer.
    fn parallel(&self) -> bool {
        !self.access().changes()
    }

    /// Whether it ends by limits of its own, however long it takes. Any other tool is given up after two minutes.
    fn own_limits(&self) -> bool {
        self.access() == Access::Execute
    }

    /// Runs one call. Failure is an [`Outcome`] too: the model reads it.
    async fn run(&self, input: Value, cx: &CallContext) -> Outcome;
}

/// What a call may use.
#[derive(Clone)]
pub struct CallContext {
    /// The call.
    pub call: CallId,
    /// Where it works.
    pub workspace: Arc<Workspace>,
    /// Set when the turn is cancelled or the call given up: stop, change nothing more, and clean up.
    pub cancel: CancellationToken,
    /// Told about output while the tool runs.
    pub progress: Progress,
    /// Who can be asked.
    pub person: Arc<dyn Ask>,
    /// What it may touch although that has to be asked for.
    pub grant: Grant,
    /// What a command may have that others do not.
    pub leave: Leave,
}

/// What one call may do although that has to be asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permit {
    /// The files that it may touch.
    pub grant: Grant,
    /// What a command may have that others do not.
    pub leave: Leave,
}

#[cfg(test)]
impl CallContext {
    /// A call that nobody watches.
    pub(crate) fn alone(workspace: Workspace) -> Self {
        Self {
            call: CallId::new("call_1"),
            workspace: Arc::new(workspace),
            cancel: CancellationToken::new(),
            progress: Progress::none(),
            person: Arc::new(Nobody),
            grant: Grant::none(),
            leave: Leave::default(),
        }
    }
}

/// Where a tool can put a question to the person.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Asks, and waits for the answer as long as it takes.
    async fn ask(&self, call: &CallId, question: Question) -> Reply;
}

/// A question to the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub text: String,
    /// What can be answered; anything, if there are none.
    pub options: Vec<String>,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The person's answer.
    Answered(String),
    /// The person would not answer, for this reason if they gave one.
    Declined(Option<String>),
    /// There is no person.
    Nobody,
}

/// The person where there is none.
pub struct Nobody;

#[async_trait]
impl Ask for Nobody {
    async fn ask(&self, _: &CallId, _: Question) -> Reply {
        Reply::Nobody
    }
}

/// Where a running tool reports its output for people to watch.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(String) + Send + Sync>);

impl Progress {
    /// Reports to this function, which must not block.
    pub fn new(report: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    /// Reports to nobody.
    pub fn none() -> Self {
        Self::new(|_| ())
    }

    /// Reports new output.
    pub fn report(&self, text: String) {
        (self.0)(text);
    }
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// What the model reads.
    pub text: String,
    /// Pictures that go with it.
    pub images: Vec<Image>,
    /// Whether it failed, was refused or did not run.
    pub is_error: bool,
    /// Facts for surfaces; never sent to the model.
    pub meta: Map<String, Value>,
    /// Whether there is nothing left to do: the turn ends here, without another word of the model.
    pub ends_turn: bool,
}

impl Outcome {
    /// A success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A failure that the model reads and can act on.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::ok(text) }
    }

    /// Adds a fact for surfaces.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.meta.insert(key.to_owned(), value.into());
        self
    }
}
