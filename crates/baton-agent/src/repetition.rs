//! Repetition: whether an agent goes in circles. Pure: a call is judged by the calls before it.
//!
//! Two things count as a circle, both only while the results stay the same: a block of up to four calls that is about to
//! be made for the third time in a row, and a failing call that is about to be made for the third time with nothing
//! changed since it first failed. Work that repeats itself for good reasons is told apart by its results (tests that are
//! run again after an edit) and by its words (a command that waits).

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use baton_core::{Access, CallId, ToolUse};
use baton_tools::Outcome;
use serde_json::Value;

/// The longest block of calls whose repetition is noticed.
const BLOCK_MAX: usize = 4;
/// How often the same is done at most.
const TIMES_MAX: usize = 3;
/// The same for what waits for something: asking again is how one waits.
const TIMES_MAX_WAITING: usize = 20;
/// How often an agent that goes on is told before the turn ends.
const TOLD_MAX: u32 = 10;
/// A shorter word is no name that something was given for one time.
const NAME_BYTES_MIN: usize = 8;
/// How many calls are remembered.
const PAST_MAX: usize = BLOCK_MAX * TIMES_MAX_WAITING;

/// The calls of an agent since the person last spoke.
#[derive(Default)]
pub(crate) struct Trace {
    past: VecDeque<Past>,
    /// What calls last came to, by key.
    seen: HashMap<u64, u64>,
    allowed: HashSet<u64>,
    told: u32,
    /// Calls of one answer are told about once.
    is_told_now: bool,
}

struct Past {
    id: CallId,
    /// The tool and its input.
    key: u64,
    waits: bool,
    /// What came of it; nothing if it runs or did not run.
    result: Option<u64>,
    failed: bool,
    /// Whether the world is another one since.
    progress: bool,
}

/// What is to be done about a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is none of our business.
    Run,
    /// It would be done this many times: somebody has to look.
    Repeats(usize),
    /// The same, and the agent has been told often enough.
    Hopeless(usize),
}

impl Trace {
    /// Judges a call, and remembers it.
    pub(crate) fn judge(&mut self, call: &ToolUse) -> Verdict {
        let past = Past {
            id: call.id.clone(),
            key: key(call),
            waits: waits(call),
            result: None,
            failed: false,
            progress: false,
        };
        let is_allowed = self.allowed.contains(&past.key);
        self.past.push_back(past);
        if self.past.len() > PAST_MAX {
            self.past.pop_front();
        }
        let Some(times) = self.circle().or_else(|| self.stuck()).filter(|_| !is_allowed) else { return Verdict::Run };
        if !std::mem::replace(&mut self.is_told_now, true) {
            self.told += 1;
        }
        if self.told > TOLD_MAX { Verdict::Hopeless(times) } else { Verdict::Repeats(times) }
    }

    /// Notes what came of a call that ran.
    pub(crate) fn ran(&mut self, call: &ToolUse, access: Access, outcome: &Outcome) {
        // The same command with another result: the world has moved on.
        let is_new = self.seen.insert(key(call), result(outcome)) != Some(result(outcome));
        let changed = outcome.meta.get("changes").and_then(Value::as_array).is_some_and(|changes| !changes.is_empty());
        let Some(past) = self.past.iter_mut().rfind(|past| past.id == call.id) else { return };
        past.result = Some(result(outcome));
        past.failed = outcome.is_error;
        past.progress = !outcome.is_error && (changed || access == Access::Execute && is_new);
        if past.progress {
            self.told = 0;
        }
    }

    /// The agent has read what came of its calls.
    pub(crate) fn step_ended(&mut self) {
        self.is_told_now = false;
    }

    /// The person lets this call pass from now on.
    pub(crate) fn allow(&mut self, call: &ToolUse) {
        self.allowed.insert(key(call));
    }

    /// What the person says begins something new.
    pub(crate) fn person_spoke(&mut self) {
        let allowed = std::mem::take(&mut self.allowed);
        *self = Self { allowed, ..Self::default() };
    }

