//! The loop: ask the model, run its tools, until it is done or something ends the turn.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::{
    Area, Block, EventBody, EventId, Fault, ItemId, Message, Role, StopReason, Tier, ToolUse, TurnReason, Usage, Usd,
};
use baton_llm::{Answer, Budget, Gate, LlmError, LlmErrorKind, Model, Request, message_bytes};
use baton_session::Own;
use baton_tools::Executor;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::answer_schema::{AGAIN_MAX, AnswerSchema};
use crate::approvals::Approvals;
use crate::calls::Watch;
use crate::compacting::{CompactionSettings, Measured};
use crate::conversation::Steering;
use crate::events::EventSink;
use crate::limits::TurnLimits;
use crate::permission::Guard;
use crate::record::Record;
use crate::telling::Telling;

/// Said to a model whose answer ran into the output limit.
const GO_ON: &str = "Your answer was cut off by the output limit. Go on where it stopped.";

/// How often in a row it is told so.
const CUT_OFF_MAX: u32 = 3;

/// One agent: what it is made of, and the request that holds its history.
pub(crate) struct Agent {
    pub(crate) request: Request,
    pub(crate) events: EventSink,
    pub(crate) model: Model,
    pub(crate) gate: Arc<Gate>,
    pub(crate) executor: Executor,
    pub(crate) guard: Arc<Guard>,
    pub(crate) record: Option<Record>,
    pub(crate) limits: TurnLimits,
    pub(crate) budgets: Vec<Budget>,
    /// What the model is to be told with the next words of the person.
    pub(crate) opening: Vec<Block>,
    /// The facts that stand at the beginning of a history.
    pub(crate) context: Vec<Block>,
    /// The entry that began each message of the request; nothing where the history cannot be cut.
    pub(crate) began: Vec<Option<EventId>>,
    /// Where the model's provider was when the history was last compacted, for each role.
    pub(crate) places: BTreeMap<String, Value>,
    pub(crate) measured: Measured,
    pub(crate) compaction: CompactionSettings,
    pub(crate) answer_schema: Option<AnswerSchema>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) watch: Mutex<Watch>,
}

/// What a turn has come to so far.
#[derive(Default)]
pub(crate) struct Tally {
    steps: u32,
    pub(crate) usage: Usage,
    pub(crate) cost: Usd,
    pub(crate) text: String,
    /// How many answers in a row ran into the output limit.
    cut_off: u32,
    /// The final answer, where it must have a form.
    answer: Option<Value>,
    /// How many final answers did not have their form.
    misshapen: u32,
}

/// How a turn ends.
pub(crate) struct End {
    pub(crate) reason: TurnReason,
    pub(crate) fault: Option<Fault>,
}

impl End {
    pub(crate) fn plain(reason: TurnReason) -> Self {
        Self { reason, fault: None }
    }

    fn capped(reason: TurnReason, message: String, hint: &str) -> Self {
        Self { reason, fault: Some(Fault::new(Area::Cap, Tier::UserFixable, message).hint(hint)) }
    }
}

/// Why there is no answer.
enum Unanswered {
    /// The history is too long; the turn ends so if it cannot be made shorter.
    Overflow(End),
    /// The turn ends.
    End(End),
}

/// What can end a turn from outside, at any moment.
pub(crate) struct Stop<'a> {
    cancel: &'a CancellationToken,
    deadline: Option<(Instant, Duration)>,
}

impl Stop<'_> {
    /// Waits until the turn has to end.
    pub(crate) async fn called(&self) -> End {
        match self.deadline {
            None => {
                self.cancel.cancelled().await;
                End::plain(TurnReason::Cancelled)
            }
            Some((at, limit)) => tokio::select! {
                () = self.cancel.cancelled() => End::plain(TurnReason::Cancelled),
                () = tokio::time::sleep_until(at) => End::capped(
                    TurnReason::Time,
                    format!("the turn took longer than {} s", limit.as_secs()),
                    "raise the cap with --max-time, or continue with a new prompt",
                ),
            },
        }
    }
}

impl Agent {
    /// Runs one turn to its end.
    pub(crate) async fn turn(&mut self, content: Vec<Block>, cancel: &CancellationToken, steering: &Steering) {
        let started = Instant::now();
        let item = self.events.new_item();
        self.person_spoke();
        self.executor.workspace().begin_turn();
        let form = self.answer_schema.as_ref().map(|schema| Block::text(schema.instruction()));
        let opening = std::mem::take(&mut self.opening);
        let facts = u32::try_from(opening.len()).unwrap_or(u32::MAX);
        let content = opening.into_iter().chain(content).chain(form).collect();
        let message = Message { role: Role::User, content };
        let entry = self.events.emit(&item, EventBody::TurnStarted { message: message.clone(), context: facts }).await;
        self.said(Some(entry), message);

        let deadline = self.limits.time().and_then(|limit| Some((started.checked_add(limit)?, limit)));
        let stop = Stop { cancel, deadline };
        let mut tally = Tally::default();
        let mut end = self.run_steps(&stop, steering, &mut tally).await;
        if end.reason == TurnReason::Done
            && let Some(fault) = self.watch().needs_person()
        {
            end = End { reason: TurnReason::Blocked, fault: Some(fault) };
        }

        self.end_turn(started, &item, end, tally).await;
    }

