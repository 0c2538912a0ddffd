//! Compacting: when a history gets too long, a summary and what must not be forgotten take its place.

use baton_config::Section;
use baton_core::{AgentRole, EventBody, Message, Role, Tokens, TurnReason};
use baton_llm::script::SUMMARY_ROLE;
use baton_llm::{Past, Request, estimate_tokens, message_bytes};
use baton_session::{Compacted, Own, compaction};
use baton_tools::BackgroundProcess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::turn::{Agent, End, Tally};

/// No more than this is kept free for the next answer.
const RESERVE_MAX: Tokens = 40_000;
/// No more than this is kept of what was said last.
const KEEP_MAX: Tokens = 20_000;
/// How many tokens a summary may have.
const SUMMARY_MAX: Tokens = 8_000;

/// The setting `compaction`: when and how a history is replaced by a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompactionSettings {
    /// Whether it is done without being asked for, when the model's context is nearly full.
    pub auto: bool,
    /// How many tokens of the context are kept free.
    pub reserve_tokens: Option<Tokens>,
    /// How many tokens of what was said last are kept as they are.
    pub keep_tokens: Option<Tokens>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { auto: true, reserve_tokens: None, keep_tokens: None }
    }
}

impl Section for CompactionSettings {
    const KEY: &'static str = "compaction";
}

/// How many tokens the model was last known to have read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    tokens: Tokens,
    bytes: usize,
}

impl Measured {
    /// What a call has shown: its tokens, and the bytes that they were.
    pub(crate) fn new(tokens: Tokens, bytes: usize) -> Self {
        Self { tokens, bytes }
    }
}

impl Agent {
    /// About how many tokens the next request has: what is known of the last one, and an estimate of what was added. What a
    /// provider says is believed as far as it can be true: no token is shorter than a byte.
    fn tokens(&self) -> Tokens {
        let bytes = self.request.prompt_bytes();
        match self.measured {
            Measured { tokens, bytes: known } if tokens > 0 && bytes >= known => {
                tokens.min(known as Tokens) + estimate_tokens(bytes - known)
            }
            _ => estimate_tokens(bytes),
        }
    }

