//! One layer of settings: a JSONC file, the environment or flags, with the line of every key.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::{Map, Value};

use crate::fill::{self, Filled, Filling};
use crate::values::{get, put, remove};
use crate::{Problem, Warning, key, small_file};

/// What is shorter is no secret.
const SECRET_BYTES_MIN: usize = 4;

/// Where a layer comes from; later kinds win over earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// The person's own file.
    User,
    /// The project's file, which comes with the repository.
    Project,
    /// The personal file inside the project.
    Local,
    /// `BATON_SECTION__KEY` variables.
    Environment,
    /// The command line.
    Flags,
    /// What the owner of the machine decides for everybody; it can only tighten.
    Managed,
}

impl LayerKind {
    /// Whether it lies in the project, and so may have come with a repository.
    pub fn is_of_project(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }

    /// The name that people see.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Environment => "environment",
            Self::Flags => "flags",
            Self::Managed => "managed",
        }
    }
}

/// Settings from one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// What it is.
    pub kind: LayerKind,
    /// The file, where it is one.
    pub file: Option<PathBuf>,
    /// What it sets.
    pub values: Map<String, Value>,
    lines: HashMap<Vec<String>, usize>,
    filled: Vec<Filled>,
    /// Where texts could not be filled in, and what to say about that.
    unfilled: Vec<(Vec<String>, Warning)>,
}

/// A settings file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It is there but cannot be read.
    #[error("cannot read settings {}: {cause}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It is not JSONC.
    #[error("{}:{line}: {message}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Where.
        line: usize,
        /// Why.
        message: String,
    },
}

impl Layer {
    /// A layer from values that stand in no file.
    pub fn from_values(kind: LayerKind, values: Map<String, Value>) -> Self {
        Self { kind, file: None, values, lines: HashMap::new(), filled: Vec::new(), unfilled: Vec::new() }
    }

    /// The layer of `BATON_SECTION__KEY` variables and `BATON_MODEL`. Values are JSON where they
    /// parse as such, else text.
    pub fn from_env(vars: impl Iterator<Item = (String, String)>) -> Self {
        let mut values = Value::Object(Map::new());
        for (name, text) in vars {
            let Some(name) = name.strip_prefix("BATON_") else { continue };
            if !name.contains("__") && name != "MODEL" {
                continue;
            }
            let keys: Vec<String> = name.split("__").map(str::to_lowercase).collect();
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            put(&mut values, &keys, value);
        }
        let values = if let Value::Object(values) = values { values } else { Map::new() };
        Self::from_values(LayerKind::Environment, values)
    }

