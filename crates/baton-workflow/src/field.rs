//! Fields of evidence: their types, and what an agent submitted read into them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::names::{FieldName, Pos};
use crate::problem::suggestion;
use crate::scope::RelPath;
use crate::typed;

/// The longest text of one field.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// The largest evidence as a whole.
const EVIDENCE_BYTES_MAX: usize = 256 * 1024;
/// The longest list.
const ITEMS_MAX: usize = 1000;

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// One file inside the project.
    Path,
    /// One or more files inside the project.
    Paths,
    /// Words; not blank.
    Text,
    /// Any values; may be empty.
    List,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// One of these words.
    OneOf(Vec<String>),
}

impl FieldType {
    /// The types that are written as a word, with what each means.
    pub const WORDS: [(&'static str, FieldType, &'static str); 6] = [
        ("path", Self::Path, "a file inside the project, relative to its root"),
        ("paths", Self::Paths, "a list of such files, at least one"),
        ("text", Self::Text, "words; a blank text is refused"),
        ("list", Self::List, "a list of any values; it may be empty"),
        ("number", Self::Number, "a number"),
        ("bool", Self::Bool, "true or false"),
    ];

    /// Whether it names files.
    pub fn is_path(&self) -> bool {
        matches!(self, Self::Path | Self::Paths)
    }

    /// As it is told to an agent.
    pub fn describe(&self) -> String {
        match self {
            Self::OneOf(options) => format!("one of {}", options.join(", ")),
            other => Self::WORDS
                .iter()
                .find(|(_, kind, _)| kind == other)
                .map_or_else(String::new, |(_, _, about)| (*about).to_owned()),
        }
    }

    /// As a JSON Schema, for the tool that an agent submits with.
    fn schema(&self) -> Value {
        let text = json!({"type": "string"});
        let mut schema = match self {
            Self::Path | Self::Text => text,
            Self::Paths => json!({"type": "array", "items": text, "minItems": 1}),
            Self::List => json!({"type": "array"}),
            Self::Number => json!({"type": "number"}),
            Self::Bool => json!({"type": "boolean"}),
            Self::OneOf(options) => json!({"type": "string", "enum": options}),
        };
        schema["description"] = Value::String(self.describe());
        schema
    }

    fn read(&self, value: &Value) -> Result<Value, String> {
        let expected = |what: &str| Err(format!("expected {what}, got {}", kind_of(value)));
        match (self, value) {
            (Self::Text, Value::String(text)) if text.trim().is_empty() => Err("it is blank".to_owned()),
            (Self::Text, Value::String(text)) if text.len() > TEXT_BYTES_MAX => {
                Err(format!("it has {} bytes, at most {TEXT_BYTES_MAX} are taken", text.len()))
            }
            (Self::Number | Self::List, _) if !is_countable(value) => {
                Err("it has a number that is too large".to_owned())
            }
            (Self::Text, Value::String(_)) | (Self::Number, Value::Number(_)) | (Self::Bool, Value::Bool(_)) => {
                Ok(value.clone())
            }
            (Self::Path, Value::String(text)) => read_path(text),
            (Self::Paths, Value::Array(items)) if items.is_empty() => Err("it names no file".to_owned()),
            (Self::Paths | Self::List, Value::Array(items)) if items.len() > ITEMS_MAX => {
                Err(format!("it has {} items, at most {ITEMS_MAX} are taken", items.len()))
            }
            (Self::Paths, Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().ok_or("expected texts in it".to_owned()).and_then(read_path))
                .collect(),
            (Self::List, Value::Array(_)) => Ok(value.clone()),
            (Self::OneOf(options), Value::String(text)) => {
                if options.contains(text) {
                    return Ok(value.clone());
                }
                let hint = suggestion(text, options.iter().map(String::as_str)).unwrap_or_default();
                Err(format!("`{text}` is not an option: {hint}"))
            }
            (Self::Text, _) => expected("text"),
            (Self::Path, _) => expected("a path as text"),
            (Self::Paths, _) => expected("a list of paths"),
            (Self::List, _) => expected("a list"),
            (Self::Number, _) => expected("a number"),
            (Self::Bool, _) => expected("true or false"),
            (Self::OneOf(options), _) => expected(&format!("one of {}", options.join(", "))),
        }
    }
}

