//! The registry: which tools there are, in an order that never changes within a session.

use std::sync::Arc;

use baton_core::ToolSpec;

use crate::tools::{
    ApplyPatch, AskUser, Bash, BashBackground, Edit, Glob, Grep, Ls, MultiEdit, Read, Todo, WebFetch, WebSettings,
    Write,
};
use crate::{Tool, Typed};

/// Tools by name, in a fixed order: the model's prompt cache depends on it.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
}

impl Registry {
    /// The tools that come with Baton.
    pub fn builtin() -> Self {
        Self::default()
            .with(Typed::new(Read))
            .with(Typed::new(Write))
            .with(Typed::new(Edit))
            .with(Typed::new(Bash::default()))
            .with(Typed::new(BashBackground))
            .with(Typed::new(Glob))
            .with(Typed::new(Grep))
            .with(Typed::new(Ls))
            .with(Typed::new(MultiEdit))
            .with(Typed::new(ApplyPatch))
            .with(Typed::new(Todo))
            .with(Typed::new(AskUser))
            .with(Typed::new(WebFetch::new(WebSettings::default(), None)))
    }

    /// Adds a tool at the end, or puts it in the place of the one that has its name.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        let tool: Arc<dyn Tool> = Arc::new(tool);
        match self.tools.iter_mut().find(|known| known.spec().name == tool.spec().name) {
            Some(place) => *place = tool,
            None => self.tools.push(tool),
        }
        self
    }

    /// Keeps only the tools that pass, in their order: the tool set of a role.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&dyn Tool) -> bool) -> Self {
        self.tools.retain(|tool| keep(tool.as_ref()));
        self
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    /// What the model is told, in order.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec().name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_specs_are_small() {
        let specs = serde_json::to_string(&Registry::builtin().specs()).unwrap();
        assert!(specs.len() < 7_000, "{} bytes: {specs}", specs.len());
    }

    #[test]
    fn order_and_names_are_a_contract() {
        let registry = Registry::builtin();
        assert_eq!(
            registry.names().collect::<Vec<_>>(),
            [
                "read",
                "write",
                "edit",
                "bash",
                "bash_background",
                "glob",
                "grep",
                "ls",
                "multi_edit",
                "apply_patch",
                "todo",
                "ask_user",
                "web_fetch",
            ]
        );
        let replaced = registry.with(Typed::new(Edit));
        assert_eq!(replaced.names().nth(2), Some("edit"));
        assert_eq!(replaced.names().count(), 13);
    }
}
