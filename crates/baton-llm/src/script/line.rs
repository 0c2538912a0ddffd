//! One line of a script: what it says, how it ends, and which requests it answers.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use baton_core::{AgentRole, Block, CallId, Message, Role, Signature, StopReason, Timestamp, Tokens, ToolUse, Usage};
use globset::{Glob, GlobMatcher};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One line of a script, written as an object with any of these fields:
///
/// - `say`, `think`: text, reasoning.
/// - `call`: a list of `{tool, input, id}`. The input is an object, or a string that is sent as the
///   raw argument text and need not be JSON. The id is made up where it is absent.
/// - `fail`: `{status, retry_after, body}`, see [`Failure`].
/// - `cut`: `true` sends everything but the end; a number sends so many characters of `say`, no calls.
/// - `stop`: a [`StopReason`] other than the one that fits.
/// - `usage`: `{input, output, cache_read, cache_write, reasoning}`, also with `_tokens` at the end.
/// - `delay_ms`: how long to wait before answering.
/// - `role`: a glob on the workflow role; every role where it is absent.
/// - `when`: a regex on all that was said, tool results included, since the last answer.
/// - `repeat`: `true` or how often the line can be used; once where it is absent.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// How long the model waits before it answers.
    pub delay: Duration,
    /// What comes after the message.
    pub ending: Ending,
    /// How often it can be used; `None` is endlessly.
    pub(super) uses_max: Option<u32>,
    role: Option<GlobMatcher>,
    when: Option<Regex>,
    think: String,
    say: String,
    calls: Vec<Call>,
    usage: Option<Usage>,
}

/// How a line ends. Only [`Ending::Complete`] makes an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The answer is complete.
    Complete(StopReason),
    /// The stream stops without an end.
    Cut,
    /// The provider reports an error: in place of an answer where the line says nothing, else
    /// inside the stream.
    Failed(Failure),
}

/// An error that a provider reports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The HTTP status, from 400 to 599.
    pub status: u16,
    /// When to come again.
    pub retry_after: Option<RetryAfter>,
    /// The body; a string is sent as it is, anything else as JSON.
    pub body: Option<Value>,
}

/// What a `retry-after` header says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum RetryAfter {
    /// This text: seconds or an HTTP date.
    Text(String),
    /// The HTTP date so many seconds from now, written `date+N`.
    DateIn {
        /// How far ahead.
        seconds: u32,
    },
}

#[derive(Debug, Clone)]
struct Call {
    id: Option<CallId>,
    tool: String,
    input: Map<String, Value>,
    malformed: Option<String>,
}

/// The role that writes summaries of histories: `role` of a line has to name it.
pub const SUMMARY_ROLE: &str = "compact";

impl Line {
    pub(super) fn parse(number: usize, text: &str) -> Result<Self, String> {
        let raw: RawLine = serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
            format!("{message} (column {})", error.column())
        })?;
        raw.check()?;

        let mut say = raw.say.unwrap_or_default();
        let mut calls = raw.call.into_iter().map(Call::from).collect::<Vec<_>>();
        if let Some(RawCut::After(characters)) = raw.cut {
            say = say.chars().take(characters).collect();
            calls.clear();
        }
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let ending = match (raw.fail, raw.cut) {
            (Some(failure), _) => Ending::Failed(failure),
            (None, Some(RawCut::Whole(true) | RawCut::After(_))) => Ending::Cut,
            (None, None | Some(RawCut::Whole(false))) => Ending::Complete(raw.stop.unwrap_or(stop)),
        };
        let glob = |glob: String| Glob::new(&glob).map_err(|error| format!("`role` is no glob: {error}"));
        // The library draws the regex over several lines; its last line says what is wrong.
        let regex = |regex: String| {
            Regex::new(&regex).map_err(|error| {
                format!("`when` is no regex: {}", error.to_string().lines().last().unwrap_or_default())
            })
        };
        Ok(Self {
            number,
            delay: Duration::from_millis(raw.delay_ms),
            ending,
            uses_max: match raw.repeat {
                None | Some(RawRepeat::Always(false)) => Some(1),
                Some(RawRepeat::Always(true)) => None,
                Some(RawRepeat::Times(times)) => Some(times),
            },
            role: raw.role.map(glob).transpose()?.map(|glob| glob.compile_matcher()),
            when: raw.when.map(regex).transpose()?,
            think: raw.think.unwrap_or_default(),
            say,
            calls,
            usage: raw.usage.map(Usage::from),
        })
    }

    /// Whether it leaves no answer behind.
    pub fn fails(&self) -> bool {
        !matches!(self.ending, Ending::Complete(_))
    }

    /// Whether it can answer what was said to this role. Most lines do not ask what was said, so it comes lazily.
    pub(super) fn fits(&self, role: &AgentRole, said: &impl Deref<Target = String>) -> bool {
        // A summary is nothing that a line which knows of no roles could give.
        let fits = self.role.as_ref().map_or(role.as_str() != SUMMARY_ROLE, |glob| glob.is_match(role.as_str()));
        fits && self.when.as_ref().is_none_or(|regex| regex.is_match(said))
    }

    /// What it says in answer to these messages: reasoning, text, calls; all of it or, where the
    /// line does not end well, what arrives until then.
    ///
    /// Ids come from the number of answers so far: unique in a conversation, the same after a restart.
    pub fn message(&self, history: &[Message]) -> Message {
        self.message_at(history.iter().filter(|message| message.role == Role::Assistant).count())
    }

    /// The same after so many answers.
    pub fn message_at(&self, position: usize) -> Message {
        let mut content = Vec::new();
        if !self.think.is_empty() {
            let signature = Signature { wire: "script".to_owned(), token: format!("thought_{position}") };
            content.push(Block::Thinking { text: self.think.clone(), signature: Some(signature) });
        }
        if !self.say.is_empty() {
            content.push(Block::text(&self.say));
        }
        content.extend(self.calls.iter().enumerate().map(|(index, call)| {
            Block::ToolUse(ToolUse {
                id: call.id.clone().unwrap_or_else(|| CallId::new(format!("call_{position}_{index}"))),
                tool: call.tool.clone(),
                input: Value::Object(call.input.clone()),
                malformed: call.malformed.clone(),
            })
        }));
        Message { role: Role::Assistant, content }
    }

    /// The usage it states, or else an estimate of a token for every four bytes.
    pub fn usage(&self, prompt_bytes: usize) -> Usage {
        self.usage.unwrap_or_else(|| {
            let calls: usize = self.calls.iter().map(Call::bytes).sum();
            Usage {
                input_tokens: tokens(prompt_bytes),
                output_tokens: tokens(self.think.len() + self.say.len() + calls),
                reasoning_tokens: tokens(self.think.len()),
                ..Usage::default()
            }
        })
    }
}

