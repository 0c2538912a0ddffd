//! The event stream: what a conversation tells its surfaces, one JSON object each, in one order.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Access, Answer, ApprovalId, CallId, Clock, EventId, Fault, IdSource, Image, ItemId, Message, PermissionMode,
    SessionId, StopReason, Tier, Usage, Usd,
};

/// One event. `kind` and its fields come from [`EventBody`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Who, when and to which group; the same fields in every event.
    #[serde(flatten)]
    pub stamp: EventStamp,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// The fields every event has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventStamp {
    /// The version of this form: 1.
    pub v: u8,
    /// This event.
    pub id: EventId,
    /// The session it belongs to.
    pub session: SessionId,
    /// Groups the start, the deltas and the end of one thing.
    pub item: ItemId,
    /// When it happened.
    pub at: Timestamp,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum EventBody {
    /// The session is open.
    #[serde(rename = "session.start")]
    SessionStarted {
        /// The directory the agent works in.
        cwd: String,
        /// The model, as `provider/name`.
        model: String,
        /// The permission mode.
        mode: PermissionMode,
        /// What keeps commands in: `namespaces`, `landlock` or `none`.
        #[serde(default)]
        sandbox: String,
        /// The version of Baton.
        version: String,
        /// The tools on offer, in order.
        tools: Vec<String>,
    },
    /// A turn begins.
    #[serde(rename = "turn.start")]
    TurnStarted {
        /// What the person said.
        message: Message,
        /// How many blocks at its beginning are facts that Baton adds, not words of the person.
        #[serde(default, skip_serializing_if = "is_zero")]
        context: u32,
    },
    /// A model call begins.
    #[serde(rename = "step.start")]
    StepStarted {
        /// Counts from 1 in each turn.
        step: u32,
    },
    /// The model begins to answer.
    #[serde(rename = "message.start")]
    MessageStarted,
    /// The model said something more.
    #[serde(rename = "message.delta")]
    MessageDelta {
        /// The new text.
        text: String,
    },
    /// The model thought something more.
    #[serde(rename = "thinking.delta")]
    ThinkingDelta {
        /// The new text.
        text: String,
    },
    /// The model's answer is complete.
    #[serde(rename = "message.end")]
    MessageEnded {
        /// The whole answer.
        message: Message,
        /// Why it ended; absent when the answer broke off and will be asked for again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<StopReason>,
    },
    /// A tool call is about to run.
    #[serde(rename = "tool.start")]
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// Its input.
        input: Value,
    },
    /// A running tool printed something.
    #[serde(rename = "tool.update")]
    ToolUpdated {
        /// The call.
        call: CallId,
        /// The new output.
        text: String,
    },
    /// A tool call has its answer.
    #[serde(rename = "tool.end")]
    ToolEnded {
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// What the model reads.
        output: String,
        /// Pictures that go with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
        /// Whether it failed, was refused or did not run.
        is_error: bool,
        /// How long it took.
        duration_ms: u64,
        /// Facts for surfaces (exit code, path of the full output, diff); never sent to the model.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
    /// A person is asked whether a call may run, or what a call wants to know.
    #[serde(rename = "approval.asked")]
    ApprovalAsked {
        /// The question.
        approval: ApprovalId,
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// What it would do to the world.
        access: Access,
        /// Why it is asked, or the question.
        reason: String,
        /// What it would do, in its exact words; what a terminal would obey or hide is written out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        what: Option<String>,
        /// The rules that the answer "always" would keep.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<String>,
        /// What can be answered, if it is a question with options.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
    },
    /// The person has answered.
    #[serde(rename = "approval.answered")]
    ApprovalAnswered {
        /// The question.
        approval: ApprovalId,
        /// The answer.
        answer: Answer,
    },
    /// The history was replaced by a summary.
    #[serde(rename = "compaction")]
    Compacted {
        /// Estimated tokens of the history before.
        before_tokens: u64,
        /// Estimated tokens of the history after.
        after_tokens: u64,
    },
    /// An agent started another one.
    #[serde(rename = "subagent.start")]
    SubagentStarted {
        /// The agent's type.
        agent: String,
        /// Its own session.
        child: SessionId,
        /// What it was asked.
        prompt: String,
    },
    /// The other agent is done.
    #[serde(rename = "subagent.end")]
    SubagentEnded {
        /// Its own session.
        child: SessionId,
        /// How its turn ended.
        reason: TurnReason,
        /// What it answered.
        text: String,
    },
    /// A model call was paid for.
    #[serde(rename = "usage")]
    UsageReported {
        /// The model, as `provider/name`.
        model: String,
        /// Of this call.
        usage: Usage,
        /// Of this call; absent where the price is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<Usd>,
    },
    /// A model call failed and will be made again.
    #[serde(rename = "retry")]
    Retrying {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// How many attempts there are at most.
        attempts_max: u32,
        /// How long until the next.
        delay_ms: u64,
        /// When the next is made.
        until: Timestamp,
        /// What kind of failure.
        tier: Tier,
        /// What happened.
        reason: String,
    },
    /// Something the person should know; the work goes on.
    #[serde(rename = "notice")]
    Noticed {
        /// What it is.
        text: String,
    },
    /// Something failed for good.
    #[serde(rename = "error")]
    Failed(Fault),
    /// A model call and its tools are done.
    #[serde(rename = "step.end")]
    StepEnded {
        /// Counts from 1 in each turn.
        step: u32,
    },
    /// The turn is over.
    #[serde(rename = "turn.end")]
    TurnEnded {
        /// How it ended.
        reason: TurnReason,
        /// The final text.
        text: String,
        /// The final answer as a value, where a schema was given that it had to match.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Value>,
        /// Of all calls of the turn.
        usage: Usage,
        /// Of all calls of the turn whose price is known.
        cost_usd: Usd,
        /// How many model calls were made.
        steps: u32,
        /// How long it took.
        duration_ms: u64,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnReason {
    /// The agent said that it is finished.
    Done,
    /// The agent could not do the task.
    Failed,
    /// A fault ended it; an `error` event came before.
    Error,
    /// The cap on steps.
    Steps,
    /// The cap on money or tokens.
    Budget,
    /// The cap on time.
    Time,
    /// A person or signal ended it.
    Cancelled,
    /// A person is needed.
    Blocked,
}

/// Stamps the events of one session.
#[derive(Clone)]
pub struct EventSource {
    session: SessionId,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl EventSource {
    /// A source for the session.
    pub fn new(session: SessionId, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self { session, clock, ids }
    }

    /// The session whose events these are.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The clock that stamps the events.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The source of ids.
    pub fn ids(&self) -> &dyn IdSource {
        &*self.ids
    }

    /// An event of a group.
    pub fn event(&self, item: &ItemId, body: EventBody) -> Event {
        let stamp = EventStamp {
            v: 1,
            id: EventId::fresh(&*self.ids),
            session: self.session.clone(),
            item: item.clone(),
            at: self.clock.now(),
        };
        Event { stamp, body }
    }

    /// An event that stands alone: a group of one.
    pub fn lone(&self, body: EventBody) -> Event {
        self.event(&ItemId::fresh(&*self.ids), body)
    }
}
