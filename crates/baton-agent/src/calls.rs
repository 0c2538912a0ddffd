//! Running the calls of one answer: each gets a result, whatever happens, and what repeats itself is stopped.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::{Access, Answer, Area, EventBody, Fault, ItemId, Tier, ToolResult, ToolUse, TurnReason};
use baton_guard::{self as guard, audit};
use baton_session::Carried;
use baton_tools::{Outcome, Permit, Progress};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::again::{self, Before};
use crate::approvals::Asked;
use crate::conversation::Steering;
use crate::permission::{Judgement, refusal};
use crate::repetition::{Trace, Verdict};
use crate::strikes::Strikes;
use crate::turn::{Agent, End, Stop};

/// What is watched over the calls since the person last spoke.
#[derive(Default)]
pub(crate) struct Watch {
    trace: Trace,
    strikes: Strikes,
    /// The question that nobody was there to answer, as long as the work has not gone on without it.
    unanswered: Option<String>,
    /// Whether the person has rejected a call of the answer that is worked on.
    is_rejected: bool,
    /// Why nothing may run any more.
    stopped: Option<String>,
    /// Whether a tool has ended the turn.
    is_over: bool,
    before: Before,
}

impl Watch {
    pub(crate) fn person_spoke(&mut self) {
        self.trace.person_spoke();
        self.strikes = Strikes::default();
        self.unanswered = None;
    }

    /// The agent does not see any more, or never saw, what it has done so far.
    pub(crate) fn lost_sight(&mut self, carried: &Carried) {
        self.before.lost_sight(carried);
    }

    fn step_ended(&mut self) {
        self.trace.step_ended();
        self.is_rejected = false;
        self.strikes.step_ended();
    }

    /// Notes what came of a call that ran; whether that was an edit too many.
    fn ran(&mut self, call: &ToolUse, access: Access, outcome: &Outcome) -> bool {
        self.trace.ran(call, access, outcome);
        self.is_over |= outcome.ends_turn;
        if outcome.meta.contains_key("unanswered") {
            self.unanswered = call.input["question"].as_str().map(str::to_owned);
        } else if access != Access::Read && !outcome.is_error {
            self.unanswered = None;
        }
        let was_refused = outcome.is_error && outcome.text.starts_with("refused: ");
        access == Access::Write && !was_refused && !self.strikes.is_out() && self.strikes.edited(call, outcome)
    }

    /// Why an agent that says it is done needs a person all the same.
    pub(crate) fn needs_person(&self) -> Option<Fault> {
        let fault = |message: String| Fault::new(Area::Person, Tier::UserFixable, message);
        if self.strikes.is_out() {
            let message = "three edits failed for the same cause, so editing was stopped".to_owned();
            return Some(fault(message).hint("read the agent's report, mend the cause, and say how to go on"));
        }
        let question = self.unanswered.as_ref()?;
        Some(fault(format!("nobody was there to answer: {question}")).hint("say it in the prompt, and start again"))
    }
}

const STRUCK_OUT: &str = "not run: editing was stopped because three edits failed for the same cause. Only reading is \
                          possible until you have reported and a person has answered.";

impl Agent {
    /// Runs the calls of one answer.
    pub(crate) async fn run_tools(
        &self,
        calls: &[ToolUse],
        stop: &Stop<'_>,
        steering: &Steering,
    ) -> (Vec<ToolResult>, Option<End>) {
        let mut results = Vec::with_capacity(calls.len());
        let mut end = None;
        for group in self.executor.groups(calls) {
            let skipped = match &end {
                Some(_) => Some("not run: the turn was ended"),
                None if self.watch().is_rejected => {
                    Some("not run: the person has rejected another call of this answer")
                }
                None if !steering.is_empty() => Some("not run: the person has something to say first"),
                None => None,
            };
            if let Some(why) = skipped {
                for call in group {
                    results.push(self.answer_call(call, Outcome::error(why)).await);
                }
                continue;
            }
            let verdicts: Vec<_> = group.iter().map(|call| self.watch().trace.judge(call)).collect();
            let cancel = CancellationToken::new();
            let running = group.iter().zip(&verdicts).map(|(call, verdict)| self.run_tool(call, verdict, &cancel));
            let running = join_all(running);
            tokio::pin!(running);
            results.extend(tokio::select! {
                done = &mut running => done,
                ended = stop.called() => {
                    end = Some(ended);
                    // Tools clean up after themselves, within a limit of their own.
                    cancel.cancel();
                    running.await
                }
            });
            if end.is_none() {
                end = self.watch().stopped.take().as_deref().map(stopped);
            }
            if end.is_none() && std::mem::take(&mut self.watch().is_over) {
                end = Some(End::plain(TurnReason::Done));
            }
            if end.is_none() {
                end = group.iter().zip(&verdicts).find_map(|(call, verdict)| hopeless(call, verdict));
            }
        }
        self.watch().step_ended();
        (results, end)
    }

