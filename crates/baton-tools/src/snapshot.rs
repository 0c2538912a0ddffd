//! The snapshot: how files were before the tools first changed them in a turn, so that all of it can be taken back.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::Access;
use baton_guard::Grant;
use baton_guard::path::Made;
use tokio_util::sync::CancellationToken;

use crate::ledger::{CONTENTS_BYTES_MAX, Stamp};
use crate::save::{Prepared, diff, prepare, put_link};
use crate::{Workspace, regular};

/// How much of the files is kept in memory. What is beyond that is copied, which takes longer.
const HELD_BYTES_MAX: usize = 1 << 20;

/// The first state of each file that a tool has changed since the last [`clear`](Self::clear).
#[derive(Debug, Default)]
pub(crate) struct Snapshot(Mutex<BTreeMap<PathBuf, Kept>>);

#[derive(Debug)]
struct Kept {
    before: Before,
    /// What the tools made of it; nothing while they have not come that far.
    after: Option<After>,
}

#[derive(Debug)]
enum Before {
    Absent,
    /// Its bytes, and what else there was to it.
    Held(Vec<u8>, Metadata),
    /// A copy of its bytes, and what else there was to it.
    Copied(PathBuf, Metadata),
    /// A link that led there.
    Link(PathBuf),
    /// There is no copy, for this reason.
    Unknown(String),
}

#[derive(Debug, PartialEq)]
enum After {
    Gone,
    Holds(Stamp),
}

/// What is there before a change.
pub(crate) enum Old<'a> {
    Absent,
    File(&'a [u8], &'a Metadata),
    Link(&'a Path),
}

/// What came of taking everything back.
#[derive(Debug, Default, PartialEq)]
pub struct TakenBack {
    /// The files that are as they were.
    pub restored: Vec<String>,
    /// The files that stay as they are, and why.
    pub left: Vec<(String, String)>,
    /// The changes that were taken back, as a diff that can be applied again, and where it is kept.
    pub diff: Option<PathBuf>,
}

impl Snapshot {
    /// Keeps a file as it is; to be called before it is changed. Its first state counts.
    pub(crate) fn keep(&self, temp: &Path, target: &Path, old: &Old) {
        let mut kept = self.lock();
        if kept.contains_key(target) {
            return;
        }
        let before = match old {
            Old::Absent => Before::Absent,
            Old::Link(to) => Before::Link((*to).to_owned()),
            Old::File(bytes, metadata) if held(&kept) + bytes.len() <= HELD_BYTES_MAX => {
                Before::Held(bytes.to_vec(), (*metadata).clone())
            }
            Old::File(bytes, metadata) => match copy(temp, kept.len(), bytes) {
                Ok(file) => Before::Copied(file, (*metadata).clone()),
                Err(error) => Before::Unknown(format!("no copy could be kept: {error}")),
            },
        };
        kept.insert(target.to_owned(), Kept { before, after: None });
    }

    /// Notes a file that is changed without a copy.
    pub(crate) fn keep_not(&self, target: &Path, why: &str) {
        let kept = || Kept { before: Before::Unknown(why.to_owned()), after: None };
        self.lock().entry(target.to_owned()).or_insert_with(kept);
    }

