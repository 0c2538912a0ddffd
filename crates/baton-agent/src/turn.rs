//! The loop: ask the model, run its tools, until it is done or something ends the turn.

use std::sync::Arc;
use std::time::Duration;

use baton_core::{
    Access, Area, Block, EventBody, Fault, ItemId, Message, PermissionMode, Role, StopReason, Tier, ToolResult,
    ToolUse, TurnReason, Usage, Usd,
};
use baton_llm::{Answer, Budget, CallEvent, Delta, Gate, LlmError, LlmErrorKind, Model, Request};
use baton_tools::{Executor, Outcome, Progress};
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::conversation::Steering;
use crate::events::EventSink;
use crate::limits::TurnLimits;
use crate::policy::refusal;

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
    pub(crate) mode: PermissionMode,
    pub(crate) limits: TurnLimits,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) opening: Vec<Block>,
}

/// What a turn has come to so far.
#[derive(Default)]
struct Tally {
    steps: u32,
    usage: Usage,
    cost: Usd,
    text: String,
    /// How many answers in a row ran into the output limit.
    cut_off: u32,
}

/// How a turn ends.
struct End {
    reason: TurnReason,
    fault: Option<Fault>,
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
struct Stop<'a> {
    cancel: &'a CancellationToken,
    deadline: Option<(Instant, Duration)>,
}

impl Stop<'_> {
    /// Waits until the turn has to end.
    async fn called(&self) -> End {
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
        let content = std::mem::take(&mut self.opening).into_iter().chain(content).collect();
        let message = Message { role: Role::User, content };
        self.request.messages.push(message.clone());
        self.events.emit(&item, EventBody::TurnStarted { message }).await;

        let deadline = self.limits.time().and_then(|limit| Some((started.checked_add(limit)?, limit)));
        let stop = Stop { cancel, deadline };
        let mut tally = Tally::default();
        let end = self.run_steps(&stop, steering, &mut tally).await;

        if let Some(fault) = end.fault {
            warn!(tier = ?fault.tier, "{fault}");
            self.events.emit_lone(EventBody::Failed(fault)).await;
        }
        let Tally { steps, usage, cost, text, .. } = tally;
        info!(reason = ?end.reason, steps, tokens = usage.total_tokens(), %cost, "turn ended");
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let body = EventBody::TurnEnded { reason: end.reason, text, usage, cost_usd: cost, steps, duration_ms };
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
        let content = results.into_iter().map(Block::ToolResult).chain(steering.take()).collect();
        self.request.messages.push(Message { role: Role::User, content });
        end
    }

    /// What follows an answer without calls.
    fn rest(&mut self, stop: StopReason, steering: &Steering, tally: &mut Tally) -> Option<End> {
        let next = match stop {
            _ if !steering.is_empty() => {
                tally.cut_off = 0;
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
            StopReason::EndTurn | StopReason::ToolUse => return Some(End::plain(TurnReason::Done)),
        };
        self.request.messages.push(Message { role: Role::User, content: next });
        None
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
                let had_worked = tally.steps > 1;
                Err(ended.unwrap_or_else(|| given_up(&error, had_worked)))
            }
        }
    }

    /// Runs the calls of one answer. Every call gets a result, whatever happens.
    async fn run_tools(
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
                None if !steering.is_empty() => Some("not run: the person has something to say first"),
                None => None,
            };
            if let Some(why) = skipped {
                for call in group {
                    results.push(self.answer_call(call, Outcome::error(why)).await);
                }
                continue;
            }
            let cancel = CancellationToken::new();
            let running = join_all(group.iter().map(|call| self.run_tool(call, &cancel)));
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
        }
        (results, end)
    }

    /// A call that is not run is shown like one that is.
    async fn answer_call(&self, call: &ToolUse, outcome: Outcome) -> ToolResult {
        let item = self.events.new_item();
        self.tool_started(&item, call).await;
        self.tool_ended(&item, call, outcome, Duration::ZERO).await
    }

    async fn run_tool(&self, call: &ToolUse, cancel: &CancellationToken) -> ToolResult {
        let item = self.events.new_item();
        self.tool_started(&item, call).await;
        let started = Instant::now();
        let access = self.executor.registry().get(&call.tool).map_or(Access::Read, |tool| tool.access());
        let outcome = if let Some(why) = refusal(self.mode, &call.tool, access) {
            Outcome::error(why)
        } else {
            let (events, item, id) = (self.events.clone(), item.clone(), call.id.clone());
            let progress = Progress::new(move |text| {
                events.emit_if_room(&item, EventBody::ToolUpdated { call: id.clone(), text });
            });
            self.executor.run(call, cancel.clone(), progress).await
        };
        self.tool_ended(&item, call, outcome, started.elapsed()).await
    }

    async fn tool_started(&self, item: &ItemId, call: &ToolUse) {
        let (tool, input) = (call.tool.clone(), call.input.clone());
        self.events.emit(item, EventBody::ToolStarted { call: call.id.clone(), tool, input }).await;
    }

    async fn tool_ended(&self, item: &ItemId, call: &ToolUse, outcome: Outcome, took: Duration) -> ToolResult {
        let Outcome { text, images, is_error, meta } = outcome;
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

/// Tells what happens during a call, and adds up what it costs.
struct Telling<'a> {
    events: &'a EventSink,
    model: &'a Model,
    tally: &'a mut Tally,
    item: ItemId,
    is_started: bool,
}

