//! Conversations of Codex: a line for each item, in the order in which the model was told them.

use std::io;

use baton_core::{Block, CallId, Image, ToolUse, Usage};
use serde_json::{Value, json};

use super::transcript::Transcript;

/// Texts that the program itself puts among those of the person.
const OWN_TEXTS: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skill",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
];

pub(super) fn read(line: &Value, transcript: &mut Transcript) -> io::Result<()> {
    transcript.at(&line["timestamp"]);
    let kind = line["type"].as_str().unwrap_or_default();
    let payload = &line["payload"];
    match kind {
        "session_meta" => about(payload, transcript),
        "turn_context" => {
            if let Some(model) = payload["model"].as_str() {
                transcript.model = Some(format!("openai/{model}"));
            }
        }
        "response_item" => item(payload, transcript)?,
        "event_msg" => event(payload, transcript)?,
        "" if line["id"].is_string() => about(line, transcript),
        // Before September 2025 the items stood alone.
        "message"
        | "reasoning"
        | "function_call"
        | "function_call_output"
        | "local_shell_call"
        | "custom_tool_call"
        | "custom_tool_call_output" => item(line, transcript)?,
        "" => transcript.skip("lines without a type"),
        kind => transcript.skip(kind),
    }
    Ok(())
}

/// What the first line says about the conversation.
fn about(meta: &Value, transcript: &mut Transcript) {
    transcript.at(&meta["timestamp"]);
    // One that was forked repeats the description of the one that it comes from.
    if transcript.origin.is_none() {
        transcript.origin = meta["id"].as_str().map(|id| format!("codex:{id}"));
        transcript.cwd = meta["cwd"].as_str().map(str::to_owned);
    }
}

fn event(event: &Value, transcript: &mut Transcript) -> io::Result<()> {
    match event["type"].as_str().unwrap_or_default() {
        "token_count" => {
            let last = &event["info"]["last_token_usage"];
            let count = |name: &str| last[name].as_u64().unwrap_or_default();
            let cached = count("cached_input_tokens");
            transcript.used(Usage {
                input_tokens: count("input_tokens").saturating_sub(cached),
                output_tokens: count("output_tokens"),
                cache_read_tokens: cached,
                cache_write_tokens: 0,
                reasoning_tokens: count("reasoning_output_tokens"),
            });
        }
        "turn_aborted" => {
            transcript.end_answer()?;
            transcript.stopped();
        }
        // The same as the items say, for whoever shows them.
        _ => {}
    }
    Ok(())
}

fn item(item: &Value, transcript: &mut Transcript) -> io::Result<()> {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match text("type") {
        "message" => message(item, transcript)?,
        "reasoning" => {
            let parts = item["summary"].as_array().into_iter().chain(item["content"].as_array()).flatten();
            let parts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
            if !parts.is_empty() {
                transcript.answer(Block::Thinking { text: parts.join("\n"), signature: None });
            }
        }
        "function_call" => {
            let arguments: Value = serde_json::from_str(text("arguments")).unwrap_or_else(|_| json!({}));
            let (tool, input) = call(text("name"), arguments);
            transcript.answer(tool_use(text("call_id"), tool, input));
        }
        "local_shell_call" => {
            let id = item["call_id"].as_str().or(item["id"].as_str()).unwrap_or_default();
            let input = json!({"command": command(&item["action"]["command"])});
            transcript.answer(tool_use(id, "bash".to_owned(), input));
        }
        "custom_tool_call" => {
            let input = match text("name") {
                "apply_patch" => json!({"patch": text("input")}),
                _ => json!({"input": text("input")}),
            };
            transcript.answer(tool_use(text("call_id"), text("name").to_owned(), input));
        }
        "function_call_output" | "custom_tool_call_output" => {
            let (output, images, is_error) = output(&item["output"]);
            transcript.result(text("call_id"), output, images, is_error)?;
        }
        "" => transcript.skip("items without a type"),
        kind => transcript.skip(kind),
    }
    Ok(())
}

fn message(item: &Value, transcript: &mut Transcript) -> io::Result<()> {
    let pieces = item["content"].as_array().map_or(&[][..], Vec::as_slice);
    match item["role"].as_str() {
        Some("assistant") => {
            for text in pieces.iter().filter_map(|piece| piece["text"].as_str()) {
                transcript.answer(Block::text(text));
            }
            Ok(())
        }
        Some("user") => {
            let mut content = Vec::new();
            for piece in pieces {
                match (piece["text"].as_str(), piece["image_url"].as_str().and_then(data_url)) {
                    (Some(text), _) if OWN_TEXTS.iter().any(|own| text.trim_start().starts_with(own)) => {}
                    (Some(text), _) => content.push(Block::text(text)),
                    (None, Some(image)) => content.push(Block::Image(image)),
                    (None, None) => transcript.skip("pieces of prompts"),
                }
            }
            if content.is_empty() {
                transcript.skip("facts for the model");
                return Ok(());
            }
            transcript.prompt(content, None)
        }
        _ => {
            transcript.skip("facts for the model");
            Ok(())
        }
    }
}

fn tool_use(id: &str, tool: String, input: Value) -> Block {
    Block::ToolUse(ToolUse { id: CallId::new(id), tool, input, malformed: None })
}

/// A call with the names that it has here.
fn call(name: &str, arguments: Value) -> (String, Value) {
    match name {
        "shell" | "shell_command" | "container.exec" => {
            ("bash".to_owned(), json!({"command": command(&arguments["command"])}))
        }
        "exec_command" => ("bash".to_owned(), json!({"command": command(&arguments["cmd"])})),
        "apply_patch" => {
            let patch = arguments["input"].as_str().or(arguments["patch"].as_str()).unwrap_or_default();
            ("apply_patch".to_owned(), json!({"patch": patch}))
        }
        _ if arguments.is_object() => (name.to_owned(), arguments),
        _ => (name.to_owned(), json!({})),
    }
}

/// A command line: `bash -lc TEXT` is the text, other arguments are quoted where they must be.
fn command(words: &Value) -> String {
    let list: Vec<&str> = words.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match list.as_slice() {
        [] => words.as_str().unwrap_or_default().to_owned(),
        [shell, "-lc" | "-c", text] if shell.ends_with("sh") => (*text).to_owned(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What a tool answered: a text, a text in JSON with the exit code, or pieces.
fn output(output: &Value) -> (String, Vec<Image>, bool) {
    match output {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner) if inner["output"].is_string() => {
                let code = inner["metadata"]["exit_code"].as_i64().unwrap_or_default();
                (inner["output"].as_str().unwrap_or_default().to_owned(), Vec::new(), code != 0)
            }
            _ => (text.clone(), Vec::new(), false),
        },
        Value::Array(pieces) => {
            let texts: Vec<&str> = pieces.iter().filter_map(|piece| piece["text"].as_str()).collect();
            let images = pieces.iter().filter_map(|piece| piece["image_url"].as_str().and_then(data_url));
            (texts.join("\n"), images.collect(), false)
        }
        Value::Object(object) => {
            let text = object.get("content").and_then(Value::as_str).unwrap_or_default();
            (text.to_owned(), Vec::new(), object.get("success") == Some(&Value::Bool(false)))
        }
        _ => (String::new(), Vec::new(), false),
    }
}

/// A picture that is written out in its address.
fn data_url(url: &str) -> Option<Image> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(Image { media_type: media_type.to_owned(), data: data.to_owned() })
}
