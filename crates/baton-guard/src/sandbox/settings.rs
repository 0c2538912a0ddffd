//! The setting `sandbox`: which kind, what commands may write besides the workspace, and which hosts they reach.

use std::path::PathBuf;

use baton_config::Section;
use baton_core::HostPattern;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Level;

/// The setting `sandbox`. A repository cannot set it, and if it is trusted, all but the hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SandboxSettings {
    /// This kind or none; the best there is unless set.
    pub level: Option<Level>,
    /// Directories that commands may write besides the workspace, such as caches of build tools: `["~/.cache"]`.
    pub write: Vec<PathBuf>,
    /// Hosts that commands reach, through a proxy that Baton runs: `["registry.npmjs.org", "*.crates.io"]`.
    #[schemars(with = "Vec<String>")]
    pub hosts: Vec<HostPattern>,
}

impl Section for SandboxSettings {
    const KEY: &'static str = "sandbox";

    /// Where data can go must be the person's own word.
    fn allowed_when_trusted(value: &Value) -> bool {
        value.get("hosts").is_none()
    }
}
