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

        let stop = Stop { cancel, deadline: self.limits.time().map(|limit| (started + limit, limit)) };
        let mut tally = Tally::default();
        let end = self.run_steps(&stop, steering, &mut tally).await;

        if let Some(fault) = end.fault {
            warn!(tier = ?fault.tier, "{fault}");
            self.events.emit_lone(EventBody::Failed(fault)).await;
        }
        let Tally { steps, usage, cost, text } = tally;
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
        let answer = match self.ask(stop).await {
            Ok(answer) => answer,
            Err(end) => return Some(end),
        };
        tally.usage += answer.usage;
        let cost_usd = self.model.price().map(|price| price.of(&answer.usage));
        tally.cost += cost_usd.unwrap_or_default();
        let said = answer.message.text();
        if !said.is_empty() {
            tally.text = said;
        }
        let report = EventBody::UsageReported { model: self.model.name.to_string(), usage: answer.usage, cost_usd };
        self.events.emit_lone(report).await;

        let calls: Vec<ToolUse> = answer.message.tool_uses().cloned().collect();
        if calls.is_empty() {
            return self.rest(answer.stop, steering);
        }
        let (results, end) = self.run_tools(&calls, stop, steering).await;
        let content = results.into_iter().map(Block::ToolResult).chain(steering.take()).collect();
        self.request.messages.push(Message { role: Role::User, content });
        end
    }

    /// What follows an answer without calls.
    fn rest(&mut self, stop: StopReason, steering: &Steering) -> Option<End> {
        let next = match stop {
            _ if !steering.is_empty() => steering.take(),
            StopReason::MaxTokens => vec![Block::text(GO_ON)],
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
    async fn ask(&mut self, stop: &Stop<'_>) -> Result<Answer, End> {
        let mut arrived = Arrived::new(&self.events);
        let (sender, mut happened) = mpsc::channel(1);
        let outcome = {
            let calling = self.gate.call(&self.model, &mut self.request, &self.budgets, &sender);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    biased;
                    event = happened.recv() => if let Some(event) = event {
                        arrived.show(&self.events, event).await;
                    },
                    outcome = &mut calling => break Ok(outcome),
                    end = stop.called() => break Err(end),
                }
            }
        };
        // What was told in the very moment the call ended.
        while let Ok(event) = happened.try_recv() {
            arrived.show(&self.events, event).await;
        }
        match outcome {
            Ok(Ok(answer)) => {
                self.request.messages.push(answer.message.clone());
                arrived.end(&self.events, answer.message.clone(), Some(answer.stop)).await;
                Ok(answer)
            }
            Ok(Err(error)) => Err(given_up(&error)),
            Err(end) => {
                // What the person has read stays part of the conversation.
                if !arrived.text.is_empty() {
                    let message = Message::assistant(arrived.text.as_str());
                    self.request.messages.push(message.clone());
                    arrived.end(&self.events, message, None).await;
                }
                Err(end)
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

/// What has been shown of an answer so far.
struct Arrived {
    item: ItemId,
    is_started: bool,
    text: String,
}

impl Arrived {
    fn new(events: &EventSink) -> Self {
        Self { item: events.new_item(), is_started: false, text: String::new() }
    }

    async fn start(&mut self, events: &EventSink) {
        if !std::mem::replace(&mut self.is_started, true) {
            events.emit(&self.item, EventBody::MessageStarted).await;
        }
    }

    async fn end(&mut self, events: &EventSink, message: Message, stop: Option<StopReason>) {
        self.start(events).await;
        events.emit(&self.item, EventBody::MessageEnded { message, stop }).await;
    }

    async fn show(&mut self, events: &EventSink, event: CallEvent) {
        match event {
            CallEvent::Delta(delta) => {
                self.start(events).await;
                let body = match delta {
                    Delta::Text(text) => {
                        self.text.push_str(&text);
                        EventBody::MessageDelta { text }
                    }
                    Delta::Thinking(text) => EventBody::ThinkingDelta { text },
                    // The call is shown when it runs: until then nothing is known but its name.
                    Delta::ToolCall { .. } => return,
                };
                events.emit(&self.item, body).await;
            }
            CallEvent::Broken(message) => {
                self.end(events, message, None).await;
                *self = Self::new(events);
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
                events.emit_lone(body).await;
            }
        }
    }
}

fn given_up(error: &LlmError) -> End {
    let reason = if error.kind == LlmErrorKind::Budget { TurnReason::Budget } else { TurnReason::Error };
    End { reason, fault: Some(error.fault()) }
}
