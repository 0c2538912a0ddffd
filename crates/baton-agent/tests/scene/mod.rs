//! A conversation in a directory of its own, with a script for a model and a test for a person.

#![allow(dead_code, reason = "each test uses another part of it")]

pub mod stage;

use std::sync::Arc;

use baton_agent::{Conversation, Events, Options, Permissions, RandomIds, SystemClock, TurnLimits};
use baton_core::{
    AgentRole, Answer, ApprovalId, Block, EventBody, EventSource, Op, PermissionMode, SessionId, TurnReason,
};
use baton_llm::script::Script;
use baton_llm::{Budget, Caps, Gate, RehearsalProvider, RetryPolicy};
use baton_tools::{Executor, Reach, Registry, Workspace};

pub struct Scene {
    pub conversation: Conversation,
    pub events: Events,
    pub dir: tempfile::TempDir,
}

impl Scene {
    /// Everything is allowed.
    pub fn new(script: &str) -> Self {
        Self::with(script, Permissions::of(PermissionMode::Yolo))
    }

    /// A person is there to be asked.
    pub fn with(script: &str, permissions: Permissions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
        let gate = Arc::new(Gate::new(RetryPolicy::default(), clock.clone()));
        let provider = RehearsalProvider::new(Script::parse("test", script).unwrap(), clock.clone());
        let model = gate.model("script/test".parse().unwrap(), None, Arc::new(provider));
        let is_free = permissions.mode == PermissionMode::Yolo;
        let reach = if is_free { Reach::Anywhere } else { Reach::Inside };
        let workspace = Workspace::new(dir.path(), dir.path().join("outputs"), reach).unwrap();
        let (conversation, events) = Conversation::start(Options {
            source: EventSource::new(SessionId::fresh(&*ids), clock, ids),
            model,
            web_search: false,
            gate,
            executor: Executor::new(Registry::builtin(), Arc::new(workspace)),
            permissions,
            limits: TurnLimits::default(),
            budgets: vec![Budget::new("session", Caps::default())],
            role: AgentRole::default(),
            opening: Vec::new(),
            notices: Vec::new(),
            answer_schema: None,
            is_attended: true,
            compaction: baton_agent::CompactionSettings::default(),
            session: None,
            history: None,
        });
        Self { conversation, events, dir }
    }

    pub async fn say(&self, op: fn(Vec<Block>) -> Op, text: &str) {
        self.conversation.submit(op(vec![Block::text(text)])).await;
    }

    /// Waits for an event and returns it.
    pub async fn until(&mut self, fits: impl Fn(&EventBody) -> bool) -> EventBody {
        loop {
            let event = self.events.next().await.expect("the conversation goes on");
            if fits(&event.body) {
                return event.body;
            }
        }
    }

    pub async fn end(&mut self) -> (TurnReason, String) {
        match self.until(|body| matches!(body, EventBody::TurnEnded { .. })).await {
            EventBody::TurnEnded { reason, text, .. } => (reason, text),
            _ => unreachable!("that is what was waited for"),
        }
    }

    pub async fn tool_output(&mut self) -> String {
        match self.until(|body| matches!(body, EventBody::ToolEnded { .. })).await {
            EventBody::ToolEnded { output, .. } => output,
            _ => unreachable!("that is what was waited for"),
        }
    }

    /// Waits for a question: its number, what would be done, and the rules that "always" would keep.
    pub async fn asked(&mut self) -> (ApprovalId, String, Vec<String>) {
        match self.until(|body| matches!(body, EventBody::ApprovalAsked { .. })).await {
            EventBody::ApprovalAsked { approval, what, rules, .. } => (approval, what.unwrap_or_default(), rules),
            _ => unreachable!("that is what was waited for"),
        }
    }

    pub async fn answer(&self, approval: ApprovalId, answer: Answer) {
        self.conversation.submit(Op::Answer { approval, answer }).await;
    }
}

pub fn prompt(content: Vec<Block>) -> Op {
    Op::Prompt { content }
}
