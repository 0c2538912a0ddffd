//! Walking a tree as people see it: without what git ignores and, unless asked, without hidden files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_guard::Verdict;
use baton_guard::path::{Dir, Glance, Near, Sight};
use ignore::{DirEntry, WalkBuilder, WalkState};
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

/// What a walk is for.
pub(super) struct Walk<'a, K> {
    pub(super) base: &'a Dir,
    pub(super) hidden: Hidden,
    pub(super) wanted: Wanted,
    pub(super) sight: &'a Sight<'a>,
    pub(super) cancel: &'a CancellationToken,
    /// Which files are wanted, by their paths from the base.
    pub(super) keep: K,
}

/// What was met on the way.
#[derive(Default)]
struct Met {
    files: AtomicUsize,
    unreadable: Arc<AtomicUsize>,
    denied: AtomicUsize,
    unasked: AtomicUsize,
}

impl Met {
    fn walked(&self, max: usize) -> Walked {
        let number = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let files = number(&self.files);
        Walked {
            files: files.min(max),
            stopped: files > max,
            unreadable: number(&self.unreadable),
            hidden: number(&self.denied),
            unasked: number(&self.unasked),
        }
    }
}

/// What one entry is to a walk.
enum Step<'a> {
    /// A file that is wanted.
    File(&'a Path),
    /// Nothing by itself.
    On,
    /// Nothing below is looked at.
    Over,
}

fn add(count: &AtomicUsize) -> usize {
    count.fetch_add(1, Ordering::Relaxed)
}