    pub(crate) fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that is not run is shown like one that is.
    async fn answer_call(&self, call: &ToolUse, outcome: Outcome) -> ToolResult {
        let item = self.events.new_item();
        self.tool_started(&item, call).await;
        self.tool_ended(&item, call, outcome, Duration::ZERO).await
    }

    async fn run_tool(&self, call: &ToolUse, verdict: &Verdict, cancel: &CancellationToken) -> ToolResult {
        let item = self.events.new_item();
        self.tool_started(&item, call).await;
        let started = Instant::now();
        let access = self.executor.registry().get(&call.tool).map_or(Access::Read, |tool| tool.access());
        let outcome = match self.permit(call, access, verdict, cancel).await {
            Err(why) => Outcome::error(why).with("refused", true),
            Ok(permit) => {
                let (events, item, id) = (self.events.clone(), item.clone(), call.id.clone());
                let progress = Progress::new(move |text| {
                    events.emit_if_room(&item, EventBody::ToolUpdated { call: id.clone(), text });
                });
                let outcome = self.executor.run_with(call, permit, cancel.clone(), progress).await;
                let is_out = !cancel.is_cancelled() && self.watch().ran(call, access, &outcome);
                if is_out { self.strike_out(call, outcome).await } else { outcome }
            }
        };
        self.tool_ended(&item, call, outcome, started.elapsed()).await
    }

    /// What a call is let have when it runs, or why it may not run, for the model. Either is on record first.
    async fn permit(
        &self,
        call: &ToolUse,
        access: Access,
        verdict: &Verdict,
        cancel: &CancellationToken,
    ) -> Result<Permit, String> {
        if let Some(why) = self.events.keeping().failed() {
            return Err(format!("not run: {why}"));
        }
        // What cannot be run anyway is answered by the executor.
        if call.malformed.is_some() || self.executor.registry().get(&call.tool).is_none() {
            return Ok(Permit::default());
        }
        let permitted = tokio::select! {
            permitted = self.allowed(call, access, verdict) => permitted,
            () = cancel.cancelled() => Err("cancelled".to_owned()),
        };
        let decision = match &permitted {
            Ok((_, decision)) => *decision,
            Err(_) => audit::Decision::Denied,
        };
        if let Some(record) = &self.record
            && let Err(why) = record.note(call, decision).await
        {
            self.watch().stopped = Some(why.clone());
            return Err(format!("not run: it could not be written down in the audit log: {why}"));
        }
        permitted.map(|(permit, _)| permit)
    }

    /// Asks everybody who can forbid a call: the guard, the watch over what repeats itself, and the person where those want
    /// to know.
    async fn allowed(
        &self,
        call: &ToolUse,
        access: Access,
        verdict: &Verdict,
    ) -> Result<(Permit, audit::Decision), String> {
        if access != Access::Read && self.watch().strikes.is_out() {
            return Err(STRUCK_OUT.to_owned());
        }
        let mut judged = self.judge(call, access).await;
        if let Some(lost) = self.beyond_undo(call, &judged).await {
            judged.decision = guard::Decision::ask("undo.cap", format!("undo could not bring back {lost}"));
        }
        let decided = match judged.decision.verdict {
            guard::Verdict::Allow => audit::Decision::Allowed,
            guard::Verdict::Deny => {
                return Err(refusal(&call.tool, &judged.decision, self.approvals.is_attended()));
            }
            guard::Verdict::Ask => {
                self.ask_person(call, access, &judged).await?;
                audit::Decision::Approved
            }
        };
        self.repeats(call, access, verdict).await?;
        self.runs_again(call, access).await?;
        Ok((judged.permit, decided))
    }

