//! What must not be left to prose when a history is compacted: folded from the entries as they come. Pure.

use std::collections::{BTreeMap, VecDeque};

use baton_core::{Answer, ApprovalId, Block, CallId, EventBody, EventId, ToolUse};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::entry::{EntryBody, Own};

/// A longer text is a document rather than an instruction: its beginning is carried, and the history has the rest.
const WORDS_MAX: usize = 8 * 1024;
/// How much of a longer text is carried.
const WORDS_HEAD: usize = 2 * 1024;
/// How many commands are remembered.
const RAN_MAX: usize = 50;
/// How many files are remembered: those that were changed before those that were read.
const FILES_MAX: usize = 500;
/// How many refusals are remembered.
const REJECTED_MAX: usize = 100;

/// What must not be left to prose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// What the person said, in order.
    #[serde(default)]
    pub said: Vec<Words>,
    /// The agent's list of what is to do.
    #[serde(default)]
    pub todos: Vec<Value>,
    /// Files that were read or changed.
    #[serde(default)]
    pub files: BTreeMap<String, FileUse>,
    /// Rules that the person allowed for this session.
    #[serde(default)]
    pub allowed: Vec<String>,
    /// What the person did not want.
    #[serde(default)]
    pub rejected: Vec<Rejected>,
    /// Commands that ran, the last one last.
    #[serde(default)]
    pub ran: VecDeque<Ran>,
    /// What runs in the background; known when it is asked for.
    #[serde(default)]
    pub running: Vec<String>,
    /// The plan that was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(skip)]
    calls: BTreeMap<CallId, ToolUse>,
    #[serde(skip)]
    asked: BTreeMap<ApprovalId, (String, Vec<String>)>,
}

/// What the person said at one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// The entry that has all of it.
    pub entry: EventId,
    /// The words, exactly.
    pub text: String,
    /// How many bytes more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
}

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileUse {
    /// It was read.
    Read,
    /// It was changed.
    Changed,
}

