//! Plans: what an agent wants to do, the commands and paths it needs for that, and the hash that an approval is bound to.
//!
//! A [`Plan`] is checked when it is made, so that a person is asked about nothing that could not be granted. Its grants are
//! rules like others: what is denied stays denied, and a command is matched as a whole.

mod kept;

use baton_core::{Access, PermissionMode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use kept::{PlanError, Plans};

use crate::command::analyse;
use crate::decision::Verdict;
use crate::evaluate::{Context, evaluate_command};
use crate::path::{Scope, asked_before_writing, escaped, is_hidden, normalise};
use crate::rule::{Origin, PermissionSettings, Rule, RuleError, Rules, has_subcommands, spec_of};

/// The longest plan.
const TEXT_MAX: usize = 64 * 1024;
/// The most commands, and the most paths: what a person can be expected to read.
const GRANTS_MAX: usize = 50;
/// The longest command or path.
const GRANT_MAX: usize = 1000;

/// A plan that can be approved. The fields are in the order in which they are hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    commands: Vec<String>,
    paths: Vec<String>,
    #[serde(rename = "plan")]
    text: String,
}

impl Plan {
    /// A plan in markdown, with the commands that are to run and the files that are to be written, as the agent names them.
    /// Otherwise everything that is wrong with it, for the agent.
    pub fn new(
        plan: &str,
        commands: &[String],
        paths: &[String],
        rules: &Rules,
        scope: &Scope,
    ) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        if plan.trim().is_empty() {
            problems.push("the plan is empty: say what you would do, and why".to_owned());
        }
        if plan.len() > TEXT_MAX {
            problems.push(format!("the plan has {} bytes; a person reads at most {TEXT_MAX}", plan.len()));
        }
        for (what, list) in [("commands", commands), ("paths", paths)] {
            if list.len() > GRANTS_MAX {
                problems.push(format!("{} {what} are more than a person can judge; at most {GRANTS_MAX}", list.len()));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut found = Self { commands: Vec::new(), paths: Vec::new(), text: plan.to_owned() };
        let mut take =
            |list: fn(&mut Self) -> &mut Vec<String>, grant: &str, checked: Result<String, String>| match checked {
                Ok(checked) if list(&mut found).contains(&checked) => {}
                Ok(checked) => list(&mut found).push(checked),
                Err(problem) => problems.push(format!("`{}`: {problem}", escaped(grant))),
            };
        for path in paths {
            take(|plan| &mut plan.paths, path, checked_path(path, rules, scope));
        }
        for command in commands {
            take(|plan| &mut plan.commands, command, checked_command(command));
        }
        // What a command needs may be granted by a path, so all of it is there first.
        let mut granted = rules.clone();
        match found.rules() {
            Ok(found) => granted.join(&found),
            Err(error) => problems.push(error.to_string()),
        }
        let context = Context { scope: scope.clone(), sandboxed: true, hosts: Vec::new() };
        for command in &found.commands {
            if let Err(problem) = usable(command, &granted, &context) {
                problems.push(format!("`{}`: {problem}", escaped(command)));
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(problems) }
    }

    /// The plan itself, in markdown.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 over all of it, in hexadecimal digits. Another plan, or another grant, is another hash.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.canonical());
        digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// The one text that stands for it: JSON without blanks, the names in their order.
    fn canonical(&self) -> String {
        // Strings and lists of strings can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What it grants, as a person is shown it.
    pub fn grants(&self) -> Vec<String> {
        let commands = self.commands.iter().map(|command| format!("Bash({command})"));
        commands.chain(self.paths.iter().map(|path| format!("Edit({path})"))).collect()
    }

    /// Which plan it is and what it grants, for records.
    pub fn in_one_line(&self) -> String {
        format!("{} {}", self.hash(), self.grants().join(" "))
    }

    /// What it grants, for the guard. A pattern does not reach files that have to be asked for wherever they lie. To write a
    /// file is to read it, too.
    pub fn rules(&self) -> Result<Rules, RuleError> {
        let outside = self.paths.iter().filter(|path| !path.starts_with("./")).map(|path| format!("Read({path})"));
        let excepted = asked_before_writing().flat_map(|path| [format!("Edit(!{path})"), format!("Read(!{path})")]);
        let allow = self.grants().into_iter().chain(outside).chain(excepted).collect();
        let mut rules = Rules::none();
        rules.add(&PermissionSettings { allow, ..PermissionSettings::default() }, Origin::Trusted)?;
        Ok(rules)
    }
}

/// The command as a rule says it, or what is wrong with it.
fn checked_command(command: &str) -> Result<String, String> {
    let command = command.trim();
    plain(command)?;
    let words = command.strip_suffix(":*").unwrap_or(command);
    if words.contains(['*', '?', '[']) {
        return Err("has a wildcard; name the exact words, with `:*` behind them if any others may follow".to_owned());
    }
    if words != command && has_subcommands(words) {
        return Err(format!("leaves open what `{words}` does; name its subcommand, too, like `{words} …:*`"));
    }
    Rule::parse(&format!("Bash({command})")).map_err(|error| format!("{}; write {}", error.problem, error.instead))?;
    Ok(command.to_owned())
}

/// Whether a command would run with these rules.
fn usable(command: &str, rules: &Rules, context: &Context) -> Result<(), String> {
    let (words, is_prefix) = match command.strip_suffix(":*") {
        Some(words) => (words, true),
        None => (command, false),
    };
    let decision = evaluate_command(&analyse(words, &context.scope), PermissionMode::Ask, rules, context);
    match decision.verdict {
        Verdict::Deny => Err(format!("cannot be granted: {} [{}]", decision.reason, decision.rule)),
        // What follows the words decides, too.
        Verdict::Ask if !is_prefix => Err(format!(
            "would have to be asked for all the same: {} [{}]. Name each command by itself, and the files that it writes in \
             `paths`",
            decision.reason, decision.rule
        )),
        Verdict::Allow | Verdict::Ask => Ok(()),
    }
}

/// The path as a rule says it, or what is wrong with it: from the workspace, from the home directory, or from the root.
fn checked_path(path: &str, rules: &Rules, scope: &Scope) -> Result<String, String> {
    let path = path.trim();
    plain(path)?;
    if path.starts_with('!') {
        return Err("excepts something; name what is to be written".to_owned());
    }
    let meant = normalise(&scope.meant(path));
    let spec = spec_of(&meant, scope);
    Rule::parse(&format!("Edit({spec})")).map_err(|error| format!("{}; write {}", error.problem, error.instead))?;
    let judged = scope.judge(&meant, Access::Write, false);
    match judged.verdict {
        Verdict::Deny => return Err(format!("cannot be granted: {} [{}]", judged.reason, judged.rule)),
        Verdict::Ask if judged.rule != "path.write-outside" => {
            return Err(format!("is asked for every time: {} [{}]. Leave it out", judged.reason, judged.rule));
        }
        Verdict::Allow | Verdict::Ask => {}
    }
    let by_rule = rules.decide(|rule| rule.matches_path(&meant, Access::Write, false, scope));
    match by_rule {
        Some(by_rule) if by_rule.verdict > Verdict::Allow => Err(format!("cannot be granted: {}", by_rule.reason)),
        _ => Ok(spec),
    }
}

/// Whether a grant shows what it is.
fn plain(grant: &str) -> Result<(), String> {
    match grant {
        "" => Err("is empty".to_owned()),
        grant if grant.len() > GRANT_MAX => Err(format!("is longer than {GRANT_MAX} bytes")),
        grant if grant.contains(|c| is_hidden(c) || matches!(c, '\n' | '\t')) => {
            Err("holds characters that are not shown, or more than one line".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
