//! Trust: whether the person has said yes to what a repository would make Baton or git do, in its present content.
//!
//! [`survey`] looks at the files that count; [`state`] compares them with what was trusted; [`Ledger`] keeps that. Until a
//! repository is trusted, nothing of it is started and nothing of it allows more.

mod ledger;
mod survey;

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

pub use ledger::{Ledger, LedgerError, Record};
pub use survey::{Keep, survey};

/// One file that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its path from the root, with everything written out that could be taken for something else.
    pub path: String,
    /// The hash of what it is and holds.
    pub hash: String,
    /// Why it can never be trusted, if so.
    pub problem: Option<String>,
    /// What it holds, where that was asked for and is not too long.
    pub content: Option<Vec<u8>>,
}

/// Everything in a repository that counts, in the order of the paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    items: Vec<Item>,
}

impl Survey {
    /// A survey of these; of two with one path, the first counts.
    pub fn new(mut items: Vec<Item>) -> Self {
        items.sort_by(|a, b| a.path.cmp(&b.path));
        items.dedup_by(|a, b| a.path == b.path);
        Self { items }
    }

    /// The files.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// One hash for all of it: any change of any file, name or number of files makes another one.
    pub fn hash(&self) -> String {
        hash_of(&self.hashes())
    }

    /// The hash of each file.
    pub fn hashes(&self) -> BTreeMap<String, String> {
        self.items.iter().map(|item| (item.path.clone(), item.hash.clone())).collect()
    }
}

fn hash_of(files: &BTreeMap<String, String>) -> String {
    let mut hasher = Sha256::new();
    for part in files.iter().flat_map(|(path, hash)| [path, hash]) {
        // With its length, so that no part can take the place of two.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// How a file differs from what was trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was not there.
    New,
    /// It was another.
    Changed,
    /// It is not there any more.
    Removed,
    /// It can never be trusted.
    Refused,
}

/// A file that is not as trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its path, as in [`Item`].
    pub path: String,
    /// How it differs.
    pub change: Change,
}

/// Whether a repository is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It has nothing that would need it.
    Nothing,
    /// It is, as it is.
    Trusted,
    /// It was, before these files changed.
    Changed(Vec<Difference>),
    /// It never was; these files count.
    Untrusted(Vec<Difference>),
}

/// Compares what is there with what was trusted.
pub fn state(survey: &Survey, trusted: Option<&Record>) -> State {
    let none = BTreeMap::new();
    let known = trusted.map_or(&none, |record| &record.files);
    let mut differences = Vec::new();
    for item in &survey.items {
        let change = match known.get(&item.path) {
            _ if item.problem.is_some() => Change::Refused,
            None => Change::New,
            Some(hash) if *hash != item.hash => Change::Changed,
            Some(_) => continue,
        };
        differences.push(Difference { path: item.path.clone(), change });
    }
    let gone = known.keys().filter(|path| survey.items.binary_search_by(|item| item.path.cmp(path)).is_err());
    differences.extend(gone.map(|path| Difference { path: path.clone(), change: Change::Removed }));
    match (trusted, differences.is_empty()) {
        _ if survey.items.is_empty() => State::Nothing,
        (Some(record), true) if record.hash == hash_of(&record.files) => State::Trusted,
        (Some(_), _) => State::Changed(differences),
        (None, _) => State::Untrusted(differences),
    }
}

/// What a file would do, by where it lies.
pub fn purpose(path: &str) -> &'static str {
    let below = |dir: &str| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    if path.ends_with(".git/config") {
        "programs that git starts"
    } else if path.contains(".git/hooks/") || path.starts_with("(git hooks)") {
        "a program that git starts by itself"
    } else if matches!(path, ".baton/config.jsonc" | ".baton/local.jsonc") {
        "settings: what it allows, and limits"
    } else if path == ".mcp.json" {
        "programs that serve tools"
    } else if path.starts_with(".claude/settings") {
        "hooks, permissions and variables"
    } else if below(".baton/workflows") {
        "a workflow: which agents and commands run"
    } else if [".baton/agents", ".claude/agents", ".baton/team"].into_iter().any(below) {
        "an agent: its instructions and tools"
    } else if [".baton/skills", ".agents/skills", ".claude/skills"].into_iter().any(below) {
        "a skill: instructions, and scripts that go with them"
    } else if [".baton/commands", ".claude/commands"].into_iter().any(below) {
        "a command: a prompt under a name"
    } else if below(".baton/rules") {
        "instructions for every agent"
    } else {
        "part of the project's definitions"
    }
}

#[cfg(test)]
mod tests;
