//! Messages and their content blocks, in Baton's own form; provider forms live in `baton-llm`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CallId;

/// Who speaks. Tool results are spoken by the user side, as providers have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, or Baton on their behalf.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// The model's reasoning. Its signature goes back to the provider it came from, unchanged, and
    /// to no other. A signature belongs to this block and to the block that follows it.
    Thinking {
        /// Readable reasoning; empty when the provider hides it.
        text: String,
        /// What the provider wants back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Signature>,
    },
    /// The model asks for a tool.
    ToolUse(ToolUse),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// A picture.
    Image(Image),
    /// What a provider did by itself, such as a search of the web.
    Foreign(Foreign),
}

/// A piece of an answer that only its provider understands: it goes back to it unchanged, and to no other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// The wire format it came in; other formats drop the block.
    pub wire: String,
    /// The piece, exactly as received.
    pub raw: Value,
}

/// An opaque token by which a provider recognises its own reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The wire format that issued it; other formats drop the block.
    pub wire: String,
    /// The token, exactly as received.
    pub token: String,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Pairs the call with its result.
    pub id: CallId,
    /// The tool's name.
    pub tool: String,
    /// The input: a JSON object, empty when the model's text was not one.
    pub input: Value,
    /// The model's raw text where it was not a JSON object: such a call is answered, never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

/// The answer to a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that is answered.
    pub id: CallId,
    /// What the model reads.
    pub text: String,
    /// Pictures that come with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Whether the tool failed, refused or did not run.
    #[serde(default)]
    pub is_error: bool,
}

/// A picture, carried inline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// For example `image/png`.
    pub media_type: String,
    /// The bytes in standard base64.
    pub data: String,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// It ran into the output limit.
    MaxTokens,
    /// The provider asks to be called again with the same history.
    Pause,
    /// It would not answer, or a filter cut it off.
    Refusal,
}

impl Message {
    /// A user message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Block::text(text)] }
    }

    /// An assistant message of one text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: vec![Block::text(text)] }
    }

    /// All text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for block in &self.content {
            if let Block::Text { text } = block {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        }
        out
    }

    /// The tool calls in it, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            _ => None,
        })
    }
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Told to the model about a call that ran when Baton was stopped.
const STOPPED: &str = "[Baton was stopped while this ran: nobody knows how far it came. Look at what it has done before \
                       you do it again.]";
/// Told to the model about a call that never began.
const NOT_BEGUN: &str = "not run: Baton was stopped before it began";

impl ToolResult {
    /// The answer to a call that Baton was stopped before or during.
    pub fn stopped(id: CallId, has_begun: bool) -> Self {
        Self::error(id, if has_begun { STOPPED } else { NOT_BEGUN })
    }

    /// Whether Baton was stopped before the call had ended.
    pub fn was_stopped(&self) -> bool {
        self.is_error && [STOPPED, NOT_BEGUN].contains(&self.text.as_str())
    }

    /// A successful answer of one text.
    pub fn ok(id: CallId, text: impl Into<String>) -> Self {
        Self { id, text: text.into(), images: Vec::new(), is_error: false }
    }

    /// A failure, told to the model.
    pub fn error(id: CallId, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::ok(id, text) }
    }
}
