//! Conversations of Claude Code: a line for each piece of a message, which names the line that it follows.

use std::collections::HashMap;
use std::io;

use baton_core::{Block, CallId, EventId, Image, ToolUse, Usage};
use serde_json::{Map, Value};

use super::transcript::Transcript;

/// What tells that the person stopped a turn.
const STOPPED: &str = "[Request interrupted by user";

/// What has to be remembered between lines.
#[derive(Default)]
pub(super) struct Reader {
    /// For each line: where it is, and which turn that was in.
    lines: HashMap<String, (usize, u64)>,
    /// Names for a conversation that ends with a line that has not come yet.
    titles: HashMap<String, String>,
    /// The message that the last pieces are of.
    message: Option<String>,
}

impl Reader {
    pub(super) fn read(&mut self, line: &Value, transcript: &mut Transcript) -> io::Result<()> {
        transcript.at(&line["timestamp"]);
        let kind = line["type"].as_str().unwrap_or_default();
        if line["isSidechain"] == true {
            transcript.skip("lines of subagents");
            return Ok(());
        }
        if let Some(session) = line["sessionId"].as_str()
            && transcript.origin.is_none()
        {
            transcript.origin = Some(format!("claude-code:{session}"));
        }
        if let Some(cwd) = line["cwd"].as_str()
            && transcript.cwd.is_none()
        {
            transcript.cwd = Some(cwd.to_owned());
        }
        match kind {
            "user" if line["isMeta"] == true => transcript.skip("lines about the conversation"),
            "user" => self.user(line, transcript)?,
            "assistant" => self.assistant(line, transcript)?,
            "summary" => self.summary(line, transcript)?,
            "custom-title" | "ai-title" => {
                let title = line["customTitle"].as_str().or(line["aiTitle"].as_str()).or(line["title"].as_str());
                title.map_or(Ok(()), |title| transcript.titled(title))?;
            }
            "" => transcript.skip("lines without a type"),
            kind => transcript.skip(kind),
        }
        if let Some(uuid) = line["uuid"].as_str() {
            if let Some(title) = self.titles.remove(uuid) {
                transcript.end_answer()?;
                transcript.titled(&title)?;
            }
            self.lines.insert(uuid.to_owned(), (transcript.mark(), transcript.turns()));
        }
        Ok(())
    }

    fn user(&mut self, line: &Value, transcript: &mut Transcript) -> io::Result<()> {
        self.message = None;
        let blocks = blocks(&line["message"]["content"]);
        let mut own = Vec::new();
        let mut has_results = false;
        for block in &blocks {
            match block["type"].as_str() {
                Some("tool_result") => {
                    has_results = true;
                    let (text, images) = result(&block["content"]);
                    let call = block["tool_use_id"].as_str().unwrap_or_default();
                    transcript.result(call, text, images, block["is_error"] == true)?;
                }
                Some("text") => own.push(Block::text(block["text"].as_str().unwrap_or_default())),
                Some("image") => own.extend(image(block).map(Block::Image)),
                _ => transcript.skip("pieces of prompts"),
            }
        }
        let text = own.iter().find_map(|block| match block {
            Block::Text { text } => Some(text.trim_start()),
            _ => None,
        });
        let text = text.unwrap_or_default();
        if text.starts_with(STOPPED) {
            transcript.end_answer()?;
            transcript.stopped();
            return Ok(());
        }
        if ["<command-name>", "<command-message>", "<local-command-"].iter().any(|mark| text.starts_with(mark)) {
            transcript.skip("commands of the other agent");
            return Ok(());
        }
        if own.is_empty() {
            return Ok(());
        }
        if has_results {
            return transcript.said(own);
        }
        transcript.end_answer()?;
        transcript.prompt(own, self.after(line, transcript))
    }

