//! The merged settings: sections read as types, wrong and unknown keys named with file and line.

use std::fmt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use crate::{Layer, LayerKind};

/// The most warnings that are told one by one.
const WARNINGS_MAX: usize = 20;

/// A top-level key of the settings, owned by the crate that uses it.
pub trait Section: DeserializeOwned + Default {
    /// The key.
    const KEY: &'static str;

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
}

/// All layers, lowest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    layers: Vec<Layer>,
    is_project_trusted: bool,
}

/// A setting that is not understood or not heeded; the work goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands.
    pub place: Option<(PathBuf, usize)>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((file, line)) => write!(f, "{}:{line}: {}", file.display(), self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A setting whose value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub Warning);

impl Config {
    /// Merges layers; later kinds win.
    pub fn new(mut layers: Vec<Layer>) -> Self {
        layers.sort_by_key(|layer| layer.kind);
        Self { layers, is_project_trusted: false }
    }

    /// What a repository sets counts as far as a trusted one may set it, if it is one.
    #[must_use]
    pub fn trusting_project(mut self, is_trusted: bool) -> Self {
        self.is_project_trusted = is_trusted;
        self
    }

    /// Starts reading sections.
    pub fn reader(&self) -> Reader<'_> {
        Reader { config: self, read: Vec::new(), warnings: Vec::new() }
    }

    /// Where a value stands that counts: in the highest layer that sets it.
    fn place_of(&self, path: &[String]) -> Option<(PathBuf, usize)> {
        self.layers.iter().rev().find(|layer| layer.has(path))?.place_of(path)
    }
}

/// Reads sections one by one and gathers what is wrong.
pub struct Reader<'a> {
    config: &'a Config,
    read: Vec<&'static str>,
    warnings: Vec<Warning>,
}

impl Reader<'_> {
    /// Reads one section: the layers merged, the default where none sets it.
    pub fn section<S: Section>(&mut self) -> Result<S, ConfigError> {
        self.read.push(S::KEY);
        let mut merged: Option<Value> = None;
        for layer in &self.config.layers {
            let Some(value) = layer.values.get(S::KEY) else { continue };
            let of_project = matches!(layer.kind, LayerKind::Project | LayerKind::Local);
            let could_be = S::allowed_when_trusted(value);
            if of_project && !S::allowed_in_project(value) && !(could_be && self.config.is_project_trusted) {
                let may = if could_be { "may set it so only after `baton trust`" } else { "may never set it so" };
                self.warnings.push(Warning {
                    place: layer.place_of(&[S::KEY.to_owned()]),
                    message: format!("`{}` is ignored here: a repository {may}", S::KEY),
                });
                continue;
            }
            match &mut merged {
                Some(below) => merge(below, value),
                None => merged = Some(value.clone()),
            }
        }
        let Some(value) = merged else { return Ok(S::default()) };
        let config = self.config;
        let warnings = &mut self.warnings;
        let mut unknown = |path: serde_ignored::Path<'_>| {
            let mut keys = vec![S::KEY.to_owned()];
            keys_of(&path, &mut keys);
            let message = format!("unknown setting `{}`", keys.join("."));
            warnings.push(Warning { place: config.place_of(&keys), message });
        };
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
        serde_ignored::deserialize(tracked, &mut unknown).map_err(|error| {
            let mut keys = vec![S::KEY.to_owned()];
            keys.extend(track.path().iter().filter_map(|segment| match segment {
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Map { key } => Some(key.clone()),
                Segment::Enum { .. } | Segment::Unknown => None,
            }));
            let place = config.place_of(&keys).or_else(|| config.place_of(&keys[..1]));
            let variable = match place {
                // What stands in no file was set by a variable.
                None => format!(" (set by BATON_{})", keys.join("__").to_uppercase()),
                Some(_) => String::new(),
            };
            ConfigError(Warning { place, message: format!("`{}`{variable}: {error}", keys.join(".")) })
        })
    }

    /// Reads one section from each layer that sets it, lowest first, without merging: for lists in which every layer
    /// counts. What a repository may set is for the caller to decide, by the kind of the layer.
    pub fn each_layer<S: Section>(&mut self) -> Result<Vec<(LayerKind, S)>, ConfigError> {
        self.read.push(S::KEY);
        let mut found = Vec::new();
        for layer in &self.config.layers {
            let Some(value) = layer.values.get(S::KEY) else { continue };
            let warnings = &mut self.warnings;
            let mut unknown = |path: serde_ignored::Path<'_>| {
                let mut keys = vec![S::KEY.to_owned()];
                keys_of(&path, &mut keys);
                let message = format!("unknown setting `{}`", keys.join("."));
                warnings.push(Warning { place: layer.place_of(&keys), message });
            };
            let section =
                serde_ignored::deserialize(value.clone(), &mut unknown).map_err(|error: serde_json::Error| {
                    let place = layer.place_of(&[S::KEY.to_owned()]);
                    ConfigError(Warning { place, message: format!("`{}`: {error}", S::KEY) })
                })?;
            found.push((layer.kind, section));
        }
        Ok(found)
    }

    /// What was found wrong; a key that no section read is unknown.
    ///
    /// A file that is all wrong is not told line by line.
    pub fn finish(mut self) -> Vec<Warning> {
        for layer in &self.config.layers {
            for key in layer.values.keys().filter(|key| !self.read.contains(&key.as_str())) {
                let message = format!("unknown setting `{key}`");
                self.warnings.push(Warning { place: layer.place_of(std::slice::from_ref(key)), message });
            }
        }
        if let Some(more) = self.warnings.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
            self.warnings.truncate(WARNINGS_MAX);
            self.warnings.push(Warning { place: None, message: format!("{more} more settings are not understood") });
        }
        self.warnings
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

/// Objects merge key by key; anything else is replaced.
fn merge(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => merge_maps(below, above),
        (below, above) => *below = above.clone(),
    }
}

fn merge_maps(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (key, value) in above {
        match below.get_mut(key) {
            Some(inner) => merge(inner, value),
            None => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