impl<'a> Telling<'a> {
    fn new(events: &'a EventSink, model: &'a Model, tally: &'a mut Tally) -> Self {
        Self { events, model, tally, item: events.new_item(), is_started: false }
    }

    async fn tell(&mut self, event: CallEvent) {
        match event {
            CallEvent::Delta(Delta::Text(text)) => self.delta(EventBody::MessageDelta { text }).await,
            CallEvent::Delta(Delta::Thinking(text)) => self.delta(EventBody::ThinkingDelta { text }).await,
            // The call is shown when it runs: until then nothing is known but its name.
            CallEvent::Delta(Delta::ToolCall { .. }) => self.start().await,
            CallEvent::Broken { partial, usage } => self.broken(partial, usage).await,
            CallEvent::Parked(wait) => {
                let provider = &self.model.name.provider;
                let text = format!("{provider} asked for patience: waiting {:.1} s", wait.as_secs_f64());
                self.events.emit_lone(EventBody::Noticed { text }).await;
            }
            CallEvent::Retrying { again, until, tier, reason } => {
                let body = EventBody::Retrying {
                    attempt: again.attempt,
                    attempts_max: again.attempts_max,
                    delay_ms: u64::try_from(again.delay.as_millis()).unwrap_or(u64::MAX),
                    until,
                    tier,
                    reason,
                };
                self.events.emit_lone(body).await;
            }
        }
    }

    async fn start(&mut self) {
        if !std::mem::replace(&mut self.is_started, true) {
            self.events.emit(&self.item, EventBody::MessageStarted).await;
        }
    }

    async fn delta(&mut self, body: EventBody) {
        self.start().await;
        self.events.emit(&self.item, body).await;
    }

    async fn end(&mut self, message: Message, stop: Option<StopReason>) {
        self.start().await;
        self.events.emit(&self.item, EventBody::MessageEnded { message, stop }).await;
    }

    /// An answer that does not come to its end is told and paid for, too; the next is another one.
    async fn broken(&mut self, partial: Option<Message>, usage: Usage) {
        if self.is_started || partial.is_some() {
            let message = partial.unwrap_or(Message { role: Role::Assistant, content: Vec::new() });
            self.end(message, None).await;
            (self.item, self.is_started) = (self.events.new_item(), false);
        }
        if usage != Usage::default() {
            self.charge(usage).await;
        }
    }

    async fn charge(&mut self, usage: Usage) {
        let cost_usd = self.model.price().map(|price| price.of(&usage));
        self.tally.usage += usage;
        self.tally.cost += cost_usd.unwrap_or_default();
        let model = self.model.name.to_string();
        self.events.emit_lone(EventBody::UsageReported { model, usage, cost_usd }).await;
    }
}

fn given_up(error: &LlmError, had_worked: bool) -> End {
    let reason = match error.kind {
        // Some models end their work without a last word.
        LlmErrorKind::Empty if had_worked => return End::plain(TurnReason::Done),
        LlmErrorKind::Empty => TurnReason::Failed,
        LlmErrorKind::Budget => TurnReason::Budget,
        LlmErrorKind::Provider | LlmErrorKind::Overflow | LlmErrorKind::Input | LlmErrorKind::Cancelled => {
            TurnReason::Error
        }
    };
    End { reason, fault: Some(error.fault()) }
}