    /// The entry that a prompt follows, if the person went back to an earlier turn. Within a turn the lines of parallel calls
    /// name each other in ways that mean nothing.
    fn after(&self, line: &Value, transcript: &Transcript) -> Option<EventId> {
        let (mark, turn) = self.lines.get(line["parentUuid"].as_str()?)?;
        if *turn < transcript.turns() { transcript.marked(*mark) } else { None }
    }

    fn assistant(&mut self, line: &Value, transcript: &mut Transcript) -> io::Result<()> {
        let message = &line["message"];
        let id = message["id"].as_str().map(str::to_owned);
        if self.message != id {
            transcript.end_answer()?;
            self.message = id;
        }
        match message["model"].as_str() {
            // Written by the program itself: no model said it.
            Some("<synthetic>") => {
                transcript.skip("messages of the other agent itself");
                return Ok(());
            }
            Some(model) => transcript.model = Some(format!("anthropic/{model}")),
            None => {}
        }
        let count = |name: &str| message["usage"][name].as_u64().unwrap_or_default();
        transcript.used(Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cache_read_tokens: count("cache_read_input_tokens"),
            cache_write_tokens: count("cache_creation_input_tokens"),
            reasoning_tokens: 0,
        });
        for block in blocks(&message["content"]) {
            match block["type"].as_str() {
                Some("text") => transcript.answer(Block::text(block["text"].as_str().unwrap_or_default())),
                Some("thinking") => {
                    let text = block["thinking"].as_str().unwrap_or_default().to_owned();
                    // Its signature is for the conversation that it came from.
                    transcript.answer(Block::Thinking { text, signature: None });
                }
                Some("tool_use") => {
                    let name = block["name"].as_str().unwrap_or_default();
                    let (tool, input) = call(name, block["input"].clone());
                    let id = CallId::new(block["id"].as_str().unwrap_or_default());
                    transcript.answer(Block::ToolUse(ToolUse { id, tool, input, malformed: None }));
                }
                _ => transcript.skip("pieces of answers"),
            }
        }
        Ok(())
    }

    /// The name of the conversation that ends with a line: of this one only if the line is here.
    fn summary(&mut self, line: &Value, transcript: &mut Transcript) -> io::Result<()> {
        let (Some(title), Some(leaf)) = (line["summary"].as_str(), line["leafUuid"].as_str()) else {
            transcript.skip("summary");
            return Ok(());
        };
        if self.lines.contains_key(leaf) {
            transcript.end_answer()?;
            return transcript.titled(title);
        }
        self.titles.insert(leaf.to_owned(), title.to_owned());
        Ok(())
    }
}

/// The pieces of a message; a plain text is one piece.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// What a tool answered.
fn result(content: &Value) -> (String, Vec<Image>) {
    let blocks = blocks(content);
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    (texts.join("\n"), blocks.iter().filter_map(image).collect())
}

fn image(block: &Value) -> Option<Image> {
    let source = &block["source"];
    Some(Image {
        media_type: source["media_type"].as_str()?.to_owned(),
        data: source["data"].as_str().filter(|data| !data.is_empty())?.to_owned(),
    })
}

/// A call with the names that it has here.
fn call(name: &str, input: Value) -> (String, Value) {
    let names = [
        ("Bash", "bash"),
        ("Read", "read"),
        ("Write", "write"),
        ("Edit", "edit"),
        ("MultiEdit", "multi_edit"),
        ("Grep", "grep"),
        ("Glob", "glob"),
        ("LS", "ls"),
        ("WebFetch", "web_fetch"),
        ("TodoWrite", "todo"),
        ("Task", "task"),
        ("AskUserQuestion", "ask_user"),
    ];
    let tool = names.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
    let Value::Object(input) = input else { return (tool.to_owned(), Value::Object(Map::new())) };
    let key = |key: String| match key.as_str() {
        "file_path" => "path".to_owned(),
        "old_string" => "old".to_owned(),
        "new_string" => "new".to_owned(),
        _ => key,
    };
    let input: Map<String, Value> = input.into_iter().map(|(name, value)| (key(name), value)).collect();
    (tool.to_owned(), Value::Object(input))
}
