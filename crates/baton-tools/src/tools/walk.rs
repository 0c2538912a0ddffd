//! Walking a tree as people see it: without what git ignores and, unless asked, without hidden files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

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
}

impl Walked {
    /// What the model is told if that is not all.
    pub(super) fn note(self) -> Option<String> {
        let stopped =
            self.stopped.then(|| format!("[stopped after {} files: narrow the pattern or the path]", self.files));
        let unreadable = (self.unreadable > 0).then(|| format!("[{} places could not be read]", self.unreadable));
        let notes: Vec<_> = stopped.into_iter().chain(unreadable).collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }
}

/// Hands the files below `root` that pass to `found`, in no order and from several threads, but no more than `max`. Stops
/// early when cancelled.
pub(super) fn files(
    root: &Path,
    hidden: Hidden,
    max: usize,
    cancel: &CancellationToken,
    keep: impl Fn(&Path) -> bool + Sync,
    found: impl Fn(PathBuf) + Sync,
) -> Walked {
    let (count, unreadable) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let walk = WalkBuilder::new(root)
        .hidden(hidden == Hidden::Skipped)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .threads(threads())
        .build_parallel();
    walk.run(|| {
        Box::new(|entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else {
                unreadable.fetch_add(1, Ordering::Relaxed);
                return WalkState::Continue;
            };
            if entry.file_type().is_some_and(|kind| kind.is_file()) && keep(entry.path()) {
                if count.fetch_add(1, Ordering::Relaxed) >= max {
                    return WalkState::Quit;
                }
                found(entry.into_path());
            }
            WalkState::Continue
        })
    });
    let count = count.into_inner();
    Walked { files: count.min(max), stopped: count > max, unreadable: unreadable.into_inner() }
}

/// How many threads a search gets.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_stops_when_it_has_enough() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..20 {
            std::fs::write(dir.path().join(n.to_string()), "").unwrap();
        }
        let walk = |max| {
            let seen = AtomicUsize::new(0);
            let count = |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            };
            let walked = files(dir.path(), Hidden::Skipped, max, &CancellationToken::new(), |_| true, count);
            assert_eq!(seen.into_inner(), walked.files);
            walked
        };
        assert_eq!(walk(20), Walked { files: 20, stopped: false, unreadable: 0 });
        assert_eq!(walk(20).note(), None);
        assert_eq!(walk(7), Walked { files: 7, stopped: true, unreadable: 0 });
        assert!(walk(7).note().unwrap().starts_with("[stopped after 7 files"));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let missing = Path::new("/nowhere/at/all");
        let walked = files(missing, Hidden::Skipped, 9, &CancellationToken::new(), |_| true, |_| ());
        assert_eq!(walked.note().as_deref(), Some("[1 places could not be read]"));
    }
}
