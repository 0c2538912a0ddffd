//! OpenAI Chat Completions, from the server's side.

use baton_core::{Block, Message, Role, StopReason};
use baton_llm::script::Ending;
use serde_json::{Value, json};

use super::read::{call_of_text, joined_text, list, result, text, thinking, wrong};
use super::sse::{Sse, pieces};
use super::{Format, Reply, failure_message};

pub(super) struct Chat;

impl Format for Chat {
    fn history(&self) -> &'static str {
        "messages"
    }

    fn messages(&self, body: &Value) -> Result<Vec<Message>, String> {
        list(body, "messages")?.iter().filter_map(|turn| message(turn).transpose()).collect()
    }

    fn stream(&self, reply: &Reply<'_>) -> String {
        let mut sse = Sse::default();
        sse.comment("keep-alive");
        for delta in deltas(&reply.message) {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
            sse.data(&chunk(reply, &[choice]).to_string());
        }
        match &reply.line.ending {
            Ending::Complete(stop) => {
                let choice = json!({"index": 0, "delta": {}, "finish_reason": finish_reason(*stop)});
                sse.data(&chunk(reply, &[choice]).to_string());
                if reply.request["stream_options"]["include_usage"] == true {
                    let mut last = chunk(reply, &[]);
                    last["usage"] = usage(reply);
                    sse.data(&last.to_string());
                }
                sse.data("[DONE]");
            }
            Ending::Cut => {}
            Ending::Failed(failure) => sse.data(&error(failure.status, &failure_message(failure)).to_string()),
        }
        sse.into_text()
    }

    fn whole(&self, reply: &Reply<'_>) -> Value {
        let mut message = json!({"role": "assistant", "content": null});
        let mut calls = Vec::new();
        for block in &reply.message.content {
            match block {
                Block::Thinking { text, .. } => message["reasoning_content"] = json!(text),
                Block::Text { text } => message["content"] = json!(text),
                Block::ToolUse(call) => {
                    let function = json!({"name": call.tool, "arguments": super::arguments(call)});
                    calls.push(json!({"id": call.id, "type": "function", "function": function}));
                }
                Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => {}
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason(reply.stop())});
        let mut whole = chunk(reply, &[choice]);
        whole["object"] = json!("chat.completion");
        whole["usage"] = usage(reply);
        whole
    }

    fn error(&self, status: u16, message: &str) -> Value {
        error(status, message)
    }
}

/// An error in the form that both of OpenAI's formats share.
pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("rate_limit_error", Some("rate_limit_exceeded")),
        503 | 529 => ("server_error", Some("server_is_overloaded")),
        400..500 => ("invalid_request_error", None),
        _ => ("server_error", Some("server_error")),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn message(turn: &Value) -> Result<Option<Message>, String> {
    let content = joined_text(turn, "content")?;
    let (role, content) = match text(turn, "role")? {
        "system" | "developer" => return Ok(None),
        "user" => (Role::User, vec![Block::text(content)]),
        "tool" => (Role::User, vec![result(text(turn, "tool_call_id")?, content)]),
        "assistant" => {
            let thoughts = turn["reasoning_content"].as_str().map(|thoughts| thinking("chat", thoughts, None));
            let spoken = (!content.is_empty()).then(|| Block::text(content));
            let mut blocks = thoughts.into_iter().chain(spoken).collect::<Vec<_>>();
            if !turn["tool_calls"].is_null() {
                for call in list(turn, "tool_calls")? {
                    let function = &call["function"];
                    blocks.push(call_of_text(text(call, "id")?, text(function, "name")?, text(function, "arguments")?));
                }
            }
            (Role::Assistant, blocks)
        }
        _ => return Err(wrong("role", "system, developer, user, assistant or tool", &turn["role"])),
    };
    Ok(Some(Message { role, content }))
}

/// The deltas of a message. Parallel calls arrive interleaved, a piece of each in turn.
fn deltas(message: &Message) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for block in &message.content {
        match block {
            Block::Thinking { text, .. } => {
                deltas.extend(pieces(text).map(|piece| json!({"reasoning_content": piece})));
            }
            Block::Text { text } => deltas.extend(pieces(text).map(|piece| json!({"content": piece}))),
            Block::ToolUse(_) | Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => {}
        }
    }
    let tool_call = |call: Value| json!({"tool_calls": [call]});
    for (index, call) in message.tool_uses().enumerate() {
        let function = json!({"name": call.tool, "arguments": ""});
        deltas.push(tool_call(json!({"index": index, "id": call.id, "type": "function", "function": function})));
    }
    let arguments = message.tool_uses().map(super::arguments).collect::<Vec<_>>();
    let mut rests = arguments.iter().map(|text| pieces(text)).collect::<Vec<_>>();
    loop {
        let before = deltas.len();
        for (index, rest) in rests.iter_mut().enumerate() {
            let more = rest.next().map(|piece| json!({"index": index, "function": {"arguments": piece}}));
            deltas.extend(more.map(tool_call));
        }
        if deltas.len() == before {
            return deltas;
        }
    }
}

fn chunk(reply: &Reply<'_>, choices: &[Value]) -> Value {
    json!({
        "id": format!("chatcmpl-{}", reply.position),
        "object": "chat.completion.chunk",
        "created": 0,
        "model": reply.model(),
        "choices": choices,
    })
}

/// Prompt tokens include the cached ones.
fn usage(reply: &Reply<'_>) -> Value {
    json!({
        "prompt_tokens": reply.usage.prompt_tokens(),
        "completion_tokens": reply.usage.output_tokens,
        "total_tokens": reply.usage.total_tokens(),
        "prompt_tokens_details": {"cached_tokens": reply.usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": reply.usage.reasoning_tokens},
    })
}

fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::Pause => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}
