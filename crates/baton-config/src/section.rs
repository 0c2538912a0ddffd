//! A section: a top-level key of the settings, owned by the crate that uses it.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use crate::config::View;
use crate::values::{get, put, remove};
use crate::{Reader, key, schema};

/// The most wrong fields that are looked for beside the one that is asked about.
const WRONG_MAX: usize = 100;

/// A top-level key of the settings, owned by the crate that uses it. Paths are those below the key.
pub trait Section: DeserializeOwned + Serialize + Default + JsonSchema {
    /// The key.
    const KEY: &'static str;

    /// Whether the lists of all layers count together, instead of those of the last layer.
    const JOINS_LISTS: bool = false;

    /// Whether a repository may set it to this value. What could send keys elsewhere, run programs or
    /// widen what an agent may do must not come with a repository.
    fn allowed_in_project(_value: &Value) -> bool {
        false
    }

    /// Whether a repository that the person trusts may set it to this value. What decides where keys go must be the
    /// person's own even then.
    fn allowed_when_trusted(_value: &Value) -> bool {
        true
    }

    /// Whether what stands here holds an agent back. If it is wrong, the work stops: going on without it would allow more
    /// than the person wants.
    fn holds_back(_path: &[String]) -> bool {
        false
    }

    /// How managed settings may tighten a field; where they cannot, they have no say.
    fn tightened(_field: &str) -> Option<Tighten> {
        None
    }

    /// Whether what stands here may be a secret, which is never shown.
    fn is_secret(_path: &[String]) -> bool {
        false
    }

    /// What is wrong with it beyond the types: where, and why.
    fn check(&self) -> Option<(Vec<String>, String)> {
        None
    }
}

/// How managed settings tighten a field.
#[derive(Debug, Clone, Copy)]
pub enum Tighten {
    /// The smaller number counts; none is no limit.
    Least,
    /// A list is joined to the others.
    Joined,
    /// This says which of two values counts: what is set, and what the managed settings say.
    By(fn(&Value, &Value) -> Value),
}

/// A field that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) path: Vec<String>,
    pub(crate) message: String,
}

/// A section without its type, for what is done with all of them.
#[derive(Clone, Copy)]
pub struct SectionInfo {
    /// The key.
    pub key: &'static str,
    pub(crate) joins_lists: bool,
    pub(crate) schema: fn() -> Value,
    pub(crate) view: fn(&mut Reader<'_>) -> View,
    pub(crate) is_secret: fn(&[String]) -> bool,
    probe: fn(&Value, &mut Vec<Vec<String>>) -> Result<(), Wrong>,
    allowed_in_project: fn(&Value) -> bool,
    allowed_when_trusted: fn(&Value) -> bool,
}

/// Whether a repository may set something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// In any case.
    Always,
    /// After `baton trust`.
    WhenTrusted,
    /// It must be the person's own.
    Never,
}

impl SectionInfo {
    /// The section of this type.
    pub const fn of<S: Section>() -> Self {
        Self {
            key: S::KEY,
            joins_lists: S::JOINS_LISTS,
            schema: schema::of::<S>,
            view: |reader| reader.view::<S>(),
            is_secret: S::is_secret,
            probe: |value, unknown| probe::<S>(value, unknown).map(drop),
            allowed_in_project: S::allowed_in_project,
            allowed_when_trusted: S::allowed_when_trusted,
        }
    }

    /// Whether a value fits at this path, beside what stands in the same section already. Says what is wrong with it.
    pub fn accepts(&self, beside: Option<&Value>, path: &[String], value: &Value) -> Result<(), String> {
        let mut whole = beside.cloned().unwrap_or(Value::Object(Map::new()));
        put(&mut whole, path, value.clone());
        for _ in 0..WRONG_MAX {
            let mut unknown = Vec::new();
            let wrong = match (self.probe)(&whole, &mut unknown) {
                Ok(()) => {
                    let ours = unknown.into_iter().find(|other| other.starts_with(path) || path.starts_with(other));
                    return ours.map_or(Ok(()), |unknown| Err(self.no_such_setting(&unknown)));
                }
                Err(wrong) => wrong,
            };
            let is_ours = wrong.path.starts_with(path) || path.starts_with(&wrong.path);
            if is_ours || !remove(&mut whole, &wrong.path) {
                return Err(wrong.message);
            }
        }
        Err("there is too much else in this section that is wrong".to_owned())
    }

    /// Whether a repository may set this.
    pub fn allowed(&self, path: &[String], value: &Value) -> Allowed {
        let mut whole = Value::Object(Map::new());
        put(&mut whole, path, value.clone());
        if (self.allowed_in_project)(&whole) {
            Allowed::Always
        } else if (self.allowed_when_trusted)(&whole) {
            Allowed::WhenTrusted
        } else {
            Allowed::Never
        }
    }

    fn no_such_setting(&self, path: &[String]) -> String {
        unknown(&(self.schema)(), self.key, path)
    }
}

/// Says that there is no such setting, and which one may be meant.
pub(crate) fn unknown(schema: &Value, section: &str, path: &[String]) -> String {
    let shown = key::below(section, path);
    let (Some(name), above) = (path.last(), &path[..path.len().saturating_sub(1)]) else {
        return format!("unknown setting `{shown}`");
    };
    let names = schema::names_at(schema, above);
    match key::nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => {
            let meant: Vec<String> = above.iter().cloned().chain([meant.to_owned()]).collect();
            format!("unknown setting `{shown}`; did you mean `{}`?", key::below(section, &meant))
        }
        None => format!("unknown setting `{shown}`"),
    }
}

/// Reads a section; the paths that it does not know go to `unknown`.
pub(crate) fn probe<S: Section>(value: &Value, unknown: &mut Vec<Vec<String>>) -> Result<S, Wrong> {
    let mut note = |path: serde_ignored::Path<'_>| {
        let mut keys = Vec::new();
        keys_of(&path, &mut keys);
        unknown.push(keys);
    };
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let read: Result<S, _> = serde_ignored::deserialize(tracked, &mut note);
    let section = read.map_err(|error| {
        let at = track.path();
        let keys = at.iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } => Some(key.clone()),
            Segment::Enum { .. } | Segment::Unknown => None,
        });
        let mut path: Vec<String> = keys.collect();
        // A variant of an enum is not a place in the value.
        while get(value, &path).is_none() && path.pop().is_some() {}
        let message = error.to_string();
        let message = match message.split_once(", expected ") {
            Some((_, expected)) if S::is_secret(&path) => format!("it must be {expected}"),
            _ if S::is_secret(&path) => "it cannot be used".to_owned(),
            _ => message,
        };
        Wrong { path, message }
    })?;
    match section.check() {
        Some((path, message)) => Err(Wrong { path, message }),
        None => Ok(section),
    }
}

/// The keys on the way to a value, outermost first.
fn keys_of(path: &serde_ignored::Path<'_>, keys: &mut Vec<String>) {
    use serde_ignored::Path;
    match path {
        Path::Root => {}
        Path::Seq { parent, index } => {
            keys_of(parent, keys);
            keys.push(index.to_string());
        }
        Path::Map { parent, key } => {
            keys_of(parent, keys);
            keys.push(key.clone());
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            keys_of(parent, keys);
        }
    }
}
