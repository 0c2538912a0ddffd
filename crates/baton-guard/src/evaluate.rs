//! The one question: may this call run, in this mode, under these rules, in this place?

use std::path::PathBuf;

use baton_core::{Access, PermissionMode};
use serde_json::Value;

use crate::command::{About, Analysis, Finding, analyse};
use crate::decision::{Decision, Verdict};
use crate::path::Scope;
use crate::rule::Rules;

/// What an agent wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Run a command of the shell.
    Command(String),
    /// Read a file or list a directory; the path is absolute, with its links resolved.
    Read(PathBuf),
    /// Write, make or delete a file; the path is absolute, with its links resolved.
    Write(PathBuf),
    /// Fetch an address.
    Fetch(String),
    /// Another tool, by its name and what it does.
    Tool {
        /// Its name.
        name: String,
        /// What it does.
        access: Access,
    },
}

/// Where a call would run.
#[derive(Debug, Clone)]
pub struct Context {
    /// The workspace and what lies around it.
    pub scope: Scope,
    /// Whether a sandbox holds what commands do.
    pub sandboxed: bool,
}

impl Call {
    /// What a tool's call means for the guard: from its name and its input, in Baton's words or Claude Code's.
    pub fn of_tool(name: &str, input: &Value, access: Access, scope: &Scope) -> Self {
        let text = |keys: &[&str]| keys.iter().find_map(|key| input.get(key)).and_then(Value::as_str);
        let path = || scope.absolute(text(&["path", "file_path", "notebook_path"]).unwrap_or("."));
        match name {
            "bash" | "Bash" => Self::Command(text(&["command"]).unwrap_or_default().to_owned()),
            "read" | "Read" | "ls" | "LS" | "grep" | "Grep" | "glob" | "Glob" => Self::Read(path()),
            "write" | "Write" | "edit" | "Edit" | "multi_edit" | "MultiEdit" | "NotebookEdit" => Self::Write(path()),
            "web_fetch" | "WebFetch" => Self::Fetch(text(&["url"]).unwrap_or_default().to_owned()),
            name => Self::Tool { name: name.to_owned(), access },
        }
    }
}

/// Decides about a call.
pub fn evaluate(call: &Call, mode: PermissionMode, rules: &Rules, context: &Context) -> Decision {
    let scope = &context.scope;
    match call {
        Call::Command(command) => evaluate_command(&analyse(command, scope), mode, rules, context),
        Call::Read(path) => {
            let by_rule = rules.decide(|rule| rule.matches_path(path, Access::Read, false, scope));
            by_mode(settle(scope.judge(path, Access::Read, false), by_rule), Access::Read, true, mode, context)
        }
        Call::Write(path) => {
            let by_rule = rules.decide(|rule| rule.matches_path(path, Access::Write, false, scope));
            let judged = scope.judge(path, Access::Write, false);
            let leaves = judged.rule == "path.write-outside";
            let is_allowed = by_rule.as_ref().is_some_and(|by_rule| by_rule.verdict == Verdict::Allow);
            let decision = settle(judged, by_rule);
            // What a rule allows needs no question in any mode that writes at all.
            if is_allowed
                && decision.verdict == Verdict::Allow
                && !matches!(mode, PermissionMode::Plan | PermissionMode::Deny)
            {
                return decision;
            }
            by_mode(decision, Access::Write, !leaves, mode, context)
        }
        Call::Fetch(url) => {
            let by_rule = rules.decide(|rule| rule.matches_url(url));
            let judged = Decision::ask("net.fetch-tool", "it reaches the network");
            let judged = if crate::rule::host(url).is_none() {
                Decision::deny("net.address", "the address has no plain http(s) host")
            } else {
                judged
            };
            by_mode(settle(judged, by_rule), Access::Read, false, mode, context)
        }
        Call::Tool { name, access } => {
            let by_rule = rules.decide(|rule| rule.matches_tool(name));
            let judged = match access {
                Access::Read => Decision::allow("tool.reads", "the tool only reads"),
                Access::Network => Decision::ask("tool.network", "the tool reaches the network"),
                Access::Write | Access::Execute => Decision::ask("tool.acts", "the tool changes things"),
            };
            by_mode(settle(judged, by_rule), *access, false, mode, context)
        }
    }
}