/// Something that the person did not want.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// What it was.
    pub what: String,
    /// Why, if they said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A call that may have changed the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// What came of it.
    pub end: RanEnd,
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RanEnd {
    /// It did what it should.
    Done,
    /// It failed.
    Failed,
    /// Nobody knows: Baton was stopped while it ran.
    Unknown,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Carried {
    /// Takes note of an entry.
    pub fn note(&mut self, id: &EventId, body: &EntryBody) {
        match body {
            EntryBody::Own(Own::Said { content, by_person: true }) => self.words(id, content),
            EntryBody::Own(Own::Compacted(compacted)) => {
                let Self { calls, asked, .. } = std::mem::take(self);
                *self = Self { calls, asked, ..compacted.carried.clone() };
            }
            EntryBody::Event(event) => self.note_event(id, event),
            EntryBody::Own(_) | EntryBody::Unknown(_) => {}
        }
    }

    /// Takes note of an event.
    pub fn note_event(&mut self, id: &EventId, event: &EventBody) {
        match event {
            EventBody::TurnStarted { message, context } => {
                self.stopped();
                let own = message.content.get(usize::try_from(*context).unwrap_or(0)..).unwrap_or_default();
                self.words(id, own);
            }
            EventBody::ToolStarted { call, tool, input } => {
                self.tool_started(call.clone(), tool.clone(), input.clone());
            }
            EventBody::ToolEnded { call, is_error, meta, output, .. } => self.tool_ended(call, *is_error, meta, output),
            EventBody::ApprovalAsked { approval, tool, what, rules, .. } => {
                let what = what.clone().unwrap_or_else(|| tool.clone());
                self.asked.insert(approval.clone(), (what, rules.clone()));
            }
            EventBody::ApprovalAnswered { approval, answer } => {
                let Some((what, rules)) = self.asked.remove(approval) else { return };
                match answer {
                    Answer::Session | Answer::Always => {
                        for rule in rules {
                            if !self.allowed.contains(&rule) {
                                self.allowed.push(rule);
                            }
                        }
                    }
                    Answer::Reject { reason } => {
                        let reason = reason.clone();
                        self.rejected.push(Rejected { what, reason });
                        let over = self.rejected.len().saturating_sub(REJECTED_MAX);
                        self.rejected.drain(..over);
                    }
                    Answer::Text { text } => self.said.push(words(id.clone(), &format!("{what}: {text}"))),
                    Answer::Once => {}
                }
            }
            _ => {}
        }
    }

    /// Takes note of a call.
    pub(crate) fn tool_started(&mut self, call: CallId, tool: String, input: Value) {
        self.calls.insert(call.clone(), ToolUse { id: call, tool, input, malformed: None });
    }

    /// Takes note of the end of a call.
    pub(crate) fn tool_ended(&mut self, call: &CallId, is_error: bool, meta: &Map<String, Value>, output: &str) {
        let Some(call) = self.calls.remove(call) else { return };
        // What a command says is its own affair: one that has an end has run.
        if is_error && !meta.contains_key("exit_code") && was_not_run(output) {
            return;
        }
        let end = if is_error { RanEnd::Failed } else { RanEnd::Done };
        self.ended(call, end, Some(meta));
    }

    /// Calls that have no end by now will never have one.
    pub(crate) fn stopped(&mut self) {
        for call in std::mem::take(&mut self.calls).into_values() {
            self.ended(call, RanEnd::Unknown, None);
        }
    }

    fn words(&mut self, id: &EventId, content: &[Block]) {
        for block in content {
            let text = match block {
                Block::Text { text } if text.trim().is_empty() => continue,
                Block::Text { text } => text.as_str(),
                Block::Image(_) => "[a picture]",
                _ => continue,
            };
            self.said.push(words(id.clone(), text));
        }
    }

    fn ended(&mut self, call: ToolUse, end: RanEnd, meta: Option<&Map<String, Value>>) {
        if call.tool == "todo" {
            if let (RanEnd::Done, Some(Value::Array(items))) =
                (end, call.input.get("items").or_else(|| call.input.get("todos")))
            {
                self.todos.clone_from(items);
            }
            return;
        }
        let is_approved = meta.and_then(|meta| meta.get("approved")).and_then(Value::as_bool) == Some(true);
        if call.tool == "plan" && is_approved {
            self.plan = call.input.get("plan").and_then(Value::as_str).map(str::to_owned);
        }
        let changes = meta.and_then(|meta| meta.get("changes")).and_then(Value::as_array).into_iter().flatten();
        for path in changes.filter_map(|change| change.get("path").and_then(Value::as_str)) {
            self.files.insert(path.to_owned(), FileUse::Changed);
        }
        if let Some(path) = call.input.get("path").and_then(Value::as_str)
            && call.tool == "read"
            && end == RanEnd::Done
        {
            self.files.entry(path.to_owned()).or_insert(FileUse::Read);
        }
        while self.files.len() > FILES_MAX {
            let oldest =
                self.files.iter().find(|(_, used)| **used == FileUse::Read).or_else(|| self.files.iter().next());
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { break };
            self.files.remove(&name);
        }
        if call.input.get("command").is_some() {
            self.ran.push_back(Ran { tool: call.tool, input: call.input, end });
            if self.ran.len() > RAN_MAX {
                self.ran.pop_front();
            }
        }
    }
}

/// Whether a call was answered without being run.
fn was_not_run(output: &str) -> bool {
    ["not run", "refused", "cancelled"].iter().any(|word| output.starts_with(word))
}

fn words(entry: EventId, text: &str) -> Words {
    if text.len() <= WORDS_MAX {
        return Words { entry, text: text.to_owned(), cut: 0 };
    }
    let head = &text[..text.floor_char_boundary(WORDS_HEAD)];
    Words { entry, text: head.to_owned(), cut: (text.len() - head.len()) as u64 }
}
