//! Permission rules: `Tool(spec)` in three lists, gathered from layers; deny beats ask beats allow.

mod correction;
mod propose;
mod settings;
mod spec;

use std::fmt;
use std::path::Path;

use baton_core::Access;

use crate::command::Part;
use crate::decision::{Decision, Verdict};
use crate::path::Scope;

pub use correction::{Proposal, Proposed, correction};
pub use propose::propose;
pub(crate) use propose::{has_subcommands, spec_of};
pub use settings::PermissionSettings;
use spec::Spec;
pub(crate) use spec::host;

/// The tools that rules speak of, by what they do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tool {
    Bash,
    Read,
    Edit,
    WebFetch,
    /// Any other, by its name; `mcp__server` stands for all tools of a server.
    Named(String),
}

impl Tool {
    /// The one that a name means, in Baton's words or Claude Code's.
    fn of(name: &str) -> Self {
        match name {
            "Bash" | "bash" | "bash_background" | "Shell" | "shell" => Self::Bash,
            "Read" | "read" | "Grep" | "grep" | "Glob" | "glob" | "LS" | "ls" => Self::Read,
            "Edit" | "edit" | "Write" | "write" | "MultiEdit" | "multi_edit" | "NotebookEdit" | "apply_patch" => {
                Self::Edit
            }
            "WebFetch" | "web_fetch" => Self::WebFetch,
            other => Self::Named(other.to_owned()),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    tool: Tool,
    spec: Spec,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rule `{rule}` {problem}; write {instead}")]
pub struct RuleError {
    /// As it was written.
    pub rule: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write.
    pub instead: String,
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let error = |problem: &str, instead: &str| RuleError {
            rule: text.to_owned(),
            problem: problem.to_owned(),
            instead: instead.to_owned(),
        };
        let trimmed = text.trim();
        let (name, spec) = match trimmed.split_once('(') {
            None => (trimmed, None),
            Some((name, rest)) => {
                let inner = rest
                    .strip_suffix(')')
                    .ok_or_else(|| error("has no closing parenthesis", "`Tool(spec)`, like `Bash(git log:*)`"))?;
                (name.trim(), Some(inner))
            }
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*' | '.')) {
            return Err(error("names no tool", "a tool's name first, like `Bash(npm test)` or `Read(./secrets/**)`"));
        }
        if spec.is_none() && trimmed.contains(char::is_whitespace) {
            return Err(error("has words after the tool's name", "them in parentheses, like `Bash(git log:*)`"));
        }
        let tool = Tool::of(name);
        let spec = match (&tool, spec.map(str::trim)) {
            (_, None | Some("" | "*")) => Spec::Any,
            (Tool::Bash, Some(spec)) => Spec::command(spec).map_err(|problem| {
                error(&problem, "the words of a command, like `Bash(git log:*)` or `Bash(npm run test)`")
            })?,
            (Tool::Read | Tool::Edit, Some(spec)) => Spec::path(spec).map_err(|problem| {
                error(&problem, "a path, like `Read(./secrets/**)`, `Edit(~/notes/**)` or `Read(//etc/**)`")
            })?,
            (Tool::WebFetch, Some(spec)) => {
                Spec::domain(spec).map_err(|problem| error(&problem, "`WebFetch(domain:example.com)`"))?
            }
            (Tool::Named(_), Some(_)) => {
                return Err(error("has a specification that its tool does not take", "the tool's name alone"));
            }
        };
        Ok(Self { text: trimmed.to_owned(), tool, spec })
    }

    /// Whether it says clearly enough what it speaks of to allow that.
    fn may_allow(&self) -> Result<(), RuleError> {
        if !self.spec.is_open() {
            return Ok(());
        }
        Err(RuleError {
            rule: self.to_string(),
            problem: "leaves open what it allows, so it can ask or deny only".to_owned(),
            instead: "the words of the command, like `Bash(git log:*)`".to_owned(),
        })
    }

    /// Whether it speaks of a part of a command.
    pub fn matches_part(&self, part: &Part) -> bool {
        self.tool == Tool::Bash && self.spec.matches_words(&part.words)
    }

    /// Whether it speaks of a path that is read or written.
    pub fn matches_path(&self, path: &Path, access: Access, glob: bool, scope: &Scope) -> bool {
        let fits = match access {
            Access::Read | Access::Network => self.tool == Tool::Read,
            Access::Write | Access::Execute => self.tool == Tool::Edit,
        };
        fits && self.spec.matches_path(path, glob, scope)
    }

    /// Whether it speaks of an address.
    pub fn matches_url(&self, url: &str) -> bool {
        self.tool == Tool::WebFetch && self.spec.matches_url(url)
    }

    /// Whether it speaks of another tool, by name.
    pub fn matches_tool(&self, name: &str) -> bool {
        match &self.tool {
            Tool::Named(rule) => {
                rule == name
                    || name.strip_prefix(rule.as_str()).is_some_and(|rest| rest.starts_with("__"))
                    || crate::path::wildcard(rule, name)
            }
            _ => false,
        }
    }

    /// Whether it takes paths out of the other rules of its list: `Read(!**/.env.example)`.
    fn is_exception(&self) -> bool {
        self.spec.is_exception()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a layer's allow rules count: those of a repository only after it is trusted. Its deny and ask rules always do,
/// since they can only tighten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The person, the command line, or a repository that is trusted.
    Trusted,
    /// A repository that is not.
    Untrusted,
}

/// The rules of all layers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    layers: Vec<Lists>,
}

/// The rules of one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Lists {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
}

impl Rules {
    /// No rules.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a layer's rules.
    pub fn add(&mut self, settings: &PermissionSettings, origin: Origin) -> Result<(), RuleError> {
        let parse = |rules: &[String]| rules.iter().map(|rule| Rule::parse(rule)).collect::<Result<Vec<_>, _>>();
        let mut lists =
            Lists { allow: parse(&settings.allow)?, ask: parse(&settings.ask)?, deny: parse(&settings.deny)? };
        if origin == Origin::Untrusted {
            lists.allow.clear();
        }
        lists.allow.iter().try_for_each(Rule::may_allow)?;
        self.layers.push(lists);
        Ok(())
    }

