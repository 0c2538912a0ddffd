//! Server-sent events, and text in the pieces in which a model sends it.

use std::iter;

use serde_json::Value;

/// The longest piece of text in one event.
const PIECE_BYTES_MAX: usize = 24;

/// Events, written one after the other.
#[derive(Debug, Default)]
pub(super) struct Sse(String);

impl Sse {
    /// An event that is named by its `type`.
    pub(super) fn named(&mut self, data: &Value) {
        let name = data["type"].as_str().unwrap_or_default();
        self.0.extend(["event: ", name, "\ndata: ", &data.to_string(), "\n\n"]);
    }

    /// An event without a name.
    pub(super) fn data(&mut self, data: &str) {
        self.0.extend(["data: ", data, "\n\n"]);
    }

    /// A line that clients skip.
    pub(super) fn comment(&mut self, text: &str) {
        self.0.extend([": ", text, "\n\n"]);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Splits text after every space, and inside words that are too long.
pub(super) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    iter::from_fn(move || {
        let limit = text.floor_char_boundary(PIECE_BYTES_MAX);
        let end = text[..limit].find(' ').map_or(limit, |space| space + 1);
        let (piece, rest) = text.split_at(end);
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
