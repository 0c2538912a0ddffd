//! Holding the places of protected paths that are not there.
//!
//! A stand-in is empty and has a mode that nothing else has. Everyone who needs it holds a shared lock on it; who lets go
//! of it last takes it away. So two sandboxes do not pull it away under each other, and one that was left behind by a
//! crash is used and removed by the next.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::policy::StandIn;

/// Modes of their own, and ones that no umask changes.
const DIR_MODE: u32 = 0o1500;
const FILE_MODE: u32 = 0o1400;
/// Two sandboxes that begin and end at the same time meet a few times at most.
const TRIES: usize = 1000;

/// A path that is kept for nobody as long as this lives.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    file: File,
}

/// Takes the place of a path, unless something real is there, or could not come into being there either.
pub(super) fn hold(path: &Path, kind: StandIn) -> io::Result<Option<Held>> {
    for _ in 0..TRIES {
        match make(path, kind) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if is_out_of_reach(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Real, and none of ours: a link, or something that may not be read.
            Err(_) => return Ok(None),
        };
        if !is_stand_in(&file.metadata()?) {
            return Ok(None);
        }
        // Whoever holds it alone is about to remove it.
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() && is_at(&file, path) {
            return Ok(Some(Held { path: path.to_owned(), file }));
        }
        std::thread::yield_now();
    }
    Err(io::Error::other(format!("cannot hold the place of {}", path.display())))
}

fn make(path: &Path, kind: StandIn) -> io::Result<()> {
    match kind {
        StandIn::Dir => fs::DirBuilder::new().mode(DIR_MODE).create(path),
        StandIn::File => OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path).map(drop),
        StandIn::Nothing => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Where Baton cannot make anything, a command that has no more rights cannot either.
fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied | ReadOnlyFilesystem)
}

fn is_stand_in(meta: &fs::Metadata) -> bool {
    let mode = meta.mode() & 0o7777;
    (meta.is_dir() && mode == DIR_MODE) || (meta.is_file() && mode == FILE_MODE && meta.len() == 0)
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = |at: fs::Metadata, held: fs::Metadata| at.ino() == held.ino() && at.dev() == held.dev();
    fs::symlink_metadata(path).is_ok_and(|at| file.metadata().is_ok_and(|held| same(at, held)))
}

impl Drop for Held {
    /// What cannot be removed is left for the next one.
    fn drop(&mut self) {
        let alone = || flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Of two that let go at once both may fail at first; the second to drop its shared lock succeeds then.
        let is_alone = alone() || (flock(&self.file, FlockOperation::NonBlockingUnlock).is_ok() && alone());
        let is_last = is_alone && is_at(&self.file, &self.path);
        let Ok(meta) = self.file.metadata() else { return };
        if is_last && is_stand_in(&meta) {
            // A directory that is no longer empty stays by itself.
            let _ = if meta.is_dir() { fs::remove_dir(&self.path) } else { fs::remove_file(&self.path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_last_one_removes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        for kind in [StandIn::Dir, StandIn::File] {
            let first = hold(&path, kind).unwrap().unwrap();
            let second = hold(&path, kind).unwrap().unwrap();
            drop(first);
            assert!(path.exists());
            drop(second);
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_is_real_stays() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["dir", "file", "link"] {
            let path = dir.path().join(name);
            match name {
                "dir" => fs::create_dir(&path).unwrap(),
                "file" => fs::write(&path, "").unwrap(),
                _ => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
            }
            assert!(hold(&path, StandIn::Dir).unwrap().is_none());
            assert!(path.symlink_metadata().is_ok(), "{name}");
        }
        let held = hold(&dir.path().join("x"), StandIn::Dir).unwrap().unwrap();
        fs::set_permissions(dir.path().join("x"), Permissions::from_mode(0o755)).unwrap();
        drop(held);
        assert!(dir.path().join("x").exists(), "the person took it over");
    }

    #[test]
    fn many_at_once_leave_nothing_and_never_lose_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let held = hold(&path, StandIn::Dir).unwrap().unwrap();
                        assert!(is_at(&held.file, &path));
                    }
                });
            }
        });
        assert!(!path.exists());
    }
}
