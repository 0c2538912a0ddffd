//! Comparing what could not be kept from being changed, and putting it back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Control files are small; what is larger is not what it claims to be.
const BYTES_MAX: u64 = 32 << 20;
const ENTRIES_MAX: usize = 10_000;

/// Paths as they were before a command.
#[derive(Debug, Default)]
pub(super) struct Watched(Vec<Place>);

#[derive(Debug)]
struct Place {
    /// The writable directory it lies in, which cannot be replaced itself.
    base: PathBuf,
    path: PathBuf,
    kept: Kept,
}

#[derive(Debug, PartialEq, Eq)]
enum Kept {
    Missing,
    File {
        bytes: Vec<u8>,
        mode: u32,
        modified: SystemTime,
    },
    Link(PathBuf),
    Dir {
        mode: u32,
        entries: BTreeMap<OsString, Kept>,
    },
    /// A socket, a device, a queue: known by its kind only.
    Special(u32),
}

impl Watched {
    /// Remembers these paths, as far as they lie in one of the writable directories.
    pub(super) fn begin<'a>(paths: impl Iterator<Item = &'a PathBuf>, writable: &[PathBuf]) -> io::Result<Self> {
        let mut budget = Budget { bytes: BYTES_MAX, entries: ENTRIES_MAX };
        let base_of = |path: &Path| {
            writable.iter().filter(|dir| path.starts_with(dir)).max_by_key(|dir| dir.components().count())
        };
        paths
            .filter_map(|path| Some((path, base_of(path)?.clone())))
            .map(|(path, base)| Ok(Place { base, path: path.clone(), kept: budget.read(path)? }))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Puts back what has changed since, and says what that was. All that could change it must have ended.
    pub(super) fn restore(mut self) -> io::Result<Vec<PathBuf>> {
        self.put_back()
    }

    fn put_back(&mut self) -> io::Result<Vec<PathBuf>> {
        let mut restored = Vec::new();
        for Place { base, path, kept } in self.0.drain(..) {
            let mut budget = Budget { bytes: BYTES_MAX, entries: ENTRIES_MAX };
            if is_reached_directly(&path) && budget.read(&path).is_ok_and(|now| now == kept) {
                continue;
            }
            // Nothing is where nothing was, whatever became of the directory.
            if kept == Kept::Missing && fs::symlink_metadata(&path).is_err() {
                continue;
            }
            let parent = plain_parent(&base, &path)?;
            if let Some(name) = path.file_name() {
                put(&parent.join(name), &kept)?;
            }
            restored.push(path);
        }
        Ok(restored)
    }
}

impl Drop for Watched {
    /// A command that was given up half-way is no excuse; what cannot be put back now is beyond help.
    fn drop(&mut self) {
        let _ = self.put_back();
    }
}

struct Budget {
    bytes: u64,
    entries: usize,
}

impl Budget {
    fn read(&mut self, path: &Path) -> io::Result<Kept> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Kept::Missing);
            }
            Err(error) => return Err(error),
        };
        let mode = meta.mode() & 0o7777;
        let left = self.entries.checked_sub(1).zip(self.bytes.checked_sub(if meta.is_file() { meta.len() } else { 0 }));
        let Some((entries, bytes)) = left else {
            return Err(io::Error::other(format!("{} is too large to be watched", path.display())));
        };
        (self.entries, self.bytes) = (entries, bytes);
        Ok(if meta.is_symlink() {
            Kept::Link(fs::read_link(path)?)
        } else if meta.is_file() {
            Kept::File { bytes: fs::read(path)?, mode, modified: meta.modified()? }
        } else if meta.is_dir() {
            let mut kept = BTreeMap::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                kept.insert(entry.file_name(), self.read(&entry.path())?);
            }
            Kept::Dir { mode, entries: kept }
        } else {
            Kept::Special(meta.mode())
        })
    }
}

/// Whether no link leads there, which would have been put in place by the command.
fn is_reached_directly(path: &Path) -> bool {
    path.parent().is_none_or(|parent| parent.canonicalize().is_ok_and(|real| real == parent) || !parent.exists())
}

/// The directory of a path, with everything on the way that is not a directory replaced by one: following a link that
/// the command has put there would write wherever it likes.
fn plain_parent(base: &Path, path: &Path) -> io::Result<PathBuf> {
    let below = path.parent().and_then(|parent| parent.strip_prefix(base).ok()).unwrap_or(Path::new(""));
    let mut at = base.to_owned();
    for part in below.components() {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                fs::remove_file(&at)?;
                fs::create_dir(&at)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&at)?,
            Err(error) => return Err(error),
        }
    }
    Ok(at)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => {
            fs::set_permissions(path, Permissions::from_mode(0o700))?;
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

fn put(path: &Path, kept: &Kept) -> io::Result<()> {
    remove(path)?;
    match kept {
        Kept::Missing | Kept::Special(_) => Ok(()),
        Kept::Link(target) => symlink(target, path),
        Kept::File { bytes, mode, modified } => {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(bytes)?;
            file.set_modified(*modified)?;
            file.set_permissions(Permissions::from_mode(*mode))
        }
        Kept::Dir { mode, entries } => {
            fs::create_dir(path)?;
            for (name, kept) in entries {
                put(&path.join(name), kept)?;
            }
            fs::set_permissions(path, Permissions::from_mode(*mode))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = |name: &str| root.join(name);
        let writable = [root.clone()];
        fs::create_dir_all(path("git/hooks")).unwrap();
        fs::write(path("git/hooks/a"), "a").unwrap();
        fs::write(path("git/config"), "c").unwrap();
        symlink("config", path("git/link")).unwrap();
        let all = ["git/hooks", "git/config", "git/link", "git/commondir", "same"].map(path);
        fs::write(path("same"), "").unwrap();
        let watched = Watched::begin(all.iter(), &writable).unwrap();
        fs::write(path("git/hooks/b"), "b").unwrap();
        fs::set_permissions(path("git/hooks/a"), Permissions::from_mode(0o777)).unwrap();
        fs::remove_file(path("git/config")).unwrap();
        fs::remove_file(path("git/link")).unwrap();
        fs::create_dir_all(path("git/commondir/x")).unwrap();
        let restored = watched.restore().unwrap();
        assert_eq!(restored, all[..4]);
        assert!(!path("git/hooks/b").exists() && !path("git/commondir").exists());
        assert_eq!(fs::read_to_string(path("git/config")).unwrap(), "c");
        assert_eq!(fs::read_link(path("git/link")).unwrap(), Path::new("config"));
        assert!(Watched::begin(all.iter(), &writable).unwrap().restore().unwrap().is_empty());
    }

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (git, outside) = (root.join("git"), root.join("outside"));
        fs::create_dir(&git).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(git.join("config"), "c").unwrap();
        fs::write(outside.join("config"), "theirs").unwrap();
        let config = git.join("config");
        let watched = Watched::begin([&config].into_iter(), std::slice::from_ref(&root)).unwrap();
        fs::rename(&git, root.join("moved")).unwrap();
        symlink(&outside, &git).unwrap();
        assert_eq!(watched.restore().unwrap(), std::slice::from_ref(&config));
        assert_eq!(fs::read_to_string(outside.join("config")).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(config).unwrap(), "c");
        assert!(!git.is_symlink());
    }
}