/// Decides about a command that was looked at.
pub fn evaluate_command(analysis: &Analysis, mode: PermissionMode, rules: &Rules, context: &Context) -> Decision {
    let scope = &context.scope;
    let harmless = Decision::allow("command.read-only", "it only reads, and nothing outside of the workspace");
    let mut decision = harmless;
    // Rules that tighten count for every part and every file, whatever else is found.
    let of_parts = analysis.parts.iter().map(|part| rules.decide(|rule| rule.matches_part(part)));
    let of_paths = analysis
        .paths
        .iter()
        .map(|used| rules.decide(|rule| rule.matches_path(&used.path, used.access, used.glob, scope)));
    for by_rule in of_parts.chain(of_paths).flatten().filter(|by_rule| by_rule.verdict > Verdict::Allow) {
        decision = decision.join(by_rule);
    }
    if mode == PermissionMode::Yolo {
        return if decision.verdict == Verdict::Deny {
            decision
        } else {
            Decision::allow("mode.yolo", "the mode allows everything")
        };
    }
    let by_rule = decision.clone();
    for finding in &analysis.findings {
        decision = decision.join(settle_finding(finding, analysis, rules, scope, mode, context));
    }
    match mode {
        PermissionMode::Deny => decision.join(Decision::deny("mode.deny", "the permission mode runs nothing")),
        PermissionMode::Plan if decision.verdict == Verdict::Ask => {
            Decision::deny(decision.rule, format!("plan mode only reads, and {}", decision.reason))
        }
        _ => {
            // Of a rule and a finding that are equally strict, the person's own rule is named.
            if by_rule.verdict == decision.verdict && by_rule.verdict > Verdict::Allow { by_rule } else { decision }
        }
    }
}

/// What is left of a finding after the rules and the mode.
fn settle_finding(
    finding: &Finding,
    analysis: &Analysis,
    rules: &Rules,
    scope: &Scope,
    mode: PermissionMode,
    context: &Context,
) -> Decision {
    let decision = finding.decision.clone();
    if decision.verdict != Verdict::Ask {
        return decision;
    }
    let by_rule = match finding.about {
        About::Whole => None,
        About::Part(number) => analysis
            .parts
            .get(number)
            .filter(|part| part.is_exact)
            .and_then(|part| rules.decide(|rule| rule.matches_part(part))),
        About::Path(number) => analysis
            .paths
            .get(number)
            .filter(|used| !used.glob)
            .and_then(|used| rules.decide(|rule| rule.matches_path(&used.path, used.access, false, scope))),
    };
    match by_rule {
        Some(by_rule) if by_rule.verdict == Verdict::Allow => by_rule,
        _ if mode == PermissionMode::Auto && context.sandboxed && !finding.leaves => {
            Decision::allow("mode.auto", "the sandbox holds what it does")
        }
        _ => decision,
    }
}

/// A judgement and what the rules say: nothing loosens a denial, and an allowing rule settles a question.
fn settle(judged: Decision, by_rule: Option<Decision>) -> Decision {
    match by_rule {
        Some(by_rule) if by_rule.verdict == Verdict::Allow && judged.verdict == Verdict::Ask => by_rule,
        Some(by_rule) => judged.join(by_rule),
        None => judged,
    }
}

/// What the mode makes of a decision about a tool other than the shell.
fn by_mode(decision: Decision, access: Access, inside: bool, mode: PermissionMode, context: &Context) -> Decision {
    use PermissionMode as Mode;
    if mode == Mode::Yolo {
        // A rule of the person holds in every mode; a built-in one is what this mode switches off.
        let of_person = decision.rule.contains('(');
        return if of_person && decision.verdict == Verdict::Deny {
            decision
        } else {
            Decision::allow("mode.yolo", "the mode allows everything")
        };
    }
    if access == Access::Read {
        return decision;
    }
    let by_mode = match mode {
        Mode::Plan => Decision::deny("mode.plan", "plan mode only reads"),
        Mode::Deny => Decision::deny("mode.deny", "the permission mode changes nothing"),
        Mode::Ask => Decision::ask("mode.ask", "the permission mode asks before files are changed"),
        Mode::AcceptEdits if access == Access::Write && inside => {
            Decision::allow("mode.accept-edits", "edits in the workspace go unasked")
        }
        Mode::Auto if inside || context.sandboxed && access == Access::Execute => {
            Decision::allow("mode.auto", "it stays in the workspace")
        }
        Mode::AcceptEdits | Mode::Auto | Mode::Yolo => Decision::ask("mode.asks", "the permission mode asks for this"),
    };
    decision.join(by_mode)
}
