//! The one question: may this call run, in this mode, under these rules, in this place?

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use baton_core::{Access, HostPattern, PermissionMode};
use serde_json::Value;

use crate::command::{About, Analysis, Finding, analyse};
use crate::decision::{Decision, Verdict};
use crate::path::{Scope, meant};
use crate::rule::Rules;

/// What allows a command that the sandbox holds.
const BY_SANDBOX: &str = "mode.auto";

/// What an agent wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Run a command of the shell.
    Command(String),
    /// Read a file or list a directory; the path is absolute, with its links resolved.
    Read(PathBuf),
    /// Write, make or delete a file; the path is absolute, with its links resolved.
    Write(PathBuf),
    /// Delete a file, or a link and not what it leads to; the path is absolute.
    Delete(PathBuf),
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
    /// The hosts that commands reach from within it.
    pub hosts: Vec<HostPattern>,
}

impl Call {
    /// What a tool's call means for the guard: from its name and its input, in Baton's words or Claude Code's. A call that
    /// touches several files means as much for each; the strictest decision counts. Paths are as the tool was given them:
    /// their links are not resolved.
    pub fn of_tool(name: &str, input: &Value, access: Access, scope: &Scope) -> Vec<Self> {
        let text = |keys: &[&str]| text_of(input, keys);
        let path = || scope.meant(text(&PATH_KEYS).unwrap_or("."));
        let command = || text(&["command"]).unwrap_or_default().to_owned();
        let other = || vec![Self::Tool { name: name.to_owned(), access }];
        match name {
            "bash" | "Bash" => vec![Self::Command(command())],
            "bash_background" if input.get("command").is_some() => vec![Self::Command(command())],
            "glob" | "Glob" => {
                let dir = path();
                let beyond = text(&["pattern"]).and_then(|pattern| fixed_part(pattern, &dir, scope));
                [Some(dir), beyond].into_iter().flatten().map(Self::Read).collect()
            }
            "read" | "Read" | "ls" | "LS" | "grep" | "Grep" => vec![Self::Read(path())],
            "write" | "Write" | "edit" | "Edit" | "NotebookEdit" => vec![Self::Write(path())],
            "multi_edit" | "MultiEdit" => {
                let edits = input.get("edits").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                writes(
                    text(&PATH_KEYS).into_iter().chain(edits.iter().filter_map(|edit| text_of(edit, &PATH_KEYS))),
                    scope,
                )
            }
            "apply_patch" => {
                let lines = text(&["patch", "input"]).unwrap_or_default();
                let deleted = headers(lines, &["*** Delete File:"]).map(|path| Self::Delete(scope.meant(path)));
                let written = headers(lines, &["*** Add File:", "*** Update File:", "*** Move to:"]);
                writes(written, scope).into_iter().chain(deleted).collect()
            }
            "web_fetch" | "WebFetch" => vec![Self::Fetch(text(&["url"]).unwrap_or_default().to_owned())],
            _ => other(),
        }
    }
}

/// The names of a path in the inputs of tools.
const PATH_KEYS: [&str; 3] = ["path", "file_path", "notebook_path"];

fn text_of<'a>(input: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| input.get(key)).and_then(Value::as_str)
}

/// A write to each of these files, once.
fn writes<'a>(paths: impl Iterator<Item = &'a str>, scope: &Scope) -> Vec<Call> {
    let paths: BTreeSet<PathBuf> = paths.map(|path| scope.meant(path)).collect();
    paths.into_iter().map(Call::Write).collect()
}

/// The files that a patch names by these headers. Every line that could be one counts: those of contents begin with
/// another character.
fn headers<'a>(patch: &'a str, headers: &'a [&str]) -> impl Iterator<Item = &'a str> {
    patch.split('\n').filter_map(|line| headers.iter().find_map(|header| line.strip_prefix(header)).map(str::trim))
}

/// The directory that a pattern names before its first wildcard, if that need not lie below `dir`.
fn fixed_part(pattern: &str, dir: &Path, scope: &Scope) -> Option<PathBuf> {
    let fixed: Vec<&str> = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect();
    let leaves = pattern.starts_with(['/', '~']) || fixed.contains(&"..");
    // The slash behind makes the root of what is empty, and nothing of anything else.
    leaves.then(|| meant(&format!("{}/", fixed.join("/")), dir, &scope.home))
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
        Call::Write(path) | Call::Delete(path) => {
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
            let judged = match crate::rule::host(url) {
                None => Decision::deny("net.address", "the address has no plain http(s) host"),
                // The tool refuses these in better words, unless the person lets it reach them.
                Some(host) if is_private(&host) => Decision::allow("net.private", "it is for the tool to refuse"),
                Some(_) => judged,
            };
            let decision = by_mode(settle(judged, by_rule), Access::Read, false, mode, context);
            if mode == PermissionMode::Deny {
                return decision.join(Decision::deny("mode.deny", "the permission mode reaches no network"));
            }
            decision
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

/// Whether a host is written so that it can only be this machine or one near it.
fn is_private(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|ip| {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified() || ip.is_broadcast()
        })
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
        let settled = settle_finding(finding, analysis, rules, scope, mode, context);
        let is_held = decision.verdict == Verdict::Allow && settled.verdict == Verdict::Allow;
        decision = if is_held && settled.rule == BY_SANDBOX { settled } else { decision.join(settled) };
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
        _ if mode == PermissionMode::Auto && context.sandboxed && !analysis.leaves(finding, &context.hosts) => {
            Decision::allow(BY_SANDBOX, "the sandbox holds what it does")
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
        let of_person = decision.rule.contains('(') || !decision.rule.contains('.');
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_means_every_file_that_it_touches() {
        let scope = Scope { root: "/w".into(), cwd: "/w/src".into(), home: "/home/dev".into(), ..Scope::default() };
        let calls = |name: &str, input: Value| Call::of_tool(name, &input, Access::Write, &scope);
        let writes = |paths: &[&str]| paths.iter().map(|path| Call::Write(path.into())).collect::<Vec<_>>();
        let patch = "*** Begin Patch\n*** Update File: a\r\n*** Move to:  /etc/b \n-x\n+*** Add File: no\n*** Add File: ~/c\n\
                     +x\n*** Delete File: ../d\n*** End Patch";
        assert_eq!(
            calls("apply_patch", json!({"patch": patch})),
            [writes(&["/etc/b", "/home/dev/c", "/w/src/a"]), vec![Call::Delete("/w/src/../d".into())]].concat()
        );
        let edits = json!({"path": "a", "edits": [{"old": "", "new": ""}, {"file_path": "/b"}, {"path": "a"}]});
        assert_eq!(calls("multi_edit", edits), writes(&["/b", "/w/src/a"]));
        assert_eq!(calls("bash_background", json!({"command": "ls"})), [Call::Command("ls".into())]);
        let kill = Call::Tool { name: "bash_background".into(), access: Access::Write };
        assert_eq!(calls("bash_background", json!({"id": 1})), [kill]);
        let reads = |paths: &[&str]| paths.iter().map(|path| Call::Read(path.into())).collect::<Vec<_>>();
        assert_eq!(calls("glob", json!({"pattern": "*.rs", "path": "x"})), reads(&["/w/src/x"]));
        for (pattern, base) in [("/etc/**/x", "/etc"), ("/*", "/"), ("~/*", "/home/dev"), ("../{a,b}", "/w/src/..")] {
            assert_eq!(calls("glob", json!({"pattern": pattern})), reads(&["/w/src/.", base]), "{pattern}");
        }
    }
}
