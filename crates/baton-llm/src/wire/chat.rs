//! OpenAI Chat Completions, as the many compatible servers speak it.
//!
//! OpenAI itself is spoken to by the Responses format, so this one keeps to what the others know:
//! `max_tokens`, three levels of effort, no cache keys.

use std::mem;

use baton_core::{Block, CallId, Image, Message, Role, Signature, StopReason, ToolSpec, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::assemble::{self, Assembly, End, Format, count};
use super::filled;
use crate::request::{Effort, Request};

#[cfg(test)]
mod tests;

/// Reasoning of this format is not signed. Some servers (DeepSeek, Kimi, Mistral) want it back
/// nevertheless, so the token is the name of the field that it came in and goes back in.
const WIRE: &str = "chat";
/// Reasoning as OpenRouter passes it on from those who sign: the token is the JSON of the field
/// `reasoning_details`, whose pieces are put together and otherwise left as they are.
const WIRE_DETAILS: &str = "chat-details";

/// The field of reasoning that is a part of the content, as Mistral has it. Mistral refuses the fields
/// of the others, and says of its own that models do worse without it.
const CONTENT: &str = "content";

/// The fields of a piece of `reasoning_details` that continue those of the piece before.
const SPOKEN: [&str; 3] = ["text", "summary", "data"];

/// The path below the base URL.
pub(super) fn path() -> String {
    "/chat/completions".to_owned()
}

/// The body of a request.
pub(super) fn encode(request: &Request) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(message, &mut messages),
            Role::Assistant => messages.extend(assistant(message)),
        }
    }
    let mut body = json!({
        "model": request.model,
        "messages": null,
        "max_tokens": request.output_max,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body = filled(body, "messages", messages);
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(effort) = request.effort {
        body["reasoning_effort"] = json!(match effort {
            Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::Max => "high",
        });
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    })
}

/// Tool results come first, one message each. They take text only: their pictures follow in the
/// message of the user, which is a plain string unless it has pictures.
fn user(message: &Message, messages: &mut Vec<Value>) {
    let mut parts = Vec::new();
    for block in &message.content {
        match block {
            Block::ToolResult(result) => {
                messages.push(json!({"role": "tool", "tool_call_id": result.id, "content": result.text}));
                if !result.images.is_empty() {
                    parts.push(text_part(&format!("Pictures of the result of {}:", result.id)));
                    parts.extend(result.images.iter().map(image));
                }
            }
            Block::Text { text } if text.is_empty() => {}
            Block::Text { text } => parts.push(text_part(text)),
            Block::Image(picture) => parts.push(image(picture)),
            Block::Thinking { .. } | Block::ToolUse(_) | Block::Foreign(_) => {}
        }
    }
    if parts.iter().any(|part| part["type"] == "image_url") {
        messages.push(filled(json!({"role": "user", "content": null}), "content", parts));
    } else if !parts.is_empty() {
        messages.push(json!({"role": "user", "content": message.text()}));
    }
}

