//! Transactions: several files are changed together or not at all.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ledger::{CONTENTS_BYTES_MAX, Stamp};
use crate::save::{self, Prepared, prepare};
use crate::{Outcome, Workspace, regular};

/// Files as they shall be. Nothing is written before [`commit`](Self::commit).
pub(crate) struct Transaction<'a> {
    workspace: &'a Workspace,
    cancel: &'a CancellationToken,
    drafts: Vec<Draft>,
}

/// One file: as it is and as it shall be.
pub(crate) struct Draft {
    /// Where it is, its symbolic links resolved.
    pub(crate) target: PathBuf,
    /// As the agent would write it.
    pub(crate) shown: String,
    old: Option<(Vec<u8>, Metadata)>,
    /// What it shall have; none if there shall be no such file.
    pub(crate) new: Option<Vec<u8>>,
    /// The file whose mode, owner and group it takes if there is none yet.
    pub(crate) like: Option<Metadata>,
}

impl Draft {
    /// As the file is on the disk.
    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        self.old.as_ref().map(|(_, metadata)| metadata)
    }

    fn old(&self) -> Option<&Vec<u8>> {
        self.old.as_ref().map(|(contents, _)| contents)
    }

    fn is_changed(&self) -> bool {
        self.old() != self.new.as_ref()
    }

    /// What is done to it, in one letter as git says it.
    pub(crate) fn letter(&self) -> char {
        match (&self.old, &self.new) {
            (None, Some(_)) => 'A',
            (_, None) => 'D',
            (Some(_), Some(_)) => 'M',
        }
    }

    fn put_back(&self) -> io::Result<()> {
        match &self.old {
            Some((old, metadata)) => prepare(&self.target, old, Some(metadata))?.put(),
            None => fs::remove_file(&self.target),
        }
    }
}

