//! Summaries: what one session is about, folded from its entries as they are read. Pure.

use baton_core::{EventBody, SessionId, Timestamp};
use serde::Serialize;

use crate::entry::{Entry, EntryBody, Own};
use crate::search::texts;

/// How much of the first prompt is kept.
const PROMPT_MAX: usize = 1000;
/// How much of what was said at once can be found.
const SAID_MAX: usize = 32 * 1024;
/// How much of what a tool answered can be found.
const OUTPUT_MAX: usize = 2 * 1024;

/// What one session is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// The name that it was given, else the first line of the first prompt.
    pub title: String,
    /// How the first prompt begins.
    pub prompt: Option<String>,
    /// Where the agent worked at first.
    pub cwd: Option<String>,
    /// The model that was used last.
    pub model: Option<String>,
    /// When its first entry was made.
    pub created: Option<Timestamp>,
    /// When its file was last written.
    pub used: Timestamp,
    /// How many entries it has.
    pub entries: u64,
    /// How many prompts it has.
    pub turns: u64,
    /// At how many places there are bytes that are no entries.
    pub damage: u64,
    /// The session that it was forked from.
    pub forked: Option<SessionId>,
    /// What it was imported from.
    pub imported: Option<String>,
    /// How long its file is.
    pub bytes: u64,
}

/// What is known of a session so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Known {
    pub(super) title: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) model: Option<String>,
    pub(super) created: Option<Timestamp>,
    pub(super) entries: u64,
    pub(super) turns: u64,
    pub(super) damage: u64,
    pub(super) forked: Option<String>,
    pub(super) imported: Option<String>,
}

/// The kinds that something can be learned from, besides that they are there.
pub(super) const TELLING: [&str; 8] =
    ["session", "titled", "session.start", "usage", "turn.start", "said", "message.end", "tool.end"];

impl Known {
    /// Takes note of an entry that is of a telling kind.
    pub(super) fn note(&mut self, entry: &Entry) {
        match &entry.body {
            EntryBody::Own(Own::Header(header)) if self.cwd.is_none() => {
                self.cwd = Some(header.cwd.clone());
                self.forked = header.forked.as_ref().map(|origin| origin.session.to_string());
                self.imported.clone_from(&header.imported);
            }
            EntryBody::Own(Own::Titled { title }) => self.title = Some(title.clone()),
            EntryBody::Event(EventBody::SessionStarted { model, .. } | EventBody::UsageReported { model, .. }) => {
                self.model = Some(model.clone());
            }
            EntryBody::Event(EventBody::TurnStarted { .. }) => {
                self.turns += 1;
                if self.prompt.is_none() {
                    self.prompt = texts(entry).into_iter().next().map(|(_, text)| cut(text, PROMPT_MAX));
                }
            }
            _ => {}
        }
    }
}

/// What can be found of an entry, and whose words they are.
pub(super) fn findable(entry: &Entry) -> Vec<(String, String)> {
    let max = match &entry.body {
        EntryBody::Event(EventBody::ToolEnded { .. }) => OUTPUT_MAX,
        _ => SAID_MAX,
    };
    texts(entry).into_iter().map(|(who, text)| (who, cut(text, max))).collect()
}

/// How much of a text that is kept apart has to be read.
pub(super) fn wanted(kind: &str) -> usize {
    if kind == "tool.end" { OUTPUT_MAX } else { SAID_MAX }
}

/// The name of a session that nobody has named.
pub(super) fn untitled(prompt: Option<&str>) -> String {
    let lines = prompt.unwrap_or_default().lines().map(str::trim);
    lines.into_iter().find(|line| !line.is_empty()).unwrap_or("(no prompt)").to_owned()
}

fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}
