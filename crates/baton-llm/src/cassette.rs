//! Cassettes: recorded model traffic, kept as JSON lines, replayed without network or key.
//!
//! The first line is the [`Header`]. Every further line is one exchange, an [`Entry`]: what was asked
//! in Baton's own form, and what came back, byte for byte. A request repeats the whole conversation
//! so far, so an exchange keeps only the messages that follow those of the exchange it comes `after`.
//! Lines are only ever appended, each with one write. A last line that was cut off by a crash is left
//! out and reported; any other line that cannot be read is an error.
//!
//! What depends on the person or the machine is replaced by [`Marks`]: keys, and the places of the
//! project, of Baton's state and settings, and of the home directory.
//!
//! A request fits an exchange if model, effort, role, system prompt, tools and messages are the same
//! after that. Not compared are the facts in the `<environment>` block of the first message
//! (directory, system, date, branch), the cache key, the output limit (it follows from budgets), and
//! the number at the end of a file of full outputs. Everything else is a difference, and is shown.

mod diff;
mod marks;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use baton_core::{AgentRole, Block, CallId, Message, Timestamp, ToolSpec};
use serde::{Deserialize, Serialize};

use crate::model_ref::ModelRef;
use crate::request::{Effort, Request};
use crate::wire::Wire;

pub use marks::Marks;
pub use record::Recording;
pub(crate) use record::Tee;
pub(crate) use replay::Replay;

/// The form of the file that is written and read here.
const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The form of the file: 1.
    pub baton_cassette: u32,
    /// The model that was asked.
    pub model: ModelRef,
    /// The format in which it answered.
    pub wire: Wire,
}

/// One exchange, as a line holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1.
    pub exchange: usize,
    /// When it began.
    pub at: Timestamp,
    /// The exchange whose messages come before these; system prompt and tools are the same unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<usize>,
    /// The role of the agent that asked.
    #[serde(default, skip_serializing_if = "is_main")]
    pub role: AgentRole,
    /// How hard the model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools on offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    /// The messages.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// What came back.
    #[serde(flatten)]
    pub answer: Recorded,
}

/// What came back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    /// Why there was no way to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// Why the answer was not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The HTTP status; 0 without an answer.
    #[serde(skip_serializing_if = "is_zero")]
    pub status: u16,
    /// The headers that mean something to Baton.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The ids that Baton gave to calls, because the wire format has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallId>,
    /// The bytes, where they are text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// The bytes in base64, where they are not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body_base64: String,
    /// Why the bytes broke off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

fn is_main(role: &AgentRole) -> bool {
    *role == AgentRole::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(status: &u16) -> bool {
    *status == 0
}

/// A cassette that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Cassette {
    /// Its first line.
    pub header: Header,
    exchanges: Vec<Exchange>,
    /// The number of the last line, if that was cut off.
    pub torn: Option<usize>,
}

/// An exchange and where its conversation goes on from.
#[derive(Debug, Clone, PartialEq)]
struct Exchange {
    entry: Entry,
    /// How many messages the whole request has.
    messages: usize,
}

/// What is wrong with a cassette.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct CassetteError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl Cassette {
    /// Reads a cassette.
    pub fn parse(bytes: &[u8]) -> Result<Self, CassetteError> {
        let mut lines = (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n'));
        let (_, first) = lines.next().unwrap_or((1, &[]));
        let header: Header = serde_json::from_slice(first)
            .map_err(|error| CassetteError { line: 1, message: format!("this is no cassette: {error}") })?;
        if header.baton_cassette != VERSION {
            let message = format!("this Baton reads version {VERSION}, not {}", header.baton_cassette);
            return Err(CassetteError { line: 1, message });
        }
        let mut cassette = Self { header, exchanges: Vec::new(), torn: None };
        for (number, line) in lines {
            let fault = |message| CassetteError { line: number, message };
            match serde_json::from_slice(line) {
                Ok(entry) => cassette.add(entry).map_err(fault)?,
                // Whole lines end with a line break.
                Err(_) if !line.ends_with(b"\n") => cassette.torn = Some(number),
                Err(error) => return Err(fault(error.to_string())),
            }
        }
        Ok(cassette)
    }

    fn add(&mut self, mut entry: Entry) -> Result<(), String> {
        let expected = self.exchanges.len() + 1;
        if entry.exchange != expected {
            return Err(format!("exchange {} stands where exchange {expected} belongs", entry.exchange));
        }
        let before = match entry.after {
            None => {
                blank_facts(&mut entry.messages);
                0
            }
            Some(after) if (1..expected).contains(&after) => self.exchanges[after - 1].messages,
            Some(after) => return Err(format!("exchange {expected} cannot come after exchange {after}")),
        };
        let messages = before.saturating_add(entry.messages.len());
        self.exchanges.push(Exchange { entry, messages });
        Ok(())
    }

    /// How many exchanges it has.
    pub fn len(&self) -> usize {
        self.exchanges.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// An exchange and those before it in the same conversation, latest first.
    fn chain(&self, at: usize) -> impl Iterator<Item = &Exchange> {
        let mut next = self.exchanges.get(at);
        std::iter::from_fn(move || {
            let this = next?;
            next = this.entry.after.and_then(|after| self.exchanges.get(after - 1));
            Some(this)
        })
    }

    /// All messages of an exchange's request.
    fn messages(&self, at: usize) -> Vec<&Message> {
        let mut parts: Vec<_> = self.chain(at).map(|exchange| exchange.entry.messages.as_slice()).collect();
        parts.reverse();
        parts.into_iter().flatten().collect()
    }

    fn system(&self, at: usize) -> &str {
        self.chain(at).find_map(|exchange| exchange.entry.system.as_deref()).unwrap_or_default()
    }

    fn tools(&self, at: usize) -> &[ToolSpec] {
        self.chain(at).find_map(|exchange| exchange.entry.tools.as_deref()).unwrap_or_default()
    }

    /// Whether a request, in the form of cassettes, is the one of an exchange.
    fn fits(&self, at: usize, asked: &Asked) -> bool {
        let Some(Exchange { entry, messages }) = self.exchanges.get(at) else { return false };
        *messages == asked.messages.len()
            && entry.role == asked.role
            && entry.effort == asked.effort
            && self.system(at) == asked.system
            && self.tools(at) == asked.tools
            && self.messages(at).into_iter().eq(&asked.messages)
    }
}

/// A request in the form of cassettes: with marks, and without facts that may differ.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    role: AgentRole,
    effort: Option<Effort>,
    system: String,
    tools: Vec<ToolSpec>,
    messages: Vec<Message>,
}

impl Asked {
    fn new(request: &Request, marks: &Marks) -> Self {
        let mut messages: Vec<_> = request.messages.iter().map(|message| marks.message(message)).collect();
        blank_facts(&mut messages);
        Self {
            role: request.role.clone(),
            effort: request.effort,
            system: marks.text(&request.system).into_owned(),
            tools: request.tools.iter().map(|tool| marks.tool(tool)).collect(),
            messages,
        }
    }
}

/// Empties the block of facts that opens a conversation: they differ from machine to machine.
fn blank_facts(messages: &mut [Message]) {
    let blocks = messages.iter_mut().take(1).flat_map(|message| &mut message.content);
    for block in blocks {
        if let Block::Text { text } = block
            && text.starts_with("<environment>")
            && text.ends_with("</environment>")
        {
            "<environment>…</environment>".clone_into(text);
        }
    }
}
