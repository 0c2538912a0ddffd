//! How people name a model: `provider/name[:effort]`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::request::Effort;

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRef {
    /// The provider, for example `anthropic`.
    pub provider: String,
    /// The provider's own name of the model; a file for scripts.
    pub name: String,
    /// How hard it should think.
    pub effort: Option<Effort>,
}

impl FromStr for ModelRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (provider, name) =
            text.split_once('/').filter(|(provider, name)| !provider.is_empty() && !name.is_empty()).ok_or_else(
                || format!("`{text}` is not a model: write provider/name, for example anthropic/claude-sonnet-5-5"),
            )?;
        // Model names may hold colons of their own (`ollama/qwen3:8b`): only a known effort is taken off.
        let (name, effort) = match name.rsplit_once(':') {
            Some((name, effort)) if !name.is_empty() && effort.parse::<Effort>().is_ok() => (name, effort.parse().ok()),
            _ => (name, None),
        };
        Ok(Self { provider: provider.to_owned(), name: name.to_owned(), effort })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)?;
        match self.effort {
            Some(effort) => write!(f, ":{effort}"),
            None => Ok(()),
        }
    }
}

impl Serialize for ModelRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ModelRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_slashes_and_colons_are_whole() {
        let parts = |text: &str| {
            let model: ModelRef = text.parse().unwrap();
            assert_eq!(model.to_string(), text);
            (model.provider, model.name, model.effort)
        };
        assert_eq!(parts("openai/gpt-5.2:high"), ("openai".into(), "gpt-5.2".into(), Some(Effort::High)));
        assert_eq!(parts("ollama/qwen3:8b"), ("ollama".into(), "qwen3:8b".into(), None));
        assert_eq!(parts("openrouter/z/glm:low").1, "z/glm");
        assert_eq!(parts("script//tmp/a.jsonl").1, "/tmp/a.jsonl");
    }

    #[test]
    fn anything_else_is_explained() {
        for text in ["", "gpt", "/x", "x/"] {
            assert!(text.parse::<ModelRef>().unwrap_err().contains("provider/name"));
        }
    }
}
