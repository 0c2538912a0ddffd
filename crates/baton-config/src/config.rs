//! The merged settings: sections read as types. What is wrong is named with file and line, and what is right counts.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::section::{Wrong, probe, unknown};
use crate::values::{Removed, get, least, merge, put, remove};
use crate::{ConfigError, Layer, LayerKind, Problem, Section, Tighten, Warning, key, schema};

/// The most warnings that are told one by one.
const WARNINGS_MAX: usize = 20;

/// The most fields of one section that are left out of one layer one by one.
const WRONG_MAX: usize = 100;

/// Names the schema of a file, for editors.
const SCHEMA_KEY: &str = "$schema";

/// All layers, lowest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    layers: Vec<Layer>,
    is_project_trusted: bool,
}

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

    /// The layers, lowest first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Starts reading sections.
    pub fn reader(&self) -> Reader<'_> {
        let warnings = self.layers.iter().flat_map(Layer::unfilled).map(|(_, warning)| warning.clone()).collect();
        Reader { config: self, read: Vec::new(), warnings }
    }

    /// A value as it is written: what was filled in from variables and files is not shown.
    pub(crate) fn as_written(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let written = self.layers.iter().find_map(|layer| layer.written(text));
                written.map_or_else(|| value.clone(), |written| Value::String(written.to_owned()))
            }
            Value::Array(items) => items.iter().map(|item| self.as_written(item)).collect(),
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), self.as_written(value))).collect(),
            other => other.clone(),
        }
    }
}

/// What one layer says about a section, as far as it counts.
pub(crate) struct Part<'a> {
    pub(crate) layer: &'a Layer,
    pub(crate) value: Value,
}

/// A section without its type: what each layer says, and what comes of it.
pub(crate) struct View {
    pub(crate) parts: Vec<(usize, Value)>,
    pub(crate) value: Value,
    pub(crate) default: Value,
}

/// What happens where something is wrong that holds an agent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// It is an error.
    Stop,
    /// It is one of the things that are told.
    GoOn,
}

/// Reads sections one by one and gathers what is wrong.
pub struct Reader<'a> {
    config: &'a Config,
    read: Vec<&'static str>,
    warnings: Vec<Warning>,
}

impl<'a> Reader<'a> {
    /// Reads one section: the layers merged, the default where none sets it. A field that is wrong does not count, and
    /// the rest does; it is an error only where the field holds something back.
    pub fn section<S: Section>(&mut self) -> Result<S, ConfigError> {
        let parts = self.parts::<S>(Strictness::Stop)?;
        if parts.is_empty() {
            return Ok(S::default());
        }
        probe(&whole::<S>(&parts), &mut Vec::new()).map_err(|wrong| {
            // Each part was fine on top of those below it.
            let message = format!("`{}`: {}", key::below(S::KEY, &wrong.path), wrong.message);
            ConfigError(self.warning::<S>(Problem::Wrong, None, &wrong.path, message))
        })
    }

    /// Reads one section from each layer that sets it, lowest first, without merging: for lists in which every layer
    /// counts.
    pub fn each_layer<S: Section>(&mut self) -> Result<Vec<(LayerKind, S)>, ConfigError> {
        let parts = self.parts::<S>(Strictness::Stop)?;
        let read = |part: Part<'_>| probe(&part.value, &mut Vec::new()).ok().map(|section| (part.layer.kind, section));
        Ok(parts.into_iter().filter_map(read).collect())
    }

    /// What each file of managed settings says in a section, as another type; what is wrong with it is told when the section
    /// is read.
    pub fn managed<T: DeserializeOwned>(&self, section: &str) -> Vec<T> {
        let managed = self.config.layers.iter().filter(|layer| layer.kind == LayerKind::Managed);
        let values = managed.filter_map(|layer| layer.values.get(section));
        values.filter_map(|value| serde_json::from_value(value.clone()).ok()).collect()
    }

    /// The section without its type, for explaining it; what is wrong becomes a warning.
    pub(crate) fn view<S: Section>(&mut self) -> View {
        let default = serde_json::to_value(S::default()).unwrap_or_default();
        let parts = self.parts::<S>(Strictness::GoOn).unwrap_or_default();
        let mut value = default.clone();
        if !parts.is_empty() {
            merge(&mut value, &whole::<S>(&parts), false);
        }
        let position = |part: &Part<'_>| self.config.layers.iter().position(|layer| std::ptr::eq(layer, part.layer));
        let parts = parts.into_iter().filter_map(|part| Some((position(&part)?, part.value))).collect();
        View { parts, value, default }
    }

