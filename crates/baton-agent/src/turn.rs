//! The loop: ask the model, run its tools, until it is done or something ends the turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::{Area, Block, EventBody, Fault, Message, Role, StopReason, Tier, ToolUse, TurnReason, Usage, Usd};
use baton_llm::{Answer, Budget, Gate, LlmError, LlmErrorKind, Model, Request};
use baton_tools::Executor;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::answer_schema::{AGAIN_MAX, AnswerSchema};
use crate::approvals::Approvals;
use crate::calls::Watch;
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
    pub(crate) opening: Vec<Block>,
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
    text: String,
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
    fn plain(reason: TurnReason) -> Self {
        Self { reason, fault: None }
    }

    fn capped(reason: TurnReason, message: String, hint: &str) -> Self {
        Self { reason, fault: Some(Fault::new(Area::Cap, Tier::UserFixable, message).hint(hint)) }
    }
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
        let content = std::mem::take(&mut self.opening).into_iter().chain(content).chain(form).collect();
        let message = Message { role: Role::User, content };
        self.request.messages.push(message.clone());
        self.events.emit(&item, EventBody::TurnStarted { message }).await;

        let deadline = self.limits.time().and_then(|limit| Some((started.checked_add(limit)?, limit)));
        let stop = Stop { cancel, deadline };
        let mut tally = Tally::default();
        let mut end = self.run_steps(&stop, steering, &mut tally).await;
        if end.reason == TurnReason::Done
            && let Some(fault) = self.watch().needs_person()
        {
            end = End { reason: TurnReason::Blocked, fault: Some(fault) };
        }

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
        let body = EventBody::TurnEnded { reason: end.reason, text, answer, usage, cost_usd: cost, steps, duration_ms };
        self.events.emit(&item, body).await;
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
        let answer = match self.ask(stop, tally).await {
            Ok(answer) => answer,
            Err(end) => return Some(end),
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
            return self.rest(answer.stop, steering, tally);
        }
        tally.cut_off = 0;
        let (results, end) = self.run_tools(&calls, stop, steering).await;
        let said = steering.take();
        if !said.is_empty() {
            self.person_spoke();
        }
        let content = results.into_iter().map(Block::ToolResult).chain(said).collect();
        self.request.messages.push(Message { role: Role::User, content });
        end
    }

    /// What follows an answer without calls.
    fn rest(&mut self, stop: StopReason, steering: &Steering, tally: &mut Tally) -> Option<End> {
        let next = match stop {
            _ if !steering.is_empty() => {
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
        self.request.messages.push(Message { role: Role::User, content: next });
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

    /// What was watched is over: the person may have said what nobody knew.
    fn person_spoke(&self) {
        self.watch().person_spoke();
    }

    /// Asks the model; its answer is part of the history before it is shown as complete.
    async fn ask(&mut self, stop: &Stop<'_>, tally: &mut Tally) -> Result<Answer, End> {
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
                self.request.messages.push(answer.message.clone());
                telling.end(answer.message.clone(), Some(answer.stop)).await;
                telling.charge(answer.usage).await;
                Ok(answer)
            }
            Err(error) => {
                // What the person has read stays part of the conversation when they end it.
                if let (Some(partial), LlmErrorKind::Cancelled) = (&error.partial, error.kind) {
                    self.request.messages.push(partial.clone());
                }
                telling.broken(error.partial.clone(), error.usage).await;
                // An answer that must have a form cannot be left out.
                let may_be_silent = tally.steps > 1 && self.answer_schema.is_none();
                Err(ended.unwrap_or_else(|| given_up(&error, may_be_silent)))
            }
        }
    }
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