    /// Reads a file; a file that is not there is an empty layer.
    pub fn from_file(kind: LayerKind, file: &Path) -> Result<Self, LayerError> {
        let text = match small_file::read(file) {
            Ok(text) => text,
            Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self::from_values(kind, Map::new()));
            }
            Err(cause) => return Err(LayerError::Unreadable { file: file.to_owned(), cause }),
        };
        Self::parse(kind, file, &text)
    }

    /// Parses the text of a file.
    pub fn parse(kind: LayerKind, file: &Path, text: &str) -> Result<Self, LayerError> {
        let starts = LineStarts::of(text);
        let malformed = |line, message| LayerError::Malformed { file: file.to_owned(), line, message };
        let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default())
            .map_err(|error| malformed(starts.line_of(error.range().start), error.kind().to_string()))?;
        let mut layer = Self::from_values(kind, Map::new());
        layer.file = Some(file.to_owned());
        match parsed.value {
            None => {}
            Some(ast::Value::Object(object)) => {
                let mut collector = Collector { starts, lines: HashMap::new(), path: Vec::new() };
                layer.values = collector.object(&object);
                layer.lines = collector.lines;
            }
            Some(other) => {
                let line = starts.line_of(other.range().start);
                return Err(malformed(line, "settings must be an object: { ... }".to_owned()));
            }
        }
        Ok(layer)
    }

    /// `file:line` of a path of keys, or of the nearest thing above it that this layer has.
    pub(crate) fn place_of(&self, path: &[String]) -> Option<(PathBuf, usize)> {
        let file = self.file.clone()?;
        (1..=path.len()).rev().find_map(|n| self.lines.get(&path[..n])).map(|line| (file, *line))
    }

    /// Fills in `{env:NAME}` and `{file:PATH}`. A text for which that fails does not count; where `filling` is none, nothing is
    /// filled in, and each text that asks for it is reported.
    #[must_use]
    pub fn fill_in(mut self, filling: Option<&Filling<'_>>) -> Self {
        let nothing = Filling { var: &|_| None, home: None };
        let dir = self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let mut outcome = fill::Outcome::default();
        let mut values = Value::Object(std::mem::take(&mut self.values));
        match filling {
            Some(filling) => fill::fill(&mut values, &dir, filling, &mut Vec::new(), &mut outcome),
            None => fill::fill(&mut values.clone(), &dir, &nothing, &mut Vec::new(), &mut outcome),
        }
        // From the last to the first, so that the places of items in lists stay what they are.
        for (path, why) in outcome.failed.iter().rev() {
            let shown = key::show_key(path);
            let message = match filling {
                Some(_) => format!("`{shown}`: {why}; it is left out"),
                None => format!("`{shown}` is left out: nothing is filled in where a file is not yours alone"),
            };
            remove(&mut values, path);
            let (problem, place) = (Problem::Wrong, self.place_of(path));
            self.unfilled.insert(0, (path.clone(), Warning { problem, key: shown, place, message }));
        }
        self.filled = outcome.filled;
        if let Value::Object(values) = values {
            self.values = values;
        }
        self
    }

    /// What is wrong with the texts that were to be filled in.
    pub(crate) fn unfilled(&self) -> &[(Vec<String>, Warning)] {
        &self.unfilled
    }

    /// How a text is written that was filled in.
    pub(crate) fn written(&self, text: &str) -> Option<&str> {
        self.filled.iter().find(|filled| filled.text == text).map(|filled| filled.written.as_str())
    }

    /// A message without what was filled in.
    pub(crate) fn hide(&self, mut message: String) -> String {
        for Filled { written, text } in self.filled.iter().filter(|filled| !filled.text.is_empty()) {
            let quoted = format!("{text:?}");
            message = message.replace(&quoted, &format!("{written:?}"));
            // A short text is in every message, and it is no secret.
            if text.len() >= SECRET_BYTES_MIN {
                message = message.replace(&quoted[1..quoted.len() - 1], written).replace(text.as_str(), written);
            }
        }
        message
    }

    /// Whether it sets anything at this path of keys.
    pub fn has(&self, path: &[String]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.values.get(first).is_some_and(|value| get(value, rest).is_some())
    }
}

/// Turns the syntax tree into values, noting the line of every key on the way.
struct Collector {
    starts: LineStarts,
    lines: HashMap<Vec<String>, usize>,
    path: Vec<String>,
}

impl Collector {
    fn object(&mut self, object: &ast::Object<'_>) -> Map<String, Value> {
        let mut values = Map::new();
        for property in &object.properties {
            let key = property.name.as_str();
            values.insert(key.to_owned(), self.below(key.to_owned(), property.range.start, &property.value));
        }
        values
    }

    fn below(&mut self, key: String, start: usize, value: &ast::Value<'_>) -> Value {
        self.path.push(key);
        self.lines.insert(self.path.clone(), self.starts.line_of(start));
        let value = self.value(value);
        self.path.pop();
        value
    }

    fn value(&mut self, value: &ast::Value<'_>) -> Value {
        match value {
            ast::Value::Object(object) => Value::Object(self.object(object)),
            ast::Value::Array(array) => {
                let items = array.elements.iter().enumerate();
                items.map(|(n, item)| self.below(n.to_string(), item.range().start, item)).collect()
            }
            ast::Value::StringLit(literal) => Value::String(literal.value.to_string()),
            // JSONC allows numbers that JSON does not (`0x1F`, `+1`): they stay text and fail as numbers, with their line.
            ast::Value::NumberLit(literal) => {
                serde_json::from_str(literal.value).unwrap_or_else(|_| Value::String(literal.value.to_owned()))
            }
            ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
            ast::Value::NullKeyword(_) => Value::Null,
        }
    }
}

/// Where the lines of a text begin.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).collect())
    }

    /// The line of a byte, from 1.
    fn line_of(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset) + 1
    }
}