/// What is left to do for a file.
enum Step<'a> {
    Put(Prepared<'a>),
    Remove(&'a Path),
}

impl Step<'_> {
    /// What can still fail for want of room goes first, what cannot be taken back as easily goes last.
    fn rank(&self) -> u8 {
        match self {
            Self::Put(prepared) if prepared.is_unwritten() => 0,
            Self::Put(_) => 1,
            Self::Remove(_) => 2,
        }
    }

    fn take(self) -> io::Result<()> {
        match self {
            Self::Put(prepared) => prepared.put(),
            Self::Remove(target) => fs::remove_file(target),
        }
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(workspace: &'a Workspace, cancel: &'a CancellationToken) -> Self {
        Self { workspace, cancel, drafts: Vec::new() }
    }

    /// The file at this path as it shall be so far. Refuses what may not be written, what is no file, what is too large,
    /// and what was changed by others since the agent saw it.
    pub(crate) fn open(&mut self, path: &str) -> Result<&mut Draft, String> {
        let path = self.workspace.resolve(path);
        let target = self.workspace.check_write(&path)?;
        if let Some(at) = self.drafts.iter().position(|draft| draft.target == target) {
            return Ok(&mut self.drafts[at]);
        }
        let shown = self.workspace.show(&path);
        let old = self.read(&target, &shown)?;
        let new = old.as_ref().map(|(contents, _)| contents.clone());
        self.drafts.push(Draft { target, shown, old, new, like: None });
        let at = self.drafts.len() - 1;
        Ok(&mut self.drafts[at])
    }

    fn read(&self, target: &Path, shown: &str) -> Result<Option<(Vec<u8>, Metadata)>, String> {
        let failed = |error: io::Error| format!("cannot edit {shown}: {error}");
        let metadata = match target.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return Err(format!("{shown} is not a regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if metadata.len() > CONTENTS_BYTES_MAX {
            return Err(format!(
                "{shown} has {} bytes, more than the {CONTENTS_BYTES_MAX} that `edit` takes",
                metadata.len()
            ));
        }
        // Two drafts of one file would each be written without the other's changes.
        let is_same = |other: &Metadata| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino());
        if let Some(twin) = self.drafts.iter().find(|draft| draft.metadata().is_some_and(is_same)) {
            return Err(format!("{shown} and {} are one file by two names: change it by one of them", twin.shown));
        }
        let old = regular::read(target, CONTENTS_BYTES_MAX, self.cancel).map_err(failed)?;
        self.workspace.ledger().check(target, &Stamp::of(&old))?;
        Ok(Some((old, metadata)))
    }

    /// The files that will be different.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Draft> {
        self.drafts.iter().filter(|draft| draft.is_changed())
    }

    /// The files that will be different and what becomes of each, for surfaces.
    fn changes(&self) -> Vec<Value> {
        let kind = |draft: &Draft| match (draft.old(), &draft.new) {
            (None, _) => "add",
            (Some(_), Some(_)) => "update",
            (Some(_), None) => "delete",
        };
        self.changed().map(|draft| save::change(&draft.target, kind(draft))).collect()
    }

    /// All changes as unified diffs, one after the other.
    fn diff(&self) -> String {
        self.changed()
            .map(|draft| {
                let bytes = |contents: Option<&'_ Vec<u8>>| contents.cloned().unwrap_or_default();
                save::diff(&draft.shown, &bytes(draft.old()), &bytes(draft.new.as_ref()))
            })
            .collect()
    }

    /// Writes all changes, or in a dry run only shows them. `said` is what the model reads about them.
    pub(crate) fn finish(&self, said: &str, is_dry: bool) -> Result<Outcome, String> {
        let diff = self.diff();
        if is_dry {
            let text = format!("{said}\nNothing was written (dry run). The diff would be:\n{diff}");
            return Ok(Outcome::ok(text).with("diff", diff).with("dry_run", true));
        }
        self.commit()?;
        Ok(Outcome::ok(said).with("changes", self.changes()).with("diff", diff))
    }

    /// Writes all changes, or none of them.
    fn commit(&self) -> Result<(), String> {
        let made: Vec<&Path> = self
            .changed()
            .filter(|draft| draft.new.is_some())
            .flat_map(|draft| draft.target.ancestors().skip(1).take_while(|dir| !dir.exists()))
            .collect();
        for draft in self.changed() {
            let old = draft.old.as_ref().map(|(old, metadata)| (old.as_slice(), metadata));
            self.workspace.snapshot().keep(self.workspace.temp(), &draft.target, old);
        }
        self.write().inspect_err(|_| {
            // Those that others use by now are not empty, and stay.
            for dir in made {
                let _ = fs::remove_dir(dir);
            }
        })?;
        for draft in self.changed() {
            let stamp = draft.new.as_deref().map(Stamp::of);
            if let Some(stamp) = &stamp {
                self.workspace.ledger().note(&draft.target, stamp.clone());
            }
            self.workspace.snapshot().changed(&draft.target, stamp);
        }
        Ok(())
    }

    fn write(&self) -> Result<(), String> {
        let failed = |draft: &Draft, error: io::Error| format!("cannot edit {}: {error}", draft.shown);
        let mut steps = Vec::new();
        for draft in self.changed() {
            let step = match &draft.new {
                Some(new) => prepare(&draft.target, new, draft.like.as_ref()).map(Step::Put),
                None => Ok(Step::Remove(&draft.target)),
            };
            steps.push((draft, step.map_err(|error| failed(draft, error))?));
        }
        steps.sort_by_key(|(_, step)| step.rank());
        // Who was told that this was given up must not find it done later.
        if self.cancel.is_cancelled() {
            return Err("cancelled; nothing was written".to_owned());
        }
        let mut done = Vec::new();
        for (draft, step) in steps {
            if let Err(error) = step.take() {
                return Err(failed(draft, error) + &put_back(&done));
            }
            done.push(draft);
        }
        Ok(())
    }
}

