//! Assembling an answer: blocks that grow side by side, and the decoder that the formats share.

use baton_core::{Block, CallId, Foreign, Message, Role, Signature, StopReason, Tokens, ToolUse, Usage};
use serde_json::{Value, json};

use super::sse::{Events, TooLong};
use super::{Decode, WireEvent, WireFailure, WireFailureKind};
use crate::request::{Answer, Delta, Search};

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

/// The most bytes that an answer may have. A server that says more is broken, or means harm.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// What distinguishes one wire format from another, once events are cut apart.
pub(super) trait Format: Send {
    /// How the format tells blocks of one answer apart.
    type Key: Copy + PartialEq + Send;

    /// Takes the data of one event; says how the answer ended if it did.
    fn event(&mut self, data: &str, answer: &mut Assembly<Self::Key>) -> serde_json::Result<Option<End>>;

    /// The bytes have ended: says how the answer ended, unless it was cut off.
    fn eof(&self) -> Option<End> {
        None
    }

    /// What the provider has counted so far.
    fn usage(&self) -> Usage;
}

/// How an answer ended.
#[derive(Debug)]
pub(super) enum End {
    /// It is whole; the reason is the provider's.
    Complete(StopReason),
    /// It will never be.
    Failed {
        /// What went wrong.
        kind: WireFailureKind,
        /// In the provider's words.
        message: String,
    },
}

impl End {
    /// The provider reported an error. Its code stays in the message, where others look for it.
    pub(super) fn reported(status: u16, code: &str, message: &str) -> Self {
        Self::Failed { kind: WireFailureKind::Reported { status }, message: format!("{code}: {message}") }
    }

    /// The provider reported an error as an object. They agree on `message` alone: what kind of error
    /// it is may stand in any of three fields, as a word or as a status. `unknown` is the status of a
    /// word that is not known here.
    pub(super) fn problem(error: &Value, unknown: u16) -> Self {
        // An error of the type `error` is of no type.
        let words =
            || ["code", "type", "status"].iter().filter_map(|field| error[field].as_str().filter(|it| *it != "error"));
        let digits = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let status = digits.filter(|status| (400..600).contains(status)).or_else(|| words().find_map(status_of));
        let status = status.unwrap_or(if words().next().is_some() { unknown } else { 500 });
        let code = words().next().map_or_else(|| digits.unwrap_or(500).to_string(), str::to_owned);
        let mut message = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
        // Gemini says here how long to wait, and in its words only sometimes.
        let mut details = error["details"].as_array().into_iter().flatten();
        if let Some(delay) = details.find_map(|detail| detail["retryDelay"].as_str()) {
            message = format!("{message}; retryDelay: {delay}");
        }
        Self::reported(status, &code, &message)
    }

    fn malformed(message: String) -> Self {
        Self::Failed { kind: WireFailureKind::Malformed, message }
    }
}