    /// What a kept file holds now; nothing if it was removed.
    pub(crate) fn changed(&self, target: &Path, new: Option<Stamp>) {
        if let Some(kept) = self.lock().get_mut(target) {
            kept.after = Some(new.map_or(After::Gone, After::Holds));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn held(kept: &BTreeMap<PathBuf, Kept>) -> usize {
    let bytes = |kept: &Kept| if let Before::Held(bytes, _) = &kept.before { bytes.len() } else { 0 };
    kept.values().map(bytes).sum()
}

fn copy(temp: &Path, number: usize, bytes: &[u8]) -> io::Result<PathBuf> {
    let dir = temp.join("before");
    fs::create_dir_all(&dir)?;
    let file = dir.join(number.to_string());
    fs::write(&file, bytes)?;
    Ok(file)
}

impl Workspace {
    /// From now on, what is taken back is what changes after this.
    pub(crate) fn forget_snapshot(&self) {
        self.snapshot().lock().clear();
    }

    /// Puts every file that the tools have changed back as it was. What somebody else has changed since stays. What is
    /// taken back is kept as a diff of this name among the outputs.
    pub fn take_back(&self, name: &str) -> TakenBack {
        let kept = std::mem::take(&mut *self.snapshot().lock());
        let (mut taken, mut diffs) = (TakenBack::default(), String::new());
        for (target, kept) in kept {
            let Some(after) = kept.after else { continue };
            let shown = self.show(&target);
            match self.put_back(&target, &shown, &kept.before, &after) {
                Ok(diff) => {
                    taken.restored.push(shown);
                    diffs.push_str(&diff);
                }
                Err(why) => taken.left.push((shown, why)),
            }
        }
        let file = self.outputs().join(format!("{name}.diff"));
        let is_kept =
            !diffs.is_empty() && fs::create_dir_all(self.outputs()).and_then(|()| fs::write(&file, diffs)).is_ok();
        taken.diff = is_kept.then_some(file);
        taken
    }

    /// Puts one file back; what that takes away, as a diff.
    fn put_back(&self, target: &Path, shown: &str, before: &Before, after: &After) -> Result<String, String> {
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        let failed = |error: io::Error| format!("it cannot be put back: {error}");
        // It was written, so it may be written; somebody may have put a link in its place since.
        let grant = Grant::none().path(target, Access::Write);
        let spot = self.guard().spot_itself(target, &grant).map_err(|refusal| refusal.to_string())?;
        let now = match spot.found() {
            Some(found) => {
                Some(regular::read(found, CONTENTS_BYTES_MAX, &CancellationToken::new()).map_err(unreadable)?)
            }
            None => None,
        };
        if now.as_deref().map_or(After::Gone, |now| After::Holds(Stamp::of(now))) != *after {
            return Err("something else has changed it since".to_owned());
        }
        let now = now.unwrap_or_default();
        let put = |old: &[u8], metadata: &Metadata| {
            let made = &mut Made::default();
            prepare(&spot, old, Some(metadata), made).and_then(Prepared::put).map_err(failed)?;
            self.ledger().note(target, Stamp::of(old));
            Ok(diff(shown, old, &now))
        };
        match before {
            Before::Unknown(why) => Err(why.clone()),
            Before::Absent => {
                spot.remove().map_err(failed)?;
                Ok(diff(shown, &[], &now))
            }
            Before::Link(to) => {
                put_link(&spot, to).map_err(failed)?;
                Ok(diff(shown, to.as_os_str().as_encoded_bytes(), &now))
            }
            Before::Held(old, metadata) => put(old, metadata),
            Before::Copied(file, metadata) => put(&fs::read(file).map_err(unreadable)?, metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::Transaction;
    use crate::{Reach, Workspace};

    fn change(workspace: &Workspace, name: &str, new: Option<&str>) {
        let (cancel, grant) = (CancellationToken::new(), Grant::none());
        let mut transaction = Transaction::new(workspace, &grant, &cancel);
        transaction.open(name).unwrap().new = new.map(|new| new.as_bytes().to_vec());
        transaction.finish("", false).unwrap();
    }

    #[test]
    fn everything_goes_back_but_what_others_changed() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(dir.path(), dir.path().join("outputs"), Reach::Inside).unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["twice", "gone", "theirs", "before"] {
            fs::write(at(name), name).unwrap();
        }
        let large = "large\n".repeat(HELD_BYTES_MAX / 5);
        fs::write(at("large"), &large).unwrap();
        change(&workspace, "before", Some("an earlier turn"));
        workspace.forget_snapshot();
        change(&workspace, "twice", Some("1"));
        change(&workspace, "twice", Some("2"));
        change(&workspace, "gone", None);
        change(&workspace, "new", Some("3"));
        change(&workspace, "theirs", Some("4"));
        change(&workspace, "large", Some("small"));
        fs::write(at("theirs"), "by hand").unwrap();

        let taken = workspace.take_back("1");
        assert_eq!(taken.restored, ["gone", "large", "new", "twice"]);
        assert!(fs::read_to_string(at("large")).unwrap() == large);
        assert_eq!(taken.left, [("theirs".to_owned(), "something else has changed it since".to_owned())]);
        let diff = fs::read_to_string(taken.diff.unwrap()).unwrap();
        assert!(diff.contains("-twice") && diff.contains("+2"), "{diff}");
        let holds = |name: &str| fs::read_to_string(at(name)).ok();
        assert_eq!(holds("twice").as_deref(), Some("twice"));
        assert_eq!(holds("gone").as_deref(), Some("gone"));
        assert_eq!(holds("new"), None);
        assert_eq!(holds("theirs").as_deref(), Some("by hand"));
        assert_eq!(holds("before").as_deref(), Some("an earlier turn"));
        // They may be edited again.
        change(&workspace, "twice", Some("5"));
        assert_eq!(workspace.take_back("2").restored, ["twice"]);
    }
}
