//! Gemini `generateContent` and `streamGenerateContent`, from the server's side.

use baton_core::{Block, Message, Role, StopReason};
use baton_llm::script::Ending;
use serde_json::{Value, json};

use super::read::{call, list, result, text, thinking, wrong};
use super::sse::{Sse, pieces};
use super::{Format, Reply, failure_message};

pub(super) struct Gemini;

impl Format for Gemini {
    fn history(&self) -> &'static str {
        "contents"
    }

    fn messages(&self, body: &Value) -> Result<Vec<Message>, String> {
        list(body, "contents")?.iter().map(message).collect()
    }

    fn stream(&self, reply: &Reply<'_>) -> String {
        let mut sse = Sse::default();
        for part in parts(reply, |text| pieces(text).collect()) {
            let candidate = json!({"content": {"role": "model", "parts": [part]}, "index": 0});
            sse.data(&chunk(reply, &[candidate]).to_string());
        }
        match &reply.line.ending {
            Ending::Complete(_) => sse.data(&end(reply, &[]).to_string()),
            Ending::Cut => {}
            Ending::Failed(failure) => sse.data(&self.error(failure.status, &failure_message(failure)).to_string()),
        }
        sse.into_text()
    }

    fn whole(&self, reply: &Reply<'_>) -> Value {
        end(reply, &parts(reply, |text| vec![text]))
    }

    fn error(&self, status: u16, message: &str) -> Value {
        let name = match status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 | 529 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            400..500 => "INVALID_ARGUMENT",
            _ => "INTERNAL",
        };
        json!({"error": {"code": status, "message": message, "status": name}})
    }
}

fn message(turn: &Value) -> Result<Message, String> {
    let role = match turn["role"].as_str() {
        None | Some("user") => Role::User,
        Some("model") => Role::Assistant,
        Some(_) => return Err(wrong("role", "user or model", &turn["role"])),
    };
    let content = list(turn, "parts")?.iter().filter_map(|part| block(part).transpose()).collect::<Result<_, _>>()?;
    Ok(Message { role, content })
}

fn block(part: &Value) -> Result<Option<Block>, String> {
    // Calls and results are paired by their order where they have no id.
    let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
    let (asked, answered) = (&part["functionCall"], &part["functionResponse"]);
    Ok(Some(if asked.is_object() {
        call(&id(asked), text(asked, "name")?, asked["args"].clone())
    } else if answered.is_object() {
        text(answered, "name")?;
        result(&id(answered), response_text(&answered["response"]))
    } else if part["thought"] == true {
        thinking("gemini", text(part, "text")?, part["thoughtSignature"].as_str())
    } else if part["inlineData"].is_object() {
        return Ok(None);
    } else {
        Block::text(text(part, "text")?)
    }))
}

/// A response is an object of any shape: what it says is in its strings.
fn response_text(response: &Value) -> String {
    let fields = response.as_object().into_iter().flatten();
    fields.filter_map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("\n")
}

/// The parts of a message, its texts split by `split`. A signature rides on the part after its thought.
fn parts<'a>(reply: &'a Reply<'_>, split: impl Fn(&'a str) -> Vec<&'a str>) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut pending = None;
    let mut push = |mut part: Value, signature: &mut Option<&str>| {
        if let Some(token) = signature.take() {
            part["thoughtSignature"] = json!(token);
        }
        parts.push(part);
    };
    for block in &reply.message.content {
        match block {
            Block::Thinking { text, signature } => {
                for piece in split(text) {
                    push(json!({"text": piece, "thought": true}), &mut None);
                }
                pending = signature.as_ref().map(|it| it.token.as_str());
            }
            Block::Text { text } => {
                for piece in split(text) {
                    push(json!({"text": piece}), &mut pending);
                }
            }
            // The format cannot carry a broken call: it drops the calls and says so at the end.
            Block::ToolUse(call) if malformed(&reply.message).is_none() => {
                let function = json!({"name": call.tool, "args": call.input, "id": call.id});
                push(json!({"functionCall": function}), &mut pending);
            }
            Block::ToolUse(_) | Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => {}
        }
    }
    if pending.is_some() {
        push(json!({"text": ""}), &mut pending);
    }
    parts
}

fn malformed(message: &Message) -> Option<&str> {
    message.tool_uses().find_map(|call| call.malformed.as_deref())
}

/// The last chunk, or the only one.
fn end(reply: &Reply<'_>, parts: &[Value]) -> Value {
    let stop = reply.stop();
    if stop == StopReason::Refusal && reply.message.content.is_empty() {
        let mut blocked = chunk(reply, &[]);
        blocked["promptFeedback"] = json!({"blockReason": "SAFETY"});
        return blocked;
    }
    let content = json!({"role": "model", "parts": parts});
    let mut candidate = json!({"content": content, "finishReason": finish_reason(stop), "index": 0});
    if let Some(text) = malformed(&reply.message) {
        candidate["finishReason"] = json!("MALFORMED_FUNCTION_CALL");
        candidate["finishMessage"] = json!(format!("Malformed function call: {text}"));
    }
    chunk(reply, &[candidate])
}

fn chunk(reply: &Reply<'_>, candidates: &[Value]) -> Value {
    json!({
        "candidates": candidates,
        "usageMetadata": usage(reply),
        "modelVersion": "script",
        "responseId": format!("resp_{}", reply.position),
    })
}

/// Prompt tokens include the cached ones; candidates leave the thoughts out.
fn usage(reply: &Reply<'_>) -> Value {
    json!({
        "promptTokenCount": reply.usage.prompt_tokens(),
        "cachedContentTokenCount": reply.usage.cache_read_tokens,
        "candidatesTokenCount": reply.usage.output_tokens.saturating_sub(reply.usage.reasoning_tokens),
        "thoughtsTokenCount": reply.usage.reasoning_tokens,
        "totalTokenCount": reply.usage.total_tokens(),
    })
}

fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Pause => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
    }
}