/// A number of tokens in a provider's account of them; what is not there is none.
pub(super) fn count(usage: &Value, pointer: &str) -> Tokens {
    usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// The HTTP status of an error that is told in a word, or in digits.
fn status_of(code: &str) -> Option<u16> {
    Some(match code.to_ascii_lowercase().as_str() {
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" | "invalid_argument" => 400,
        "authentication_error" | "invalid_api_key" | "unauthenticated" => 401,
        "billing_error" => 402,
        "permission_error" | "permission_denied" => 403,
        "not_found_error" | "model_not_found" | "not_found" => 404,
        "request_too_large" => 413,
        "insufficient_quota" | "resource_exhausted" | "too_many_requests" => 429,
        "api_error" | "server_error" | "internal_error" | "internal_server_error" | "internal" => 500,
        "bad_gateway" => 502,
        "service_unavailable" | "unavailable" | "slow_down" => 503,
        "deadline_exceeded" => 504,
        word if word.contains("rate_limit") => 429,
        word if word.contains("timeout") => 504,
        word if word.contains("overloaded") => 529,
        digits => return digits.parse().ok().filter(|status| (400..600).contains(status)),
    })
}

/// A decoder of any format.
pub(super) struct Decoder<F: Format> {
    format: F,
    events: Events,
    answer: Assembly<F::Key>,
    ended: bool,
}

impl<F: Format> Decoder<F> {
    pub(super) fn of(format: F) -> Self {
        Self { format, events: Events::default(), answer: Assembly::default(), ended: false }
    }

    fn event(&mut self, data: &str, out: &mut Vec<WireEvent>) {
        if self.ended {
            return;
        }
        let mut end = self.format.event(data, &mut self.answer).unwrap_or_else(|error| {
            let excerpt: String = data.chars().take(200).collect();
            Some(End::malformed(format!("cannot read an event of the stream: {error}: {excerpt}")))
        });
        if self.answer.bytes > ANSWER_BYTES_MAX {
            end = Some(End::malformed(format!("the answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20)));
        }
        self.tell(out);
        if let Some(end) = end {
            self.end(end, out);
        }
    }

    fn end(&mut self, end: End, out: &mut Vec<WireEvent>) {
        self.ended = true;
        let usage = self.format.usage();
        let failed = |kind, message, partial| WireEvent::Failed(WireFailure { kind, message, partial, usage });
        let last = match end {
            End::Complete(stop) => {
                self.answer.close_all();
                let answer = self.answer.answer(stop, usage);
                if is_empty(&answer) {
                    let message = "neither text nor a tool call".to_owned();
                    failed(WireFailureKind::Empty, message, answer.message)
                } else {
                    WireEvent::Ended(answer)
                }
            }
            End::Failed { kind, message } => failed(kind, message, self.answer.partial()),
        };
        self.tell(out);
        out.push(last);
    }

    fn tell(&mut self, out: &mut Vec<WireEvent>) {
        out.extend(self.answer.deltas.drain(..).map(WireEvent::Delta));
    }
}

impl<F: Format> Decode for Decoder<F> {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<WireEvent>) {
        if self.ended {
            return;
        }
        let mut events = Vec::new();
        let result = self.events.push(bytes, &mut events);
        for data in &events {
            self.event(data, out);
        }
        if let (Err(TooLong), false) = (result, self.ended) {
            self.end(End::malformed("an event of the stream is too long".to_owned()), out);
        }
    }

    fn finish(&mut self, out: &mut Vec<WireEvent>) {
        if let Some(data) = self.events.finish() {
            self.event(&data, out);
        }
        if !self.ended {
            let cut = || End::Failed {
                kind: WireFailureKind::Cut,
                message: "the stream ended before the answer did".to_owned(),
            };
            let end = self.format.eof().unwrap_or_else(cut);
            self.end(end, out);
        }
    }

    fn is_complete(&self) -> bool {
        self.format.eof().is_some()
    }

    fn partial(&self) -> Message {
        self.answer.partial()
    }

    fn usage(&self) -> Usage {
        self.format.usage()
    }
}

/// Whether the model ended its turn and said nothing. Other reasons to stop explain it themselves.
fn is_empty(answer: &Answer) -> bool {
    let says = |block: &Block| match block {
        Block::Text { text } => !text.trim().is_empty(),
        Block::Thinking { .. } | Block::Foreign(_) => false,
        _ => true,
    };
    answer.stop == StopReason::EndTurn && !answer.message.content.iter().any(says)
}

/// The blocks of an answer in the order in which they began, and what they have to tell.
pub(super) struct Assembly<K> {
    slots: Vec<Slot<K>>,
    deltas: Vec<Delta>,
    /// How much of the answer there is, a little for every block included.
    bytes: usize,
}

/// A block. Its key finds it while it is open; afterwards the key may be used again.
struct Slot<K> {
    key: K,
    open: bool,
    piece: Piece,
}

enum Piece {
    Text(String),
    Thinking { text: String, signature: Option<Signature> },
    Call { id: CallId, tool: String, arguments: String, announced: bool },
    Foreign(Foreign),
}

impl<K> Default for Assembly<K> {
    fn default() -> Self {
        Self { slots: Vec::new(), deltas: Vec::new(), bytes: 0 }
    }
}

/// How blocks grow. The first mention of a key opens its block; a mention that does not fit the
/// block's kind is ignored.
impl<K: Copy + PartialEq> Assembly<K> {
    /// More of a text.
    pub(super) fn text(&mut self, key: K, more: &str) {
        if let Piece::Text(text) = self.open(key, Piece::text) {
            text.push_str(more);
            self.weigh(more.len());
            self.note(Delta::Text, more);
        }
    }

    /// All of a text: what was not streamed is told now.
    pub(super) fn whole_text(&mut self, key: K, whole: &str) {
        if let Piece::Text(text) = self.open(key, Piece::text) {
            let grown = whole.len().saturating_sub(text.len());
            let rest = settle(text, whole);
            self.weigh(grown);
            self.note(Delta::Text, rest);
        }
    }

    /// More reasoning.
    pub(super) fn thinking(&mut self, key: K, more: &str) {
        if let Piece::Thinking { text, .. } = self.open(key, Piece::thinking) {
            text.push_str(more);
            self.weigh(more.len());
            self.note(Delta::Thinking, more);
        }
    }

    /// All of a piece of reasoning: what was not streamed is told now.
    pub(super) fn whole_thinking(&mut self, key: K, whole: &str) {
        if let Piece::Thinking { text, .. } = self.open(key, Piece::thinking) {
            let grown = whole.len().saturating_sub(text.len());
            let rest = settle(text, whole);
            self.weigh(grown);
            self.note(Delta::Thinking, rest);
        }
    }

    /// The signature of a piece of reasoning.
    pub(super) fn sign(&mut self, key: K, wire: &str, token: impl Into<String>) {
        let token = token.into();
        let bytes = token.len();
        if let Piece::Thinking { signature, .. } = self.open(key, Piece::thinking) {
            let old = signature.replace(Signature { wire: wire.to_owned(), token });
            self.weigh(bytes.saturating_sub(old.map_or(0, |old| old.token.len())));
        }
    }

    /// A tool call.
    pub(super) fn call(&mut self, key: K, id: CallId, tool: impl Into<String>) {
        let tool = tool.into();
        self.weigh(id.as_str().len() + tool.len());
        self.open(key, || Piece::Call { id, tool, arguments: String::new(), announced: false });
    }

    /// What the provider did by itself. Of one key, the last has the last word.
    pub(super) fn foreign(&mut self, key: K, wire: &str, raw: Value) {
        self.weigh(raw.to_string().len());
        let new = Foreign { wire: wire.to_owned(), raw };
        if let Piece::Foreign(foreign) = self.open(key, || Piece::Foreign(new.clone())) {
            *foreign = new;
        }
    }

    /// The provider searched the web.
    pub(super) fn searched(&mut self, search: Search) {
        self.deltas.push(Delta::Searched(search));
    }

    /// More of a call's name. Once the input has begun the name is whole, and until then a server
    /// that says the same again only repeats itself.
    pub(super) fn call_name(&mut self, key: K, more: &str) {
        if let Some(Piece::Call { tool, announced: false, .. }) = self.find(key)
            && tool != more
        {
            tool.push_str(more);
            self.weigh(more.len());
        }
    }

    /// More of a call's input.
    pub(super) fn arguments(&mut self, key: K, more: &str) {
        if let Some(Piece::Call { arguments, .. }) = self.find(key) {
            arguments.push_str(more);
            self.weigh(more.len());
            self.announce(key);
        }
    }

    /// All of a call's input.
    pub(super) fn whole_arguments(&mut self, key: K, whole: &str) {
        if let Some(Piece::Call { arguments, .. }) = self.find(key) {
            let grown = whole.len().saturating_sub(arguments.len());
            whole.clone_into(arguments);
            self.weigh(grown);
            self.announce(key);
        }
    }

    /// The block is whole.
    pub(super) fn close(&mut self, key: K) {
        self.announce(key);
        if let Some(at) = self.position(key) {
            self.slots[at].open = false;
        }
    }

    /// Every block is whole.
    pub(super) fn close_all(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.open) {
            slot.open = false;
            self.deltas.extend(slot.piece.announcement());
        }
    }

    /// The id that the provider gave to a call, if it serves to pair it with its result.
    pub(super) fn usable_id(&self, id: Option<&str>) -> Option<CallId> {
        let id = CallId::new(id.filter(|id| !id.is_empty())?);
        let taken = self.slots.iter().any(|slot| matches!(&slot.piece, Piece::Call { id: other, .. } if *other == id));
        (!taken).then_some(id)
    }

    fn position(&self, key: K) -> Option<usize> {
        self.slots.iter().rposition(|slot| slot.open && slot.key == key)
    }

    fn find(&mut self, key: K) -> Option<&mut Piece> {
        self.position(key).map(|at| &mut self.slots[at].piece)
    }

    fn open(&mut self, key: K, new: impl FnOnce() -> Piece) -> &mut Piece {
        let at = self.position(key).unwrap_or_else(|| {
            self.slots.push(Slot { key, open: true, piece: new() });
            self.bytes += size_of::<Slot<K>>();
            self.slots.len() - 1
        });
        &mut self.slots[at].piece
    }

    fn announce(&mut self, key: K) {
        let announcement = self.find(key).and_then(Piece::announcement);
        self.deltas.extend(announcement);
    }
}

/// What the blocks come to.
impl<K> Assembly<K> {
    /// Counts what has arrived, so that no answer grows without end.
    pub(super) fn weigh(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    fn note(&mut self, delta: fn(String) -> Delta, more: &str) {
        if !more.is_empty() {
            self.deltas.push(delta(more.to_owned()));
        }
    }

    /// The whole answer. Formats disagree on whether calls are a reason to stop; here they are.
    fn answer(&self, stop: StopReason, usage: Usage) -> Answer {
        let calls = self.slots.iter().any(|slot| matches!(slot.piece, Piece::Call { .. }));
        let stop = match stop {
            StopReason::EndTurn if calls => StopReason::ToolUse,
            StopReason::ToolUse if !calls => StopReason::EndTurn,
            other => other,
        };
        // An answer that ran out of tokens may have lost the input of its last call altogether.
        let input_may_be_absent = stop == StopReason::ToolUse;
        let content = self.slots.iter().filter_map(|slot| slot.piece.block(input_may_be_absent)).collect();
        Answer { message: Message { role: Role::Assistant, content }, stop, usage }
    }

    /// What there is so far, without calls whose input may go on.
    fn partial(&self) -> Message {
        // What a provider did by itself is of use only as a whole: a search without its result would be refused.
        let whole = self.slots.iter().filter(|slot| match slot.piece {
            Piece::Call { .. } => !slot.open,
            Piece::Foreign(_) => false,
            Piece::Text(_) | Piece::Thinking { .. } => true,
        });
        Message { role: Role::Assistant, content: whole.filter_map(|slot| slot.piece.block(true)).collect() }
    }
}

impl Piece {
    fn text() -> Self {
        Self::Text(String::new())
    }

    fn thinking() -> Self {
        Self::Thinking { text: String::new(), signature: None }
    }

    /// Tells of a call, once.
    fn announcement(&mut self) -> Option<Delta> {
        match self {
            Self::Call { id, tool, announced: announced @ false, .. } => {
                *announced = true;
                Some(Delta::ToolCall { id: id.clone(), tool: tool.clone() })
            }
            _ => None,
        }
    }

    fn block(&self, input_may_be_absent: bool) -> Option<Block> {
        match self {
            Self::Text(text) => (!text.is_empty()).then(|| Block::text(text)),
            Self::Thinking { text, signature } => (!text.is_empty() || signature.is_some())
                .then(|| Block::Thinking { text: text.clone(), signature: signature.clone() }),
            Self::Foreign(foreign) => Some(Block::Foreign(foreign.clone())),
            Self::Call { id, tool, arguments, .. } => {
                let (input, malformed) = match serde_json::from_str(arguments) {
                    Ok(input @ Value::Object(_)) => (input, None),
                    _ if arguments.trim().is_empty() && input_may_be_absent => (json!({}), None),
                    _ => (json!({}), Some(arguments.clone())),
                };
                Some(Block::ToolUse(ToolUse { id: id.clone(), tool: tool.clone(), input, malformed }))
            }
        }
    }
}

/// Makes the text whole; gives back what had not arrived before.
fn settle<'a>(text: &mut String, whole: &'a str) -> &'a str {
    let rest = whole.strip_prefix(text.as_str()).unwrap_or_default();
    whole.clone_into(text);
    rest
}
