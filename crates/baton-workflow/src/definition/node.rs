//! What evaluating a definition leaves behind: calls of the vocabulary as plain data, nothing of Starlark in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::vocabulary::Word;
use crate::names::Pos;

/// One call of a word.
#[derive(Debug)]
pub(super) struct Node {
    /// The word.
    pub word: &'static Word,
    /// The file and line of the call.
    pub at: Pos,
    /// The call in bytes of its file.
    pub span: (u32, u32),
    /// What was given, by the names of the word's fields.
    pub given: BTreeMap<&'static str, Raw>,
}

impl Node {
    /// A value that was given and is not None.
    pub fn value(&self, field: &str) -> Option<&Raw> {
        self.given.get(field).filter(|value| !matches!(value, Raw::None))
    }
}

/// A value, as it was given.
#[derive(Debug, Clone)]
pub(super) enum Raw {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Raw>),
    Dict(Vec<(Raw, Raw)>),
    Node(Arc<Node>),
    /// A function, kept among the values of the file that was evaluated.
    Function {
        file: String,
        slot: String,
    },
    /// Something that no field takes.
    Other(String),
}

impl Raw {
    /// What it is, for messages.
    pub fn kind(&self) -> String {
        match self {
            Self::None => "None".to_owned(),
            Self::Bool(_) => "a bool".to_owned(),
            Self::Int(_) | Self::Float(_) => "a number".to_owned(),
            Self::Text(_) => "a text".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Dict(_) => "a dict".to_owned(),
            Self::Node(node) => format!("`{}(...)`", node.word.name),
            Self::Function { .. } => "a function".to_owned(),
            Self::Other(kind) => format!("a {kind}"),
        }
    }
}