fn assistant(message: &Message) -> Option<Value> {
    let mut reply = json!({"role": "assistant", "content": null});
    let text = message.text();
    if !text.is_empty() {
        reply[CONTENT] = json!(text);
    }
    for block in &message.content {
        let Block::Thinking { text: thought, signature: Some(Signature { wire, token }) } = block else { continue };
        match (wire.as_str(), token.as_str()) {
            (WIRE, CONTENT) => {
                let mut parts = vec![json!({"type": "thinking", "thinking": [text_part(thought)]})];
                parts.extend((!text.is_empty()).then(|| text_part(&text)));
                reply[CONTENT] = Value::Array(parts);
            }
            (WIRE, field) => reply[field] = json!(thought),
            (WIRE_DETAILS, details) => {
                if let Ok(details) = serde_json::from_str::<Value>(details) {
                    reply["reasoning_details"] = details;
                }
            }
            _ => {}
        }
    }
    let calls: Vec<_> = message
        .tool_uses()
        .map(|call| {
            let arguments = call.input.to_string();
            json!({"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": arguments}})
        })
        .collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    if !calls.is_empty() {
        reply["tool_calls"] = Value::Array(calls);
    }
    Some(reply)
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image(image: &Image) -> Value {
    let url = format!("data:{};base64,{}", image.media_type, image.data);
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// A decoder. The answer is whole when a finish reason came and then `[DONE]` or the end; in between
/// come the tokens used.
pub(super) type Decoder = assemble::Decoder<Chat>;

impl Decoder {
    /// A decoder for one response; `call_ids` names the calls that the server leaves unnamed.
    pub(super) fn new(call_ids: Box<dyn FnMut() -> CallId + Send>) -> Self {
        Self::of(Chat {
            call_ids,
            calls: Vec::new(),
            details: Vec::new(),
            refused: false,
            stop: None,
            usage: Usage::default(),
        })
    }
}

/// The state of one response.
pub(super) struct Chat {
    call_ids: Box<dyn FnMut() -> CallId + Send>,
    calls: Vec<Call>,
    /// OpenRouter's account of the reasoning.
    details: Vec<Value>,
    refused: bool,
    stop: Option<StopReason>,
    usage: Usage,
}

/// What is needed to recognise the next piece of a call.
struct Call {
    index: Option<u64>,
    /// As the server gave it.
    id: Option<String>,
    has_arguments: bool,
}

/// A message of this format has one text and one piece of reasoning, however they are interleaved.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Key {
    /// Its reasoning.
    Thinking,
    /// Its text.
    Text,
    /// One of its calls, by position.
    Call(usize),
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Change>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Change {
    content: Option<Content>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    reasoning_details: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallPiece>>,
}

/// A text everywhere; at Mistral a list too, while the model thinks.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text {
        text: String,
    },
    Thinking {
        thinking: Vec<Part>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize, Default)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

impl Format for Chat {
    type Key = Key;

    fn event(&mut self, data: &str, answer: &mut Assembly<Key>) -> serde_json::Result<Option<End>> {
        if data.trim_ascii() == "[DONE]" {
            // Without a finish reason the server gave up in the middle: nothing follows, it is a cut.
            return Ok(self.eof());
        }
        let chunk: Chunk = serde_json::from_str(data)?;
        if let Some(counts) = chunk.usage {
            self.usage = usage(&counts);
        }
        if let Some(error) = chunk.error {
            return Ok(Some(End::problem(&error, 500)));
        }
        let Some(choice) = chunk.choices.into_iter().flatten().next() else { return Ok(None) };
        if let Some(mut change) = choice.delta {
            let details = change.reasoning_details.take().unwrap_or_default();
            if !details.is_empty() {
                // They begin the block that they will sign.
                answer.thinking(Key::Thinking, "");
                for piece in details {
                    answer.weigh(self.detail(piece));
                }
            }
            self.change(change, answer);
        }
        Ok(choice.finish_reason.filter(|reason| !reason.is_empty()).and_then(|reason| self.stopped(&reason, answer)))
    }

