//! Reads fields of a request's JSON; a field that is not as it should be is an error that names it.

use baton_core::{Block, CallId, Message, Role, Signature, ToolResult, ToolUse};
use serde_json::Value;

pub(super) fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| wrong(field, "a string", &value[field]))
}

pub(super) fn list<'a>(value: &'a Value, field: &str) -> Result<&'a [Value], String> {
    value[field].as_array().map(Vec::as_slice).ok_or_else(|| wrong(field, "a list", &value[field]))
}

pub(super) fn wrong(field: &str, wanted: &str, found: &Value) -> String {
    format!("`{field}` must be {wanted}, not {:.80}", found.to_string())
}

/// A text that may come as a string, as parts with a `text` each, or not at all.
pub(super) fn joined_text(value: &Value, field: &str) -> Result<String, String> {
    match &value[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => Ok(parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")),
        other => Err(wrong(field, "a string or a list of parts", other)),
    }
}

pub(super) fn thinking(wire: &str, text: &str, token: Option<&str>) -> Block {
    let signature = token.map(|token| Signature { wire: wire.to_owned(), token: token.to_owned() });
    Block::Thinking { text: text.to_owned(), signature }
}

pub(super) fn call(id: &str, tool: &str, input: Value) -> Block {
    Block::ToolUse(ToolUse { id: CallId::new(id), tool: tool.to_owned(), input, malformed: None })
}

/// A call whose input comes as text.
pub(super) fn call_of_text(id: &str, tool: &str, arguments: &str) -> Block {
    call(id, tool, serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments)))
}

pub(super) fn result(id: &str, text: String) -> Block {
    Block::ToolResult(ToolResult::ok(CallId::new(id), text))
}

/// Puts blocks that come one by one into messages: neighbours of one role belong together.
pub(super) fn push(messages: &mut Vec<Message>, role: Role, block: Block) {
    match messages.last_mut() {
        Some(last) if last.role == role => last.content.push(block),
        _ => messages.push(Message { role, content: vec![block] }),
    }
}
