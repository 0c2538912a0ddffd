//! What differs between a request and the recorded one, for people to read.

use std::fmt::Write;
use std::time::Duration;

use baton_core::{Block, Message, Role, ToolSpec};
use similar::TextDiff;

use super::{Asked, Cassette};
use crate::error::shorten;

/// Longer lines are broken, so that a difference in the middle of one is seen.
const WIDTH: usize = 120;
/// The most lines that are shown.
const LINES_MAX: usize = 40;
/// How long the search for the smallest difference may take; after that a rougher one is shown.
const SEARCH_MAX: Duration = Duration::from_millis(200);

/// The first part of a request that differs from the recorded one, and how.
pub(super) fn explain(cassette: &Cassette, at: usize, asked: &Asked) -> String {
    let recorded = cassette.messages(at);
    let entry = &cassette.exchanges[at].entry;
    let effort = |effort: Option<_>| effort.map_or_else(|| "none".to_owned(), |effort| format!("{effort}"));
    if entry.role != asked.role {
        return between("the role differs", entry.role.as_str(), asked.role.as_str());
    }
    if entry.effort != asked.effort {
        return between("the effort differs", &effort(entry.effort), &effort(asked.effort));
    }
    if cassette.system(at) != asked.system {
        return between("the system prompt differs", cassette.system(at), &asked.system);
    }
    if cassette.tools(at) != asked.tools {
        return between("the tools differ", &tools(cassette.tools(at)), &tools(&asked.tools));
    }
    let length = recorded.len().max(asked.messages.len());
    let differs = (0..length).find(|at| recorded.get(*at).copied() != asked.messages.get(*at));
    let Some(number) = differs else { return "nothing differs that can be shown".to_owned() };
    let text = |message: Option<&Message>| message.map(render).unwrap_or_default();
    let title = match (recorded.get(number), asked.messages.get(number)) {
        (Some(_), Some(_)) => format!("message {} differs", number + 1),
        (Some(_), None) => format!("message {} is missing", number + 1),
        (None, _) => format!("message {} was not there", number + 1),
    };
    between(&title, &text(recorded.get(number).copied()), &text(asked.messages.get(number)))
}

fn between(title: &str, recorded: &str, now: &str) -> String {
    let (recorded, now) = (broken(recorded), broken(now));
    let diff = TextDiff::configure().timeout(SEARCH_MAX).diff_lines(&recorded, &now);
    let shown = diff.unified_diff().context_radius(2).missing_newline_hint(false).to_string();
    let mut out = format!("{title} (- recorded, + now):");
    for line in shown.lines().take(LINES_MAX) {
        out.push('\n');
        out.push_str(line);
    }
    let more = shown.lines().count().saturating_sub(LINES_MAX);
    if more > 0 {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n… and {more} more lines");
    }
    out
}

/// Breaks long lines, and ends the last one.
fn broken(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    for line in text.lines() {
        for (at, c) in line.chars().enumerate() {
            if at > 0 && at % WIDTH == 0 {
                out.push('\n');
            }
            out.push(c);
        }
        out.push('\n');
    }
    out
}

fn tools(tools: &[ToolSpec]) -> String {
    let tool = |tool: &ToolSpec| format!("[tool {}]\n{}\n{:#}\n", tool.name, tool.description, tool.input_schema);
    tools.iter().map(tool).collect()
}

fn render(message: &Message) -> String {
    let who = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let picture =
        |kind: &str, data: &str| format!("[picture {kind}, {} bytes of base64: {}]\n", data.len(), shorten(data, 60));
    let block = |block: &Block| match block {
        Block::Text { text } => format!("{text}\n"),
        Block::Thinking { text, signature } => {
            let token = signature.as_ref().map(|signature| shorten(&signature.token, 60)).unwrap_or_default();
            format!("[thinking {token}]\n{text}\n")
        }
        Block::ToolUse(call) => {
            let malformed = call.malformed.as_deref().unwrap_or_default();
            format!("[call {} of {}]\n{:#}\n{malformed}\n", call.id, call.tool, call.input)
        }
        Block::ToolResult(result) => {
            let kind = if result.is_error { "error" } else { "result" };
            let images = result.images.iter().map(|image| picture(&image.media_type, &image.data));
            format!("[{kind} of {}]\n{}\n{}", result.id, result.text, images.collect::<String>())
        }
        Block::Image(image) => picture(&image.media_type, &image.data),
        Block::Foreign(foreign) => format!("[of {} itself]\n{:#}\n", foreign.wire, foreign.raw),
    };
    format!("[{who}]\n{}", message.content.iter().map(block).collect::<String>())
}
