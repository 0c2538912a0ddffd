//! The setting `project`: the commands and places of a project, said once and used by every definition.

use baton_config::Section;
use baton_workflow::Project;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The setting `project`: what `project.test` and the like mean in definitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProjectSettings(pub Project);

impl Section for ProjectSettings {
    const KEY: &'static str = "project";

    /// A repository says what its commands are; they run only where it is trusted.
    fn allowed_in_project(_value: &Value) -> bool {
        true
    }
}
