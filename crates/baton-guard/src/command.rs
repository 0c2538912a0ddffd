//! Shell commands, judged before they run: every simple command in them, however it is wrapped, and every file they name.

mod check;
mod expand;
mod invoke;
mod judge;
mod options;
mod parse;
mod syntax;
mod table;
mod walk;
mod word;

use std::path::PathBuf;

use baton_core::{Access, HostPattern, HostPort};

use crate::decision::Decision;
use crate::path::{Scope, is_hidden};

pub use parse::SyntaxError;

/// The longest command that is looked at. Linux takes no longer argument, so bash could not be given it.
const LENGTH_MAX: usize = 128 * 1024;

/// What a command would do.
#[derive(Debug, Default)]
pub struct Analysis {
    /// Every simple command, with wrappers and what they run as parts of their own.
    pub parts: Vec<Part>,
    /// What was found, in the order of the command.
    pub findings: Vec<Finding>,
    /// The files that are named.
    pub paths: Vec<PathUse>,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The program, without the directory of a system program, and its arguments.
    pub words: Vec<String>,
    /// Whether these are the words that bash will pass, and not a guess.
    pub is_exact: bool,
}

/// Something that decides about a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it decides.
    pub decision: Decision,
    /// What it is about, which says which rules of a person can settle it.
    pub about: About,
    /// Whether it would reach beyond a sandbox: the network, files outside, other processes.
    pub leaves: Leaves,
}

/// How something would reach beyond a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// Not at all.
    Not,
    /// By asking servers of the web, which a proxy can do for it.
    ByWeb,
    /// In a way that needs more than a sandbox gives.
    Beyond,
}

impl Leaves {
    /// Beyond, or not at all.
    fn beyond(is_beyond: bool) -> Self {
        if is_beyond { Self::Beyond } else { Self::Not }
    }
}

impl Analysis {
    /// Whether a finding would reach beyond a sandbox whose commands have a proxy to these hosts. What asks servers of the
    /// web stays inside if its words say that it asks those: then it can only succeed there.
    pub fn leaves(&self, finding: &Finding, hosts: &[HostPattern]) -> bool {
        match (finding.leaves, finding.about) {
            (Leaves::Not, _) => false,
            (Leaves::ByWeb, About::Part(number)) => {
                !self.parts.get(number).is_some_and(|part| part.is_exact && asks_only(&part.words, hosts))
            }
            (Leaves::ByWeb | Leaves::Beyond, _) => true,
        }
    }
}

/// Whether the words name servers of the web, and none but these.
fn asks_only(words: &[String], hosts: &[HostPattern]) -> bool {
    let is_listed =
        |url: &String| HostPort::of_url(url).is_some_and(|asked| hosts.iter().any(|pattern| pattern.covers(&asked)));
    let mut urls = words.iter().filter(|word| word.contains("://")).peekable();
    urls.peek().is_some() && urls.all(is_listed)
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The command as a whole.
    Whole,
    /// The part of this number: a rule for that program can settle it.
    Part(usize),
    /// The path of this number: a rule for that path can settle it.
    Path(usize),
}

/// A file that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathUse {
    /// Where it is: absolute, without `..`.
    pub path: PathBuf,
    /// What is done to it.
    pub access: Access,
    /// Whether it holds wildcards.
    pub glob: bool,
}

/// Whether a word is the name of a program that is known.
pub(crate) fn is_program(word: &str) -> bool {
    table::Table::get().is_program(word)
}

/// Looks at a command that would be run by `bash -c` in `scope.cwd`.
pub fn analyse(text: &str, scope: &Scope) -> Analysis {
    let mut walker = walk::Walker::new(scope);
    if text.len() > LENGTH_MAX {
        walker.deny("shell.too-long", "the command is longer than the system takes; write a script and run that");
        return walker.finish();
    }
    if text.contains('\0') {
        walker.deny("shell.nul", "the command holds a NUL byte, which no program can be given");
        return walker.finish();
    }
    if text.contains(is_hidden) {
        walker.ask("shell.hidden-characters", "the command holds characters that a terminal obeys or does not show");
    }
    walker.text(text);
    walker.finish()
}

#[cfg(test)]
mod tests;
