//! Approvals: questions to the person, and the answers that surfaces give.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use baton_core::{Access, Answer, ApprovalId, CallId, EventBody};
use baton_tools::{Ask, Question, Reply};
use tokio::sync::oneshot;

use crate::events::EventSink;

/// The questions that wait for an answer.
pub(crate) struct Approvals {
    events: EventSink,
    /// Whether there is a person who could answer.
    is_attended: bool,
    waiting: Mutex<HashMap<ApprovalId, oneshot::Sender<Answer>>>,
}

/// What is asked about a call.
pub(crate) struct Asked<'a> {
    pub(crate) call: &'a CallId,
    pub(crate) tool: &'a str,
    pub(crate) access: Access,
    pub(crate) reason: String,
    pub(crate) options: Vec<String>,
}

impl Approvals {
    pub(crate) fn new(events: EventSink, is_attended: bool) -> Self {
        Self { events, is_attended, waiting: Mutex::default() }
    }

    /// Asks the person and waits for the answer, however long it takes; `None` if there is nobody.
    pub(crate) async fn ask(&self, asked: Asked<'_>) -> Option<Answer> {
        if !self.is_attended {
            return None;
        }
        let approval = ApprovalId::fresh(self.events.ids());
        let (sender, answer) = oneshot::channel();
        self.waiting().insert(approval.clone(), sender);
        // A question whose call is cancelled is not asked any more.
        let _forgotten = Forget { approvals: self, approval: &approval };
        let item = self.events.new_item();
        let Asked { call, tool, access, reason, options } = asked;
        let (call, tool) = (call.clone(), tool.to_owned());
        let body = EventBody::ApprovalAsked { approval: approval.clone(), call, tool, access, reason, options };
        self.events.emit(&item, body).await;
        let answer = answer.await.ok()?;
        let body = EventBody::ApprovalAnswered { approval: approval.clone(), answer: answer.clone() };
        self.events.emit(&item, body).await;
        Some(answer)
    }

    /// Takes an answer; one to a question that nobody asks is dropped.
    pub(crate) fn answer(&self, approval: &ApprovalId, answer: Answer) {
        if let Some(sender) = self.waiting().remove(approval) {
            // Whoever asked may just have been cancelled.
            drop(sender.send(answer));
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ApprovalId, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Forget<'a> {
    approvals: &'a Approvals,
    approval: &'a ApprovalId,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.approvals.waiting().remove(self.approval);
    }
}

#[async_trait]
impl Ask for Approvals {
    async fn ask(&self, call: &CallId, question: Question) -> Reply {
        let Question { text, options } = question;
        let asked = Asked { call, tool: "ask_user", access: Access::Read, reason: text, options: options.clone() };
        match Approvals::ask(self, asked).await {
            None => Reply::Nobody,
            Some(Answer::Text { text }) => Reply::Answered(text),
            Some(Answer::Reject { reason }) => Reply::Declined(reason),
            // A surface that only knows yes means the first of the options.
            Some(Answer::Once | Answer::Session | Answer::Always) => {
                Reply::Answered(options.into_iter().next().unwrap_or_else(|| "yes".to_owned()))
            }
        }
    }
}