impl<K: Fn(&Path) -> bool + Sync> Walk<'_, K> {
    /// Hands the files to `found`, by their paths from the base, in no order and from several threads, but no more than
    /// `max`. Stops early when cancelled. The walk goes by names: whoever takes a file looks at it by the handle of the
    /// directory, and says whether it is there.
    pub(super) fn all(&self, max: usize, found: impl Fn(&mut Near<'_>, PathBuf) -> bool + Sync) -> Walked {
        let met = Met::default();
        self.builder(&met).threads(threads()).build_parallel().run(|| {
            let (mut glance, mut near) = (self.sight.glance(), self.base.near());
            let (met, found) = (&met, &found);
            Box::new(move |entry| {
                if self.cancel.is_cancelled() {
                    return WalkState::Quit;
                }
                match self.step(&entry, &mut glance, met) {
                    Step::On => {}
                    Step::Over => return WalkState::Skip,
                    Step::File(path) => {
                        if add(&met.files) >= max {
                            return WalkState::Quit;
                        }
                        if !found(&mut near, path.to_owned()) {
                            met.files.fetch_sub(1, Ordering::Relaxed);
                        }
                    }
                }
                WalkState::Continue
            })
        });
        met.walked(max)
    }

    /// The first files in the order of their paths, and whether there may be more.
    pub(super) fn first(&self, max: usize) -> (Vec<PathBuf>, Walked) {
        let met = Met::default();
        let (mut files, mut over) = (Vec::new(), None::<PathBuf>);
        let mut glance = self.sight.glance();
        for entry in self.builder(&met).sort_by_file_name(Ord::cmp).build() {
            let is_over = |entry: &DirEntry| over.as_ref().is_some_and(|over| entry.path().starts_with(over));
            if entry.as_ref().is_ok_and(is_over) {
                continue;
            }
            match self.step(&entry, &mut glance, &met) {
                Step::On => {}
                Step::Over => over = entry.ok().map(DirEntry::into_path),
                Step::File(path) => {
                    if add(&met.files) >= max || self.cancel.is_cancelled() {
                        break;
                    }
                    files.push(path.to_owned());
                }
            }
        }
        (files, met.walked(max))
    }

    fn builder(&self, met: &Met) -> WalkBuilder {
        let top = self.base.path();
        let obeys = top.ancestors().all(has_plain_ignore_files);
        let unreadable = Arc::clone(&met.unreadable);
        let mut walk = WalkBuilder::new(top);
        walk.hidden(self.hidden == Hidden::Skipped)
            .require_git(false)
            .ignore(obeys)
            .git_ignore(obeys)
            .git_exclude(obeys)
            .parents(obeys)
            // Asked before anything is read in a directory.
            .filter_entry(move |entry| {
                if entry.file_name() == ".git" {
                    return false;
                }
                let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
                let is_plain = !(is_dir && obeys) || has_plain_ignore_files(entry.path());
                if !is_plain {
                    add(&unreadable);
                }
                is_plain
            });
        walk
    }

    fn step<'a>(&self, entry: &'a Result<DirEntry, ignore::Error>, glance: &mut Glance<'_>, met: &Met) -> Step<'a> {
        let Ok(entry) = entry else {
            add(&met.unreadable);
            return Step::On;
        };
        let Ok(path) = entry.path().strip_prefix(self.base.path()) else { return Step::Over };
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !(is_dir || is_file && (self.keep)(path)) {
            return Step::On;
        }
        match glance.of(path) {
            Verdict::Deny => {
                add(&met.denied);
                Step::Over
            }
            Verdict::Ask if is_file && self.wanted == Wanted::Contents => {
                add(&met.unasked);
                Step::On
            }
            Verdict::Allow | Verdict::Ask if is_file => Step::File(path),
            Verdict::Allow | Verdict::Ask => Step::On,
        }
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
    use baton_guard::{Grant, Origin, PathGuard, PermissionSettings, Reach, Rules, Scope};

    use super::*;
    use crate::regular::tests::held;

    fn walk(root: &Path, max: usize, found: impl Fn(PathBuf) -> bool + Sync) -> Walked {
        let base = held(root).into_dir().unwrap();
        let guard = PathGuard::new(Scope::default(), Rules::none(), Reach::Anywhere);
        let (grant, cancel) = (Grant::none(), CancellationToken::new());
        over(&base, &guard.sight(root, &grant), &cancel).all(max, |_, path| found(path))
    }

    fn over<'a>(
        base: &'a Dir,
        sight: &'a Sight<'a>,
        cancel: &'a CancellationToken,
    ) -> Walk<'a, impl Fn(&Path) -> bool + Sync> {
        Walk { base, hidden: Hidden::Skipped, wanted: Wanted::Names, sight, cancel, keep: |_: &Path| true }
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
    fn the_first_files_are_those_of_the_whole_walk() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.d/z", "b/c/a", "b/c.x", "b/.gitignore", "a/1", "a/ignored", "c", "b-", ".hidden"] {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "c.*\n").unwrap();
        }
        std::fs::write(dir.path().join("a/.gitignore"), "ignored\n").unwrap();
        // Whoever reads it waits for ever.
        std::fs::create_dir(dir.path().join("pipe")).unwrap();
        let pipe = dir.path().join("pipe/.gitignore");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        let base = held(dir.path()).into_dir().unwrap();
        let mut rules = Rules::none();
        let deny = vec!["Read(b.d)".to_owned(), "Read(b.d/**)".to_owned()];
        rules.add(&PermissionSettings { deny, ..PermissionSettings::default() }, Origin::Trusted).unwrap();
        let guard = PathGuard::new(Scope { root: base.path().to_owned(), ..Scope::default() }, rules, Reach::Anywhere);
        let (grant, cancel) = (Grant::none(), CancellationToken::new());
        let sight = guard.sight(base.path(), &grant);
        let walk = over(&base, &sight, &cancel);
        let all = std::sync::Mutex::new(Vec::new());
        let walked = walk.all(9, |_, path| {
            all.lock().unwrap().push(path);
            true
        });
        let mut all = all.into_inner().unwrap();
        all.sort_unstable();
        assert_eq!(all, ["a/1", "b/c/a", "b-", "c"].map(PathBuf::from));
        assert_eq!(walk.first(9), (all.clone(), walked));
        assert_eq!((walked.unreadable, walked.hidden), (1, 1));
        let (first, walked) = walk.first(2);
        assert_eq!((&first[..], walked.stopped), (&all[..2], true));
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
        let walked = over(&base, &sight, &cancel).all(9, |_, _| true);
        assert_eq!(walked.note().as_deref(), Some("[1 places could not be read]"));
    }
}