    /// Tells how a turn ended, after what was done in it lasts.
    pub(crate) async fn end_turn(&self, started: Instant, item: &ItemId, end: End, tally: Tally) {
        if let Some(record) = &self.record
            && let Err(error) = record.sync().await
        {
            self.events.emit_lone(EventBody::Noticed { text: format!("the audit log may not last: {error}") }).await;
        }
        if let Some(fault) = end.fault {
            warn!(tier = ?fault.tier, "{fault}");
            self.events.emit_lone(EventBody::Failed(fault)).await;
        }
        let Tally { steps, usage, cost, text, answer, .. } = tally;
        info!(reason = ?end.reason, steps, tokens = usage.total_tokens(), %cost, "turn ended");
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        // What is acknowledged by the end of the turn survives power loss.
        if let Err(error) = self.events.keeping().sync().await {
            self.events.emit_lone(EventBody::Noticed { text: format!("the session may not last: {error}") }).await;
        }
        let body = EventBody::TurnEnded { reason: end.reason, text, answer, usage, cost_usd: cost, steps, duration_ms };
        self.events.emit(item, body).await;
    }

    async fn run_steps(&mut self, stop: &Stop<'_>, steering: &Steering, tally: &mut Tally) -> End {
        loop {
            if tally.steps >= self.limits.steps {
                return End::capped(
                    TurnReason::Steps,
                    format!("the turn took {} steps, which is the cap", tally.steps),
                    "raise the cap with --max-steps, or continue with a new prompt",
                );
            }
            if let Some(why) = self.events.keeping().failed() {
                return unkept(&why);
            }
            tally.steps += 1;
            let number = tally.steps;
            let item = self.events.new_item();
            self.events.emit(&item, EventBody::StepStarted { step: number }).await;
            let end = self.step(stop, steering, tally).await;
            self.events.emit(&item, EventBody::StepEnded { step: number }).await;
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// One model call and the tools it asks for; `None` if the turn goes on.
    async fn step(&mut self, stop: &Stop<'_>, steering: &Steering, tally: &mut Tally) -> Option<End> {
        if self.is_nearly_full() {
            self.make_room(stop, tally).await;
        }
        let answer = match self.ask(stop, tally).await {
            Ok(answer) => answer,
            // The provider counts in its own way: what it finds too long is made shorter, once.
            Err(Unanswered::Overflow(end)) => {
                if !self.make_room(stop, tally).await {
                    return Some(end);
                }
                match self.ask(stop, tally).await {
                    Ok(answer) => answer,
                    Err(Unanswered::Overflow(end) | Unanswered::End(end)) => return Some(end),
                }
            }
            Err(Unanswered::End(end)) => return Some(end),
        };
        let said = answer.message.text();
        match tally.cut_off {
            // The rest of an answer that ran into the output limit.
            1.. => tally.text.push_str(&said),
            0 if said.is_empty() => {}
            0 => tally.text = said,
        }

        let calls: Vec<ToolUse> = answer.message.tool_uses().cloned().collect();
        if calls.is_empty() {
            return self.rest(answer.stop, steering, tally).await;
        }
        tally.cut_off = 0;
        let (results, end) = self.run_tools(&calls, stop, steering).await;
        let said = steering.take();
        if !said.is_empty() {
            self.person_spoke();
        }
        if !said.is_empty() {
            self.events.keep(Own::Said { content: said.clone(), by_person: true }).await;
        }
        let content = results.into_iter().map(Block::ToolResult).chain(said).collect();
        self.said(None, Message { role: Role::User, content });
        end
    }

    /// Compacts the history, unless the turn has to end first; whether it did.
    async fn make_room(&mut self, stop: &Stop<'_>, tally: &mut Tally) -> bool {
        let cancel = CancellationToken::new();
        let compacting = self.compact(None, &cancel, tally);
        tokio::pin!(compacting);
        tokio::select! {
            is_compacted = &mut compacting => is_compacted,
            // The call ends at once, and a summary without a model takes no time.
            _ = stop.called() => {
                cancel.cancel();
                compacting.await
            }
        }
    }

    /// What follows an answer without calls.
    async fn rest(&mut self, stop: StopReason, steering: &Steering, tally: &mut Tally) -> Option<End> {
        let by_person = !steering.is_empty();
        let next = match stop {
            _ if by_person => {
                tally.cut_off = 0;
                self.person_spoke();
                steering.take()
            }
            StopReason::MaxTokens if tally.cut_off < CUT_OFF_MAX => {
                tally.cut_off += 1;
                vec![Block::text(GO_ON)]
            }
            StopReason::MaxTokens => {
                let fault =
                    Fault::new(Area::Provider, Tier::Permanent, "the answer ran into the output limit again and again")
                        .hint("ask for less at once, or choose a model with a higher output limit");
                return Some(End { reason: TurnReason::Failed, fault: Some(fault) });
            }
            StopReason::Pause => return None,
            StopReason::Refusal => {
                let fault =
                    Fault::new(Area::Provider, Tier::Permanent, format!("{} would not answer", self.model.name))
                        .hint("say it differently, or choose another model with -m");
                return Some(End { reason: TurnReason::Failed, fault: Some(fault) });
            }
            StopReason::EndTurn | StopReason::ToolUse => match self.formed(tally) {
                Ok(end) => return Some(end),
                Err(problem) => vec![Block::text(problem)],
            },
        };
        let entry = self.events.keep(Own::Said { content: next.clone(), by_person }).await;
        self.said(Some(entry), Message { role: Role::User, content: next });
        None
    }

    /// The end of a turn whose final answer has the form it must have; else what the model is told.
    fn formed(&self, tally: &mut Tally) -> Result<End, String> {
        let Some(schema) = &self.answer_schema else { return Ok(End::plain(TurnReason::Done)) };
        match schema.check(&tally.text) {
            Ok((text, answer)) => {
                (tally.text, tally.answer) = (text, Some(answer));
                Ok(End::plain(TurnReason::Done))
            }
            Err(problem) if tally.misshapen < AGAIN_MAX => {
                tally.misshapen += 1;
                Err(format!("Your answer does not match the schema: {problem}\nAnswer again, with JSON only."))
            }
            Err(problem) => {
                let message = format!("the answer does not match the schema: {problem}");
                let fault = Fault::new(Area::Provider, Tier::Permanent, message)
                    .hint("make the schema simpler, say more in the prompt, or choose another model with -m");
                Ok(End { reason: TurnReason::Failed, fault: Some(fault) })
            }
        }
    }

    /// Adds a message to the history.
    fn said(&mut self, began: Option<EventId>, message: Message) {
        self.request.messages.push(message);
        self.began.push(began);
    }

    /// What was watched is over: the person may have said what nobody knew.
    fn person_spoke(&self) {
        self.watch().person_spoke();
    }

    /// Asks the model; its answer is part of the history before it is shown as complete.
    async fn ask(&mut self, stop: &Stop<'_>, tally: &mut Tally) -> Result<Answer, Unanswered> {
        self.events.keeping().sync_meanwhile();
        let mut telling = Telling::new(&self.events, &self.model, tally);
        let (sender, mut happened) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let mut ended = None;
        let outcome = {
            let calling = self.gate.call(&self.model, &mut self.request, &self.budgets, &sender, &cancel);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    biased;
                    event = happened.recv() => if let Some(event) = event {
                        telling.tell(event).await;
                    },
                    outcome = &mut calling => break outcome,
                    end = stop.called(), if ended.is_none() => {
                        ended = Some(end);
                        cancel.cancel();
                    }
                }
            }
        };
        // What was told in the very moment the call ended.
        while let Ok(event) = happened.try_recv() {
            telling.tell(event).await;
        }
        match outcome {
            Ok(answer) => {
                let ended = telling.end(answer.message.clone(), Some(answer.stop)).await;
                telling.charge(answer.usage).await;
                let bytes = self.request.prompt_bytes();
                self.said(Some(ended), answer.message.clone());
                let read = answer.usage.total_tokens();
                self.measured = Measured::new(read, bytes + message_bytes(&answer.message));
                Ok(answer)
            }
            Err(error) => {
                // What the person has read stays part of the conversation when they end it.
                telling.broken(error.partial.clone(), error.usage).await;
                if let (Some(partial), LlmErrorKind::Cancelled) = (&error.partial, error.kind) {
                    self.said(None, partial.clone());
                }
                // An answer that must have a form cannot be left out.
                let may_be_silent = tally.steps > 1 && self.answer_schema.is_none();
                let is_overflow = ended.is_none() && error.kind == LlmErrorKind::Overflow;
                let end = ended.unwrap_or_else(|| given_up(&error, may_be_silent));
                Err(if is_overflow { Unanswered::Overflow(end) } else { Unanswered::End(end) })
            }
        }
    }
}

/// The end of a turn whose session cannot be written.
fn unkept(why: &str) -> End {
    let fault = Fault::new(Area::Workspace, Tier::UserFixable, why.to_owned())
        .hint("make room on the disk, or make the place writable, and go on with -c: what was shown before is kept");
    End { reason: TurnReason::Error, fault: Some(fault) }
}

fn given_up(error: &LlmError, may_be_silent: bool) -> End {
    let reason = match error.kind {
        // Some models end their work without a last word.
        LlmErrorKind::Empty if may_be_silent => return End::plain(TurnReason::Done),
        LlmErrorKind::Empty => TurnReason::Failed,
        LlmErrorKind::Budget => TurnReason::Budget,
        LlmErrorKind::Provider | LlmErrorKind::Overflow | LlmErrorKind::Input | LlmErrorKind::Cancelled => {
            TurnReason::Error
        }
    };
    End { reason, fault: Some(error.fault()) }
}
