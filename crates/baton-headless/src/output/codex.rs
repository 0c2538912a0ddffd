//! `--output-format codex-json`: the events in the form of `codex exec --json`.

use std::collections::BTreeMap;

use baton_core::{Block, Event, EventBody, TurnReason, Usage};
use serde_json::{Map, Value, json};

/// Turns events into lines of that form.
#[derive(Default)]
pub(crate) struct Codex {
    items: u32,
    /// The items of running calls, by call.
    running: BTreeMap<String, Value>,
    failure: Option<String>,
}

impl Codex {
    /// The lines that an event becomes.
    pub(super) fn lines(&mut self, event: &Event) -> Vec<Value> {
        match &event.body {
            EventBody::SessionStarted { .. } => {
                vec![json!({ "type": "thread.started", "thread_id": event.stamp.session })]
            }
            EventBody::TurnStarted { .. } => vec![json!({ "type": "turn.started" })],
            EventBody::MessageEnded { message, .. } => {
                let said = message.content.iter().filter_map(|block| match block {
                    Block::Text { text } => Some(("agent_message", text)),
                    Block::Thinking { text, .. } if !text.is_empty() => Some(("reasoning", text)),
                    _ => None,
                });
                let said: Vec<_> = said.collect();
                said.into_iter()
                    .map(|(kind, text)| completed(&json!({ "id": self.next_id(), "type": kind, "text": text })))
                    .collect()
            }
            EventBody::ToolStarted { call, tool, input } => {
                let item = started(&self.next_id(), tool, input);
                self.running.insert(call.to_string(), item.clone());
                vec![json!({ "type": "item.started", "item": item })]
            }
            EventBody::ToolEnded { call, output, is_error, meta, .. } => {
                let mut item = self.running.remove(call.as_str()).unwrap_or_default();
                end(&mut item, output, *is_error, meta);
                vec![completed(&item)]
            }
            EventBody::Noticed { text } => {
                vec![completed(&json!({ "id": self.next_id(), "type": "error", "message": text }))]
            }
            EventBody::Retrying { reason, .. } => vec![json!({ "type": "error", "message": reason })],
            EventBody::Failed(fault) => {
                self.failure = Some(fault.message.clone());
                vec![json!({ "type": "error", "message": fault.message })]
            }
            EventBody::TurnEnded { reason: TurnReason::Done, usage: used, .. } => {
                vec![json!({ "type": "turn.completed", "usage": usage(used) })]
            }
            EventBody::TurnEnded { reason, .. } => {
                let message =
                    self.failure.take().unwrap_or_else(|| format!("the turn ended: {reason:?}").to_lowercase());
                vec![json!({ "type": "turn.failed", "error": { "message": message } })]
            }
            _ => Vec::new(),
        }
    }

    fn next_id(&mut self) -> String {
        self.items += 1;
        format!("item_{}", self.items - 1)
    }
}

/// Codex knows commands, file changes and lists by their own kinds; any other tool looks like one of a server.
fn started(id: &str, tool: &str, input: &Value) -> Value {
    match tool {
        "bash" => json!({
            "id": id, "type": "command_execution", "command": input["command"], "aggregated_output": "",
            "exit_code": null, "status": "in_progress",
        }),
        "write" | "edit" | "multi_edit" | "apply_patch" => json!({
            "id": id, "type": "file_change", "changes": [], "status": "in_progress",
        }),
        "todo" => json!({ "id": id, "type": "todo_list", "items": [] }),
        _ => json!({
            "id": id, "type": "mcp_tool_call", "server": "baton", "tool": tool, "arguments": input, "result": null,
            "error": null, "status": "in_progress",
        }),
    }
}

fn end(item: &mut Value, output: &str, is_error: bool, meta: &Map<String, Value>) {
    if item["type"] != "todo_list" {
        item["status"] = json!(if is_error { "failed" } else { "completed" });
    }
    match item["type"].as_str() {
        Some("todo_list") => {
            let items = meta.get("items").and_then(Value::as_array).into_iter().flatten();
            let item_of = |item: &Value| json!({ "text": item["text"], "completed": item["status"] == "done" });
            item["items"] = items.map(item_of).collect();
        }
        Some("command_execution") => {
            item["aggregated_output"] = json!(output);
            item["exit_code"] = meta.get("exit_code").cloned().unwrap_or_default();
        }
        // Only when it is done is it known what became of which files.
        Some("file_change") => {
            if let Some(changes) = meta.get("changes") {
                item["changes"] = changes.clone();
            }
        }
        Some("mcp_tool_call") if is_error => item["error"] = json!({ "message": output }),
        Some("mcp_tool_call") => item["result"] = json!({ "content": [{ "type": "text", "text": output }] }),
        _ => {}
    }
}

fn completed(item: &Value) -> Value {
    json!({ "type": "item.completed", "item": item })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens(), "cached_input_tokens": usage.cache_read_tokens,
        "cache_write_input_tokens": usage.cache_write_tokens, "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_tokens,
    })
}
