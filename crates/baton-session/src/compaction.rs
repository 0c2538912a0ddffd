//! Compaction: where a history is cut, what stands for the part that goes, and what is said if no model can sum it up. Pure.

use std::fmt::Write;

use baton_core::{Block, EventId, Message, Role};
use serde_json::Value;

use crate::carried::{Carried, FileUse, RanEnd};

/// Asks for a summary. The conversation stands before it.
pub const INSTRUCTION: &str = include_str!("compaction.md");

/// How much of one text a summary without a model repeats.
const QUOTE_MAX: usize = 400;
/// How many of the last texts it repeats.
const QUOTES_MAX: usize = 12;
/// How many commands are listed.
const RAN_MAX: usize = 20;

/// The first message that is kept, if the last ones may have so many bytes. Calls are never parted from their results:
/// a history is cut only before an answer, or before what the person says. Nothing if no cut leaves less than there is.
pub fn cut(
    messages: &[Message],
    began: &[Option<EventId>],
    bytes_max: usize,
    bytes: impl Fn(&Message) -> usize,
) -> Option<usize> {
    let mut sum = 0;
    let mut first = None;
    for at in (1..messages.len()).rev() {
        sum += bytes(&messages[at]);
        if sum > bytes_max {
            break;
        }
        if began.get(at).is_some_and(Option::is_some) && !has_results(&messages[at]) {
            first = Some(at);
        }
    }
    match first {
        Some(at) => Some(at),
        // Not even the last piece fits: everything goes.
        None if messages.len() > 1 => Some(messages.len()),
        None => None,
    }
}

fn has_results(message: &Message) -> bool {
    message.content.iter().any(|block| matches!(block, Block::ToolResult(_)))
}

/// The message that stands for what is gone: the first context anew, what is carried as it is, and the summary.
pub fn message(context: &[Block], carried: &Carried, summary: &str) -> Message {
    let mut blocks = context.to_vec();
    blocks.push(Block::text(told(carried, summary)));
    Message { role: Role::User, content: blocks }
}

/// What the model reads in place of what is gone.
fn told(carried: &Carried, summary: &str) -> String {
    let mut text = String::from(
        "The conversation so far was too long and has been compacted. What follows stands for it. The first part is exact \
         and comes from the record; what the person said there still counts, word by word. The summary is only a summary. \
         The whole conversation is still there: search it with the tool `history`.\n",
    );
    section(
        &mut text,
        "What the person said, in order",
        carried.said.iter().map(|words| {
            let rest = if words.cut > 0 {
                format!("\n[{} bytes more; `history` with entry {} has them]", words.cut, words.entry)
            } else {
                String::new()
            };
            format!("<person>\n{}{rest}\n</person>", words.text)
        }),
    );
    section(&mut text, "To do", carried.todos.iter().map(todo));
    section(&mut text, "Running in the background", carried.running.iter().map(|one| format!("- {one}")));
    section(
        &mut text,
        "Allowed by the person for this session",
        carried.allowed.iter().map(|rule| format!("- {rule}")),
    );
    section(
        &mut text,
        "Refused by the person: do not try it again",
        carried.rejected.iter().map(|one| {
            let reason = one.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("- {}{reason}", one.what)
        }),
    );
    section(&mut text, "The approved plan", carried.plan.iter().cloned());
    let files =
        |used| carried.files.iter().filter(move |(_, other)| **other == used).map(|(path, _)| format!("- {path}"));
    section(&mut text, "Files changed", files(FileUse::Changed));
    section(&mut text, "Files read", files(FileUse::Read));
    let skipped = carried.ran.len().saturating_sub(RAN_MAX);
    section(
        &mut text,
        "The last commands: they have run, do not run them again to see what they did",
        carried.ran.iter().skip(skipped).map(|ran| {
            let end = match ran.end {
                RanEnd::Done => "done",
                RanEnd::Failed => "failed",
                RanEnd::Unknown => "was stopped with Baton, nobody knows how far it came",
            };
            format!("- [{end}] {}", ran.input.get("command").and_then(Value::as_str).unwrap_or_default())
        }),
    );
    // Writing to a string cannot fail.
    let _ = write!(text, "\n## Summary\n{}\n", summary.trim());
    text
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = write!(text, "\n## {title}\n");
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
}