fn tokens(bytes: usize) -> Tokens {
    bytes.div_ceil(4) as Tokens
}

impl Call {
    fn bytes(&self) -> usize {
        let input =
            self.malformed.as_ref().map_or_else(|| Value::from(self.input.clone()).to_string().len(), String::len);
        self.tool.len() + input
    }
}

impl Failure {
    /// The body as text, where the script gives one.
    pub fn body_text(&self) -> Option<String> {
        self.body.as_ref().map(|body| body.as_str().map_or_else(|| body.to_string(), str::to_owned))
    }
}

impl RetryAfter {
    /// The value of the header.
    pub fn header(&self, now: Timestamp) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::DateIn { seconds } => {
                httpdate::fmt_http_date(SystemTime::from(now) + Duration::from_secs((*seconds).into()))
            }
        }
    }
}

impl TryFrom<Value> for RetryAfter {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let text = match value {
            Value::Number(seconds) => seconds.to_string(),
            Value::String(text) => text,
            _ => return Err("`retry_after` must be seconds, an HTTP date or \"date+N\""),
        };
        match text.strip_prefix("date+") {
            Some(seconds) => match seconds.parse() {
                Ok(seconds) => Ok(Self::DateIn { seconds }),
                Err(_) => Err("`retry_after` must have a number of seconds after \"date+\""),
            },
            None if text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) => Ok(Self::Text(text)),
            None => Err("`retry_after` must be printable ASCII"),
        }
    }
}

/// A line as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLine {
    say: Option<String>,
    think: Option<String>,
    #[serde(default)]
    call: Vec<RawCall>,
    fail: Option<Failure>,
    cut: Option<RawCut>,
    stop: Option<StopReason>,
    usage: Option<RawUsage>,
    #[serde(default)]
    delay_ms: u64,
    role: Option<String>,
    when: Option<String>,
    repeat: Option<RawRepeat>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: String,
    #[serde(default)]
    input: RawInput,
    id: Option<CallId>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`input` must be an object, or a string that is sent as the raw arguments")]
enum RawInput {
    Object(Map<String, Value>),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`cut` must be true or a number of characters")]
enum RawCut {
    Whole(bool),
    After(usize),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`repeat` must be true or a count")]
enum RawRepeat {
    Always(bool),
    Times(u32),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the names that scripts use")]
struct RawUsage {
    #[serde(alias = "input")]
    input_tokens: Tokens,
    #[serde(alias = "output")]
    output_tokens: Tokens,
    #[serde(alias = "cache_read")]
    cache_read_tokens: Tokens,
    #[serde(alias = "cache_write")]
    cache_write_tokens: Tokens,
    #[serde(alias = "reasoning")]
    reasoning_tokens: Tokens,
}

impl RawLine {
    /// What the types cannot say.
    fn check(&self) -> Result<(), String> {
        let cuts = !matches!(self.cut, None | Some(RawCut::Whole(false)));
        let silent = self.say.is_none() && self.think.is_none() && self.call.is_empty();
        let problem = if silent && self.fail.is_none() && !cuts {
            "nothing to answer: give one of `say`, `think`, `call`, `fail`, `cut`"
        } else if self.fail.is_some() && cuts {
            "`fail` and `cut` exclude each other"
        } else if self.stop.is_some() && (self.fail.is_some() || cuts) {
            "`stop` needs an answer that is complete, without `fail` or `cut`"
        } else if self.fail.as_ref().is_some_and(|failure| !(400..600).contains(&failure.status)) {
            "`status` must be from 400 to 599"
        } else if matches!(self.repeat, Some(RawRepeat::Times(0))) {
            "`repeat` must be at least 1"
        } else {
            return Ok(());
        };
        Err(problem.to_owned())
    }
}

impl Default for RawInput {
    fn default() -> Self {
        Self::Object(Map::new())
    }
}

impl From<RawCall> for Call {
    fn from(raw: RawCall) -> Self {
        let (input, malformed) = match raw.input {
            RawInput::Object(input) => (input, None),
            RawInput::Text(text) => match serde_json::from_str(&text) {
                Ok(input) => (input, None),
                Err(_) => (Map::new(), Some(text)),
            },
        };
        Self { id: raw.id, tool: raw.tool, input, malformed }
    }
}

impl From<RawUsage> for Usage {
    fn from(raw: RawUsage) -> Self {
        Self {
            input_tokens: raw.input_tokens,
            output_tokens: raw.output_tokens,
            cache_read_tokens: raw.cache_read_tokens,
            cache_write_tokens: raw.cache_write_tokens,
            reasoning_tokens: raw.reasoning_tokens,
        }
    }
}
