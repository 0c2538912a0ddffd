//! The gate every model call passes: budget, limiter, provider, and again when it failed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::{Clock, Message, Price, Tier, Timestamp, Tokens, Usage};
use tokio::sync::mpsc;
use tracing::{debug, info};

use crate::budget::{Budget, Need, Reservation, estimate_tokens};
use crate::catalogue::ModelInfo;
use crate::error::{LlmError, LlmErrorKind};
use crate::limiter::Limiter;
use crate::model_ref::ModelRef;
use crate::provider::Provider;
use crate::request::{Answer, Delta, Request};
use crate::retry::{Again, Attempts, RetryPolicy};

/// How many deltas may wait for a slow surface before the stream is read no further.
const DELTAS_WAITING_MAX: usize = 64;

/// The most tokens asked of one answer.
const OUTPUT_MAX: Tokens = 32_000;

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
    /// The answer broke off after this much; it will be asked for again, or an error follows.
    Broken(Message),
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
    /// happens meanwhile. Dropping the future cancels the call. `request` keeps count of what failed.
    pub async fn call(
        &self,
        model: &Model,
        request: &mut Request,
        budgets: &[Budget],
        events: &mpsc::Sender<CallEvent>,
    ) -> Result<Answer, LlmError> {
        let mut attempts = Attempts::default();
        let input = estimate_tokens(request.prompt_bytes());
        model.check_fits(input)?;
        loop {
            let need = Need { input, output_max: model.output_max(), price: model.info.price };
            let held = reserve(budgets, need).await?;
            request.output_max = held.iter().map(Reservation::output_max).min().unwrap_or(need.output_max);
            let permit = model.limiter.admit().await;
            debug!(model = %model.name, failures = request.failures, "calling");
            let mut error = match attempt(&*model.provider, request, events).await {
                Ok(answer) => {
                    permit.succeeded();
                    settle(held, &answer.usage);
                    request.failures = 0;
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if let Some(partial) = &error.partial {
                // The provider charges for what it wrote, and tells nothing when it breaks off.
                let usage = Usage { input_tokens: input, output_tokens: spoken(partial), ..Usage::default() };
                settle(held, &usage);
                drop(events.send(CallEvent::Broken(partial.clone())).await);
            } else {
                drop(held);
            }
            request.failures += 1;
            error.failures = request.failures;
            let Some(again) = self.policy.next(&error, &mut attempts, fastrand::f64()) else {
                return Err(error);
            };
            info!(model = %model.name, attempt = again.attempt, delay = ?again.delay, reason = %error, "trying again");
            let until = self.clock.now() + again.delay;
            let told = CallEvent::Retrying { again, until, tier: error.tier, reason: error.message };
            drop(events.send(told).await);
            match error.tier {
                Tier::RateLimited | Tier::Degraded => permit.park(again.delay),
                _ => tokio::time::sleep(again.delay).await,
            }
        }
    }
}

impl Model {
    fn check_fits(&self, input: Tokens) -> Result<(), LlmError> {
        if !self.is_known || input <= self.info.context {
            return Ok(());
        }
        let message =
            format!("about {input} tokens are too many for {}, which takes {} at most", self.name, self.info.context);
        Err(LlmError { kind: LlmErrorKind::Overflow, ..LlmError::input(message) }.hint(
            "give the agent the path of a large file instead of its content, or choose a model with more context",
        ))
    }

    /// What it charges, where known.
    pub fn price(&self) -> Option<Price> {
        self.info.price
    }

    /// The most tokens asked of one answer: long enough for a large file, short enough to reserve money for.
    pub fn output_max(&self) -> Tokens {
        self.info.output.min(OUTPUT_MAX)
    }
}

/// One attempt: the provider's deltas become events while it works.
async fn attempt(
    provider: &dyn Provider,
    request: &Request,
    events: &mpsc::Sender<CallEvent>,
) -> Result<Answer, LlmError> {
    let (sender, mut deltas) = mpsc::channel(DELTAS_WAITING_MAX);
    let answering = async {
        let answer = provider.answer(request, &sender).await;
        drop(sender);
        answer
    };
    let forwarding = async {
        while let Some(delta) = deltas.recv().await {
            drop(events.send(CallEvent::Delta(delta)).await);
        }
    };
    tokio::join!(answering, forwarding).0
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

fn spoken(partial: &Message) -> Tokens {
    estimate_tokens(partial.content.iter().map(crate::request::block_bytes).sum())
}

#[cfg(test)]
mod tests;
