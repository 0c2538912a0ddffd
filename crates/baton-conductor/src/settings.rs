//! The setting `project`: the commands and places of a project, said once and used by every definition.

use baton_config::Section;
use baton_workflow::Project;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The setting `project`: what `project.test` and the like mean in definitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProjectSettings(pub Project);

/// A repository says what its commands are; since they are run, that counts where it is trusted.
impl Section for ProjectSettings {
    const KEY: &'static str = "project";
}
