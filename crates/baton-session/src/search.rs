//! Searching one session: what was said and done in it, whatever was compacted since.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use baton_core::{Block, EventBody, EventId, Message, Timestamp};

use crate::blobs::Blobs;
use crate::codec::{decode, peek};
use crate::entry::{Entry, EntryBody, Own};
use crate::scan::{Forward, Piece};

/// How much is shown on each side of what was found, in bytes.
const AROUND: usize = 160;

/// A session file, for whoever looks something up in it.
#[derive(Debug, Clone)]
pub struct Archive {
    path: PathBuf,
    blobs: Blobs,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The entry.
    pub entry: EventId,
    /// When it was made.
    pub at: Timestamp,
    /// Whose words: `person`, `agent`, or the name of a tool.
    pub who: String,
    /// What stands there.
    pub excerpt: String,
}

impl Archive {
    /// The file of a session, and where its big texts are.
    pub fn new(path: &Path, blobs: Blobs) -> Self {
        Self { path: path.to_owned(), blobs }
    }

    /// The last `max` places where something is said, whatever the case of its letters.
    pub fn search(&self, query: &str, max: usize) -> io::Result<Vec<Hit>> {
        let query = query.to_lowercase();
        let mut hits = std::collections::VecDeque::new();
        self.each(|entry| {
            for (who, text) in texts(entry) {
                if let Some(excerpt) = excerpt(&text, &query) {
                    hits.push_back(Hit { entry: entry.id.clone(), at: entry.at, who, excerpt });
                    if hits.len() > max {
                        hits.pop_front();
                    }
                }
            }
            true
        })?;
        Ok(hits.into())
    }

    /// All that one entry says.
    pub fn read(&self, id: &str) -> io::Result<Option<String>> {
        let mut found = None;
        self.each(|entry| {
            if entry.id.as_str() == id {
                let said = texts(entry).into_iter().map(|(who, text)| format!("{who}: {text}"));
                found = Some(said.collect::<Vec<_>>().join("\n"));
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Passes entries that say something, until one is enough.
    fn each(&self, mut entry: impl FnMut(&Entry) -> bool) -> io::Result<()> {
        let mut scan = Forward::new(File::open(&self.path)?, 0);
        while let Some(piece) = scan.next()? {
            let Piece::Whole(_, line) = piece else { continue };
            let says = peek(&line).is_some_and(|head| SAYING.contains(&&*head.kind));
            if says
                && let Ok((read, _)) = decode(&line, &self.blobs)
                && !entry(&read)
            {
                break;
            }
        }
        Ok(())
    }
}

/// The kinds that have something to say.
const SAYING: [&str; 5] = ["turn.start", "said", "message.end", "tool.end", "compacted"];

/// What an entry says, and whose words they are.
pub fn texts(entry: &Entry) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let mut add = |who: &str, text: String| {
        if !text.trim().is_empty() {
            texts.push((who.to_owned(), text));
        }
    };
    match &entry.body {
        EntryBody::Event(EventBody::TurnStarted { message, context }) => {
            let own = message.content.get(usize::try_from(*context).unwrap_or(0)..).unwrap_or_default();
            add("person", words(own));
        }
        EntryBody::Own(Own::Said { content, by_person: true }) => add("person", words(content)),
        EntryBody::Event(EventBody::MessageEnded { message, .. }) => {
            add("agent", message.text());
            for call in message.tool_uses() {
                add(&format!("agent calls {}", call.tool), call.input.to_string());
            }
        }
        EntryBody::Event(EventBody::ToolEnded { tool, output, .. }) => add(tool, output.clone()),
        _ => {}
    }
    texts
}

fn words(content: &[Block]) -> String {
    Message { role: baton_core::Role::User, content: content.to_vec() }.text()
}

/// What stands around the first place where a text says this.
fn excerpt(text: &str, query: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let at = lower.find(query)?;
    // Lower case may have other lengths: then the place is about right.
    let at = text.floor_char_boundary(at.min(text.len()));
    let start = text.floor_char_boundary(at.saturating_sub(AROUND));
    let end = text.floor_char_boundary((at + query.len() + AROUND).min(text.len()));
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    Some(format!("{before}{}{after}", &text[start..end]))
}
