//! The gate every model call passes: budget, limiter, provider, and again when it failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::{Clock, Message, Price, Tier, Timestamp, Tokens, Usage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::budget::{Budget, Need, Reservation, estimate_tokens};
use crate::catalogue::ModelInfo;
use crate::error::{LlmError, LlmErrorKind};
use crate::limiter::{Limiter, Permit};
use crate::model_ref::ModelRef;
use crate::provider::Provider;
use crate::request::{Abilities, Answer, Delta, Effort, Request};
use crate::retry::{Again, Attempts, RetryPolicy};

/// How many deltas may wait for a slow surface before the stream is read no further.
const DELTAS_WAITING_MAX: usize = 64;

/// The most tokens asked of one answer.
const OUTPUT_MAX: Tokens = 32_000;
/// The least tokens asked of one answer, however full the context seems to be.
const OUTPUT_MIN: Tokens = 1_024;

/// What every call of this process shares: one limiter for each provider, and the way to try again.
pub struct Gate {
    policy: RetryPolicy,
    clock: Arc<dyn Clock>,
    limiters: Mutex<HashMap<String, Limiter>>,
}

/// A model, ready to be called.
#[derive(Clone)]
pub struct Model {
    /// How people name it.
    pub name: ModelRef,
    /// What is known about it.
    pub info: ModelInfo,
    /// Whether that is a guess.
    pub is_known: bool,
    provider: Arc<dyn Provider>,
    limiter: Limiter,
}

/// What happens during a call, before it is answered or given up.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// Something more arrived.
    Delta(Delta),
    /// An attempt failed after it had cost something.
    Broken {
        /// What had arrived of the answer, if anything had.
        partial: Option<Message>,
        /// What it cost, as far as is known.
        usage: Usage,
    },
    /// The provider asked another request for patience; this one waits, too.
    Parked(Duration),
    /// The call failed and will be made again.
    Retrying {
        /// Which attempt failed, and how long it takes until the next.
        again: Again,
        /// When the next is made.
        until: Timestamp,
        /// What kind of failure.
        tier: Tier,
        /// What happened.
        reason: String,
    },
}

/// A call while it is made: everything but the request, which its caller owns.
struct Call<'a> {
    model: &'a Model,
    budgets: &'a [Budget],
    events: &'a mpsc::Sender<CallEvent>,
    cancel: &'a CancellationToken,
    input: Tokens,
}

impl Gate {
    /// A gate with nothing waiting.
    pub fn new(policy: RetryPolicy, clock: Arc<dyn Clock>) -> Self {
        Self { policy, clock, limiters: Mutex::default() }
    }

    /// Puts a provider's model behind the gate.
    pub fn model(&self, name: ModelRef, info: Option<ModelInfo>, provider: Arc<dyn Provider>) -> Model {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = limiters.entry(name.provider.clone()).or_default().clone();
        Model { name, is_known: info.is_some(), info: info.unwrap_or_default(), provider, limiter }
    }

    /// Makes a call, and makes it again when it fails in a way that passes. `events` hears what
    /// happens meanwhile; `request` keeps count of what failed. When `cancel` is set, it ends at once
    /// with what had arrived and what that cost.
    pub async fn call(
        &self,
        model: &Model,
        request: &mut Request,
        budgets: &[Budget],
        events: &mpsc::Sender<CallEvent>,
        cancel: &CancellationToken,
    ) -> Result<Answer, LlmError> {
        let input = estimate_tokens(request.prompt_bytes());
        model.check_fits(input)?;
        let call = Call { model, budgets, events, cancel, input };
        let mut attempts = Attempts::default();
        loop {
            let (mut error, permit) = match call.attempt(request).await {
                Ok(answer) => {
                    request.failures = 0;
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            if !matches!(error.kind, LlmErrorKind::Cancelled | LlmErrorKind::Budget) {
                request.failures += 1;
            }
            error.failures = request.failures;
            let Some(mut again) = self.policy.next(&error, &mut attempts, fastrand::f64()) else {
                if let Some(wait) = error.retry_after.filter(|_| error.tier == Tier::RateLimited) {
                    error.message = format!("{} (it asks to wait {} s)", error.message, wait.as_secs());
                }
                return Err(error);
            };
            if !model.provider.is_live() {
                again.delay = Duration::ZERO;
            }
            info!(model = %model.name, attempt = again.attempt, delay = ?again.delay, reason = %error, "trying again");
            if error.usage != Usage::default() {
                call.tell(CallEvent::Broken { partial: error.partial.take(), usage: error.usage }).await;
            }
            let until = self.clock.now() + again.delay;
            call.tell(CallEvent::Retrying { again, until, tier: error.tier, reason: error.message }).await;
            if let (Tier::RateLimited | Tier::Degraded, Some(permit)) = (error.tier, permit) {
                permit.park(again.delay);
            }
            call.unless_cancelled(tokio::time::sleep(again.delay)).await?;
        }
    }
}

impl Call<'_> {
    /// One attempt: limiter passed, money set aside, provider asked, money settled. The permit comes
    /// back with a failure, for the provider may have asked for patience.
    async fn attempt(&self, request: &mut Request) -> Result<Answer, (LlmError, Option<Permit>)> {
        if let Some(wait) = self.model.limiter.wait() {
            self.tell(CallEvent::Parked(wait)).await;
        }
        let permit = self.unless_cancelled(self.model.limiter.admit()).await.map_err(|error| (error, None))?;
        let need =
            Need { input: self.input, output_max: self.model.output_max(self.input), price: self.model.info.price };
        let reserved = self.unless_cancelled(reserve(self.budgets, need)).await.and_then(|reserved| reserved);
        let held = match reserved {
            Ok(held) => held,
            Err(error) => return Err((error, Some(permit))),
        };
        request.output_max = held.iter().map(Reservation::output_max).min().unwrap_or(need.output_max);
        debug!(model = %self.model.name, failures = request.failures, "calling");
        match self.ask(request).await {
            Ok(answer) => {
                permit.succeeded();
                settle(held, &answer.usage);
                Ok(answer)
            }
            Err(error) => {
                settle(held, &error.usage);
                Err((error, Some(permit)))
            }
        }
    }

    /// Asks the provider; its deltas become events while it works.
    async fn ask(&self, request: &Request) -> Result<Answer, LlmError> {
        let (sender, mut deltas) = mpsc::channel(DELTAS_WAITING_MAX);
        let mut heard = Heard::default();
        let outcome = {
            let answering = async {
                let answer = self.model.provider.answer(request, &sender).await;
                drop(sender);
                answer
            };
            let forwarding = async {
                while let Some(delta) = deltas.recv().await {
                    heard.add(&delta);
                    self.tell(CallEvent::Delta(delta)).await;
                }
            };
            let both = async { tokio::join!(answering, forwarding).0 };
            self.unless_cancelled(both).await.and_then(|outcome| outcome)
        };
        outcome.map_err(|error| heard.charge(error, self.input))
    }

    async fn tell(&self, event: CallEvent) {
        // Nobody listening is no reason to give the call up.
        drop(self.events.send(event).await);
    }

    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T, LlmError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(LlmError::cancelled()),
            done = work => Ok(done),
        }
    }
}

