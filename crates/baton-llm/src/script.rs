//! The scripted model: answers are lines of a file, chosen by what the conversation already holds.
//!
//! A script is JSON lines; blank lines and lines that begin with `#` or `//` are skipped. [`Line`]
//! says what a line can hold. At every point of a conversation the answer is the first line, in
//! file order, that fits the role, is not used up and whose `when` matches what was said last.
//!
//! Which lines are used up is worked out from the messages alone ([`Script::pick`]), so a session
//! that is resumed in another process goes on at the same line. An answer whose calls were stopped with Baton is given
//! again, unless they are commands.

mod line;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;
use std::ops::Deref;

use baton_core::{AgentRole, Block, Message, Role};
use serde::{Deserialize, Serialize};

use crate::request::Past;

pub use line::{Ending, Failure, Line, RetryAfter, SUMMARY_ROLE};

/// A parsed script: at least one line.
#[derive(Debug, Clone)]
pub struct Script {
    file: String,
    lines: Vec<Line>,
}

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("script {file} line {line}: {message}")]
pub struct ScriptError {
    /// The script's name as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do next.
    pub hint: Option<&'static str>,
}

/// How often each line was used, in file order.
type Uses = Vec<u32>;

/// Where a script is after answers that are not among the messages any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How often each line was used, in file order.
    uses: Uses,
    /// How many answers were given.
    answers: usize,
}

impl Place {
    fn of(past: &Past) -> Self {
        past.place.as_ref().and_then(|place| Self::deserialize(place).ok()).unwrap_or_default()
    }
}

/// The uses left of a line that repeats endlessly: more than anyone counts.
const ENDLESS: u64 = 1 << 40;

/// As many failed attempts as it took to get an answer.
const ANY_FAILURES: u64 = u64::MAX;

impl Script {
    /// Reads a script. `file_name` is only for messages.
    pub fn parse(file_name: &str, text: &str) -> Result<Self, ScriptError> {
        let fault = |line, message| ScriptError { file: file_name.to_owned(), line, message, hint: None };
        let mut lines = Vec::new();
        for (number, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if !(text.is_empty() || text.starts_with('#') || text.starts_with("//")) {
                lines.push(Line::parse(number, text).map_err(|message| fault(number, message))?);
            }
        }
        if lines.is_empty() {
            return Err(fault(text.lines().count().max(1), "the script ends without a single answer".to_owned()));
        }
        Ok(Self { file: file_name.to_owned(), lines })
    }

    /// The line that answers these messages, when `failures` attempts to answer them have failed.
    ///
    /// Every assistant message was answered by one line, which is used up by it. Lines that fail or
    /// break off leave no message: those that came before an answer were used up by failed attempts.
    /// A line that fails endlessly is the exception. No answer can come after it, so where one is
    /// recorded nevertheless (another model gave it), the line is passed over and stays as it is.
    pub fn pick(&self, role: &AgentRole, messages: &[Message], failures: u32) -> Result<&Line, ScriptError> {
        self.pick_after(&Past::default(), role, messages, failures)
    }

    /// The same for messages that do not go back to the beginning.
    pub fn pick_after(
        &self,
        past: &Past,
        role: &AgentRole,
        messages: &[Message],
        failures: u32,
    ) -> Result<&Line, ScriptError> {
        let Place { mut uses, answers } = self.place(past, role, messages);
        let said = LazyCell::new(|| last_said(messages));
        self.attempt(role, &said, &mut uses, failures.into()).ok_or_else(|| ScriptError {
            file: self.file.clone(),
            line: self.lines.last().map_or(0, |line| line.number),
            message: format!("no line is left for role `{role}` after {answers} answers"),
            hint: Some("add a line to the script, or `\"repeat\": true` to one"),
        })
    }

    /// Where the script is after these messages.
    pub fn place(&self, past: &Past, role: &AgentRole, messages: &[Message]) -> Place {
        let Place { mut uses, mut answers } = Place::of(past);
        uses.resize(self.lines.len(), 0);
        let answered = messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant);
        for (at, said) in answered.skip(past.counted) {
            answers += 1;
            if messages.get(at + 1).is_some_and(|results| is_given_again(said, results)) {
                continue;
            }
            let said = LazyCell::new(|| last_said(&messages[..at]));
            self.attempt(role, &said, &mut uses, ANY_FAILURES);
        }
        Place { uses, answers }
    }

    /// How many answers came before the next one.
    pub fn answers(&self, past: &Past, messages: &[Message]) -> usize {
        let answered = messages.iter().filter(|message| message.role == Role::Assistant).count();
        Place::of(past).answers + answered.saturating_sub(past.counted)
    }

    /// The line that one point of the conversation gets after so many failed attempts.
    ///
    /// One pass is enough: what was said does not change between the attempts at one point, so a
    /// line that was passed over for one attempt is passed over for all.
    fn attempt(
        &self,
        role: &AgentRole,
        said: &impl Deref<Target = String>,
        uses: &mut Uses,
        mut failures: u64,
    ) -> Option<&Line> {
        for (line, used) in self.lines.iter().zip(uses) {
            let left = line.uses_max.map_or(ENDLESS, |max| (max - *used).into());
            if left == 0 || !line.fits(role, said) {
                continue;
            }
            if line.fails() && left <= failures {
                failures -= left;
                // Those attempts used it up, unless nothing can.
                *used = line.uses_max.unwrap_or(*used);
                continue;
            }
            *used += 1;
            return Some(line);
        }
        None
    }
}

/// Whether Baton was stopped before what the model said was done. It says it again then, but not a command: that it would
/// look after first.
fn is_given_again(said: &Message, results: &Message) -> bool {
    let mut stopped = results.content.iter().filter_map(|block| match block {
        Block::ToolResult(result) if result.was_stopped() => said.tool_uses().find(|call| call.id == result.id),
        _ => None,
    });
    let Some(first) = stopped.next() else { return false };
    !std::iter::once(first).chain(stopped).any(|call| call.input.get("command").is_some())
}

/// The texts and tool results since the model last spoke: a wire format may carry them as one
/// message or as several.
fn last_said(messages: &[Message]) -> String {
    let start = messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
    let texts = messages[start..].iter().flat_map(|message| &message.content).filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        Block::ToolResult(result) => Some(result.text.as_str()),
        Block::Thinking { .. } | Block::ToolUse(_) | Block::Image(_) | Block::Foreign(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
