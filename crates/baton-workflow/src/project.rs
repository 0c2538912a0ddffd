//! What a project's settings give to every definition: its commands and where its files are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `project.*` in definitions. Commands are text from the settings, so they may use the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Project {
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
    /// Commands that make a fresh clone ready, in their order. Definitions do not see them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// Directories that builds write and git ignores, such as `target`. Definitions do not see them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<String>,
}

impl Default for Project {
    fn default() -> Self {
        Self {
            test: None,
            build: None,
            lint: None,
            format: None,
            mutation: None,
            test_paths: vec!["tests/**".to_owned()],
            source_paths: vec!["src/**".to_owned()],
            setup: Vec::new(),
            caches: Vec::new(),
        }
    }
}

impl Project {
    /// Each command with its name.
    pub fn commands(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("test", self.test.as_deref()),
            ("build", self.build.as_deref()),
            ("lint", self.lint.as_deref()),
            ("format", self.format.as_deref()),
            ("mutation", self.mutation.as_deref()),
        ]
    }
}
