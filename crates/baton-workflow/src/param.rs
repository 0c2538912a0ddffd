//! Parameters of a workflow: their types, and what a person or a calling workflow gave read into them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::is_countable;
use crate::names::{ParamName, Pos};
use crate::problem::suggestion;
use crate::typed;

/// The longest text of one parameter, and the longest list.
const TEXT_BYTES_MAX: usize = 64 * 1024;
const ITEMS_MAX: usize = 1000;

/// What a parameter holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// Text.
    String,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// A list of texts.
    List,
}

impl ParamType {
    /// The word that defines it.
    pub fn word(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::List => "list",
        }
    }

    /// Whether the value is of this type.
    pub(crate) fn holds(self, value: &Value) -> bool {
        match (self, value) {
            (Self::String, Value::String(text)) => text.len() <= TEXT_BYTES_MAX,
            (Self::Number, Value::Number(_)) => is_countable(value),
            (Self::Bool, Value::Bool(_)) => true,
            (Self::List, Value::Array(items)) => {
                items.len() <= ITEMS_MAX
                    && items.iter().all(|item| item.as_str().is_some_and(|text| text.len() <= TEXT_BYTES_MAX))
            }
            _ => false,
        }
    }

    /// Reads what was typed: `3`, `true`, a text; a list has one item for each time it was given.
    fn read(self, texts: &[&str]) -> Result<Value, String> {
        let value = match self {
            Self::List => typed::list(texts),
            Self::String => Value::String(typed::one(texts)?.to_owned()),
            Self::Bool => typed::truth(typed::one(texts)?)?,
            Self::Number => typed::number(typed::one(texts)?)?,
        };
        if self.holds(&value) {
            Ok(value)
        } else {
            Err(format!("it is too large: at most {TEXT_BYTES_MAX} bytes a text and {ITEMS_MAX} items"))
        }
    }
}

/// One parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// What it holds.
    pub kind: ParamType,
    /// Whether a run needs a value.
    pub is_required: bool,
    /// Its value where none is given.
    pub default: Option<Value>,
    /// For a list: another name under which one item can be given.
    pub single: Option<ParamName>,
    /// What it is for.
    pub about: String,
    /// Where it is defined.
    pub at: Pos,
}

/// The parameters of one workflow.
pub type ParamTypes = BTreeMap<ParamName, Param>;

/// The values of one run: of every parameter, null where there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<ParamName, Value>);

impl Params {
    /// From `key=value` as a person types it.
    pub fn typed(types: &ParamTypes, pairs: &[(String, String)]) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut groups: BTreeMap<&ParamName, Vec<&str>> = BTreeMap::new();
        for (key, text) in pairs {
            match named(types, key) {
                Some(name) => groups.entry(name).or_default().push(text),
                None => problems.push(unknown(types, key)),
            }
        }
        let mut values = BTreeMap::new();
        for (name, texts) in groups {
            match types[name].kind.read(&texts) {
                Ok(value) => {
                    values.insert(name.to_string(), value);
                }
                Err(why) => problems.push(format!("parameter `{name}`: {why}")),
            }
        }
        // What was given and could not be read is not missing, too.
        let is_said = |problem: &String| {
            let about = problem.split(" is missing").next().unwrap_or_default();
            problems.iter().any(|said| said.starts_with(about))
        };
        match Self::given(types, &values) {
            Ok(params) if problems.is_empty() => Ok(params),
            Ok(_) => Err(problems),
            Err(more) => Err(more.into_iter().filter(|problem| !is_said(problem)).chain(problems.clone()).collect()),
        }
    }

    /// From values, as a calling workflow has them. A text for a list is a list of one.
    pub fn given(types: &ParamTypes, given: &BTreeMap<String, Value>) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let mut values: BTreeMap<ParamName, Value> = BTreeMap::new();
        for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            let Some(name) = named(types, key) else {
                problems.push(unknown(types, key));
                continue;
            };
            let kind = types[name].kind;
            let value = match value {
                Value::String(_) if kind == ParamType::List => Value::Array(vec![value.clone()]),
                other => other.clone(),
            };
            if kind.holds(&value) {
                values.insert(name.clone(), value);
            } else {
                problems.push(format!("parameter `{name}` is not a {}, or too large", kind.word()));
            }
        }
        for (name, param) in types {
            if values.contains_key(name) {
                continue;
            }
            match (&param.default, param.is_required) {
                (Some(default), _) => {
                    values.insert(name.clone(), default.clone());
                }
                (None, true) if !problems.iter().any(|problem| problem.contains(&format!("`{name}`"))) => {
                    let single = param.single.as_ref().map(|single| format!(", or `-p {single}=...` for one"));
                    let single = single.unwrap_or_default();
                    problems.push(format!("parameter `{name}` is missing: give it with `-p {name}=...`{single}"));
                }
                (None, true) => {}
                (None, false) => {
                    values.insert(name.clone(), Value::Null);
                }
            }
        }
        if problems.is_empty() { Ok(Self(values)) } else { Err(problems) }
    }

    /// The value of a parameter; none if it has no value.
    pub fn get(&self, name: &ParamName) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// All parameters, also those without a value.
    pub fn iter(&self) -> impl Iterator<Item = (&ParamName, &Value)> {
        self.0.iter()
    }
}

/// The parameter that goes by this key, itself or in its single form.
pub(crate) fn named<'a>(types: &'a ParamTypes, key: &str) -> Option<&'a ParamName> {
    types
        .iter()
        .find(|(name, param)| {
            name.as_str() == key || param.single.as_ref().is_some_and(|single| single.as_str() == key)
        })
        .map(|(name, _)| name)
}

fn unknown(types: &ParamTypes, key: &str) -> String {
    let hint = suggestion(key, types.keys().map(ParamName::as_str)).unwrap_or("it takes none".to_owned());
    format!("there is no parameter `{key}`: {hint}")
}
