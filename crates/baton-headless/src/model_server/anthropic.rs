//! Anthropic Messages, from the server's side.

use baton_core::{Block, Message, Role};
use baton_llm::script::Ending;
use serde_json::{Value, json};

use crate::anthropic_form::{stop_reason, usage};

use super::read::{call, joined_text, list, result, text, thinking, wrong};
use super::sse::{Sse, pieces};
use super::{Format, Reply, failure_message};

pub(super) struct Anthropic;

impl Format for Anthropic {
    fn history(&self) -> &'static str {
        "messages"
    }

    fn messages(&self, body: &Value) -> Result<Vec<Message>, String> {
        list(body, "messages")?.iter().map(message).collect()
    }

    fn stream(&self, reply: &Reply<'_>) -> String {
        let mut sse = Sse::default();
        let mut start = self.whole(reply);
        start["content"] = json!([]);
        start["stop_reason"] = Value::Null;
        start["usage"]["output_tokens"] = json!(1);
        sse.named(&json!({"type": "message_start", "message": start}));
        sse.named(&json!({"type": "ping"}));
        for (index, block) in reply.message.content.iter().enumerate() {
            let Some((start, deltas)) = opening_and_deltas(block) else { continue };
            sse.named(&json!({"type": "content_block_start", "index": index, "content_block": start}));
            for delta in deltas {
                sse.named(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
            }
            sse.named(&json!({"type": "content_block_stop", "index": index}));
        }
        match &reply.line.ending {
            Ending::Complete(stop) => {
                let delta = json!({"stop_reason": stop_reason(*stop), "stop_sequence": null});
                sse.named(&json!({"type": "message_delta", "delta": delta, "usage": usage(&reply.usage)}));
                sse.named(&json!({"type": "message_stop"}));
            }
            Ending::Cut => {}
            Ending::Failed(failure) => sse.named(&self.error(failure.status, &failure_message(failure))),
        }
        sse.into_text()
    }

    fn whole(&self, reply: &Reply<'_>) -> Value {
        json!({
            "id": format!("msg_{}", reply.position),
            "type": "message",
            "role": "assistant",
            "model": reply.model(),
            "content": reply.message.content.iter().filter_map(whole_block).collect::<Vec<_>>(),
            "stop_reason": stop_reason(reply.stop()),
            "stop_sequence": null,
            "usage": usage(&reply.usage),
        })
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            400..500 => "invalid_request_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": message}})
    }
}

fn message(turn: &Value) -> Result<Message, String> {
    let role = match text(turn, "role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => return Err(wrong("role", "user or assistant", &turn["role"])),
    };
    let content = match &turn["content"] {
        Value::String(text) => vec![Block::text(text)],
        _ => list(turn, "content")?.iter().filter_map(|part| block(part).transpose()).collect::<Result<_, _>>()?,
    };
    Ok(Message { role, content })
}

fn block(part: &Value) -> Result<Option<Block>, String> {
    Ok(Some(match text(part, "type")? {
        "text" => Block::text(text(part, "text")?),
        "thinking" => thinking("anthropic", text(part, "thinking")?, Some(text(part, "signature")?)),
        "redacted_thinking" => thinking("anthropic", "", Some(text(part, "data")?)),
        "tool_use" => call(text(part, "id")?, text(part, "name")?, part["input"].clone()),
        "tool_result" => result(text(part, "tool_use_id")?, joined_text(part, "content")?),
        "image" | "server_tool_use" | "web_search_tool_result" => return Ok(None),
        _ => return Err(wrong("type", "a kind of block", &part["type"])),
    }))
}

fn opening_and_deltas(block: &Block) -> Option<(Value, Vec<Value>)> {
    Some(match block {
        Block::Thinking { text, signature } => {
            let thoughts = pieces(text).map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
            let signed = signature.iter().map(|it| json!({"type": "signature_delta", "signature": it.token}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), thoughts.chain(signed).collect())
        }
        Block::Text { text } => {
            let deltas = pieces(text).map(|piece| json!({"type": "text_delta", "text": piece}));
            (json!({"type": "text", "text": ""}), deltas.collect())
        }
        Block::ToolUse(call) => {
            let arguments = super::arguments(call);
            let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            let start = json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}});
            (start, [""].into_iter().chain(pieces(&arguments)).map(delta).collect())
        }
        Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => return None,
    })
}

fn whole_block(block: &Block) -> Option<Value> {
    Some(match block {
        Block::Thinking { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature.as_ref().map(|it| &it.token)})
        }
        Block::Text { text } => json!({"type": "text", "text": text}),
        Block::ToolUse(call) => {
            let input = call.malformed.as_ref().map_or_else(|| call.input.clone(), |text| json!(text));
            json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": input})
        }
        Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => return None,
    })
}
