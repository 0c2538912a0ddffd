//! Limits of a turn, and the settings of this crate.

use std::time::Duration;

use baton_config::Section;
use baton_core::{Tokens, Usd};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The setting `limits`: what ends a turn. Money and tokens of the setting are for all sessions of a
/// process together; those of the command line for one session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnLimits {
    /// Model calls.
    pub steps: u32,
    /// Money.
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
}

/// The setting `model`: what is used where the command line names none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
