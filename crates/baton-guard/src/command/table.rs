//! The table of what is known about programs, wrappers, shells and variables: data, read once when it is first needed.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::decision::Verdict;
use crate::path::wildcard;
use crate::shipped;

pub(super) const SHIPPED: &str = include_str!("table.jsonc");

/// Everything in the table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    pub(super) programs: Vec<Entry>,
    wrappers: Vec<Wrapper>,
    shells: Vec<String>,
    variables: Variables,
    git_settings: Vec<String>,
    phrases: Vec<Phrase>,
}

/// What a program is, which decides how its words are read and what it can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    Read,
    Text,
    Pattern,
    Code,
    Write,
    Copy,
    Destroy,
    Network,
    Control,
    Decode,
}

/// What is known about some programs.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) level: Verdict,
    pub(super) class: Class,
    pub(super) reason: String,
    pub(super) programs: Vec<String>,
    #[serde(default)]
    pub(super) sub: Vec<String>,
    #[serde(default)]
    sub_exact: Vec<String>,
    #[serde(default)]
    pub(super) values: Vec<String>,
    #[serde(default)]
    pub(super) deny: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) ask: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) writes: BTreeMap<String, String>,
    /// Options that are harmless with some of the programs: `-x`, or `program -x`, or `sub -x`.
    #[serde(default)]
    pub(super) safe: Vec<String>,
    pub(super) max: Option<usize>,
    /// Whether short options can stand together behind one dash.
    #[serde(default = "yes")]
    pub(super) bundles: bool,
    pub(super) check: Option<String>,
    #[cfg(test)]
    #[serde(default, rename = "match")]
    pub(super) matches: Vec<String>,
    #[cfg(test)]
    #[serde(default)]
    pub(super) other: Vec<String>,
}

fn yes() -> bool {
    true
}

/// A program that runs the program which its words name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wrapper {
    programs: Vec<String>,
    #[serde(default)]
    pub(super) values: Vec<String>,
    #[serde(default)]
    pub(super) skip: usize,
    pub(super) level: Option<Verdict>,
    #[serde(default)]
    pub(super) reason: String,
    /// More arguments come from elsewhere.
    #[serde(default)]
    pub(super) open: bool,
    /// Its words, or the value of this option, are a command line of the shell.
    pub(super) shell: Option<String>,
    /// It has words of its own, too: whatever among its words names a program to be denied is looked for.
    #[serde(default)]
    pub(super) search: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variables {
    safe: Vec<String>,
    deny: Vec<String>,
}

/// Words that together mean something: `gh auth token`. Other words may stand between them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrase {
    pub(super) words: String,
    pub(super) reason: String,
}

/// The table, ready for look-ups.
pub(super) struct Table {
    pub(super) data: Data,
    by_name: HashMap<String, Vec<usize>>,
    by_pattern: Vec<(String, usize)>,
    phrases: HashMap<String, Vec<usize>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let data: Data = shipped::read(SHIPPED);
    let mut table = Table { by_name: HashMap::new(), by_pattern: Vec::new(), phrases: HashMap::new(), data };
    for (n, entry) in table.data.programs.iter().enumerate() {
        for name in &entry.programs {
            if name.contains('*') {
                table.by_pattern.push((name.clone(), n));
            } else {
                table.by_name.entry(name.clone()).or_default().push(n);
            }
        }
    }
    for (n, phrase) in table.data.phrases.iter().enumerate() {
        let program = phrase.words.split(' ').next().unwrap_or_default();
        table.phrases.entry(program.to_owned()).or_default().push(n);
    }
    table
});

impl Table {
    pub(super) fn get() -> &'static Self {
        &TABLE
    }

    /// The entry for a program and its words, of which `words` begins with the subcommand.
    pub(super) fn entry(&self, program: &str, words: &[&str]) -> Option<&Entry> {
        let named = self.by_name.get(program).into_iter().flatten().copied();
        let like = self.by_pattern.iter().filter(|(pattern, _)| wildcard(pattern, program)).map(|(_, n)| *n);
        let mut best: Option<(usize, &Entry)> = None;
        for entry in named.chain(like).map(|n| &self.data.programs[n]) {
            let Some(rank) = entry.rank(words) else { continue };
            if best.is_none_or(|(found, _)| rank > found) {
                best = Some((rank, entry));
            }
        }
        best.map(|(_, entry)| entry)
    }

    pub(super) fn wrapper(&self, program: &str) -> Option<&Wrapper> {
        self.data.wrappers.iter().find(|wrapper| wrapper.programs.iter().any(|name| name == program))
    }

    pub(super) fn is_shell(&self, program: &str) -> bool {
        self.data.shells.iter().any(|name| name == program)
    }

    pub(super) fn is_program(&self, name: &str) -> bool {
        self.by_name.contains_key(name) || self.wrapper(name).is_some() || self.is_shell(name)
    }

    /// Names of programs that a pattern could stand for.
    pub(super) fn names_like(&self, pattern: &str) -> Vec<String> {
        let names = self.by_name.keys().chain(&self.data.shells);
        let mut found: Vec<_> = names.filter(|name| wildcard(pattern, name)).cloned().collect();
        found.sort();
        found
    }

    /// Whether setting a variable is harmless (`Allow`), poisonous (`Deny`) or unknown.
    pub(super) fn variable(&self, name: &str) -> Verdict {
        let in_list = |list: &[String]| list.iter().any(|pattern| wildcard(pattern, name));
        if in_list(&self.data.variables.safe) {
            Verdict::Allow
        } else if in_list(&self.data.variables.deny) {
            Verdict::Deny
        } else {
            Verdict::Ask
        }
    }

    /// Whether a setting of git makes it run or load something.
    pub(super) fn git_setting_runs(&self, key: &str) -> bool {
        let key = key.to_lowercase();
        self.data.git_settings.iter().any(|pattern| wildcard(pattern, &key))
    }

    /// What the words of a program mean together.
    pub(super) fn phrase(&self, program: &str, words: &[&str]) -> Option<&Phrase> {
        let phrases = self.phrases.get(program).into_iter().flatten().map(|n| &self.data.phrases[*n]);
        phrases.into_iter().find(|phrase| {
            let mut wanted = phrase.words.split(' ').skip(1).peekable();
            for word in words {
                if wanted.peek().is_some_and(|pattern| wildcard(pattern, word)) {
                    wanted.next();
                }
            }
            wanted.peek().is_none()
        })
    }
}

impl Entry {
    /// How well it fits: the more words the better; none if it is for other words.
    fn rank(&self, words: &[&str]) -> Option<usize> {
        if !self.sub_exact.is_empty() {
            return (words.len() == 1 && self.sub_exact.iter().any(|sub| sub == words[0])).then_some(100);
        }
        if self.sub.is_empty() {
            return Some(0);
        }
        let fits = |sub: &String| {
            let mut wanted = sub.split(' ');
            let length = sub.split(' ').count();
            (words.len() >= length && words.iter().take(length).all(|word| wanted.next() == Some(word)))
                .then_some(length)
        };
        self.sub.iter().filter_map(fits).max()
    }

    /// Whether an option is harmless with this program or subcommand.
    pub(super) fn is_safe(&self, program: &str, sub: &str, option: &str) -> bool {
        self.safe.iter().any(|safe| match safe.split_once(' ') {
            Some((of, safe)) => safe == option && (of == program || of == sub),
            None => safe == option,
        })
    }

    /// Whether its words can make it do more than its level says.
    pub(super) fn has_options(&self) -> bool {
        self.check.is_some() || !(self.deny.is_empty() && self.ask.is_empty() && self.writes.is_empty())
    }
}
