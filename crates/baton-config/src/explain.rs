//! Every setting with its value, who set it, what that overrode, its default and what it means.

use std::path::PathBuf;

use serde_json::Value;

use crate::config::{View, full_path, variable};
use crate::values::get;
use crate::{Config, LayerKind, SectionInfo, Warning, parse_key, show_key};

/// The most problems that are told with the settings that they are about.
const PROBLEMS_MAX: usize = 200;

/// One setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Its key, as commands take it.
    pub key: String,
    /// Its value; none for a secret, which is never shown.
    pub value: Option<Value>,
    /// What it is where nobody sets it.
    pub default: Value,
    /// What it means.
    pub meaning: String,
    /// Who set it, last the one that counts most; none if it is the default.
    pub set_by: Vec<Source>,
    /// Who else set it, and in vain.
    pub overridden: Vec<Source>,
    /// What stands in files and does not count at all.
    pub problems: Vec<Warning>,
}

/// Who set a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Which layer.
    pub layer: LayerKind,
    /// Where, if it is a file.
    pub place: Option<(PathBuf, usize)>,
    /// The variable, if it is one.
    pub variable: Option<String>,
    /// To what; none for a secret.
    pub value: Option<Value>,
}

/// Every setting of these sections, in their order.
pub fn explain(config: &Config, sections: &[SectionInfo]) -> Vec<Setting> {
    let mut reader = config.reader();
    let mut settings = Vec::new();
    for section in sections {
        let view = (section.view)(&mut reader);
        let schema = (section.schema)();
        let mut walk = Walk { config, section, view: &view, settings: &mut settings };
        walk.at(&schema, &mut Vec::new(), schema["description"].as_str().unwrap_or_default());
    }
    let read = |key: &str| parse_key(key).unwrap_or_default();
    let keys: Vec<Vec<String>> = settings.iter().map(|setting: &Setting| read(&setting.key)).collect();
    for problem in reader.finish_all().into_iter().take(PROBLEMS_MAX) {
        let at = read(&problem.key);
        for (setting, key) in settings.iter_mut().zip(&keys) {
            if !at.is_empty() && (key.starts_with(&at) || at.starts_with(key)) {
                setting.problems.push(problem.clone());
            }
        }
    }
    settings
}

/// Everything that is wrong with the settings of these sections.
pub fn problems(config: &Config, sections: &[SectionInfo]) -> Vec<Warning> {
    let mut reader = config.reader();
    for section in sections {
        (section.view)(&mut reader);
    }
    reader.finish_all()
}

struct Walk<'a> {
    config: &'a Config,
    section: &'a SectionInfo,
    view: &'a View,
    settings: &'a mut Vec<Setting>,
}

impl Walk<'_> {
    fn at(&mut self, schema: &Value, path: &mut Vec<String>, meaning: &str) {
        let meaning = schema["description"].as_str().unwrap_or(meaning);
        if let Some(fields) = schema["properties"].as_object() {
            for (name, inner) in fields {
                path.push(name.clone());
                self.at(inner, path, meaning);
                path.pop();
            }
            return;
        }
        let names: Vec<String> = match get(&self.view.value, path) {
            Some(Value::Object(map)) if schema["additionalProperties"].is_object() => map.keys().cloned().collect(),
            _ => Vec::new(),
        };
        if names.is_empty() {
            let setting = self.setting(path, meaning);
            self.settings.push(setting);
            return;
        }
        for name in names {
            path.push(name);
            self.at(&schema["additionalProperties"], path, meaning);
            path.pop();
        }
    }

    fn setting(&self, path: &[String], meaning: &str) -> Setting {
        let is_secret = (self.section.is_secret)(path);
        let shown = |value: &Value| (!is_secret).then(|| self.config.as_written(value));
        let value = get(&self.view.value, path).cloned().unwrap_or_default();
        let whole = full_path(self.section.key, path);
        let sources = self.view.parts.iter().filter_map(|(layer, part)| {
            let (said, layer) = (get(part, path)?, &self.config.layers()[*layer]);
            let is_variable = layer.kind == LayerKind::Environment;
            let source = Source {
                layer: layer.kind,
                place: layer.place_of(&whole),
                variable: is_variable.then(|| variable(self.section.key, path)),
                value: shown(said),
            };
            Some((source, said == &value))
        });
        let sources: Vec<(Source, bool)> = sources.collect();
        let (set_by, overridden) = if self.section.joins_lists && value.is_array() {
            (sources.into_iter().map(|(source, _)| source).collect(), Vec::new())
        } else {
            // What managed settings say counts only where it is the tighter.
            let counts = sources.iter().rposition(|(source, is_it)| source.layer != LayerKind::Managed || *is_it);
            let (set_by, others): (Vec<_>, Vec<_>) =
                sources.into_iter().enumerate().partition(|(n, _)| Some(*n) == counts);
            let bare =
                |sources: Vec<(usize, (Source, bool))>| sources.into_iter().map(|(_, (source, _))| source).collect();
            (bare(set_by), bare(others))
        };
        Setting {
            key: show_key(&whole),
            value: shown(&value),
            default: get(&self.view.default, path).cloned().unwrap_or_default(),
            meaning: meaning.to_owned(),
            set_by,
            overridden,
            problems: Vec::new(),
        }
    }
}