fn todo(item: &Value) -> String {
    let words = |name: &str| item.get(name).and_then(Value::as_str);
    let what = item.as_str().or_else(|| words("text")).or_else(|| words("content")).or_else(|| words("step"));
    let done = item.get("completed").and_then(Value::as_bool).unwrap_or(false);
    let mark = match words("status").unwrap_or(if done { "done" } else { "open" }) {
        "done" | "completed" => "x",
        "doing" | "in_progress" => "~",
        _ => " ",
    };
    format!("- [{mark}] {}", what.unwrap_or_default())
}

/// A summary that needs no model: what the agent said last, in its own words.
pub fn mechanical(messages: &[Message]) -> String {
    let earlier = messages.iter().flat_map(|message| &message.content).rev().find_map(|block| match block {
        Block::Text { text } => text.split_once("\n## Summary\n").map(|(_, summary)| summary.trim().to_owned()),
        _ => None,
    });
    let said = messages.iter().filter(|message| message.role == Role::Assistant).map(Message::text);
    let said: Vec<String> = said.filter(|text| !text.trim().is_empty()).collect();
    let mut text = String::from("No model could sum it up, so this is what you said last, cut short:\n");
    for one in said.iter().skip(said.len().saturating_sub(QUOTES_MAX)) {
        let head = &one[..one.floor_char_boundary(QUOTE_MAX)];
        let _ = writeln!(text, "- {}{}", head.replace('\n', "\n  "), if head.len() < one.len() { " …" } else { "" });
    }
    if let Some(earlier) = earlier {
        let head = &earlier[..earlier.floor_char_boundary(QUOTE_MAX * QUOTES_MAX)];
        let _ = write!(text, "\nBefore that:\n{head}");
    }
    text
}

#[cfg(test)]
mod tests {
    use baton_core::{CallId, ToolResult, ToolUse};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::carried::Words;

    fn call(id: &str) -> Message {
        let call = ToolUse { id: CallId::new(id), tool: "ls".into(), input: json!({}), malformed: None };
        Message { role: Role::Assistant, content: vec![Block::ToolUse(call)] }
    }

    fn result(id: &str) -> Message {
        Message { role: Role::User, content: vec![Block::ToolResult(ToolResult::ok(CallId::new(id), "x"))] }
    }

    proptest! {
        /// Wherever it is cut, every call that is left has its result and the other way round.
        #[test]
        fn calls_are_never_parted(steps in prop::collection::vec(0..3u8, 1..20), bytes_max in 0..30usize) {
            let mut messages = vec![Message::user("begin")];
            for (at, step) in steps.iter().enumerate() {
                match step {
                    0 => messages.push(Message::user("more")),
                    1 => messages.push(Message::assistant("said")),
                    _ => messages.extend([call(&at.to_string()), result(&at.to_string())]),
                }
            }
            let began: Vec<_> = (0..messages.len()).map(|at| Some(EventId::new(at.to_string()))).collect();
            if let Some(at) = cut(&messages, &began, bytes_max, |_| 1) {
                prop_assert!(at >= 1 && (at == messages.len() || messages.len() - at <= bytes_max));
                let kept = &messages[at..];
                prop_assert!(kept.first().is_none_or(|first| !has_results(first)));
            }
        }

        /// What the person said stands there word by word, whatever it is.
        #[test]
        fn words_are_exact(said in prop::collection::vec(".{1,80}", 0..6)) {
            let words = |text: &String| Words { entry: EventId::new("e"), text: text.clone(), cut: 0 };
            let mut carried = Carried::default();
            carried.said.extend(said.iter().map(words));
            let text = message(&[], &carried, "s").text();
            for one in &said {
                prop_assert!(text.contains(one.as_str()));
            }
        }
    }
}
