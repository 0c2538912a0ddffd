//! The setting `sandbox`: which kind, and what commands may write besides the workspace.

use std::path::PathBuf;

use baton_config::Section;
use serde::{Deserialize, Serialize};

use super::Level;

/// The setting `sandbox`. A repository cannot set it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSettings {
    /// This kind or none; the best there is unless set.
    pub level: Option<Level>,
    /// Directories that commands may write besides the workspace, such as caches of build tools: `["~/.cache"]`.
    pub write: Vec<PathBuf>,
}

impl Section for SandboxSettings {
    const KEY: &'static str = "sandbox";
}
