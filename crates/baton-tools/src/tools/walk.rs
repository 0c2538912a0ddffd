//! Walking a tree as people see it: without what git ignores and, unless asked, without hidden files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_guard::Verdict;
use baton_guard::path::{Dir, Sight};
use ignore::{WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

/// No search takes more files: whoever searches all of a disk gets a part of it and a word about that.
pub(super) const FILES_MAX: usize = 500_000;

/// Whether hidden files are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Skipped,
    Wanted,
}

/// How far a walk went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walked {
    /// How many files were found.
    pub(super) files: usize,
    /// Whether it stopped there although there were more.
    pub(super) stopped: bool,
    /// How many places could not be looked into.
    pub(super) unreadable: usize,
    /// How many files or directories may not be read.
    pub(super) hidden: usize,
    /// How many files may only be named, and so were not handed on.
    pub(super) unasked: usize,
}

/// What is wanted of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Names,
    Contents,
}

/// What the model is told about what it is not shown.
pub(super) fn hidden_note(hidden: usize) -> Option<String> {
    (hidden > 0).then(|| format!("[{hidden} not shown: a rule denies reading them]"))
}

impl Walked {
    /// What the model is told if that is not all.
    pub(super) fn note(self) -> Option<String> {
        let stopped =
            self.stopped.then(|| format!("[stopped after {} files: narrow the pattern or the path]", self.files));
        let unreadable = (self.unreadable > 0).then(|| format!("[{} places could not be read]", self.unreadable));
        let unasked = (self.unasked > 0).then(|| {
            format!("[{} files not searched: they may hold secrets, so a person has to allow it]", self.unasked)
        });
        let notes: Vec<_> =
            stopped.into_iter().chain(unreadable).chain(hidden_note(self.hidden)).chain(unasked).collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }
}

/// Hands the files below a directory that pass to `found`, by their paths from there, in no order and from several threads,
/// but no more than `max`. Stops early when cancelled. The walk goes by names: whoever takes a file looks at it by the
/// handle of the directory, and says whether it is there.
pub(super) fn files(
    base: &Dir,
    (hidden, wanted, max): (Hidden, Wanted, usize),
    sight: &Sight,
    cancel: &CancellationToken,
    keep: impl Fn(&Path) -> bool + Sync,
    found: impl Fn(PathBuf) -> bool + Sync,
) -> Walked {
    let [count, unreadable, denied, unasked] = [const { AtomicUsize::new(0) }; 4];
    let add = |count: &AtomicUsize| count.fetch_add(1, Ordering::Relaxed);
    let obeys = base.path().ancestors().all(has_plain_ignore_files);
    let walk = WalkBuilder::new(base.path())
        .hidden(hidden == Hidden::Skipped)
        .require_git(false)
        .ignore(obeys)
        .git_ignore(obeys)
        .git_exclude(obeys)
        .parents(obeys)
        .filter_entry(|entry| entry.file_name() != ".git")
        .threads(threads())
        .build_parallel();
    walk.run(|| {
        Box::new(|entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else {
                add(&unreadable);
                return WalkState::Continue;
            };
            let Ok(path) = entry.path().strip_prefix(base.path()) else { return WalkState::Skip };
            let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if !(is_dir || is_file && keep(path)) {
                return WalkState::Continue;
            }
            match sight.of(path) {
                Verdict::Deny => {
                    add(&denied);
                    return WalkState::Skip;
                }
                Verdict::Ask if is_file && wanted == Wanted::Contents => {
                    add(&unasked);
                    return WalkState::Continue;
                }
                Verdict::Allow | Verdict::Ask => {}
            }
            if is_dir && obeys && !has_plain_ignore_files(entry.path()) {
                add(&unreadable);
                return WalkState::Skip;
            }
            if is_file {
                if add(&count) >= max {
                    return WalkState::Quit;
                }
                if !found(path.to_owned()) {
                    count.fetch_sub(1, Ordering::Relaxed);
                }
            }
            WalkState::Continue
        })
    });
    let count = count.into_inner();
    Walked {
        files: count.min(max),
        stopped: count > max,
        unreadable: unreadable.into_inner(),
        hidden: denied.into_inner(),
        unasked: unasked.into_inner(),
    }
}

/// Whether what says which files to ignore in a directory can be read to its end, or is not there. The walker would wait for
/// a pipe, and take all of a device into memory.
fn has_plain_ignore_files(dir: &Path) -> bool {
    const BYTES_MAX: u64 = 4 * 1024 * 1024;
    [".gitignore", ".ignore", ".git/info/exclude"].iter().all(|name| {
        let found = dir.join(name).metadata();
        found.map_or(true, |found| found.is_dir() || found.is_file() && found.len() <= BYTES_MAX)
    })
}

/// How many threads a search gets.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

#[cfg(test)]
mod tests {
    use baton_guard::{Grant, PathGuard, Reach, Rules, Scope};

    use super::*;
    use crate::regular::tests::held;

    fn walk(root: &Path, max: usize, found: impl Fn(PathBuf) -> bool + Sync) -> Walked {
        let base = held(root).into_dir().unwrap();
        let guard = PathGuard::new(Scope::default(), Rules::none(), Reach::Anywhere);
        let (grant, cancel) = (Grant::none(), CancellationToken::new());
        files(&base, (Hidden::Skipped, Wanted::Names, max), &guard.sight(root, &grant), &cancel, |_| true, found)
    }

    const NOTHING: Walked = Walked { files: 0, stopped: false, unreadable: 0, hidden: 0, unasked: 0 };

    #[test]
    fn a_walk_stops_when_it_has_enough() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..20 {
            std::fs::write(dir.path().join(n.to_string()), "").unwrap();
        }
        let walk = |max| {
            let seen = AtomicUsize::new(0);
            let walked = walk(dir.path(), max, |_| {
                seen.fetch_add(1, Ordering::Relaxed);
                true
            });
            assert_eq!(seen.into_inner(), walked.files);
            walked
        };
        assert_eq!(walk(20), Walked { files: 20, ..NOTHING });
        assert_eq!(walk(20).note(), None);
        assert_eq!(walk(7), Walked { files: 7, stopped: true, ..NOTHING });
        assert!(walk(7).note().unwrap().starts_with("[stopped after 7 files"));
    }

    #[test]
    fn what_is_not_there_by_its_handle_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        assert_eq!(walk(dir.path(), 9, |_| false), NOTHING);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let base = held(dir.path()).into_dir().unwrap();
        drop(dir);
        let guard = PathGuard::new(Scope::default(), Rules::none(), Reach::Anywhere);
        let (grant, cancel) = (Grant::none(), CancellationToken::new());
        let sight = guard.sight(base.path(), &grant);
        let walked = files(&base, (Hidden::Skipped, Wanted::Names, 9), &sight, &cancel, |_| true, |_| true);
        assert_eq!(walked.note().as_deref(), Some("[1 places could not be read]"));
    }
}