    /// How often the last block of calls was made in a row, if that is too often.
    fn circle(&self) -> Option<usize> {
        let len = self.past.len();
        (1..=BLOCK_MAX).find_map(|block| {
            let waits = self.past.iter().rev().take(block).any(|past| past.waits);
            let times = if waits { TIMES_MAX_WAITING } else { TIMES_MAX };
            let start = len.checked_sub(block * times)?;
            (start + block..len).all(|at| same(&self.past[at], &self.past[at - block])).then_some(times)
        })
    }

    /// How often the last call was made, if it has always failed in the same way and nothing has changed since.
    fn stuck(&self) -> Option<usize> {
        let mut past = self.past.iter().rev();
        let last = past.next()?;
        let earlier: Vec<_> = past.take_while(|past| !past.progress).filter(|past| past.key == last.key).collect();
        let first = earlier.iter().find_map(|past| past.result)?;
        let alike = earlier.iter().all(|past| past.result.is_none_or(|result| past.failed && result == first));
        let times_max = if last.waits { TIMES_MAX_WAITING } else { TIMES_MAX };
        let times = earlier.len() + 1;
        (alike && times >= times_max).then_some(times)
    }
}

/// Whether two calls are one and came to the same, as far as that is known.
fn same(one: &Past, other: &Past) -> bool {
    let alike = match (one.result, other.result) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    one.key == other.key && alike
}

/// The tool and its input, whatever the order of its fields.
fn key(call: &ToolUse) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.tool.hash(&mut hasher);
    hash_value(&call.input, &mut hasher);
    call.malformed.hash(&mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, value) in fields {
                name.hash(hasher);
                hash_value(value, hasher);
            }
        }
        Value::Array(items) => {
            items.len().hash(hasher);
            for item in items {
                hash_value(item, hasher);
            }
        }
        Value::String(text) => text.trim().hash(hasher),
        other => other.to_string().hash(hasher),
    }
}

/// Whether a call is there to wait for something.
fn waits(call: &ToolUse) -> bool {
    let command = call.input["command"].as_str().unwrap_or_default();
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "sleep" | "wait"));
    call.tool == "bash_background" && command.is_empty() || words(command)
}

/// What came of a call, without what differs from one time to the next: times, how long things took, and in failures the
/// long words with digits that name a request, an address or a log file.
fn result(outcome: &Outcome) -> u64 {
    let mut hasher = DefaultHasher::new();
    outcome.is_error.hash(&mut hasher);
    let mut words = outcome.text.split_ascii_whitespace().peekable();
    while let Some(word) = words.next() {
        let is_measure = is_number(word) && words.peek().is_some_and(|next| is_unit(next));
        let is_name = outcome.is_error && word.len() >= NAME_BYTES_MIN && word.contains(|c: char| c.is_ascii_digit());
        if !is_measure && !is_name && !is_time(word) && !word.contains("/tmp/") {
            word.hash(&mut hasher);
        }
    }
    outcome.images.iter().for_each(|image| image.data.hash(&mut hasher));
    hasher.finish()
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn is_number(word: &str) -> bool {
    let word = trimmed(word);
    word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')
}

fn is_unit(word: &str) -> bool {
    matches!(trimmed(word), "ns" | "us" | "µs" | "ms" | "s" | "sec" | "secs" | "seconds" | "second" | "minutes" | "min")
}

/// A time of day, a date, or a time with its unit: `12:30:01`, `2026-11-16T12:30:01Z`, `0.03s`, `1m2s`.
fn is_time(word: &str) -> bool {
    let word = trimmed(word);
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.contains(|c: char| c.is_alphabetic() || c == ':' || c == '-')
        && word.chars().all(|c| c.is_ascii_digit() || ".:-+TZnsuµmh".contains(c))
}

#[cfg(test)]
mod tests;