    /// Whether the next request would leave too little room for an answer.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let context = self.model.info.context;
        let reserve = self.compaction.reserve_tokens.unwrap_or((context / 4).min(RESERVE_MAX));
        self.compaction.auto && self.tokens() > context.saturating_sub(reserve)
    }

    /// Compacts between turns, because the person says so. Like a turn it ends with `turn.end`.
    pub(crate) async fn compact_now(&mut self, focus: Option<&str>, cancel: &CancellationToken) {
        let (started, mut tally) = (Instant::now(), Tally::default());
        let is_compacted = self.compact(focus, cancel, &mut tally).await;
        let text = if is_compacted { "the conversation is compacted" } else { "there is nothing to compact yet" };
        text.clone_into(&mut tally.text);
        let item = self.events.new_item();
        self.end_turn(started, &item, End::plain(TurnReason::Done), tally).await;
    }

    /// Replaces what came before by a summary; whether there was anything to replace.
    pub(crate) async fn compact(&mut self, focus: Option<&str>, cancel: &CancellationToken, tally: &mut Tally) -> bool {
        let context = self.model.info.context;
        let before_tokens = self.tokens();
        // Of a short history, which the person wants shorter, less is kept.
        let keep = self.compaction.keep_tokens.unwrap_or((context / 5).min(KEEP_MAX)).min(before_tokens / 4);
        // An estimate takes a token for three bytes.
        let keep_bytes = usize::try_from(keep.saturating_mul(3)).unwrap_or(usize::MAX);
        let Some(at) = compaction::cut(&self.request.messages, &self.began, keep_bytes, message_bytes) else {
            return false;
        };
        let text = format!("compacting the conversation: about {before_tokens} of {context} tokens are used");
        self.events.emit_lone(EventBody::Noticed { text }).await;
        let summary = match self.summarise(focus, at, cancel, tally).await {
            Ok(summary) => summary,
            Err(why) => {
                warn!("no summary: {why}");
                let text = format!("the model gave no summary ({why}): the last words stand in for it");
                self.events.emit_lone(EventBody::Noticed { text }).await;
                compaction::mechanical(&self.request.messages[..at])
            }
        };
        let mut carried = self.events.keeping().carried();
        carried.running = self.executor.workspace().background().running().iter().map(running).collect();
        let message = compaction::message(&self.context, &carried, &summary);
        if let Some(place) = self.model.place(&self.request) {
            self.places.insert(self.request.role.to_string(), place);
        }
        let kept = self.began.get(at).cloned().flatten();
        let compacted = Compacted { message: message.clone(), kept, carried, places: self.places.clone() };
        self.watch().lost_sight(&compacted.carried);
        self.events.keep(Own::Compacted(Box::new(compacted))).await;
        self.request.messages.splice(..at, [message]);
        self.began.splice(..at, [None]);
        let counted = self.request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        self.request.past = Past { place: self.places.get(self.request.role.as_str()).cloned(), counted };
        self.measured = Measured::default();
        let after_tokens = self.tokens();
        info!(before_tokens, after_tokens, "compacted");
        self.events.emit_lone(EventBody::Compacted { before_tokens, after_tokens }).await;
        true
    }

    /// Asks the model to sum up what is about to go. It reads the conversation as it stands, so that a provider's cache
    /// serves it; what does not fit is left out from its beginning.
    async fn summarise(
        &mut self,
        focus: Option<&str>,
        at: usize,
        cancel: &CancellationToken,
        tally: &mut Tally,
    ) -> Result<String, String> {
        let mut instruction = compaction::INSTRUCTION.to_owned();
        if let Some(focus) = focus.map(str::trim).filter(|focus| !focus.is_empty()) {
            instruction += "\nThe person asks you to dwell on this: ";
            instruction += focus;
            instruction += "\n";
        }
        let room = self.model.info.context.saturating_sub(SUMMARY_MAX + estimate_tokens(instruction.len()));
        let mut messages = self.request.messages.clone();
        if self.tokens() > room {
            let bytes_max = usize::try_from(room.saturating_mul(2)).unwrap_or(usize::MAX);
            let fits = compaction::cut(&messages[..at], &self.began[..at], bytes_max, message_bytes).unwrap_or(0);
            messages = messages[fits.min(at.saturating_sub(1))..at].to_vec();
        }
        let counted = messages.iter().filter(|message| message.role == Role::Assistant).count();
        messages.push(Message::user(instruction));
        let mut request = Request {
            messages,
            role: AgentRole::new(SUMMARY_ROLE),
            web_search: false,
            failures: 0,
            past: Past { place: self.places.get(SUMMARY_ROLE).cloned(), counted },
            ..self.request.without_messages()
        };
        // Nobody watches a summary being written.
        let (sender, mut happened) = mpsc::channel(16);
        let outcome = {
            let calling = self.gate.call(&self.model, &mut request, &self.budgets, &sender, cancel);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    outcome = &mut calling => break outcome,
                    Some(_) = happened.recv() => {}
                }
            }
        };
        let answer = outcome.map_err(|error| error.fault().message)?;
        let cost_usd = self.model.price().map(|price| price.of(&answer.usage));
        tally.usage += answer.usage;
        tally.cost += cost_usd.unwrap_or_default();
        let model = self.model.name.to_string();
        self.events.emit_lone(EventBody::UsageReported { model, usage: answer.usage, cost_usd }).await;
        request.messages.push(answer.message.clone());
        if let Some(place) = self.model.place(&request) {
            self.places.insert(SUMMARY_ROLE.to_owned(), place);
        }
        let summary = answer.message.text();
        if summary.trim().is_empty() { Err("it said nothing".to_owned()) } else { Ok(summary) }
    }
}

fn running(process: &BackgroundProcess) -> String {
    format!("{}: {} (process {})", process.id, process.command, process.pid)
}
