//! What a project's settings give to every definition: its commands and where its files are.

use serde::{Deserialize, Serialize};

/// `project.*` in definitions. Commands are text from the settings, so they may use the shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Project {
    /// Runs the tests.
    pub test: Option<String>,
    /// Builds everything.
    pub build: Option<String>,
    /// Finds mistakes without running.
    pub lint: Option<String>,
    /// Checks the format.
    pub format: Option<String>,
    /// Tests the tests by changing the code.
    pub mutation: Option<String>,
    /// Where tests are.
    pub test_paths: Vec<String>,
    /// Where the code is that tests are about.
    pub source_paths: Vec<String>,
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
