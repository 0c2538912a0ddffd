//! The model catalogue: limits, prices and aliases, shipped as data and extended by settings.

use std::collections::BTreeMap;

use baton_config::Section;
use baton_core::{Price, Tokens};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model_ref::ModelRef;
use crate::request::Effort;

const SHIPPED: &str = include_str!("../models.jsonc");

/// What is known about a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelInfo {
    /// The most tokens of one request and its answer.
    pub context: Tokens,
    /// The most tokens of an answer.
    pub output: Tokens,
    /// Whether it sees pictures.
    pub images: bool,
    /// Whether it can think before it answers.
    pub thinking: bool,
    /// The hardest it can think.
    pub effort_max: Effort,
    /// What it charges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl Default for ModelInfo {
    /// What is assumed of a model that nobody described.
    fn default() -> Self {
        Self { context: 128_000, output: 16_000, images: true, thinking: true, effort_max: Effort::Max, price: None }
    }
}

/// The three names that stand for a provider's models.
pub const ALIASES: [&str; 3] = ["fast", "default", "powerful"];

/// The setting `models`: more models, or other facts about known ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ModelSettings(pub BTreeMap<String, ModelFacts>);

/// Some facts about a model; those that are left out stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelFacts {
    /// The most tokens of one request and its answer.
    context: Option<Tokens>,
    /// The most tokens of an answer.
    output: Option<Tokens>,
    /// Whether it sees pictures.
    images: Option<bool>,
    /// Whether it can think before it answers.
    thinking: Option<bool>,
    /// The hardest it can think.
    effort_max: Option<Effort>,
    /// What it charges, in dollars per million tokens.
    price: Option<Price>,
}

impl ModelInfo {
    fn amend(&mut self, facts: ModelFacts) {
        let ModelFacts { context, output, images, thinking, effort_max, price } = facts;
        self.context = context.unwrap_or(self.context);
        self.output = output.unwrap_or(self.output).min(self.context);
        self.images = images.unwrap_or(self.images);
        self.thinking = thinking.unwrap_or(self.thinking);
        self.effort_max = effort_max.unwrap_or(self.effort_max);
        self.price = price.or(self.price);
    }
}

impl Section for ModelSettings {
    const KEY: &'static str = "models";
}

/// The setting `aliases`: by provider, what `fast`, `default` and `powerful` mean.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AliasSettings(pub BTreeMap<String, BTreeMap<String, String>>);

impl Section for AliasSettings {
    const KEY: &'static str = "aliases";
}

/// All known models.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Catalogue {
    models: BTreeMap<String, ModelInfo>,
    aliases: BTreeMap<String, BTreeMap<String, String>>,
}

impl Catalogue {
    /// The shipped catalogue with the person's additions on top.
    pub fn new(models: ModelSettings, aliases: AliasSettings) -> Self {
        let mut all = Self::shipped();
        for (name, facts) in models.0 {
            let mut info =
                name.split_once('/').and_then(|(provider, name)| all.find(provider, name)).cloned().unwrap_or_default();
            info.amend(facts);
            all.models.insert(name, info);
        }
        for (provider, names) in aliases.0 {
            all.aliases.entry(provider).or_default().extend(names);
        }
        all
    }

    fn shipped() -> Self {
        // Its comments stand on lines of their own, so the quick parser reads the rest.
        let json: String = SHIPPED.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//")).collect();
        // A test reads the shipped file, so it cannot be malformed here.
        serde_json::from_str(&json).unwrap_or_default()
    }

    /// What is known about a model: by its name, by the name without a date or version at its end
    /// (`claude-sonnet-4-5-20250929`), or by a `*` for its provider.
    pub fn find(&self, provider: &str, name: &str) -> Option<&ModelInfo> {
        let mut stem = name;
        loop {
            if let Some(found) = self.models.get(&format!("{provider}/{stem}")) {
                return Some(found);
            }
            match stem.rfind(['-', '@', ':']) {
                Some(end) if is_version(&stem[end + 1..]) => stem = &stem[..end],
                _ => return self.models.get(&format!("{provider}/*")),
            }
        }
    }

    /// What an alias means with this provider.
    pub fn alias(&self, provider: &str, alias: &str) -> Option<&str> {
        self.aliases.get(provider)?.get(alias).map(String::as_str)
    }

    /// All models with a name, sorted by provider and name.
    pub fn iter(&self) -> impl Iterator<Item = (ModelRef, &ModelInfo)> {
        self.models.iter().filter(|(key, _)| !key.ends_with("/*")).filter_map(|(key, info)| {
            let (provider, name) = key.split_once('/')?;
            Some((ModelRef { provider: provider.to_owned(), name: name.to_owned(), effort: None }, info))
        })
    }

    /// The aliases that mean this model.
    pub fn aliases_of<'a>(&'a self, model: &'a ModelRef) -> impl Iterator<Item = &'a str> {
        let names = self.aliases.get(&model.provider);
        ALIASES
            .into_iter()
            .filter(move |alias| names.and_then(|names| names.get(*alias)).is_some_and(|name| *name == model.name))
    }
}

/// Dates and words that name another edition of the same model.
fn is_version(text: &str) -> bool {
    text == "latest" || (text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_whole() {
        let catalogue = Catalogue::shipped();
        assert!(catalogue.models.len() > 30);
        for (provider, names) in &catalogue.aliases {
            for alias in ALIASES {
                let name = names.get(alias).unwrap_or_else(|| panic!("{provider} lacks {alias}"));
                assert!(catalogue.models.contains_key(&format!("{provider}/{name}")), "{provider}/{name}");
            }
        }
        for (model, info) in catalogue.iter() {
            assert!(info.output <= info.context && info.price.is_some(), "{model}");
        }
    }

    #[test]
    fn editions_of_a_model_are_recognised_and_strangers_are_not() {
        let catalogue = Catalogue::shipped();
        let dated = catalogue.find("anthropic", "claude-sonnet-4-5-20250929").unwrap();
        assert_eq!(dated, catalogue.find("anthropic", "claude-sonnet-4-5").unwrap());
        assert_eq!(catalogue.find("openai", "gpt-5-mini-turbo"), None);
        assert!(catalogue.find("script", "any/file.jsonl").is_some());
    }

    #[test]
    fn settings_add_and_override() {
        let text = r#"{"anthropic/claude-sonnet-4-5": {"output": 1000}, "local/m": {"context": 5}}"#;
        let settings = serde_json::from_str(text).unwrap();
        let names = [("default".to_owned(), "m".to_owned())].into();
        let catalogue = Catalogue::new(settings, AliasSettings([("local".to_owned(), names)].into()));
        let known = catalogue.find("anthropic", "claude-sonnet-4-5").unwrap();
        assert_eq!((known.context, known.output, known.price.is_some()), (200_000, 1_000, true));
        let mine = catalogue.find("local", "m").unwrap();
        assert_eq!((mine.context, mine.output, mine.price), (5, 5, None));
        assert_eq!(catalogue.alias("local", "default"), Some("m"));
    }
}
