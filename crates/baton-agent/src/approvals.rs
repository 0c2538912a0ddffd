//! Approvals: questions to the person, and the answers that surfaces give.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use baton_core::{Access, Answer, ApprovalId, CallId, EventBody, ToolUse};
use baton_guard::Plan;
use baton_guard::path::escaped;
use baton_tools::{Ask, Question, Reply};
use tokio::sync::oneshot;

use crate::events::EventSink;
use crate::permission::shown;

/// The questions that wait for an answer.
pub(crate) struct Approvals {
    events: EventSink,
    /// Whether there is a person who could answer.
    is_attended: bool,
    waiting: Mutex<HashMap<ApprovalId, Waiting>>,
}

/// A question that waits.
struct Waiting {
    answer: oneshot::Sender<Answer>,
    /// The call that is asked about, unless it is the call that asks.
    about: Option<(ToolUse, Access)>,
    /// Whether a rule could answer it.
    is_for_rules: bool,
}

/// What is asked about a call.
pub(crate) struct Asked<'a> {
    pub(crate) call: &'a ToolUse,
    pub(crate) access: Access,
    pub(crate) reason: String,
    /// The rules that "always" would keep.
    pub(crate) rules: Vec<String>,
    /// Whether a rule could answer it.
    pub(crate) is_for_rules: bool,
}

impl Approvals {
    pub(crate) fn new(events: EventSink, is_attended: bool) -> Self {
        Self { events, is_attended, waiting: Mutex::default() }
    }

    /// Whether there is a person who could answer.
    pub(crate) fn is_attended(&self) -> bool {
        self.is_attended
    }

    /// Asks the person whether a call may run, and waits for the answer, however long it takes; `None` if there is nobody.
    pub(crate) async fn ask(&self, asked: Asked<'_>) -> Option<Answer> {
        let Asked { call, access, reason, rules, is_for_rules } = asked;
        let body = |approval: &ApprovalId| EventBody::ApprovalAsked {
            approval: approval.clone(),
            call: call.id.clone(),
            tool: call.tool.clone(),
            access,
            reason,
            what: Some(shown(call)),
            rules,
            options: Vec::new(),
        };
        self.put(body, Some((call.clone(), access)), is_for_rules).await
    }

    /// Shows the person a plan and what it grants, and waits for the answer; `None` if there is nobody.
    pub(crate) async fn ask_about_plan(&self, call: &CallId, plan: &Plan, reason: String) -> Option<Answer> {
        let body = |approval: &ApprovalId| EventBody::ApprovalAsked {
            approval: approval.clone(),
            call: call.clone(),
            tool: "plan".to_owned(),
            access: Access::Write,
            reason,
            what: Some(escaped(plan.text())),
            rules: plan.grants(),
            options: Vec::new(),
        };
        self.put(body, None, false).await
    }

    async fn put(
        &self,
        body: impl FnOnce(&ApprovalId) -> EventBody,
        about: Option<(ToolUse, Access)>,
        is_for_rules: bool,
    ) -> Option<Answer> {
        if !self.is_attended {
            return None;
        }
        let approval = ApprovalId::fresh(self.events.ids());
        let (sender, answer) = oneshot::channel();
        self.waiting().insert(approval.clone(), Waiting { answer: sender, about, is_for_rules });
        // A question whose call is cancelled is not asked any more.
        let _forgotten = Forget { approvals: self, approval: &approval };
        let item = self.events.new_item();
        self.events.emit(&item, body(&approval)).await;
        let answer = answer.await.ok()?;
        let body = EventBody::ApprovalAnswered { approval: approval.clone(), answer: answer.clone() };
        self.events.emit(&item, body).await;
        Some(answer)
    }

    /// Takes an answer; one to a question that nobody asks is dropped.
    pub(crate) fn answer(&self, approval: &ApprovalId, answer: Answer) {
        if let Some(waiting) = self.waiting().remove(approval) {
            // Whoever asked may just have been cancelled.
            drop(waiting.answer.send(answer));
        }
    }

    /// The calls that wait for an answer which rules could give.
    pub(crate) fn for_rules(&self) -> Vec<(ApprovalId, ToolUse, Access)> {
        let waiting = self.waiting();
        let pending = waiting.iter().filter(|(_, waiting)| waiting.is_for_rules).filter_map(|(approval, waiting)| {
            let (call, access) = waiting.about.clone()?;
            Some((approval.clone(), call, access))
        });
        pending.collect()
    }

    /// Gives this answer to all questions about calls.
    pub(crate) fn answer_all(&self, answer: &Answer) {
        let about_calls =
            |(approval, waiting): (&ApprovalId, &Waiting)| waiting.about.is_some().then(|| approval.clone());
        let pending: Vec<_> = self.waiting().iter().filter_map(about_calls).collect();
        for approval in pending {
            self.answer(&approval, answer.clone());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ApprovalId, Waiting>> {
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
        let body = |approval: &ApprovalId| EventBody::ApprovalAsked {
            approval: approval.clone(),
            call: call.clone(),
            tool: "ask_user".to_owned(),
            access: Access::Read,
            reason: text,
            what: None,
            rules: Vec::new(),
            options: options.clone(),
        };
        match self.put(body, None, false).await {
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
