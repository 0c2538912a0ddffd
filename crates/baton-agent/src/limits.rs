//! Limits of a turn, and the settings of this crate.

use std::time::Duration;

use baton_config::{Section, Tighten};
use baton_core::{Tokens, Usd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The setting `limits`: what ends a turn. Money and tokens of the setting are for all sessions of a
/// process together; those of the command line for one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TurnLimits {
    /// Model calls.
    pub steps: u32,
    /// Money.
    #[schemars(with = "Option<f64>")]
    pub usd: Option<Usd>,
    /// Tokens, sent and received.
    pub tokens: Option<Tokens>,
    /// Seconds.
    pub seconds: Option<u64>,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { steps: 500, usd: None, tokens: None, seconds: None }
    }
}

impl TurnLimits {
    /// How long a turn may take.
    pub fn time(&self) -> Option<Duration> {
        self.seconds.map(Duration::from_secs)
    }
}

impl Section for TurnLimits {
    const KEY: &'static str = "limits";

    /// Without a cap that the person wants, nothing is spent. The number of steps has a default that is one.
    fn holds_back(path: &[String]) -> bool {
        path.first().is_some_and(|field| matches!(field.as_str(), "usd" | "tokens" | "seconds"))
    }

    fn tightened(field: &str) -> Option<Tighten> {
        matches!(field, "steps" | "usd" | "tokens" | "seconds").then_some(Tighten::Least)
    }
}

/// The limits that managed settings set to everybody, whatever the command line says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LimitsMax {
    /// Model calls.
    pub steps: Option<u32>,
    /// Seconds.
    pub seconds: Option<u64>,
}

impl TurnLimits {
    /// These, as far as they are allowed. Money and tokens are kept by budgets on every level.
    #[must_use]
    pub fn within(mut self, max: LimitsMax) -> Self {
        self.steps = self.steps.min(max.steps.unwrap_or(u32::MAX));
        self.seconds = match (self.seconds, max.seconds) {
            (Some(own), Some(max)) => Some(own.min(max)),
            (own, max) => own.or(max),
        };
        self
    }
}

/// The setting `model`: what is used where the command line names none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ModelSetting(pub Option<String>);

impl Section for ModelSetting {
    const KEY: &'static str = "model";

    /// A script runs tools without any model: it is for the person to choose.
    fn allowed_in_project(value: &Value) -> bool {
        value.as_str().is_some_and(|name| !["script/", "cassette/"].iter().any(|prefix| name.starts_with(prefix)))
    }

    /// What is trusted is the name of a script, not what it says.
    fn allowed_when_trusted(value: &Value) -> bool {
        Self::allowed_in_project(value)
    }
}
