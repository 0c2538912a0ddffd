//! The rehearsal provider: plays a script in this process instead of calling a model.

use std::sync::Arc;

use async_trait::async_trait;
use baton_core::{Block, Clock, Message, Tier, Usage};
use tokio::sync::mpsc;

use crate::error::{LlmError, classify, words_of};
use crate::provider::Provider;
use crate::request::{Answer, Delta, Request};
use crate::retry::parse_retry_after;
use crate::script::{Ending, Failure, Script, ScriptError};

/// Answers from a script.
pub struct RehearsalProvider {
    script: Script,
    clock: Arc<dyn Clock>,
}

impl RehearsalProvider {
    /// Plays this script.
    pub fn new(script: Script, clock: Arc<dyn Clock>) -> Self {
        Self { script, clock }
    }

    fn failed(&self, failure: &Failure) -> LlmError {
        let body = failure.body_text().unwrap_or_else(|| "the script says so".to_owned());
        let now = self.clock.now();
        let wait = failure.retry_after.as_ref().and_then(|after| parse_retry_after(&after.header(now), now));
        classify("script", failure.status, &words_of(body.as_bytes()), wait)
    }
}

impl From<ScriptError> for LlmError {
    fn from(error: ScriptError) -> Self {
        let hint = error.hint;
        let error = Self::input(error.to_string());
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

#[async_trait]
impl Provider for RehearsalProvider {
    fn place(&self, request: &Request) -> Option<serde_json::Value> {
        serde_json::to_value(self.script.place(&request.past, &request.role, &request.messages)).ok()
    }

    async fn answer(&self, request: &Request, deltas: &mpsc::Sender<Delta>) -> Result<Answer, LlmError> {
        let line = self.script.pick_after(&request.past, &request.role, &request.messages, request.failures)?;
        // Even a sleep of nothing costs a tick of the timer.
        if !line.delay.is_zero() {
            tokio::time::sleep(line.delay).await;
        }
        let message = line.message_at(self.script.answers(&request.past, &request.messages));
        if let (Ending::Failed(failure), true) = (&line.ending, message.content.is_empty()) {
            return Err(self.failed(failure));
        }
        stream(&message, deltas).await;
        match &line.ending {
            Ending::Complete(stop) => {
                let mut usage = line.usage(request.prompt_bytes());
                // No provider writes more than it was allowed to.
                usage.output_tokens = usage.output_tokens.min(request.output_max);
                Ok(Answer { message, stop: *stop, usage })
            }
            Ending::Cut => {
                let error = LlmError::provider(Tier::Transient, "script: the answer broke off");
                Err(error.with_partial(message, Usage::default()))
            }
            Ending::Failed(failure) => Err(self.failed(failure).with_partial(message, Usage::default())),
        }
    }
}

/// Sends a message as if it were being written: line by line, so that surfaces show it grow.
async fn stream(message: &Message, deltas: &mpsc::Sender<Delta>) {
    for block in &message.content {
        let pieces: Vec<Delta> = match block {
            Block::Text { text } => text.split_inclusive('\n').map(|line| Delta::Text(line.to_owned())).collect(),
            Block::Thinking { text, .. } => vec![Delta::Thinking(text.clone())],
            Block::ToolUse(call) => vec![Delta::ToolCall { id: call.id.clone(), tool: call.tool.clone() }],
            Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => Vec::new(),
        };
        for piece in pieces {
            // Nobody listening is no reason to lose the answer.
            drop(deltas.send(piece).await);
        }
    }
}
