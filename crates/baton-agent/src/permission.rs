//! Permission: what the guard says about a call, before it runs, and what a person's answers have added to that.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::{Access, PermissionMode, ToolUse};
use baton_guard::path::escaped;
use baton_guard::{
    About, Analysis, Call, Context, Decision, Origin, PermissionSettings, Rules, Scope, Verdict, analyse, evaluate,
    evaluate_command, propose,
};
use baton_tools::Leave;
use serde_json::Value;

use crate::record::Record;

/// Programs that act with the person's own keys, which no sandbox shows. Where one is allowed to reach beyond the sandbox,
/// it runs without one.
const WITH_KEYS: [&str; 9] = ["git", "gh", "glab", "ssh", "scp", "sftp", "rsync", "docker", "kubectl"];

/// What an agent may do.
pub struct Permissions {
    /// How much it may do unasked.
    pub mode: PermissionMode,
    /// The rules of all layers.
    pub rules: Rules,
    /// Where it works.
    pub scope: Scope,
    /// Where every call is written down before it runs.
    pub record: Option<Record>,
    /// Keeps the rules of people who answer "always".
    pub rule_book: Option<Arc<dyn RuleBook>>,
}

impl Permissions {
    /// Those of this mode in this place, without rules and without a record.
    pub fn of(mode: PermissionMode, scope: Scope) -> Self {
        Self { mode, rules: Rules::none(), scope, record: None, rule_book: None }
    }
}

/// Where the rules of a person are kept.
pub trait RuleBook: Send + Sync {
    /// Keeps rules that allow something; where they stand now, or why they could not be kept.
    fn allow(&self, rules: &[String]) -> Result<String, String>;
}

/// What the guard says about a call.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) decision: Decision,
    /// The narrowest rules that would allow it from now on.
    pub(crate) rules: Vec<String>,
    /// What it is to have if it runs.
    pub(crate) leave: Leave,
}

/// The permissions of a running agent.
pub(crate) struct Guard {
    mode: PermissionMode,
    scope: Scope,
    is_sandboxed: bool,
    rules: Mutex<Rules>,
    /// Calls that were allowed as they are, since no rule could say them.
    calls: Mutex<HashSet<String>>,
    rule_book: Option<Arc<dyn RuleBook>>,
}

impl Guard {
    pub(crate) fn new(
        mode: PermissionMode,
        scope: Scope,
        rules: Rules,
        is_sandboxed: bool,
        rule_book: Option<Arc<dyn RuleBook>>,
    ) -> Self {
        Self { mode, scope, is_sandboxed, rules: Mutex::new(rules), calls: Mutex::default(), rule_book }
    }

    /// Judges a call that would be made from this directory. Looks at where paths lead, so it may block.
    pub(crate) fn judge(&self, call: &ToolUse, access: Access, cwd: PathBuf) -> Judgement {
        let scope = Scope { cwd, ..self.scope.clone() };
        let context = Context { scope, sandboxed: self.is_sandboxed };
        let rules = lock(&self.rules).clone();
        let mut judged = match Call::of_tool(&call.tool, &call.input, access, &context.scope) {
            Call::Command(command) => self.command(&command, &rules, &context),
            other => {
                let decision = evaluate(&other, self.mode, &rules, &context);
                Judgement { decision, rules: propose(&other, None, &context.scope), leave: Leave::default() }
            }
        };
        if judged.decision.verdict == Verdict::Ask && lock(&self.calls).contains(&exact(call)) {
            judged.decision = Decision::allow("session", "this very call was allowed for the session");
        }
        judged
    }

    fn command(&self, command: &str, rules: &Rules, context: &Context) -> Judgement {
        let analysis = analyse(command, &context.scope);
        let mut decision = evaluate_command(&analysis, self.mode, rules, context);
        if !self.is_sandboxed && self.mode != PermissionMode::Yolo {
            decision = decision.join(Decision::ask("sandbox.missing", "there is no sandbox that would hold it"));
        }
        let rules = propose(&Call::Command(command.to_owned()), Some(&analysis), &context.scope);
        Judgement { decision, rules, leave: leave(&analysis) }
    }

    /// Remembers what a person allowed: these rules, or the very call where no rule can say it.
    pub(crate) fn allow(&self, call: &ToolUse, allowed: &[String]) {
        let settings = PermissionSettings { allow: allowed.to_vec(), ..PermissionSettings::default() };
        // What was proposed can be read; and if it cannot, the call itself is all that was allowed.
        if allowed.is_empty() || lock(&self.rules).add(&settings, Origin::Trusted).is_err() {
            lock(&self.calls).insert(exact(call));
        }
    }

    /// Keeps rules for the time after this session; what there is to say about that.
    pub(crate) fn keep(&self, rules: &[String]) -> String {
        let shown = rules.join(", ");
        match &self.rule_book {
            _ if rules.is_empty() => "no rule can say this, so it is allowed for this session only".to_owned(),
            None => format!("there is no place to keep {shown}: it counts for this session"),
            Some(book) => match book.allow(rules) {
                Ok(place) => format!("{shown} is allowed from now on ({place})"),
                Err(why) => format!("{shown} counts for this session only: {why}"),
            },
        }
    }
}

