//! OpenAI Responses, from the server's side.

use baton_core::{Block, Message, Role, StopReason};
use baton_llm::script::Ending;
use serde_json::{Value, json};

use super::read::{call_of_text, joined_text, list, push, result, text, thinking, wrong};
use super::sse::{Sse, pieces};
use super::{Format, Reply, chat, failure_message};

pub(super) struct Responses;

impl Format for Responses {
    fn history(&self) -> &'static str {
        "input"
    }

    fn messages(&self, body: &Value) -> Result<Vec<Message>, String> {
        if let Some(text) = body["input"].as_str() {
            return Ok(vec![Message::user(text)]);
        }
        let mut messages = Vec::new();
        for item in list(body, "input")? {
            if let Some((role, block)) = block(item)? {
                push(&mut messages, role, block);
            }
        }
        Ok(messages)
    }

    fn stream(&self, reply: &Reply<'_>) -> String {
        let mut events = Numbered::default();
        let opening = response(reply, "in_progress", &[]);
        events.push(json!({"type": "response.created", "response": opening}));
        events.push(json!({"type": "response.in_progress", "response": opening}));
        let items = items(reply);
        for (index, item) in items.iter().enumerate() {
            stream_item(&mut events, index, item);
        }
        match &reply.line.ending {
            Ending::Complete(stop) => {
                let whole = self.whole(reply);
                let kind =
                    if incomplete_reason(*stop).is_some() { "response.incomplete" } else { "response.completed" };
                events.push(json!({"type": kind, "response": whole}));
            }
            Ending::Cut => {}
            Ending::Failed(failure) => {
                let error = self.error(failure.status, &failure_message(failure));
                let mut failed = response(reply, "failed", &items);
                failed["error"] = json!({"code": error["error"]["code"], "message": error["error"]["message"]});
                events.push(json!({"type": "response.failed", "response": failed}));
            }
        }
        events.sse.into_text()
    }

    fn whole(&self, reply: &Reply<'_>) -> Value {
        let reason = incomplete_reason(reply.stop());
        let mut whole = response(reply, if reason.is_some() { "incomplete" } else { "completed" }, &items(reply));
        whole["incomplete_details"] = reason.map_or(Value::Null, |reason| json!({"reason": reason}));
        whole["usage"] = usage(reply);
        whole
    }

    fn error(&self, status: u16, message: &str) -> Value {
        chat::error(status, message)
    }
}

/// Events, each with its place in the order.
#[derive(Default)]
struct Numbered {
    sse: Sse,
    count: u64,
}

impl Numbered {
    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = json!(self.count);
        self.count += 1;
        self.sse.named(&event);
    }
}

fn block(item: &Value) -> Result<Option<(Role, Block)>, String> {
    let kind = item["type"].as_str().unwrap_or("message");
    Ok(Some(match kind {
        "message" => {
            let said = Block::text(joined_text(item, "content")?);
            match text(item, "role")? {
                "user" => (Role::User, said),
                "assistant" => (Role::Assistant, said),
                "system" | "developer" => return Ok(None),
                _ => return Err(wrong("role", "user, assistant, system or developer", &item["role"])),
            }
        }
        "reasoning" => {
            let summary = joined_text(item, "summary")?;
            (Role::Assistant, thinking("responses", &summary, item["encrypted_content"].as_str()))
        }
        "function_call" => {
            let call = call_of_text(text(item, "call_id")?, text(item, "name")?, text(item, "arguments")?);
            (Role::Assistant, call)
        }
        "function_call_output" => (Role::User, result(text(item, "call_id")?, joined_text(item, "output")?)),
        _ => return Err(wrong("type", "a kind of input item", &item["type"])),
    }))
}

/// The answer as output items.
fn items(reply: &Reply<'_>) -> Vec<Value> {
    let item = |(index, block): (usize, &Block)| {
        let id = |prefix| format!("{prefix}_{}_{index}", reply.position);
        Some(match block {
            Block::Thinking { text, signature } => json!({
                "id": id("rs"),
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": signature.as_ref().map(|it| &it.token),
            }),
            Block::Text { text } => json!({
                "id": id("msg"),
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }),
            Block::ToolUse(call) => json!({
                "id": id("fc"),
                "type": "function_call",
                "status": "completed",
                "call_id": call.id,
                "name": call.tool,
                "arguments": super::arguments(call),
            }),
            Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => return None,
        })
    };
    reply.message.content.iter().enumerate().filter_map(item).collect()
}

/// An item opens empty, fills piece by piece, and is repeated whole at its end.
fn stream_item(events: &mut Numbered, index: usize, item: &Value) {
    let (opening, filling) = opening_and_filling(item);
    events.push(json!({"type": "response.output_item.added", "output_index": index, "item": opening}));
    for mut event in filling {
        event["item_id"] = item["id"].clone();
        event["output_index"] = json!(index);
        events.push(event);
    }
    events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
}

fn opening_and_filling(item: &Value) -> (Value, Vec<Value>) {
    let mut opening = item.clone();
    if item["status"].is_string() {
        opening["status"] = json!("in_progress");
    }
    let mut filling = Vec::new();
    let (summary, content) = (&item["summary"][0], &item["content"][0]);
    if let Some(text) = summary["text"].as_str() {
        opening["summary"] = json!([]);
        opening["encrypted_content"] = json!("");
        let event = |name: &str, key: &str, value: Value| json!({"type": format!("response.reasoning_summary_{name}"), "summary_index": 0, key: value});
        filling.push(event("part.added", "part", json!({"type": "summary_text", "text": ""})));
        filling.extend(pieces(text).map(|piece| event("text.delta", "delta", json!(piece))));
        filling.push(event("text.done", "text", json!(text)));
        filling.push(event("part.done", "part", summary.clone()));
    } else if let Some(text) = content["text"].as_str() {
        opening["content"] = json!([]);
        let event = |name: &str, key: &str, value: Value| json!({"type": format!("response.{name}"), "content_index": 0, key: value});
        filling.push(event(
            "content_part.added",
            "part",
            json!({"type": "output_text", "text": "", "annotations": []}),
        ));
        filling.extend(pieces(text).map(|piece| event("output_text.delta", "delta", json!(piece))));
        filling.push(event("output_text.done", "text", json!(text)));
        filling.push(event("content_part.done", "part", content.clone()));
    } else if let Some(text) = item["arguments"].as_str() {
        opening["arguments"] = json!("");
        let event = |name: &str, key: &str, value: &str| json!({"type": format!("response.function_call_arguments.{name}"), key: value});
        filling.extend(pieces(text).map(|piece| event("delta", "delta", piece)));
        filling.push(event("done", "arguments", text));
    }
    (opening, filling)
}

fn response(reply: &Reply<'_>, status: &str, output: &[Value]) -> Value {
    json!({
        "id": format!("resp_{}", reply.position),
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": reply.model(),
        "output": output,
        "error": null,
        "incomplete_details": null,
        "usage": null,
    })
}

/// Input tokens include the cached ones.
fn usage(reply: &Reply<'_>) -> Value {
    json!({
        "input_tokens": reply.usage.prompt_tokens(),
        "input_tokens_details": {"cached_tokens": reply.usage.cache_read_tokens},
        "output_tokens": reply.usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reply.usage.reasoning_tokens},
        "total_tokens": reply.usage.total_tokens(),
    })
}

fn incomplete_reason(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::MaxTokens => Some("max_output_tokens"),
        StopReason::Refusal => Some("content_filter"),
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Pause => None,
    }
}
