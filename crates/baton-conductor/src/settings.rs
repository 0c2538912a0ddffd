//! The setting `project`: the commands and places of a project, said once and used by every definition.

use baton_config::Section;
use baton_workflow::Project;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The setting `project`: what `project.test` and the like mean in definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProjectSettings {
    /// The command that runs the tests.
    pub test: Option<String>,
    /// The command that builds everything.
    pub build: Option<String>,
    /// The command that finds mistakes without running anything.
    pub lint: Option<String>,
    /// The command that checks the format.
    pub format: Option<String>,
    /// The command that tests the tests, by changing the code.
    pub mutation: Option<String>,
    /// Where tests are.
    pub test_paths: Vec<String>,
    /// Where the code is that tests are about.
    pub source_paths: Vec<String>,
}

impl Default for ProjectSettings {
    fn default() -> Self {
        let Project { test, build, lint, format, mutation, test_paths, source_paths } = Project::default();
        Self { test, build, lint, format, mutation, test_paths, source_paths }
    }
}

impl From<ProjectSettings> for Project {
    fn from(settings: ProjectSettings) -> Self {
        let ProjectSettings { test, build, lint, format, mutation, test_paths, source_paths } = settings;
        Self { test, build, lint, format, mutation, test_paths, source_paths }
    }
}

impl Section for ProjectSettings {
    const KEY: &'static str = "project";

    /// A repository says what its commands are; they run only where it is trusted.
    fn allowed_in_project(_value: &Value) -> bool {
        true
    }
}