    /// Asks about a command that ran before the agent lost sight of it.
    async fn runs_again(&self, call: &ToolUse, access: Access) -> Result<(), String> {
        let command = call.input.get("command").and_then(Value::as_str).unwrap_or_default();
        if access != Access::Execute
            || !self.watch().before.ran(call)
            || self.executor.workspace().may_run_again(command)
        {
            return Ok(());
        }
        let Some(end) = self.watch().before.ask(call) else { return Ok(()) };
        let reason = again::reason(end).to_owned();
        let asked = Asked { call, access, reason: reason.clone(), rules: Vec::new(), is_for_rules: false };
        match self.approvals.ask(asked).await {
            Some(Answer::Once | Answer::Session | Answer::Always) => Ok(()),
            Some(answer) => Err(rejected(answer)),
            None => Err(format!(
                "not run: {reason}. Look at what it has done. If it has to run once more, call it again and say why."
            )),
        }
    }

    /// What a command that the guard allows would destroy for good.
    async fn beyond_undo(&self, call: &ToolUse, judged: &Judgement) -> Option<String> {
        let is_free = judged.decision.verdict == guard::Verdict::Allow && !self.guard.allows_everything();
        let command = call.input.get("command").and_then(Value::as_str).filter(|_| is_free)?;
        self.executor.workspace().beyond_undo(command).await
    }

