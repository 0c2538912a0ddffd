//! Wire formats: pure encoders of requests and incremental decoders of streams, one file each.
//!
//! A decoder takes bytes at any split and gives the same [`WireEvent`]s for every split. It never
//! fails by panic or `Err`: what goes wrong in a stream is itself the last event.

use baton_core::{CallId, Message, Usage};
use serde_json::Value;

use crate::request::{Answer, Delta, Request};

mod anthropic;
mod assemble;
mod chat;
mod fit;
mod gemini;
mod responses;
mod sse;

/// What a decoder makes of a stream: any number of deltas, then exactly one of the other two.
#[derive(Debug, Clone, PartialEq)]
pub enum WireEvent {
    /// Something more arrived.
    Delta(Delta),
    /// The answer is complete. Nothing follows.
    Ended(Answer),
    /// The stream reported an error or broke off. Nothing follows.
    Failed(WireFailure),
}

/// Why a stream gave no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct WireFailure {
    /// What went wrong.
    pub kind: WireFailureKind,
    /// The provider's words, or ours where it had none.
    pub message: String,
    /// What had arrived until then.
    pub partial: Message,
    /// What the provider had counted until then; it charges for broken answers too.
    pub usage: Usage,
}

/// What went wrong in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFailureKind {
    /// The bytes ended before the answer did.
    Cut,
    /// The provider reported an error inside the stream; its code as an HTTP status where one fits
    /// (429 rate limit, 529 overloaded, 500 server error, 400 bad request, 401 authentication...).
    Reported {
        /// The status that this error would have had as a response.
        status: u16,
    },
    /// The bytes are not what the format allows, or more than any answer can be.
    Malformed,
    /// The model ended its turn without a word or a call: thinking alone is no answer.
    Empty,
}

/// An incremental decoder of one response.
pub trait Decode: Send {
    /// Takes the next bytes; appends what they complete.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<WireEvent>);
    /// The bytes have ended: appends the failure if the answer had not.
    fn finish(&mut self, out: &mut Vec<WireEvent>);
    /// Whether the answer is complete but for the end of the bytes.
    fn is_complete(&self) -> bool;
    /// What has arrived so far, for when the connection itself fails or is cancelled.
    fn partial(&self) -> Message;
    /// What the provider has counted so far, for the same case.
    fn usage(&self) -> Usage;
}

/// An object with a list in the place of one of its fields. The list is moved: `json!` would copy all that is in it.
fn filled(mut object: Value, field: &str, list: Vec<Value>) -> Value {
    object[field] = Value::Array(list);
    object
}

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, and every server that is compatible with it.
    Chat,
    /// Gemini `streamGenerateContent`.
    Gemini,
}

impl Wire {
    /// The path below the base URL, with the model where the format wants it there.
    pub fn path(self, model: &str) -> String {
        match self {
            Self::Anthropic => anthropic::path(),
            Self::Responses => responses::path(),
            Self::Chat => chat::path(),
            Self::Gemini => gemini::path(model),
        }
    }

    /// Whether this model's provider can search the web by itself; the error says why not.
    pub fn web_search(self, model: &str) -> Result<(), &'static str> {
        match self {
            Self::Anthropic | Self::Responses => Ok(()),
            Self::Gemini if gemini::mixes_tools(model) => Ok(()),
            Self::Gemini => Err("models before Gemini 3 cannot search and use tools in one request"),
            Self::Chat => Err("Chat Completions has no search of its own"),
        }
    }

    /// The body of a request as bytes, without what the model cannot take.
    pub fn write(self, request: &Request) -> serde_json::Result<Vec<u8>> {
        match self {
            Self::Anthropic => serde_json::to_vec(&anthropic::encode(&fit::fit(request))),
            Self::Responses | Self::Chat | Self::Gemini => serde_json::to_vec(&self.encode(request)),
        }
    }

    /// The same as a value.
    pub fn encode(self, request: &Request) -> Value {
        let request = fit::fit(request);
        match self {
            // Its keys are strings and its numbers are numbers, so there is nothing that could not be a value.
            Self::Anthropic => serde_json::to_value(anthropic::encode(&request)).unwrap_or_default(),
            Self::Responses => responses::encode(&request),
            Self::Chat => chat::encode(&request),
            Self::Gemini => gemini::encode(&request),
        }
    }

    /// A decoder for one response. `call_ids` names calls where the format has no ids of its own.
    pub fn decoder(self, call_ids: Box<dyn FnMut() -> CallId + Send>) -> Box<dyn Decode> {
        match self {
            Self::Anthropic => Box::new(anthropic::Decoder::new()),
            Self::Responses => Box::new(responses::Decoder::new()),
            Self::Chat => Box::new(chat::Decoder::new(call_ids)),
            Self::Gemini => Box::new(gemini::Decoder::new(call_ids)),
        }
    }
}