impl FieldType {
    /// What was typed; whether it may be so is said when it is read.
    fn typed(&self, texts: &[&str]) -> Result<Value, String> {
        match self {
            Self::List | Self::Paths => {
                // One item at a time, or the whole as JSON.
                let whole = typed::one(texts).ok().and_then(|one| serde_json::from_str::<Value>(one).ok());
                Ok(whole.filter(Value::is_array).unwrap_or_else(|| typed::list(texts)))
            }
            Self::Number => typed::number(typed::one(texts)?),
            Self::Bool => typed::truth(typed::one(texts)?),
            Self::Text | Self::Path | Self::OneOf(_) => Ok(Value::String(typed::one(texts)?.to_owned())),
        }
    }
}

/// Whether a function of a definition can count with every number in it.
pub(crate) fn is_countable(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(f64::is_finite),
        Value::Array(items) => items.iter().all(is_countable),
        Value::Object(fields) => fields.values().all(is_countable),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

fn read_path(text: &str) -> Result<Value, String> {
    RelPath::parse(text).map(|path| Value::String(path.into())).map_err(|error| error.to_string())
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// One field that a gate asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What it holds.
    pub kind: FieldType,
    /// Whether it may be left out.
    pub is_optional: bool,
    /// Where it is defined.
    pub at: Pos,
}

/// All fields that a gate asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub BTreeMap<FieldName, Field>);

/// What an agent submitted, as the gate's fields want it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Evidence(BTreeMap<FieldName, Value>);

impl Evidence {
    /// One field.
    pub fn get(&self, field: &FieldName) -> Option<&Value> {
        self.0.get(field)
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&FieldName, &Value)> {
        self.0.iter()
    }

    pub(crate) fn remove(&mut self, field: &FieldName) -> Option<Value> {
        self.0.remove(field)
    }
}

impl FromIterator<(FieldName, Value)> for Evidence {
    fn from_iter<I: IntoIterator<Item = (FieldName, Value)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl Fields {
    /// All fields as one flat JSON Schema.
    pub fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.0.iter().map(|(name, field)| (name.to_string(), field.kind.schema())).collect();
        let required = self.0.iter().filter(|(_, field)| !field.is_optional);
        let required: Vec<&str> = required.map(|(name, _)| name.as_str()).collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// Evidence as a person types it, `NAME=VALUE` for `NAME=VALUE`: texts become what the fields hold, and everything that
    /// does not fit is told. A name that is not asked for is passed on: whoever takes the evidence knows what to say about it.
    pub fn typed(&self, pairs: &[(String, String)]) -> Result<Map<String, Value>, Vec<String>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, text) in pairs {
            groups.entry(name).or_default().push(text);
        }
        let (mut values, mut problems) = (Map::new(), Vec::new());
        for (name, texts) in groups {
            let field = self.0.iter().find(|(known, _)| known.as_str() == name).map(|(_, field)| field);
            let kind = field.map_or(&FieldType::Text, |field| &field.kind);
            match kind.typed(&texts) {
                Ok(value) => drop(values.insert(name.to_owned(), value)),
                Err(why) => problems.push(format!("`{name}`: {why}; expected: {}", kind.describe())),
            }
        }
        if problems.is_empty() { Ok(values) } else { Err(problems) }
    }

    /// What was submitted, or everything that is wrong with it.
    pub fn read(&self, submitted: &Map<String, Value>) -> Result<Evidence, Vec<String>> {
        let size = serde_json::to_string(submitted).map_or(usize::MAX, |text| text.len());
        if size > EVIDENCE_BYTES_MAX {
            return Err(vec![format!("the evidence has {size} bytes, at most {EVIDENCE_BYTES_MAX} are taken")]);
        }
        let mut problems = Vec::new();
        let mut evidence = BTreeMap::new();
        for (name, field) in &self.0 {
            match submitted.get(name.as_str()).filter(|value| !value.is_null()) {
                None if field.is_optional => {}
                None => problems.push(format!("`{name}` is missing: {}", field.kind.describe())),
                Some(value) => match field.kind.read(value) {
                    Ok(value) => {
                        evidence.insert(name.clone(), value);
                    }
                    Err(why) => problems.push(format!("`{name}`: {why}")),
                },
            }
        }
        for name in submitted.keys().filter(|name| !self.0.keys().any(|known| known.as_str() == *name)) {
            let hint = suggestion(name, self.0.keys().map(FieldName::as_str)).unwrap_or_default();
            let name: String = name.chars().take(80).collect();
            problems.push(format!("`{name}` is not asked for here: {hint}").trim_end_matches([':', ' ']).to_owned());
        }
        if problems.is_empty() { Ok(Evidence(evidence)) } else { Err(problems) }
    }
}