/// What a command needs that commands do not have: where it would reach beyond the sandbox.
fn leave(analysis: &Analysis) -> Leave {
    let mut leave = Leave::default();
    for finding in analysis.findings.iter().filter(|finding| finding.leaves) {
        match finding.about {
            About::Path(number) => {
                let used = analysis.paths.get(number).filter(|used| used.access.changes());
                leave.writable.extend(used.map(|used| used.path.clone()));
            }
            About::Part(number) => {
                leave.network = true;
                let program = analysis.parts.get(number).and_then(|part| part.words.first());
                leave.everything |= program.is_some_and(|program| WITH_KEYS.contains(&program.as_str()));
            }
            About::Whole => leave.network = true,
        }
    }
    leave
}

/// A call as it would have to be repeated to be the same.
fn exact(call: &ToolUse) -> String {
    format!("{} {}", call.tool, call.input)
}

/// What a call would do, for a person who decides about it: the exact text, with everything written out that a terminal
/// would obey or hide.
pub(crate) fn shown(call: &ToolUse) -> String {
    let text = |key: &str| call.input.get(key).and_then(Value::as_str);
    let what = ["command", "path", "file_path", "url", "pattern"].iter().find_map(|key| text(key));
    escaped(&what.map_or_else(|| call.input.to_string(), str::to_owned))
}

/// Why a call is not run, in words for the model.
pub(crate) fn refusal(tool: &str, decision: &Decision, is_attended: bool) -> String {
    let Decision { verdict, rule, reason } = decision;
    let why = match verdict {
        Verdict::Deny => format!("{reason} [{rule}]. It cannot be allowed here"),
        _ if is_attended => format!("{reason} [{rule}], and the question was not answered"),
        _ => format!("{reason} [{rule}]; that has to be asked for, and nobody is here to answer"),
    };
    format!(
        "refused: `{tool}` was not run: {why}. Do what you can without it, and say what you would have done; the person can \
         allow it with a rule or another --permission-mode."
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use baton_core::CallId;
    use serde_json::json;

    use super::*;

    fn guard(mode: PermissionMode, is_sandboxed: bool) -> Guard {
        let scope = Scope { root: "/w".into(), cwd: "/w".into(), home: "/home/dev".into(), ..Scope::default() };
        Guard::new(mode, scope, Rules::none(), is_sandboxed, None)
    }

    fn call(tool: &str, input: Value) -> ToolUse {
        ToolUse { id: CallId::new("c"), tool: tool.to_owned(), input, malformed: None }
    }

    fn verdict(guard: &Guard, call: &ToolUse, access: Access) -> Verdict {
        guard.judge(call, access, "/w".into()).decision.verdict
    }

    #[test]
    fn each_mode_lets_happen_what_its_name_says() {
        use PermissionMode as Mode;
        use Verdict::{Allow, Ask, Deny};
        let calls = [
            (call("read", json!({"path": "a"})), Access::Read),
            (call("web_fetch", json!({"url": "https://example.com"})), Access::Network),
            (call("edit", json!({"path": "a"})), Access::Write),
            (call("bash", json!({"command": "ls"})), Access::Execute),
            (call("bash", json!({"command": "cargo test"})), Access::Execute),
            (call("bash", json!({"command": "curl https://example.com"})), Access::Execute),
        ];
        for (mode, expected) in [
            (Mode::Ask, [Allow, Ask, Ask, Allow, Ask, Ask]),
            (Mode::AcceptEdits, [Allow, Ask, Allow, Allow, Ask, Ask]),
            (Mode::Plan, [Allow, Ask, Deny, Allow, Deny, Deny]),
            (Mode::Auto, [Allow, Ask, Allow, Allow, Allow, Ask]),
            (Mode::Deny, [Allow, Ask, Deny, Deny, Deny, Deny]),
            (Mode::Yolo, [Allow; 6]),
        ] {
            let guard = guard(mode, true);
            let found = calls.each_ref().map(|(call, access)| verdict(&guard, call, *access));
            assert_eq!(found, expected, "{mode}");
        }
    }

    #[test]
    fn without_a_sandbox_every_command_is_asked_for() {
        let ls = call("bash", json!({"command": "ls"}));
        assert_eq!(verdict(&guard(PermissionMode::Auto, false), &ls, Access::Execute), Verdict::Ask);
        assert_eq!(verdict(&guard(PermissionMode::Yolo, false), &ls, Access::Execute), Verdict::Allow);
    }

    #[test]
    fn what_was_allowed_for_the_session_is_not_asked_again() {
        let guard = guard(PermissionMode::Ask, true);
        let build = |command: &str| call("bash", json!({"command": command}));
        let judged = guard.judge(&build("cargo build"), Access::Execute, "/w".into());
        assert_eq!(judged.rules, ["Bash(cargo build:*)"]);
        guard.allow(&build("cargo build"), &judged.rules);
        assert_eq!(verdict(&guard, &build("cargo build --release"), Access::Execute), Verdict::Allow);
        assert_eq!(verdict(&guard, &build("cargo run"), Access::Execute), Verdict::Ask);
        // No rule can say this one.
        let odd = build("eval \"$X\"");
        guard.allow(&odd, &[]);
        assert_eq!(verdict(&guard, &odd, Access::Execute), Verdict::Allow);
    }

    #[test]
    fn leave_is_given_for_what_a_command_would_reach() {
        let guard = guard(PermissionMode::Auto, true);
        let leave =
            |command: &str| guard.judge(&call("bash", json!({"command": command})), Access::Execute, "/w".into()).leave;
        assert_eq!(leave("cargo test"), Leave::default());
        assert_eq!(leave("curl https://example.com"), Leave { network: true, ..Leave::default() });
        assert!(leave("git push").everything);
        assert_eq!(leave("echo x > /srv/data/out").writable, [PathBuf::from("/srv/data/out")]);
    }
}
