//! What a model is asked, and what it answers, in no provider's form.

use std::fmt;
use std::str::FromStr;

use baton_core::{AgentRole, Block, CallId, Message, StopReason, ToolSpec, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One model call. Between compactions a request only grows at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The model's name, without its provider.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The tools on offer, in a fixed order.
    pub tools: Vec<ToolSpec>,
    /// The conversation so far; ends with a user message.
    pub messages: Vec<Message>,
    /// The most tokens the model may write; the gate sets it.
    pub output_max: u64,
    /// How hard it should think; `None` leaves it to the provider.
    pub effort: Option<Effort>,
    /// Whether the provider may search the web by itself; encoders whose format cannot leave it out.
    pub web_search: bool,
    /// What the model can take; encoders leave out the rest.
    pub abilities: Abilities,
    /// Steers requests of one session to the same provider cache.
    pub cache_key: String,
    /// The role this agent plays; scripts choose their lines by it.
    pub role: AgentRole,
    /// How many attempts at this very answer have failed, as far as is recorded.
    pub failures: u32,
    /// What came before the first message.
    pub past: Past,
}

/// What was asked and answered before the first message of a request, for providers that keep count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Past {
    /// Where the provider was then; it made this itself.
    pub place: Option<Value>,
    /// How many of the answers among the messages that place already counts, or were given to another role.
    pub counted: usize,
}

/// What a model can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// It sees pictures; others get a note in their place.
    pub images: bool,
    /// It can think before it answers.
    pub thinking: bool,
}

/// What a picture counts for: providers charge by area, between 1,000 and 2,000 tokens for a large one.
const IMAGE_BYTES: usize = 5_600;

impl Request {
    /// How much the model has to read, in bytes of text.
    pub fn prompt_bytes(&self) -> usize {
        let tools = self.tools.iter().map(|tool| tool.description.len() + json_bytes(&tool.input_schema));
        let messages = self.messages.iter().map(message_bytes);
        self.system.len() + tools.chain(messages).sum::<usize>()
    }

    /// The same request with nothing said yet.
    #[must_use]
    pub fn without_messages(&self) -> Self {
        Self {
            model: self.model.clone(),
            system: self.system.clone(),
            tools: self.tools.clone(),
            messages: Vec::new(),
            cache_key: self.cache_key.clone(),
            role: self.role.clone(),
            past: self.past.clone(),
            ..*self
        }
    }
}

/// How much of a prompt a message is, in bytes of text.
pub fn message_bytes(message: &Message) -> usize {
    message.content.iter().map(block_bytes).sum()
}

/// How much of a prompt or an answer a block is, in bytes of text.
pub(crate) fn block_bytes(block: &Block) -> usize {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse(call) => call.tool.len() + json_bytes(&call.input),
        Block::ToolResult(result) => result.text.len() + result.images.len() * IMAGE_BYTES,
        Block::Image(_) => IMAGE_BYTES,
        Block::Foreign(foreign) => json_bytes(&foreign.raw),
    }
}

/// How long a value is as JSON, without writing it down.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and a value has no keys that are not strings.
    drop(serde_json::to_writer(&mut count, value));
    count.0
}

/// How hard a model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all, or as little as the model can.
    Minimal,
    /// A little.
    Low,
    /// As much as usual.
    Medium,
    /// Much.
    High,
    /// As much as the model can.
    Max,
}

impl Effort {
    /// The name used after the colon of a model.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effort {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "minimal" | "none" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "max" | "xhigh" => Self::Max,
            _ => return Err(()),
        })
    }
}

/// A piece of an answer as it arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// A tool call has begun; its input follows with the whole answer.
    ToolCall {
        /// The call.
        id: CallId,
        /// The tool's name.
        tool: String,
    },
    /// The provider searched the web, or names what it has read there.
    Searched(Search),
}

/// A search of the web that a provider made by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// What was searched for, or the page that was opened; nothing where only sources are named.
    pub query: Option<String>,
    /// What was found or cited.
    pub sources: Vec<Source>,
    /// Why it failed, in the provider's words.
    pub problem: Option<String>,
}

/// A page on the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its title, if it has one.
    pub title: String,
    /// Its address.
    pub url: String,
}

impl Source {
    /// The source in a provider's object, whose address is in one of these fields.
    pub(crate) fn of(object: &serde_json::Value, address: &str) -> Option<Self> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        Some(Self { title: text("title"), url: text(address) }).filter(|source| !source.url.is_empty())
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The assistant's message, blocks in the order they began.
    pub message: Message,
    /// Why it ended.
    pub stop: StopReason,
    /// What it used.
    pub usage: Usage,
}
