//! The answer "always allow": the narrowest rule that would have allowed a call.

use std::path::Path;

use super::spec::host;
use crate::command::{About, Analysis};
use crate::decision::Verdict;
use crate::evaluate::Call;
use crate::path::Scope;

/// Programs whose second word says what they do: a rule for them names it.
const WITH_SUBCOMMAND: [&str; 22] = [
    "git",
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "go",
    "docker",
    "kubectl",
    "gh",
    "make",
    "just",
    "pip",
    "uv",
    "poetry",
    "dotnet",
    "gradle",
    "mvn",
    "terraform",
    "helm",
    "rustup",
    "bundle",
];

/// Whether a program's second word says what it does.
pub(crate) fn has_subcommands(program: &str) -> bool {
    WITH_SUBCOMMAND.contains(&program)
}

/// The rules that would allow this call from now on, to be shown before they are saved; none if no rule can.
pub fn propose(call: &Call, analysis: Option<&Analysis>, scope: &Scope) -> Vec<String> {
    match call {
        Call::Command(_) => analysis.map(of_command).unwrap_or_default(),
        Call::Read(path) => vec![format!("Read({})", spec_of(path, scope))],
        Call::Write(path) | Call::Delete(path) => vec![format!("Edit({})", spec_of(path, scope))],
        Call::Fetch(url) => host(url).map(|host| vec![format!("WebFetch(domain:{host})")]).unwrap_or_default(),
        Call::Tool { name, .. } => vec![name.clone()],
    }
}

fn of_command(analysis: &Analysis) -> Vec<String> {
    let mut rules = Vec::new();
    for finding in analysis.findings.iter().filter(|finding| finding.decision.verdict > Verdict::Allow) {
        let About::Part(number) = finding.about else { return Vec::new() };
        let Some(part) = analysis.parts.get(number).filter(|part| part.is_exact) else { return Vec::new() };
        if finding.decision.verdict == Verdict::Deny
            || part.words.iter().any(|word| word.contains(char::is_whitespace) || word.is_empty())
        {
            return Vec::new();
        }
        let has_sub = has_subcommands(&part.words[0]) && part.words.get(1).is_some_and(|word| !word.starts_with('-'));
        // A script of npm is what the words after `run` say.
        let length = match part.words.get(1).map(String::as_str) {
            Some("run") if has_sub => 3,
            _ if has_sub => 2,
            _ => part.words.len(),
        };
        let words = part.words.iter().take(length).cloned().collect::<Vec<_>>().join(" ");
        let rule = if has_sub { format!("Bash({words}:*)") } else { format!("Bash({words})") };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// An absolute path as rules write it.
pub(crate) fn spec_of(path: &Path, scope: &Scope) -> String {
    if let Ok(inner) = path.strip_prefix(&scope.root) {
        return format!("./{}", inner.display());
    }
    if let Ok(inner) = path.strip_prefix(&scope.home) {
        return format!("~/{}", inner.display());
    }
    format!("/{}", path.display())
}