    /// What the guard says. Where files are concerned it looks at them, off this thread.
    async fn judge(&self, call: &ToolUse, access: Access) -> Judgement {
        let (guard, workspace, call) = (Arc::clone(&self.guard), Arc::clone(self.executor.workspace()), call.clone());
        let judge = move || guard.judge(&call, access, workspace.guard(), workspace.cwd());
        if access == Access::Execute {
            return judge();
        }
        match tokio::task::spawn_blocking(judge).await {
            Ok(judged) => judged,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    /// Asks the person about a call that the guard does not decide about.
    async fn ask_person(&self, call: &ToolUse, access: Access, judged: &Judgement) -> Result<(), String> {
        let mut reason = format!("{} [{}]", judged.decision.reason, judged.decision.rule);
        if let Some(command) = call.input.get("command").and_then(Value::as_str)
            && self.approvals.is_attended()
        {
            for lost in self.executor.workspace().cannot_be_restored(command).await {
                reason += "\nundo would not bring back: ";
                reason += &lost;
            }
        }
        let asked = Asked { call, access, reason, rules: judged.rules.clone(), is_for_rules: true };
        match self.approvals.ask(asked).await {
            None => Err(refusal(&call.tool, &judged.decision, self.approvals.is_attended())),
            Some(Answer::Once) => Ok(()),
            Some(answer @ (Answer::Session | Answer::Always)) => {
                self.guard.allow(call, &judged.rules);
                if answer == Answer::Always {
                    let text = self.guard.keep(&judged.rules);
                    self.events.emit_lone(EventBody::Noticed { text }).await;
                }
                // Other questions may be answered by that.
                for (approval, call, access) in self.approvals.for_rules() {
                    if self.judge(&call, access).await.decision.verdict == guard::Verdict::Allow {
                        self.approvals.answer(&approval, Answer::Once);
                    }
                }
                Ok(())
            }
            Some(answer @ (Answer::Reject { .. } | Answer::Text { .. })) => {
                self.watch().is_rejected = true;
                let reason = Some("another call was rejected".to_owned());
                self.approvals.answer_all(&Answer::Reject { reason });
                Err(rejected(answer))
            }
        }
    }

    /// Asks the person about a call that repeats itself.
    async fn repeats(&self, call: &ToolUse, access: Access, verdict: &Verdict) -> Result<(), String> {
        let (Verdict::Repeats(times) | Verdict::Hopeless(times)) = verdict else { return Ok(()) };
        let reason =
            format!("the agent repeats itself: this would be the same call {times} times, with the same result");
        match self.approvals.ask(Asked { call, access, reason, rules: Vec::new(), is_for_rules: false }).await {
            Some(Answer::Once) => Ok(()),
            Some(Answer::Session | Answer::Always) => {
                self.watch().trace.allow(call);
                Ok(())
            }
            Some(answer) => Err(rejected(answer)),
            None => Err(format!(
                "not run: this exact call would be made {times} times with the same result, and nothing has changed. Do \
                 something else. If you wait for something, wait within one command."
            )),
        }
    }

    /// Puts back what was edited, and tells the model to report.
    async fn strike_out(&self, call: &ToolUse, mut outcome: Outcome) -> Outcome {
        let workspace = Arc::clone(self.executor.workspace());
        let name = format!("taken-back.{}", call.id);
        let taken = tokio::task::spawn_blocking(move || workspace.take_back(&name)).await.unwrap_or_default();
        let mut said = vec!["three edits failed for the same cause: editing is stopped".to_owned()];
        if !taken.restored.is_empty() {
            let files = taken.restored.join(", ");
            said.push(format!("these files were put back as they were when the turn began: {files}"));
        }
        said.extend(taken.left.iter().map(|(file, why)| format!("{file} stays as it is: {why}")));
        said.extend(taken.diff.map(|diff| format!("what was taken back is kept in {}", diff.display())));
        let said = said.join("; ");
        warn!("{said}");
        outcome.text += "\n\n[";
        outcome.text += &said;
        outcome.text += ". Report now: what you tried, why it failed, and what you propose. Do not try another way.]";
        outcome.meta.insert("struck_out".to_owned(), Value::Bool(true));
        self.events.emit_lone(EventBody::Noticed { text: said }).await;
        outcome
    }

    async fn tool_started(&self, item: &ItemId, call: &ToolUse) {
        let (tool, input) = (call.tool.clone(), call.input.clone());
        self.events.emit(item, EventBody::ToolStarted { call: call.id.clone(), tool, input }).await;
    }

    async fn tool_ended(&self, item: &ItemId, call: &ToolUse, outcome: Outcome, took: Duration) -> ToolResult {
        let Outcome { text, images, is_error, meta, ends_turn: _ } = outcome;
        // Neither input nor output: they may hold secrets.
        info!(tool = call.tool, is_error, ?took, "tool ended");
        let body = EventBody::ToolEnded {
            call: call.id.clone(),
            tool: call.tool.clone(),
            output: text.clone(),
            images: images.clone(),
            is_error,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            meta,
        };
        self.events.emit(item, body).await;
        ToolResult { id: call.id.clone(), text, images, is_error }
    }
}

/// What the model is told about a call that the person does not want.
fn rejected(answer: Answer) -> String {
    match answer {
        Answer::Reject { reason: Some(reason) } | Answer::Text { text: reason } => {
            format!("refused by the person: {reason}")
        }
        _ => "refused by the person".to_owned(),
    }
}

/// The end of a turn whose calls cannot be put on record.
fn stopped(why: &str) -> End {
    let fault = Fault::new(Area::Workspace, Tier::UserFixable, format!("no tool may run: {why}"))
        .hint("`baton audit verify` says what is wrong with the log");
    End { reason: TurnReason::Error, fault: Some(fault) }
}

/// The end of an agent that goes on repeating itself.
fn hopeless(call: &ToolUse, verdict: &Verdict) -> Option<End> {
    let Verdict::Hopeless(_) = verdict else { return None };
    let message = format!("the agent goes in circles: it calls `{}` again and again with the same input", call.tool);
    let fault = Fault::new(Area::Person, Tier::UserFixable, message).hint("say it differently, or try another model");
    Some(End { reason: TurnReason::Blocked, fault: Some(fault) })
}