    /// Those of others as well.
    pub fn join(&mut self, others: &Self) {
        self.layers.extend_from_slice(&others.layers);
    }

    /// Whether any of them can keep a file from being read unasked.
    pub(crate) fn tighten_reading(&self) -> bool {
        self.layers.iter().flat_map(|lists| lists.deny.iter().chain(&lists.ask)).any(|rule| rule.tool == Tool::Read)
    }

    /// Whether a tool is denied whatever it is asked to do, so that it need not be offered.
    pub fn forbid(&self, tool: &str) -> bool {
        let is_whole = |rule: &Rule| match Tool::of(tool) {
            Tool::Named(name) => rule.matches_tool(&name),
            tool => rule.tool == tool && rule.spec == Spec::Any,
        };
        self.layers.iter().any(|lists| lists.deny.iter().any(is_whole) && !lists.deny.iter().any(Rule::is_exception))
    }

    /// What the rules say about something, if they say anything; the strictest counts.
    pub fn decide(&self, matches: impl Fn(&Rule) -> bool) -> Option<Decision> {
        let find = |pick: fn(&Lists) -> &Vec<Rule>| {
            self.layers.iter().find_map(|lists| {
                let rules = pick(lists);
                let excepted = rules.iter().any(|rule| rule.is_exception() && matches(rule));
                rules.iter().find(|rule| !excepted && !rule.is_exception() && matches(rule))
            })
        };
        let made = |verdict, rule: &Rule, word: &str| {
            Decision::new(verdict, rule.to_string(), format!("the rule `{rule}` {word}"))
        };
        find(|lists| &lists.deny)
            .map(|rule| made(Verdict::Deny, rule, "denies it"))
            .or_else(|| find(|lists| &lists.ask).map(|rule| made(Verdict::Ask, rule, "asks for it")))
            .or_else(|| find(|lists| &lists.allow).map(|rule| made(Verdict::Allow, rule, "allows it")))
    }
}

#[cfg(test)]
mod tests;
