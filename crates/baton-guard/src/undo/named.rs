//! What a command names: whether it only reads, which ignored files it is about to delete or overwrite, and what of all
//! that could not be brought back. Pure.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use baton_core::Access;

use super::IGNORED_BYTES_MAX;
use crate::command::{Analysis, Leaves, Part};
use crate::decision::Verdict;
use crate::path::{Place, Scope, shown};

/// Programs that delete whole directories.
const DELETERS: [&str; 14] = [
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "srm",
    "trash",
    "trash-put",
    "rimraf",
    "del",
    "wipe",
    "find",
    "fd",
    "fdfind",
    "rsync",
];

/// What git does to working files without regard to those it ignores: it takes them for worthless.
const GIT_WRITES: [&str; 14] = [
    "checkout",
    "switch",
    "reset",
    "restore",
    "merge",
    "rebase",
    "pull",
    "stash",
    "read-tree",
    "am",
    "apply",
    "cherry-pick",
    "revert",
    "checkout-index",
];

/// What has to be kept before a command runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Whether it changes nothing, so that nothing has to be kept.
    pub is_read_only: bool,
    /// The files and directories that it names.
    pub targets: Vec<Target>,
    /// Which ignored files it is about to change without naming them.
    pub ignored: Ignored,
}

/// A file or directory that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Absolute, without `..`.
    pub path: PathBuf,
    /// Whether it holds wildcards.
    pub is_glob: bool,
    /// Whether it may go with all that is below it.
    pub is_deleted: bool,
}

/// Ignored files that are meant without being named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ignored {
    /// None.
    #[default]
    None,
    /// Those that lie beside files which are not ignored.
    Files,
    /// All.
    All,
}

impl Named {
    /// Reads it out of a command that was looked at.
    pub fn of(analysis: &Analysis, scope: &Scope) -> Self {
        let is_read_only = analysis.findings.iter().all(|finding| finding.decision.verdict == Verdict::Allow);
        if is_read_only {
            return Self { is_read_only, ..Self::default() };
        }
        let deletes = analysis.parts.iter().any(is_deleter);
        let moved: HashSet<&OsStr> = analysis.parts.iter().flat_map(moved).collect();
        let mut targets: Vec<Target> = Vec::new();
        let mut places: HashMap<PathBuf, usize> = HashMap::new();
        let mut add = |path: PathBuf, is_glob: bool, is_deleted: bool| {
            let is_root = path == scope.root || scope.added.contains(&path);
            let is_whole = is_root || scope.root.starts_with(&path);
            let is_deleted = is_deleted && (!is_whole || deletes);
            match places.get(&path) {
                Some(place) => targets[*place].is_deleted |= is_deleted,
                None if scope.place(&path) == Place::Inside => {
                    places.insert(path.clone(), targets.len());
                    targets.push(Target { path, is_glob, is_deleted });
                }
                None => {}
            }
        };
        for used in &analysis.paths {
            let is_moved = used.path.file_name().is_some_and(|name| moved.contains(name));
            let is_deleted = used.access == Access::Write && (deletes || is_moved);
            // `find DIR -name ... -delete` was judged by a file that stands for all that it finds.
            if is_deleted && used.path.file_name().is_some_and(|name| name == "x") && names(analysis, "find") {
                add(used.path.parent().unwrap_or(&used.path).to_owned(), used.glob, true);
            }
            add(used.path.clone(), used.glob, is_deleted);
        }
        let ignored = analysis.parts.iter().map(meant).max().unwrap_or_default();
        Self { is_read_only, targets, ignored }
    }
}

fn names(analysis: &Analysis, program: &str) -> bool {
    analysis.parts.iter().any(|part| part.words.first().is_some_and(|word| word == program))
}

fn is_deleter(part: &Part) -> bool {
    part.words.first().is_some_and(|program| DELETERS.contains(&program.as_str()))
}

/// The names of what a part moves away.
fn moved(part: &Part) -> impl Iterator<Item = &OsStr> {
    let is_move = part.words.first().is_some_and(|program| program == "mv");
    part.words.iter().skip(1).filter(move |_| is_move).filter_map(|word| Path::new(word).file_name())
}

/// Which ignored files a part means without naming them.
fn meant(part: &Part) -> Ignored {
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    let Some((program, words)) = words.split_first() else { return Ignored::None };
    let has_letter = |letters: &[char]| {
        words.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    match *program {
        "git" if words.contains(&"clean") && has_letter(&['x', 'X']) => Ignored::All,
        "git" if words.iter().any(|word| GIT_WRITES.contains(word)) => {
            // A stash with `-a` takes them along, and deletes them.
            if words.contains(&"stash") && (words.contains(&"--all") || has_letter(&['a'])) {
                return Ignored::All;
            }
            Ignored::Files
        }
        // What it deletes is told by another program or by a variable.
        _ if is_deleter(part) && (!part.is_exact || words.iter().all(|word| word.starts_with('-'))) => Ignored::All,
        _ => Ignored::None,
    }
}

/// What was found about files that cannot be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// What is ignored, named, and more than is kept; with its size.
    pub ignored: Vec<(PathBuf, u64)>,
    /// Files that are too large, with their sizes.
    pub large: Vec<(PathBuf, u64)>,
    /// Whether the workspace has more files than are looked at.
    pub is_cut: bool,
}

/// What a command could destroy beyond what an undo brings back, in words for the person who is asked about it.
pub fn what_cannot_be_restored(analysis: &Analysis, named: &Named, scope: &Scope, summary: &Summary) -> Vec<String> {
    if named.is_read_only {
        return Vec::new();
    }
    let list = |files: &[(PathBuf, u64)]| {
        let shown = files.iter().take(5).map(|(path, bytes)| {
            let path = path.strip_prefix(&scope.root).unwrap_or(path);
            format!("{} {}", self::shown(path), bytes_in_words(*bytes))
        });
        let more = files.len().saturating_sub(5);
        let more = (more > 0).then(|| format!("{more} more"));
        shown.chain(more).collect::<Vec<_>>().join(", ")
    };
    let mut said = Vec::new();
    if !summary.ignored.is_empty() {
        let max = bytes_in_words(IGNORED_BYTES_MAX);
        said.push(format!("ignored files (over {max} they are not kept): {}", list(&summary.ignored)));
    }
    if !summary.large.is_empty() {
        said.push(format!("files that are too large to keep: {}", list(&summary.large)));
    }
    if summary.is_cut {
        said.push("files beyond the first 300,000 of the workspace".to_owned());
    }
    let mut outside: Vec<String> = Vec::new();
    for used in analysis.paths.iter().filter(|used| used.access == Access::Write) {
        let is_kept = scope.place(&used.path) == Place::Inside || used.path.starts_with("/dev");
        if !is_kept && !outside.contains(&shown(&used.path)) {
            outside.push(shown(&used.path));
        }
    }
    if !outside.is_empty() {
        said.push(format!("files outside of the workspace: {}", outside.join(", ")));
    }
    if analysis.findings.iter().any(|finding| {
        let rule = finding.decision.rule.as_ref();
        finding.leaves != Leaves::Not
            && (rule.starts_with("net.") || rule.starts_with("git.network") || rule.starts_with("exfil."))
    }) {
        said.push("what it does on other machines".to_owned());
    }
    said
}

/// A size as people say it.
pub fn bytes_in_words(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} bytes"),
    }
}
