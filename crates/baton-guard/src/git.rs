//! Git, without what a repository would make it do: the one way in which Baton calls it, and variables that make it start
//! none of a repository's programs where an agent calls it.

mod config;
mod programs;
mod repository;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program;
use config::Setting;

pub(crate) use repository::{Control, children, control};

/// Variables that hold whatever the settings say.
const FIXED: [(&str, &str); 9] = [
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Settings for proxies count only where this is not set.
    ("GIT_PROXY_COMMAND", ""),
    // An object that is missing would be fetched, by a program that the settings name.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Settings for our own calls that need nothing of what they switch off.
const OWN: [(&str, &str); 14] = [
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("diff.ignoreSubmodules", "all"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("init.templateDir", ""),
    ("core.untrackedCache", "false"),
    ("core.commitGraph", "false"),
];

/// Git in a directory, for Baton itself: no hooks, pagers, editors, helpers, filters or other programs, no prompts, no
/// network, nothing of git's variables in our own environment, and no work tree but this directory's.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(git());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    let control = repository::control_below(dir);
    let named = programs::neutralised(control.settings.iter());
    let own = OWN.map(|(key, value)| (key.to_owned(), value.to_owned()));
    command.envs(variables(named.into_iter().chain(own), 0));
    command.envs(FIXED).env("GIT_ALLOW_PROTOCOL", "none");
    if control.is_unknown {
        command.env("GIT_DIR", "/dev/null");
    } else if let Some(tree) = false_work_tree(dir, &control) {
        command.env("GIT_WORK_TREE", tree);
    }
    command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How much is taken from git in a directory whose repository is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quiet {
    /// The repository names programs, and is not trusted: none of them is started.
    Untrusted,
    /// The repository names none; what lies in directories below it may.
    Unnamed,
}

/// Variables for the commands of agents, under which git starts no program that the repository at `root`, or one below
/// it, names. What the person has set for all repositories goes on to count, apart from hooks where there are ones to be
/// kept from running.
pub fn quiet(root: &Path, how: Quiet) -> Vec<(OsString, OsString)> {
    let control = match how {
        Quiet::Untrusted => repository::control_below(root),
        Quiet::Unnamed => Control::default(),
    };
    let mut set = programs::neutralised(control.settings.iter());
    if how == Quiet::Untrusted {
        set.push(("core.hooksPath".to_owned(), "/dev/null".to_owned()));
    }
    // What is in the environment already keeps its numbers.
    let count = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut vars = variables(set.into_iter(), count);
    if how == Quiet::Untrusted {
        vars.extend(FIXED.map(|(name, value)| (name.into(), value.into())));
        if control.is_unknown {
            vars.push(("GIT_DIR".into(), "/dev/null".into()));
        } else if let Some(tree) = false_work_tree(root, &control) {
            vars.push(("GIT_WORK_TREE".into(), tree.into()));
        }
    }
    vars.extend(search_path().map(|path| ("PATH".into(), path)));
    vars
}

/// Settings as variables, numbered from `first`.
fn variables(set: impl Iterator<Item = (String, String)>, first: usize) -> Vec<(OsString, OsString)> {
    let mut vars = Vec::new();
    let mut count = first;
    for (key, value) in set {
        vars.push((format!("GIT_CONFIG_KEY_{count}").into(), key.into()));
        vars.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.into()));
        count += 1;
    }
    vars.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    vars
}

/// The work tree that has to be named because the settings name one elsewhere: git would read and write there.
fn false_work_tree(root: &Path, control: &Control) -> Option<PathBuf> {
    let setting = control.settings.iter().rev().find(|setting| setting.key == "core.worktree")?;
    let named = repository::git_dir(root)?.join(setting.value.as_deref().unwrap_or_default());
    let own = root.canonicalize().ok()?;
    (named.canonicalize().ok().as_deref() != Some(&own)).then_some(own)
}

/// What of a repository's settings names programs, for people and for hashes: one line each, in order.
pub(crate) fn programs_named(control: &Control) -> String {
    let named = control.settings.iter().filter(|setting| {
        programs::names_program(setting) || setting.key == "include.path" || setting.key.starts_with("includeif.")
    });
    // Written so that no two lists look the same.
    let line = |Setting { key, value }: &Setting| {
        format!("{} = {:?}\n", key.replace('=', "\\u{3d}"), value.as_deref().unwrap_or("true"))
    };
    named.map(line).collect::<Vec<_>>().concat()
}

fn git() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program::find("git", &path).unwrap_or_else(|| PathBuf::from("/usr/bin/git"))
}

/// The path without relative entries, if it has any: with them a program of the repository would be started by the name
/// of another.
fn search_path() -> Option<OsString> {
    without_relative(&std::env::var_os("PATH")?)
}

fn without_relative(path: &OsStr) -> Option<OsString> {
    let all: Vec<PathBuf> = std::env::split_paths(path).collect();
    let kept: Vec<&PathBuf> = all.iter().filter(|dir| dir.is_absolute()).collect();
    if kept.len() == all.len() { None } else { std::env::join_paths(kept).ok() }
}

#[cfg(test)]
mod tests;
