//! Walking a tree as people see it: without what git ignores and, unless asked, without hidden files.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use ignore::{WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

/// Whether hidden files are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    Skipped,
    Wanted,
}

/// All files below `root` that pass, in no order. Stops early when cancelled.
pub(super) fn files(
    root: &Path,
    hidden: Hidden,
    cancel: &CancellationToken,
    keep: impl Fn(&Path) -> bool + Sync,
) -> Vec<PathBuf> {
    let (found, files) = mpsc::channel();
    let walk = WalkBuilder::new(root)
        .hidden(hidden == Hidden::Skipped)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .threads(threads())
        .build_parallel();
    walk.run(|| {
        let (found, keep) = (found.clone(), &keep);
        Box::new(move |entry| {
            if cancel.is_cancelled() {
                return WalkState::Quit;
            }
            // What cannot be looked at is passed over, as everywhere in such searches.
            if let Ok(entry) = entry
                && entry.file_type().is_some_and(|kind| kind.is_file())
                && keep(entry.path())
            {
                // The receiver outlives the walk.
                let _ = found.send(entry.into_path());
            }
            WalkState::Continue
        })
    });
    drop(found);
    files.into_iter().collect()
}

/// How many threads a search gets.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}
