//! Copying and removing directories, whatever is in them.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::run_clone::{CloneError, Result};

/// Removes a file or a directory, whatever its permissions; nothing if there is none.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let known = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        known => known.map_err(CloneError::io(path))?,
    };
    if !known.is_dir() {
        return fs::remove_file(path).map_err(CloneError::io(path));
    }
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    // Some build tools make their directories read-only.
    open_up(path);
    fs::remove_dir_all(path).map_err(CloneError::io(path))
}

fn open_up(dir: &Path) {
    drop(fs::set_permissions(dir, fs::Permissions::from_mode(0o700)));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        open_up(&entry.path());
    }
}

/// Copies a directory with links and permissions; what is neither file, link nor directory is left out.
pub(crate) fn copy_dir(from: &Path, to: &Path, but: &[&str]) -> Result<()> {
    fs::create_dir_all(to).map_err(CloneError::io(to))?;
    for entry in fs::read_dir(from).map_err(CloneError::io(from))? {
        let entry = entry.map_err(CloneError::io(from))?;
        let name = entry.file_name();
        if but.iter().any(|left_out| name == *left_out) {
            continue;
        }
        copy(&entry.path(), &to.join(&name))?;
    }
    let mode = fs::metadata(from).map_err(CloneError::io(from))?.permissions();
    fs::set_permissions(to, mode).map_err(CloneError::io(to))
}

/// Copies loose objects that are not there yet. A clone of ours has no others.
pub(crate) fn copy_objects(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(CloneError::io(from))?.flatten() {
        let name = entry.file_name();
        if name.len() != 2 {
            continue;
        }
        let dir = to.join(&name);
        fs::create_dir_all(&dir).map_err(CloneError::io(&dir))?;
        for object in fs::read_dir(entry.path()).map_err(CloneError::io(from))?.flatten() {
            let place = dir.join(object.file_name());
            if !place.exists() {
                copy(&object.path(), &place)?;
            }
        }
    }
    Ok(())
}

/// Copies a file, a link or a directory.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let known = fs::symlink_metadata(from).map_err(CloneError::io(from))?;
    if known.is_dir() {
        copy_dir(from, to, &[])
    } else if known.is_symlink() {
        let target = fs::read_link(from).map_err(CloneError::io(from))?;
        symlink(target, to).map_err(CloneError::io(to))
    } else if known.is_file() {
        fs::copy(from, to).map(drop).map_err(CloneError::io(from))
    } else {
        Ok(())
    }
}
