//! Secrets: finds them in text and takes them out, in one piece or in a stream, before anything is written.
//!
//! One search for short literals (`anchors`) finds the places where a secret may be. What stands there is then judged by
//! the table of token forms ([`forms`]), by the names of assignments ([`assign`]), as a block of key material ([`block`])
//! or as a value that was registered ([`known`]). Every judgement is a pure function of a bounded piece of text around
//! its anchor, which is why chunks may be split anywhere.

mod assign;
mod block;
mod forms;
mod known;
mod plausible;
mod scan;

use std::borrow::Cow;
use std::sync::Arc;

use known::Known;
use scan::Scan;

/// Takes secrets out of text. Cheap to make and to clone: what it needs is built when it first meets text.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    known: Arc<Known>,
}

impl Redactor {
    /// Knows the forms of secrets, and no exact values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also knows these values exactly, whatever they look like, and in common encodings. Values that are too short to
    /// be told from ordinary words are ignored: see [`Redactor::SHORTEST_KNOWN`].
    pub fn knowing<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        Self { known: Arc::new(Known::new(values)) }
    }

    /// The shortest value that is taken for a secret when it is registered.
    pub const SHORTEST_KNOWN: usize = known::SHORTEST;

    /// The bytes without secrets; borrowed if there are none.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Vec::new();
        let mut scan = Scan::default();
        scan.advance(&self.known, text, true, &mut out);
        if scan.found == 0 { Cow::Borrowed(text) } else { Cow::Owned(out) }
    }

    /// The text without secrets; borrowed if there are none.
    pub fn redact_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Spans begin and end at ASCII bytes, or where a registered value does, so nothing is lost here.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// A redactor for text that comes in chunks.
    pub fn stream(&self) -> RedactStream {
        RedactStream { known: Arc::clone(&self.known), scan: Scan::default(), buffer: Vec::new(), wait: 0 }
    }
}

/// Takes secrets out of text that comes in chunks, split anywhere: the result is that of the whole in one piece. What it
/// holds back is bounded, and is less than a line where lines are short.
#[derive(Debug)]
pub struct RedactStream {
    known: Arc<Known>,
    scan: Scan,
    buffer: Vec<u8>,
    /// No use in looking again before this much is there, unless a line ends.
    wait: usize,
}

/// How much is looked at in one go.
const SLICE: usize = 64 * 1024;

impl RedactStream {
    /// Takes a chunk; what is certain by now is added to `out`.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        for slice in chunk.chunks(SLICE) {
            self.buffer.extend_from_slice(slice);
            if self.buffer.len() >= self.wait || memchr::memchr(b'\n', slice).is_some() {
                self.wait = self.scan.advance(&self.known, &self.buffer, false, out);
                let drop = self.scan.forget();
                self.buffer.drain(..drop);
                self.wait -= drop;
            }
        }
    }

    /// The text has ended; the rest is added to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.scan.advance(&self.known, &self.buffer, true, out);
    }

    /// How many secrets were taken out so far.
    pub fn found(&self) -> usize {
        self.scan.found
    }
}

#[cfg(test)]
mod tests;