    /// What each layer says about a section, without what is wrong or does not count.
    fn parts<S: Section>(&mut self, strictness: Strictness) -> Result<Vec<Part<'a>>, ConfigError> {
        self.read.push(S::KEY);
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut below: Option<Value> = None;
        for layer in &self.config.layers {
            let is_managed = layer.kind == LayerKind::Managed;
            let holds_back = |path: &[String]| {
                path.split_first()
                    .is_some_and(|(section, path)| section == S::KEY && (S::holds_back(path) || is_managed))
            };
            if let Some((_, missing)) = layer.unfilled().iter().find(|(path, _)| holds_back(path))
                && strictness == Strictness::Stop
            {
                return Err(ConfigError(missing.clone()));
            }
            let Some(value) = layer.values.get(S::KEY) else { continue };
            let mut value = value.clone();
            if !self.keep_allowed::<S>(layer, &mut value) || is_managed && !self.keep_tightening::<S>(layer, &mut value)
            {
                continue;
            }
            let stands_alone = S::JOINS_LISTS || is_managed;
            let below_it = below.as_ref().filter(|_| !stands_alone);
            if !self.mend::<S>(layer, below_it, &mut value, strictness)? {
                continue;
            }
            match &mut below {
                _ if is_managed => {}
                Some(below) => merge(below, &value, S::JOINS_LISTS),
                None => below = Some(value.clone()),
            }
            parts.push(Part { layer, value });
        }
        Ok(parts)
    }

    /// Leaves out what a repository may not set; whether anything is left.
    fn keep_allowed<S: Section>(&mut self, layer: &Layer, value: &mut Value) -> bool {
        let is_trusted = self.config.is_project_trusted;
        let counts = |value: &Value| S::allowed_in_project(value) || is_trusted && S::allowed_when_trusted(value);
        if !layer.kind.is_of_project() || counts(value) {
            return true;
        }
        let mut refuse = |path: &[String], value: &Value| {
            let could_be = S::allowed_when_trusted(value);
            let may = if could_be { "may set it so only after `baton trust`" } else { "may never set it so" };
            let message = format!("`{}` is ignored here: a repository {may}", key::below(S::KEY, path));
            self.warn::<S>(Problem::NotTrusted, layer, path, message);
        };
        let alone = |key: &String, value: &Value| Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        let refused: Vec<String> = match &*value {
            Value::Object(map) => {
                map.iter().filter(|(key, value)| !counts(&alone(key, value))).map(|(key, _)| key.clone()).collect()
            }
            _ => Vec::new(),
        };
        let Value::Object(map) = value else {
            refuse(&[], value);
            return false;
        };
        if refused.is_empty() || refused.len() == map.len() {
            refuse(&[], value);
            return false;
        }
        for key in refused {
            if let Some(gone) = map.shift_remove(&key) {
                refuse(std::slice::from_ref(&key), &alone(&key, &gone));
            }
        }
        true
    }

    /// Leaves out what managed settings cannot tighten; whether anything is left.
    fn keep_tightening<S: Section>(&mut self, layer: &Layer, value: &mut Value) -> bool {
        let mut refuse = |path: &[String]| {
            let message = format!("`{}` is ignored here: managed settings may only tighten", key::below(S::KEY, path));
            self.warn::<S>(Problem::Widens, layer, path, message);
        };
        let Value::Object(map) = value else {
            refuse(&[]);
            return false;
        };
        map.retain(|field, _| {
            let counts = S::tightened(field).is_some();
            if !counts {
                refuse(std::slice::from_ref(field));
            }
            counts
        });
        !map.is_empty()
    }

    /// Leaves out what is wrong in what a layer says, on top of what is below; whether anything is left.
    fn mend<S: Section>(
        &mut self,
        layer: &Layer,
        below: Option<&Value>,
        value: &mut Value,
        strictness: Strictness,
    ) -> Result<bool, ConfigError> {
        let mut removed = Removed::default();
        for _ in 0..WRONG_MAX {
            let mut all = below.cloned().unwrap_or(Value::Null);
            merge(&mut all, value, S::JOINS_LISTS);
            let mut not_known = Vec::new();
            let Err(Wrong { mut path, message }) = probe::<S>(&all, &mut not_known) else {
                let schema = if not_known.is_empty() { Value::Null } else { schema::of::<S>() };
                for path in not_known.iter().filter(|path| get(value, path).is_some()) {
                    let path = removed.first_place(value, path);
                    self.warn::<S>(Problem::Unknown, layer, &path, unknown(&schema, S::KEY, &path));
                }
                return Ok(true);
            };
            while get(value, &path).is_none() && path.pop().is_some() {}
            let first_place = removed.first_place(value, &path);
            let variable = match layer.kind {
                LayerKind::Environment => format!(" (set by {})", variable(S::KEY, &first_place)),
                _ => String::new(),
            };
            let message = format!("`{}`{variable}: {message}", key::below(S::KEY, &first_place));
            // Whatever managed settings say holds back.
            let holds_back = S::holds_back(&first_place) || layer.kind == LayerKind::Managed;
            if holds_back && strictness == Strictness::Stop {
                return Err(ConfigError(self.warning::<S>(Problem::Wrong, Some(layer), &first_place, message)));
            }
            let so = if holds_back { "no agent runs until it is mended" } else { "it is left out" };
            let message = format!("{message}; {so}");
            self.warn::<S>(Problem::Wrong, layer, &first_place, message);
            if !remove(value, &path) {
                return Ok(false);
            }
            removed.push(first_place);
        }
        let warning = |so: &str| {
            let message = format!("`{}`: too much in it is wrong; {so}", S::KEY);
            self.warning::<S>(Problem::Wrong, Some(layer), &[], message)
        };
        // With all that is wrong, what is right is left out, too.
        if (S::holds_back(&[]) || layer.kind == LayerKind::Managed) && strictness == Strictness::Stop {
            return Err(ConfigError(warning("mend it")));
        }
        let warning = warning("all of it is left out");
        self.warnings.push(warning);
        Ok(false)
    }

    fn warn<S: Section>(&mut self, problem: Problem, layer: &Layer, path: &[String], message: String) {
        let warning = self.warning::<S>(problem, Some(layer), path, message);
        self.warnings.push(warning);
    }

    fn warning<S: Section>(
        &self,
        problem: Problem,
        layer: Option<&Layer>,
        path: &[String],
        message: String,
    ) -> Warning {
        let place = layer.and_then(|layer| layer.place_of(&full_path(S::KEY, path)));
        let message = self.config.layers.iter().fold(message, |message, layer| layer.hide(message));
        Warning { problem, key: key::below(S::KEY, path), place, message }
    }

    /// What was found wrong; a key that no section read is unknown.
    ///
    /// A file that is all wrong is not told line by line.
    pub fn finish(self) -> Vec<Warning> {
        let mut warnings = self.finish_all();
        if let Some(more) = warnings.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
            warnings.truncate(WARNINGS_MAX);
            let message = format!("{more} more settings are not understood; `baton config check` lists all");
            warnings.push(Warning { problem: Problem::Unknown, key: String::new(), place: None, message });
        }
        warnings
    }

    /// Everything that was found wrong.
    pub fn finish_all(mut self) -> Vec<Warning> {
        for layer in &self.config.layers {
            for name in layer.values.keys().filter(|name| !self.read.contains(&name.as_str()) && *name != SCHEMA_KEY) {
                let path = std::slice::from_ref(name);
                let shown = key::show_key(path);
                let message = match key::nearest(name, self.read.iter().copied()) {
                    Some(meant) => format!("unknown setting `{shown}`; did you mean `{meant}`?"),
                    None => format!("unknown setting `{shown}`"),
                };
                let place = layer.place_of(path);
                self.warnings.push(Warning { problem: Problem::Unknown, key: shown, place, message });
            }
        }
        self.warnings
    }
}