    fn eof(&self) -> Option<End> {
        self.stop.map(End::Complete)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

impl Chat {
    fn change(&mut self, change: Change, answer: &mut Assembly<Key>) {
        // Servers that have several of these fields say the same in each, and what `reasoning_details`
        // has in words is always in one of these too.
        let thinking = match (&change.reasoning_content, &change.reasoning) {
            (Some(text), _) => Some((text, "reasoning_content")),
            (None, Some(text)) => Some((text, "reasoning")),
            (None, None) => None,
        };
        if let Some((text, field)) = thinking
            && !text.is_empty()
        {
            answer.thinking(Key::Thinking, text);
            answer.sign(Key::Thinking, WIRE, field);
        }
        match change.content {
            Some(Content::Text(text)) if !text.is_empty() => answer.text(Key::Text, &text),
            Some(Content::Parts(parts)) => parts.into_iter().for_each(|part| content_part(part, false, answer)),
            Some(Content::Text(_)) | None => {}
        }
        if let Some(text) = change.refusal.filter(|text| !text.is_empty()) {
            answer.text(Key::Text, &text);
            self.refused = true;
        }
        for piece in change.tool_calls.into_iter().flatten() {
            self.call(piece, answer);
        }
    }

    /// Pieces of one kind that have the same index are one detail: what they say is put together, and
    /// what they say about it (above all the signature, which comes last) is kept. Gives back how
    /// many bytes more there are.
    fn detail(&mut self, piece: Value) -> usize {
        let continues = |begun: &Value| {
            let same = |field: &str| piece[field] == begun[field];
            let same_id = same("id") || piece["id"].is_null() || begun["id"].is_null();
            !piece["index"].is_null() && same("index") && same("type") && same_id
        };
        let begun = self.details.iter_mut().rev().find(|begun| continues(begun));
        let (Some(begun), Value::Object(fields)) = (begun.and_then(Value::as_object_mut), &piece) else {
            let bytes = piece.to_string().len();
            self.details.push(piece);
            return bytes;
        };
        let mut bytes = 0;
        for (name, value) in fields {
            match (begun.get_mut(name), value) {
                (_, Value::Null) => {}
                (Some(old), new) if old == new && !SPOKEN.contains(&name.as_str()) => {}
                (Some(Value::String(text)), Value::String(more)) if SPOKEN.contains(&name.as_str()) => {
                    text.push_str(more);
                    bytes += more.len();
                }
                _ => {
                    begun.insert(name.clone(), value.clone());
                    bytes += name.len() + value.to_string().len();
                }
            }
        }
        bytes
    }

    fn call(&mut self, piece: CallPiece, answer: &mut Assembly<Key>) {
        let CallPiece { index, id, function } = piece;
        let id = id.filter(|id| !id.is_empty());
        let Function { name, arguments } = function.unwrap_or_default();
        let name = name.unwrap_or_default();
        let at = self.position(index, id.as_deref(), !name.is_empty()).unwrap_or_else(|| {
            let at = self.calls.len();
            let unique = answer.usable_id(id.as_deref()).unwrap_or_else(&mut self.call_ids);
            answer.call(Key::Call(at), unique, "");
            self.calls.push(Call { index, id, has_arguments: false });
            at
        });
        answer.call_name(Key::Call(at), &name);
        if let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) {
            answer.arguments(Key::Call(at), &arguments);
            self.calls[at].has_arguments = true;
        }
    }

    /// The call that a piece continues. By the book its index says so. Some servers leave the index
    /// out, and some give the same to all calls: then a name that comes with another id, or after the
    /// input of the last call, begins another call.
    fn position(&self, index: Option<u64>, id: Option<&str>, named: bool) -> Option<usize> {
        let at = match (index, id) {
            (Some(_), _) => self.calls.iter().rposition(|call| call.index == index),
            (None, Some(_)) => self.calls.iter().rposition(|call| call.id.as_deref() == id),
            (None, None) => self.calls.len().checked_sub(1).filter(|&last| !(named && self.calls[last].has_arguments)),
        }?;
        let another = named && id.is_some() && id != self.calls[at].id.as_deref();
        (!another).then_some(at)
    }

    fn stopped(&mut self, reason: &str, answer: &mut Assembly<Key>) -> Option<End> {
        let stop = match reason {
            "error" => return Some(End::reported(500, "error", "the server stopped in the middle of its answer")),
            // DeepSeek's word for being overloaded.
            "insufficient_system_resource" => return Some(End::reported(529, reason, "the server stopped its answer")),
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            _ if self.refused => StopReason::Refusal,
            // `stop`, and the words of others for it.
            _ => StopReason::EndTurn,
        };
        self.stop = Some(stop);
        if !self.details.is_empty() {
            // Only now, since they serve only when whole; a cut answer keeps the plain field.
            answer.sign(Key::Thinking, WIRE_DETAILS, Value::Array(mem::take(&mut self.details)).to_string());
        }
        answer.close_all();
        None
    }
}

fn content_part(part: Part, thought: bool, answer: &mut Assembly<Key>) {
    match part {
        Part::Text { text } if thought && !text.is_empty() => {
            answer.thinking(Key::Thinking, &text);
            answer.sign(Key::Thinking, WIRE, CONTENT);
        }
        Part::Text { text } if !text.is_empty() => answer.text(Key::Text, &text),
        Part::Thinking { thinking } => thinking.into_iter().for_each(|part| content_part(part, true, answer)),
        Part::Text { .. } | Part::Other => {}
    }
}

fn usage(usage: &Value) -> Usage {
    let prompt = count(usage, "/prompt_tokens");
    let cached = count(usage, "/prompt_tokens_details/cached_tokens");
    Usage {
        input_tokens: prompt.saturating_sub(cached),
        // xAI leaves reasoning out of the completion, but not out of the total.
        output_tokens: count(usage, "/completion_tokens").max(count(usage, "/total_tokens").saturating_sub(prompt)),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        reasoning_tokens: count(usage, "/completion_tokens_details/reasoning_tokens"),
    }
}
