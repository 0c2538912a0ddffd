//! Text with `{param}` and `{STATE.field}` in it, for messages and single arguments; never for a shell line.

use serde_json::Value;

use crate::names::{FieldName, ParamName, StateName};

/// What stands between braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `{param}`
    Param(ParamName),
    /// `{STATE.field}`: what was submitted there last.
    Field(StateName, FieldName),
}

impl Reference {
    /// Reads `param` or `STATE.field`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = match text.split_once('.') {
            None => ParamName::parse(text).map(Self::Param),
            Some((state, field)) => {
                StateName::parse(state).and_then(|state| FieldName::parse(field).map(|field| Self::Field(state, field)))
            }
        };
        read.map_err(|_| format!("`{text}` is neither a parameter nor `STATE.field`"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Reference(Reference),
}

/// A text with references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Reads the text; `{{` and `}}` are plain braces.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
            } else if brace == "{" {
                let end = rest.find('}').ok_or_else(|| format!("`{{` is not closed in `{text}`"))?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Reference(Reference::parse(rest[..end].trim())?));
                rest = &rest[end + 1..];
            } else {
                return Err(format!("`}}` without `{{` in `{text}`; write `}}}}` for a plain one"));
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() || parts.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// What it refers to.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Reference(reference) => Some(reference),
            Part::Text(_) => None,
        })
    }

    /// The text with everything filled in; what is not there is left out.
    pub fn render(&self, value: impl Fn(&Reference) -> Option<Value>) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Reference(reference) => value(reference).as_ref().map(plain_text).unwrap_or_default(),
            })
            .collect()
    }

    /// The value: of one reference as it is (a list stays a list), else the text.
    pub fn value(&self, value: impl Fn(&Reference) -> Option<Value>) -> Value {
        match self.parts.as_slice() {
            [Part::Reference(reference)] => value(reference).unwrap_or(Value::Null),
            _ => Value::String(self.render(value)),
        }
    }
}

/// A value as people write it.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
