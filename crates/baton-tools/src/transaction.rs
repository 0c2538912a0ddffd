//! Transactions: several files are changed together or not at all.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_guard::Grant;
use baton_guard::path::{Found, Made, Spot};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ledger::{CONTENTS_BYTES_MAX, Stamp};
use crate::save::{self, Prepared, beside, prepare, put_link};
use crate::snapshot::Old;
use crate::workspace::told;
use crate::{Outcome, Workspace, regular};

/// Files as they shall be. Nothing is written before [`commit`](Self::commit).
pub(crate) struct Transaction<'a> {
    workspace: &'a Workspace,
    grant: &'a Grant,
    cancel: &'a CancellationToken,
    drafts: Vec<Draft>,
}

/// One file: as it is and as it shall be.
pub(crate) struct Draft {
    /// Where it is.
    spot: Spot,
    /// Where the link leads that is there in place of a file.
    link: Option<PathBuf>,
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

    /// Where it is, its symbolic links resolved.
    pub(crate) fn target(&self) -> &Path {
        self.spot.path()
    }

    fn before(&self) -> Old<'_> {
        match (&self.link, &self.old) {
            (Some(link), _) => Old::Link(link),
            (None, Some((contents, metadata))) => Old::File(contents, metadata),
            (None, None) => Old::Absent,
        }
    }

    fn put_back(&self) -> io::Result<()> {
        let made = &mut Made::default();
        match self.before() {
            Old::Absent => self.spot.remove(),
            Old::Link(to) => put_link(&self.spot, to),
            Old::File(old, metadata) if self.new.is_none() => beside(&self.spot, old, Some(metadata), made)?.put(),
            Old::File(old, metadata) => prepare(&self.spot, old, Some(metadata), made)?.put(),
        }
    }
}

/// What is left to do for a file.
enum Step<'a> {
    Put(Prepared<'a>),
    Remove(&'a Spot),
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
            Self::Remove(spot) => spot.remove(),
        }
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(workspace: &'a Workspace, grant: &'a Grant, cancel: &'a CancellationToken) -> Self {
        Self { workspace, grant, cancel, drafts: Vec::new() }
    }

    /// The file at this path as it shall be so far. Refuses what may not be written, what is no file, what is too large,
    /// and what was changed by others since the agent saw it.
    pub(crate) fn open(&mut self, path: &str) -> Result<&mut Draft, String> {
        let shown = self.workspace.show(&self.workspace.resolve(path));
        let spot = self.workspace.spot(path, self.grant).map_err(|refusal| told("edit", &shown, &refusal))?;
        self.draft(spot, shown)
    }

    /// The same for what shall go: of a link the link itself, not what it leads to.
    pub(crate) fn open_to_remove(&mut self, path: &str) -> Result<&mut Draft, String> {
        let full = self.workspace.resolve(path);
        let shown = self.workspace.show(&full);
        let spot = self.workspace.guard().spot_itself(&full, self.grant);
        let spot = spot.map_err(|refusal| told("edit", &shown, &refusal))?;
        if spot.found().is_some_and(|found| found.metadata().is_symlink()) {
            return self.draft(spot, shown);
        }
        self.open(path)
    }

    fn draft(&mut self, spot: Spot, shown: String) -> Result<&mut Draft, String> {
        if let Some(at) = self.drafts.iter().position(|draft| draft.target() == spot.path()) {
            return Ok(&mut self.drafts[at]);
        }
        let link = spot.link().map_err(|error| format!("cannot edit {shown}: {error}"))?;
        let old = match (&link, spot.found()) {
            (Some(link), Some(found)) => {
                Some((link.as_os_str().as_encoded_bytes().to_owned(), found.metadata().clone()))
            }
            (None, Some(found)) => Some(self.read(found, &shown)?),
            (_, None) => None,
        };
        let new = old.as_ref().map(|(contents, _)| contents.clone());
        self.drafts.push(Draft { spot, link, shown, old, new, like: None });
        let at = self.drafts.len() - 1;
        Ok(&mut self.drafts[at])
    }

    fn read(&self, found: &Found, shown: &str) -> Result<(Vec<u8>, Metadata), String> {
        let metadata = found.metadata();
        if !metadata.is_file() {
            return Err(format!("{shown} is not a regular file"));
        }
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
        let old = regular::read(found, CONTENTS_BYTES_MAX, self.cancel)
            .map_err(|error| format!("cannot edit {shown}: {error}"))?;
        self.workspace.ledger().check(found.path(), &Stamp::of(&old))?;
        Ok((old, metadata.clone()))
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
        self.changed().map(|draft| save::change(draft.target(), kind(draft))).collect()
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
        for draft in self.changed() {
            self.workspace.snapshot().keep(self.workspace.temp(), draft.target(), &draft.before());
        }
        self.workspace.keep_files("edit", self.changed().map(Draft::target))?;
        let mut made = Made::default();
        let written = self.write(&mut made);
        self.workspace.kept_files();
        if let Err(why) = written {
            made.unmake();
            return Err(why);
        }
        for draft in self.changed() {
            let stamp = draft.new.as_deref().map(Stamp::of);
            if let Some(stamp) = &stamp {
                self.workspace.ledger().note(draft.target(), stamp.clone());
            }
            self.workspace.snapshot().changed(draft.target(), stamp);
        }
        Ok(())
    }

    /// Notes the directories that it makes.
    fn write(&self, made: &mut Made) -> Result<(), String> {
        let failed = |draft: &Draft, error: io::Error| format!("cannot edit {}: {error}", draft.shown);
        let mut steps = Vec::new();
        for draft in self.changed() {
            let step = match &draft.new {
                Some(new) => prepare(&draft.spot, new, draft.like.as_ref(), made).map(Step::Put),
                None => Ok(Step::Remove(&draft.spot)),
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
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use baton_core::Access;

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
        let grant = Grant::none().path(workspace.root().join("linked"), Access::Write);
        let mut transaction = Transaction::new(&workspace, &grant, &cancel);
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
        let grant = Grant::none();
        let mut transaction = Transaction::new(&workspace, &grant, &cancel);
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
        let both = ["a", "b"].map(|name| workspace.root().join(name));
        let grant = both.into_iter().fold(Grant::none(), |grant, path| grant.path(path, Access::Write));
        let mut transaction = Transaction::new(&workspace, &grant, &cancel);
        transaction.open("a").unwrap();
        assert!(transaction.open("b").err().unwrap().contains("one file by two names"));
    }

    #[test]
    fn what_was_given_up_is_not_done_later() {
        let (dir, workspace, cancel) = scene();
        let grant = Grant::none();
        let mut transaction = Transaction::new(&workspace, &grant, &cancel);
        transaction.open("deep/new").unwrap().new = Some(b"x".to_vec());
        cancel.cancel();
        assert_eq!(transaction.commit(), Err("cancelled; nothing was written".to_owned()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
