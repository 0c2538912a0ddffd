//! Restoring: carries out the steps of a plan. It writes nothing through a link.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown, symlink};
use std::path::{Path, PathBuf};

use super::blobs::Blobs;
use super::plan::Step;
use super::state::{FileState, Hash};

/// Makes sure that all bytes are there before anything is changed.
pub(super) fn check(steps: &[Step], blobs: &Blobs) -> io::Result<()> {
    for step in steps {
        if let Step::Put(path, FileState { hash: Some(hash), .. }) = step {
            blobs.check(*hash).map_err(|error| {
                io::Error::other(format!("what {} held cannot be read any more: {error}", path.display()))
            })?;
        }
    }
    Ok(())
}

/// Carries out steps in their order. The directories that stay because others have put something there.
pub(super) fn restore(steps: &[Step], blobs: &Blobs) -> io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for step in steps {
        let named = |error: io::Error| io::Error::other(format!("{}: {error}", step.path().display()));
        match step {
            Step::Remove(path) => absent(fs::remove_file(path)).map_err(named)?,
            Step::RemoveDir(path) => match fs::remove_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => left.push(path.clone()),
                done => absent(done).map_err(named)?,
            },
            Step::MakeDir(path) => {
                above(path).and_then(|()| make_dir(path)).map_err(named)?;
            }
            Step::Put(path, file) => above(path).and_then(|()| put(path, file, blobs)).map_err(named)?,
            Step::Link(path, to) => {
                above(path).and_then(|()| symlink(to, path)).map_err(named)?;
            }
            Step::Mode(path, mode) => {
                if path.symlink_metadata().map_err(named)?.is_dir() {
                    fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(named)?;
                }
            }
        }
    }
    Ok(left)
}

/// Makes a directory, unless objects of git that were put back have made it already.
fn make_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(_) if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) => Ok(()),
        made => made,
    }
}

/// What should go may be gone.
fn absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        done => done,
    }
}

/// Makes sure that the directory of a path is there and is one by itself, not by a link.
fn above(path: &Path) -> io::Result<()> {
    let Some(dir) = path.parent() else { return Ok(()) };
    fs::create_dir_all(dir)?;
    if dir.canonicalize()? == dir {
        return Ok(());
    }
    Err(io::Error::other("a directory above it is a link now"))
}

/// Puts a file in place by a new name, also where the old one has other names: those may be of another file by now.
fn put(path: &Path, file: &FileState, blobs: &Blobs) -> io::Result<()> {
    let hash: Hash = file.hash.ok_or_else(|| io::Error::other("its bytes are not kept"))?;
    let old = path.symlink_metadata().ok().filter(fs::Metadata::is_file);
    let dir = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    let mut temp = tempfile::Builder::new().prefix(".baton-").tempfile_in(dir)?;
    blobs.copy_to(hash, &mut temp)?;
    if let Some(old) = old {
        // Only root can give files away; for others these are their own.
        drop(fchown(temp.as_file(), Some(old.uid()), Some(old.gid())));
    }
    temp.as_file().set_permissions(Permissions::from_mode(file.mode))?;
    temp.persist(path).map(drop).map_err(|failed| failed.error)
}
