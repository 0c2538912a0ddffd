//! Redacting: takes secrets out of what a call prints or answers, before anybody sees or keeps it.

use std::mem;

use baton_guard::secrets::{RedactStream, Redactor};
use serde_json::{Map, Value};

use crate::Outcome;

/// Text that comes in pieces, without its secrets.
pub(crate) struct Redacting {
    stream: RedactStream,
    bytes: Vec<u8>,
}

impl Redacting {
    pub(crate) fn new(redactor: &Redactor) -> Self {
        Self { stream: redactor.stream(), bytes: Vec::new() }
    }

    /// Takes the next piece; what is certain by now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.stream.push(text.as_bytes(), &mut self.bytes);
        // What is certain may end within a character.
        let whole = match str::from_utf8(&self.bytes) {
            Ok(_) => self.bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        let rest = self.bytes.split_off(whole);
        in_words(mem::replace(&mut self.bytes, rest))
    }

    /// The rest.
    pub(crate) fn finish(mut self) -> String {
        self.stream.finish(&mut self.bytes);
        in_words(self.bytes)
    }
}

fn in_words(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What a call answers, without secrets.
pub(crate) fn redacted(redactor: &Redactor, mut outcome: Outcome) -> Outcome {
    redact(redactor, &mut outcome.text);
    redact_map(redactor, &mut outcome.meta);
    outcome
}

fn redact_map(redactor: &Redactor, map: &mut Map<String, Value>) {
    map.values_mut().for_each(|value| redact_value(redactor, value));
}

fn redact_value(redactor: &Redactor, value: &mut Value) {
    match value {
        Value::String(text) => redact(redactor, text),
        Value::Array(list) => list.iter_mut().for_each(|value| redact_value(redactor, value)),
        Value::Object(map) => redact_map(redactor, map),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact(redactor: &Redactor, text: &mut String) {
    if let std::borrow::Cow::Owned(clean) = redactor.redact_str(text) {
        *text = clean;
    }
}
