//! The survey: every file of the workspace that git does not ignore, and where something was left out.
//!
//! Links are never followed. Matching is that of the `ignore` crate; the walk is our own, since what is ignored has to be
//! known, too: it must not be taken for new when a command changes what is ignored.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::git::{self, Repository};

/// More files are not looked at.
pub(super) const ENTRIES_MAX: usize = 300_000;

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) found: HashMap<PathBuf, Metadata>,
    /// The topmost of what git ignores.
    pub(super) ignored: BTreeSet<PathBuf>,
    /// The topmost of all that was left out.
    pub(super) skipped: BTreeSet<PathBuf>,
    pub(super) repositories: Vec<Repository>,
    /// Where they have their objects.
    pub(super) objects: Vec<PathBuf>,
}

/// What applies in a directory: its own rules, then those of the directories above.
struct Rules {
    here: Gitignore,
    above: Option<Arc<Rules>>,
}

impl Rules {
    fn below(above: &Arc<Self>, dir: &Path) -> Arc<Self> {
        let here = GitignoreBuilder::new(dir);
        Self::build(here, &[dir.join(".gitignore")], Some(Arc::clone(above)))
    }

    fn build(mut here: GitignoreBuilder, files: &[PathBuf], above: Option<Arc<Self>>) -> Arc<Self> {
        for file in files.iter().filter(|file| file.is_file()) {
            // A line that is no pattern does not count; the others do.
            drop(here.add(file));
        }
        Arc::new(Self { here: here.build().unwrap_or_else(|_| Gitignore::empty()), above })
    }

    /// The rules that a directory inherits: the person's, the repository's, those of the directories above.
    fn inherited(dir: &Path) -> Arc<Self> {
        let mut rules = Arc::new(Self { here: Gitignore::global().0, above: None });
        let top = dir.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok());
        if let Some(top) = top {
            let exclude = git::repository(top).map(|repository| repository.dir.join("info/exclude"));
            rules = Self::build(GitignoreBuilder::new(top), exclude.as_slice(), Some(rules));
            let mut above: Vec<&Path> = dir.ancestors().skip(1).take_while(|above| above.starts_with(top)).collect();
            above.reverse();
            for dir in above {
                rules = Self::below(&rules, dir);
            }
        }
        rules
    }

    fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let mut rules = self;
        loop {
            match rules.here.matched(path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => match &rules.above {
                    Some(above) => rules = above,
                    None => return false,
                },
            }
        }
    }
}

impl Survey {
    /// Looks through `roots`, but not into `own`.
    pub(super) fn new(roots: &[PathBuf], own: &[PathBuf]) -> Self {
        let mut survey = Self::default();
        for root in roots {
            if let Ok(metadata) = root.symlink_metadata() {
                survey.found.insert(root.clone(), metadata);
                survey.walk(root, own);
            }
        }
        for repository in survey.repositories.clone() {
            survey.walk_git(&repository.dir);
        }
        survey
    }

    fn walk(&mut self, root: &Path, own: &[PathBuf]) {
        let mut waiting = vec![(root.to_owned(), Rules::inherited(root))];
        while let Some((dir, above)) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&dir) else {
                self.skipped.insert(dir);
                continue;
            };
            let entries: Vec<_> = entries.flatten().map(|entry| (entry.file_name(), entry)).collect();
            let has_rules = entries.iter().any(|(name, _)| name == ".gitignore");
            let rules = if has_rules { Rules::below(&above, &dir) } else { above };
            if entries.iter().any(|(name, _)| name == ".git") {
                self.repositories.extend(git::repository(&dir));
            }
            for (name, entry) in entries {
                let path = dir.join(&name);
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir && name == ".git" {
                    continue;
                }
                if rules.ignores(&path, is_dir) {
                    self.ignored.insert(path.clone());
                    self.skipped.insert(path);
                    continue;
                }
                let metadata = match entry.metadata() {
                    Ok(metadata) if !own.contains(&path) && self.found.len() < ENTRIES_MAX => metadata,
                    _ => {
                        self.skipped.insert(path);
                        continue;
                    }
                };
                if is_dir {
                    waiting.push((path.clone(), Arc::clone(&rules)));
                }
                self.found.insert(path, metadata);
            }
        }
    }

    /// What git keeps besides its objects.
    fn walk_git(&mut self, git_dir: &Path) {
        let mut waiting = vec![git_dir.to_owned()];
        if let Ok(metadata) = git_dir.symlink_metadata() {
            self.found.insert(git_dir.to_owned(), metadata);
        }
        while let Some(dir) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&dir) else {
                self.skipped.insert(dir);
                continue;
            };
            let in_objects = git::is_objects(&dir);
            if in_objects {
                self.objects.push(dir);
            }
            for entry in entries.flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let Ok(metadata) = entry.metadata() else { continue };
                if git::is_passing(&name) || in_objects && is_dir && name != "info" && name != "pack" {
                    continue;
                }
                if self.found.len() >= ENTRIES_MAX {
                    self.skipped.insert(path);
                    continue;
                }
                if is_dir && !(in_objects && name == "pack") {
                    waiting.push(path.clone());
                }
                self.found.insert(path, metadata);
            }
        }
    }

    /// Adds the objects of a repository.
    pub(super) fn add_objects(&mut self, git_dir: &Path) {
        for objects in self.objects.iter().filter(|objects| objects.starts_with(git_dir)) {
            let names = git::Mirror::list(objects);
            let dirs = names.iter().filter_map(|name| name.parent());
            for path in dirs.chain(names.iter().map(PathBuf::as_path)).map(|name| objects.join(name)) {
                if let Ok(metadata) = path.symlink_metadata()
                    && self.found.len() < ENTRIES_MAX
                {
                    self.found.insert(path, metadata);
                }
            }
        }
    }

    /// Adds all that lies below a directory, ignored or not; false if that is too much.
    pub(super) fn add_all(&mut self, dir: &Path, limits: &mut Limits) -> bool {
        let mut waiting = vec![dir.to_owned()];
        let mut new = Vec::new();
        while let Some(dir) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&dir) else { return false };
            for entry in entries.flatten() {
                let path = entry.path();
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    waiting.push(path.clone());
                }
                if self.found.contains_key(&path) || git::is_mirrored(&path) {
                    continue;
                }
                if !limits.take(&metadata) {
                    return false;
                }
                new.push((path, metadata));
            }
        }
        self.found.extend(new);
        true
    }
}

/// How much more may be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) bytes: u64,
    pub(super) entries: usize,
}

impl Limits {
    pub(super) fn take(&mut self, metadata: &Metadata) -> bool {
        let bytes = if metadata.is_file() { metadata.len() } else { 0 };
        match (self.bytes.checked_sub(bytes), self.entries.checked_sub(1)) {
            (Some(bytes), Some(entries)) => {
                *self = Self { bytes, entries };
                true
            }
            _ => false,
        }
    }
}

/// How large a directory or file is, as far as that can be said within so many entries.
pub(super) fn size(path: &Path, entries_max: usize) -> (u64, usize) {
    let (mut bytes, mut entries) = (0_u64, 0);
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        entries += 1;
        if metadata.is_file() {
            bytes = bytes.saturating_add(metadata.len());
        }
        if metadata.is_dir()
            && entries < entries_max
            && let Ok(below) = fs::read_dir(&path)
        {
            waiting.extend(below.flatten().map(|entry| entry.path()));
        }
    }
    (bytes, entries)
}
