//! What a model is told before the person speaks: the system prompt, and facts in the first message.

use baton_core::{Block, Timestamp};

use crate::instructions::Instructions;

/// The system prompt: the same for every session, so that providers can cache it.
pub const SYSTEM_PROMPT: &str = include_str!("system.md");

/// Facts about where the agent works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The working directory.
    pub cwd: String,
    /// The project's root.
    pub root: String,
    /// The operating system.
    pub system: String,
    /// When the session began.
    pub now: Timestamp,
    /// The branch that is checked out.
    pub branch: Option<String>,
}

/// The blocks that open the first message. They stand there, and not in front of the history, so
/// that a change of facts never invalidates what a provider has cached.
pub fn opening(environment: &Environment, instructions: &Instructions) -> Vec<Block> {
    let Environment { cwd, root, system, now, branch } = environment;
    let date = now.strftime("%Y-%m-%d");
    let branch = branch.as_ref().map(|branch| format!("\nbranch: {branch}")).unwrap_or_default();
    let facts = format!(
        "<environment>\ndirectory: {cwd}\nproject: {root}\nsystem: {system}\ndate: {date}{branch}\n</environment>"
    );
    let mut blocks = vec![Block::text(facts)];
    if !instructions.text.is_empty() {
        blocks.push(Block::text(format!(
            "Instructions of this project; those further down are more specific:\n\n{}",
            instructions.text
        )));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_first_then_instructions() {
        let environment = Environment {
            cwd: "/p/src".into(),
            root: "/p".into(),
            system: "linux".into(),
            now: "2026-03-04T05:06:07Z".parse().unwrap(),
            branch: Some("main".into()),
        };
        let none = Instructions::default();
        let facts = "<environment>\ndirectory: /p/src\nproject: /p\nsystem: linux\ndate: 2026-03-04\nbranch: main\n</environment>";
        assert_eq!(opening(&environment, &none), [Block::text(facts)]);
        let some = Instructions { text: "be kind".into(), ..none };
        assert!(matches!(&opening(&environment, &some)[1], Block::Text { text } if text.ends_with("\n\nbe kind")));
    }
}
