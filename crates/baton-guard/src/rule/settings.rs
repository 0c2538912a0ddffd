//! The setting `permissions`: lists of rules and a mode.

use baton_config::Section;
use baton_core::PermissionMode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The setting `permissions` of one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionSettings {
    /// What runs unasked.
    pub allow: Vec<String>,
    /// What is asked for.
    pub ask: Vec<String>,
    /// What is refused.
    pub deny: Vec<String>,
    /// The permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
}

impl Section for PermissionSettings {
    const KEY: &'static str = "permissions";

    /// A repository may tighten, and nothing else, before it is trusted.
    fn allowed_in_project(value: &Value) -> bool {
        value.as_object().is_some_and(|lists| lists.keys().all(|key| matches!(key.as_str(), "ask" | "deny")))
    }
}