/// The variable that sets this.
pub(crate) fn variable(section: &str, path: &[String]) -> String {
    format!("BATON_{}", full_path(section, path).join("__").to_uppercase())
}

pub(crate) fn full_path(section: &str, path: &[String]) -> Vec<String> {
    std::iter::once(section.to_owned()).chain(path.iter().cloned()).collect()
}

/// What all parts say together: merged, then tightened by those that are managed.
fn whole<S: Section>(parts: &[Part<'_>]) -> Value {
    let (managed, own): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.layer.kind == LayerKind::Managed);
    let mut value: Option<Value> = None;
    for part in own {
        match &mut value {
            Some(value) => merge(value, &part.value, S::JOINS_LISTS),
            None => value = Some(part.value.clone()),
        }
    }
    let default = || serde_json::to_value(S::default()).unwrap_or_default();
    let mut value = match value {
        Some(value) if managed.is_empty() => return value,
        Some(above) => {
            let mut value = default();
            merge(&mut value, &above, S::JOINS_LISTS);
            value
        }
        None => default(),
    };
    for (field, limit) in managed.iter().flat_map(|part| part.value.as_object().into_iter().flatten()) {
        let now = value.get(field).cloned().unwrap_or_default();
        let tighter = match S::tightened(field) {
            Some(Tighten::Least) => least(&now, limit),
            Some(Tighten::By(pick)) => pick(&now, limit),
            Some(Tighten::Joined) => {
                let mut joined = now;
                merge(&mut joined, limit, true);
                joined
            }
            None => continue,
        };
        put(&mut value, std::slice::from_ref(field), tighter);
    }
    value
}

#[cfg(test)]
mod tests;