/// Puts files back as they were, the last first, and says what came of it.
fn put_back(done: &[&Draft]) -> String {
    if done.is_empty() {
        return String::new();
    }
    let (mut back, mut lost) = (Vec::new(), Vec::new());
    for draft in done.iter().rev() {
        match draft.put_back() {
            Ok(()) => back.push(draft.shown.clone()),
            Err(error) => lost.push(format!("{} ({error})", draft.shown)),
        }
    }
    let said =
        [("what was already changed was put back as it was", back), ("CHANGED, and could not be put back", lost)];
    let said = said.iter().filter(|(_, names)| !names.is_empty());
    said.map(|(what, names)| format!("; {what}: {}", names.join(", "))).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::Reach;

    fn scene() -> (tempfile::TempDir, Workspace, CancellationToken) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(dir.path(), dir.path().join("outputs"), Reach::Inside).unwrap();
        (dir, workspace, CancellationToken::new())
    }

    #[test]
    fn what_fails_late_is_put_back() {
        let (dir, workspace, cancel) = scene();
        let at = |name: &str| dir.path().join(name);
        for name in ["kept", "linked", "gone", "stuck"] {
            fs::write(at(name), name).unwrap();
        }
        fs::hard_link(at("linked"), at("twin")).unwrap();
        fs::set_permissions(at("gone"), fs::Permissions::from_mode(0o750)).unwrap();
        let mut transaction = Transaction::new(&workspace, &cancel);
        for (name, new) in [("kept", Some("1")), ("linked", Some("2")), ("deep/new", Some("3")), ("gone", None)] {
            transaction.open(name).unwrap().new = new.map(|new| new.as_bytes().to_vec());
        }
        transaction.open("stuck").unwrap().new = None;
        // Somebody puts a directory in its place, so that the very last step fails.
        fs::remove_file(at("stuck")).unwrap();
        fs::create_dir(at("stuck")).unwrap();
        let said = transaction.commit().unwrap_err();
        assert!(said.starts_with("cannot edit stuck: "), "{said}");
        assert!(said.ends_with("put back as it was: gone, deep/new, kept, linked"), "{said}");
        for name in ["kept", "linked", "gone"] {
            assert_eq!(fs::read_to_string(at(name)).unwrap(), name);
        }
        assert_eq!(fs::read_to_string(at("twin")).unwrap(), "linked");
        assert_eq!(at("gone").metadata().unwrap().mode() & 0o777, 0o750);
        assert!(!at("deep").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5, "no temporary file is left");
    }

    #[test]
    fn what_cannot_be_prepared_changes_nothing() {
        let (dir, workspace, cancel) = scene();
        fs::write(dir.path().join("a"), "a").unwrap();
        let mut transaction = Transaction::new(&workspace, &cancel);
        transaction.open("a").unwrap().new = Some(b"1".to_vec());
        transaction.open("deep/b/c").unwrap().new = Some(b"2".to_vec());
        transaction.open("deep/b/c/d").unwrap().new = Some(b"3".to_vec());
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("deep/b"), "in the way").unwrap();
        assert!(transaction.commit().unwrap_err().starts_with("cannot edit deep/b/c: "));
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"a");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn one_file_by_two_names_is_refused() {
        let (dir, workspace, cancel) = scene();
        fs::write(dir.path().join("a"), "a").unwrap();
        fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        let mut transaction = Transaction::new(&workspace, &cancel);
        transaction.open("a").unwrap();
        assert!(transaction.open("b").err().unwrap().contains("one file by two names"));
    }

    #[test]
    fn what_was_given_up_is_not_done_later() {
        let (dir, workspace, cancel) = scene();
        let mut transaction = Transaction::new(&workspace, &cancel);
        transaction.open("deep/new").unwrap().new = Some(b"x".to_vec());
        cancel.cancel();
        assert_eq!(transaction.commit(), Err("cancelled; nothing was written".to_owned()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
