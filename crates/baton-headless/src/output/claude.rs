//! `--output-format stream-json` and `json`: the events in the form of Claude Code's headless mode.

use std::collections::BTreeMap;

use baton_core::{Block, Event, EventBody, Message, StopReason, TurnReason, Usage, Usd};
use serde_json::{Value, json};

use crate::anthropic_form::{stop_reason, usage};

/// Turns events into lines of that form.
#[derive(Default)]
pub(crate) struct Claude {
    model: String,
    /// An answer waits for its usage, which stands in the same lines.
    answer: Option<Message>,
    stop: Option<StopReason>,
    denials: Vec<Value>,
    inputs: BTreeMap<String, Value>,
    /// How long tools ran; the rest of a turn was spent with the model.
    tools_ms: u64,
    errors: Vec<String>,
}

impl Claude {
    /// The lines that an event becomes.
    pub(super) fn lines(&mut self, event: &Event) -> Vec<Value> {
        let line = match &event.body {
            EventBody::SessionStarted { cwd, model, mode, version, tools, .. } => {
                self.model.clone_from(model);
                json!({
                    "type": "system", "subtype": "init", "cwd": cwd, "tools": tools, "mcp_servers": [], "model": model,
                    "permissionMode": mode, "slash_commands": [], "version": version,
                })
            }
            EventBody::MessageEnded { message, stop } => {
                self.stop = *stop;
                let before = self.answer.replace(message.clone());
                return self.assistant(event, before, &Usage::default());
            }
            EventBody::UsageReported { usage, .. } => {
                let answer = self.answer.take();
                return self.assistant(event, answer, usage);
            }
            EventBody::ToolStarted { call, input, .. } => {
                self.inputs.insert(call.to_string(), input.clone());
                return Vec::new();
            }
            EventBody::ToolEnded { call, tool, output, images, is_error, duration_ms, .. } => {
                self.tools_ms += duration_ms;
                let input = self.inputs.remove(call.as_str()).unwrap_or_default();
                if output.starts_with("refused: ") {
                    self.denials.push(json!({ "tool_name": tool, "tool_use_id": call, "tool_input": input }));
                }
                let pictures = images.iter().map(|image| picture(&image.media_type, &image.data));
                let content: Value = if images.is_empty() {
                    json!(output)
                } else {
                    std::iter::once(json!({ "type": "text", "text": output })).chain(pictures).collect()
                };
                let result =
                    json!({ "type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error });
                json!({ "type": "user", "message": { "role": "user", "content": [result] }, "parent_tool_use_id": null })
            }
            EventBody::Failed(fault) => {
                self.errors.push(fault.message.clone());
                return Vec::new();
            }
            EventBody::TurnEnded { reason, text, answer, usage, cost_usd, steps, duration_ms } => {
                let mut result = self.result(*reason, text, usage, *cost_usd, *steps, *duration_ms);
                if let Some(answer) = answer {
                    result["structured_output"] = answer.clone();
                }
                result
            }
            _ => return Vec::new(),
        };
        vec![stamped(event, line)]
    }

    /// One line for each block of an answer, all with its id.
    fn assistant(&self, event: &Event, message: Option<Message>, used: &Usage) -> Vec<Value> {
        let blocks = message.into_iter().flat_map(|message| message.content);
        let line = |content: Value| {
            let message = json!({
                "id": event.stamp.item, "type": "message", "role": "assistant", "model": self.model,
                "content": [content], "stop_reason": null, "stop_sequence": null, "usage": usage(used),
            });
            stamped(event, json!({ "type": "assistant", "message": message, "parent_tool_use_id": null }))
        };
        blocks.map(|content| line(block(&content))).collect()
    }

    fn result(&self, reason: TurnReason, text: &str, used: &Usage, cost: Usd, steps: u32, duration_ms: u64) -> Value {
        let subtype = match reason {
            TurnReason::Done => "success",
            TurnReason::Steps => "error_max_turns",
            TurnReason::Budget => "error_max_budget_usd",
            _ => "error_during_execution",
        };
        let by_model = json!({
            "inputTokens": used.input_tokens, "outputTokens": used.output_tokens,
            "cacheReadInputTokens": used.cache_read_tokens, "cacheCreationInputTokens": used.cache_write_tokens,
            "costUSD": cost,
        });
        json!({
            "type": "result", "subtype": subtype, "is_error": reason != TurnReason::Done, "duration_ms": duration_ms,
            "duration_api_ms": duration_ms.saturating_sub(self.tools_ms), "num_turns": steps, "result": text, "total_cost_usd": cost,
            "usage": usage(used), "modelUsage": { &self.model: by_model }, "permission_denials": self.denials,
            "errors": self.errors, "stop_reason": self.stop.map(stop_reason),
            "terminal_reason": if reason == TurnReason::Done { json!("completed") } else { json!(reason) },
        })
    }
}

fn stamped(event: &Event, mut line: Value) -> Value {
    line["session_id"] = json!(event.stamp.session);
    if line["type"] == "assistant" || line["type"] == "user" {
        line["timestamp"] = json!(event.stamp.at);
    }
    line["uuid"] = json!(event.stamp.id);
    line
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text { text } => json!({ "type": "text", "text": text }),
        Block::Thinking { text, signature } => {
            let token = signature.as_ref().map(|signature| signature.token.as_str()).unwrap_or_default();
            json!({ "type": "thinking", "thinking": text, "signature": token })
        }
        Block::ToolUse(call) => json!({ "type": "tool_use", "id": call.id, "name": call.tool, "input": call.input }),
        Block::ToolResult(result) => {
            let (id, text, is_error) = (&result.id, &result.text, result.is_error);
            json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error })
        }
        Block::Image(image) => picture(&image.media_type, &image.data),
        Block::Foreign(foreign) => foreign.raw.clone(),
    }
}

fn picture(media_type: &str, data: &str) -> Value {
    json!({ "type": "image", "source": { "type": "base64", "media_type": media_type, "data": data } })
}