/// What was heard of an answer, for when it does not come to its end.
#[derive(Default)]
struct Heard {
    text: String,
    bytes: usize,
}

impl Heard {
    fn add(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => {
                self.text.push_str(text);
                self.bytes += text.len();
            }
            Delta::Thinking(text) => self.bytes += text.len(),
            Delta::ToolCall { tool, .. } => self.bytes += tool.len(),
            // What it costs is not known here; tokens that came of it are counted by the provider.
            Delta::Searched(_) => {}
        }
    }

    /// A provider charges for what it read and wrote, and mostly tells nothing when it breaks off:
    /// then it is estimated. Before the first piece of an answer there is nothing to charge.
    fn charge(self, mut error: LlmError, input: Tokens) -> LlmError {
        if self.bytes > 0 || error.partial.is_some() || error.usage != Usage::default() {
            error.usage.output_tokens = error.usage.output_tokens.max(estimate_tokens(self.bytes));
            if error.usage.prompt_tokens() == 0 {
                error.usage.input_tokens = input;
            }
        }
        if error.partial.is_none() && !self.text.is_empty() {
            error.partial = Some(Message::assistant(self.text));
        }
        error
    }
}

impl Model {
    /// Refuses only what cannot fit by any count; what is near the limit is for the provider to judge.
    fn check_fits(&self, input: Tokens) -> Result<(), LlmError> {
        if !self.is_known || input / 2 <= self.info.context {
            return Ok(());
        }
        let message =
            format!("about {input} tokens are too many for {}, which takes {} at most", self.name, self.info.context);
        Err(LlmError { kind: LlmErrorKind::Overflow, ..LlmError::input(message) }.hint(
            "give the agent the path of a large file instead of its content, or choose a model with more context",
        ))
    }

    /// Where its provider is after the answers of this request, if it keeps count.
    pub fn place(&self, request: &Request) -> Option<serde_json::Value> {
        self.provider.place(request)
    }

    /// What it can take.
    pub fn abilities(&self) -> Abilities {
        Abilities { images: self.info.images, thinking: self.info.thinking }
    }

    /// How hard it should think: as asked, as far as it goes.
    pub fn effort(&self) -> Option<Effort> {
        self.name.effort.map(|effort| effort.min(self.info.effort_max))
    }

    /// What it charges, where known.
    pub fn price(&self) -> Option<Price> {
        self.info.price
    }

    /// The most tokens asked of one answer to a prompt of this length: enough for a large file, little
    /// enough to set money aside for, and no more than the context leaves.
    pub fn output_max(&self, input: Tokens) -> Tokens {
        let left = self.info.context.saturating_sub(input).max(OUTPUT_MIN);
        self.info.output.min(OUTPUT_MAX).min(left)
    }
}

/// Sets aside the need of a call on every level, the same amount on each.
async fn reserve(budgets: &[Budget], need: Need) -> Result<Vec<Reservation>, LlmError> {
    let mut held: Vec<Reservation> = Vec::with_capacity(budgets.len());
    let mut need = need;
    for budget in budgets {
        let reservation = budget.reserve(need).await.map_err(|exceeded| LlmError {
            kind: LlmErrorKind::Budget,
            ..LlmError::input(exceeded.to_string()).hint("raise the cap (--max-usd, --max-tokens) to go on")
        })?;
        need.output_max = reservation.output_max();
        held.push(reservation);
    }
    for held in &mut held {
        held.shrink(need.output_max);
    }
    Ok(held)
}

fn settle(held: Vec<Reservation>, usage: &Usage) {
    for held in held {
        held.settle(usage);
    }
}

#[cfg(test)]
mod tests;
