//! Blobs: bytes of files, kept once under the name that is their hash, and never changed.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::state::Hash;

/// What is smaller is read at once.
const AT_ONCE: u64 = 4 * 1024 * 1024;
/// A blob that is younger is not removed: somebody may be about to refer to it.
const YOUNG: Duration = Duration::from_hours(1);

/// A directory of blobs.
#[derive(Debug, Clone)]
pub(super) struct Blobs(PathBuf);

impl Blobs {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    fn place(&self, hash: Hash) -> PathBuf {
        let name = hash.to_string();
        self.0.join(&name[..2]).join(&name[2..])
    }

    /// Whether these bytes are kept. Whoever asks means to refer to them, so they count as young from then on.
    fn is_kept(&self, hash: Hash) -> bool {
        let place = self.place(hash);
        let Ok(metadata) = place.metadata() else { return false };
        let is_old = metadata.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > YOUNG / 2);
        !is_old
            || File::options().append(true).open(&place).and_then(|file| file.set_modified(SystemTime::now())).is_ok()
    }

    fn temp(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new().prefix("tmp.").permissions(Permissions::from_mode(0o600)).tempfile_in(&self.0)
    }

    fn finish(&self, temp: tempfile::NamedTempFile, hash: Hash) -> io::Result<()> {
        let place = self.place(hash);
        if let Some(dir) = place.parent()
            && !dir.is_dir()
        {
            fs::create_dir_all(dir)?;
        }
        temp.persist(place).map(drop).map_err(|failed| failed.error)
    }

    /// Keeps these bytes; how many had to be written.
    pub(super) fn keep(&self, bytes: &[u8]) -> io::Result<(Hash, u64)> {
        let hash = Hash::of(bytes);
        if self.is_kept(hash) {
            return Ok((hash, 0));
        }
        let written = self.temp().and_then(|mut temp| {
            temp.write_all(bytes)?;
            self.finish(temp, hash)
        });
        written.map_err(|error| unwritable(&error))?;
        Ok((hash, bytes.len() as u64))
    }

    /// Keeps what a file holds. The bytes come back, too, if they are few.
    pub(super) fn keep_file(&self, path: &Path) -> io::Result<(Hash, u64, Option<Vec<u8>>)> {
        let file = open(path)?;
        if file.metadata()?.len() <= AT_ONCE {
            let mut bytes = Vec::new();
            (&file).take(AT_ONCE + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 <= AT_ONCE {
                let (hash, written) = self.keep(&bytes)?;
                return Ok((hash, written, Some(bytes)));
            }
        }
        let hash = hash_of(&mut open(path)?, |_| Ok(()))?.0;
        if self.is_kept(hash) {
            return Ok((hash, 0, None));
        }
        // It may have changed since: what was copied counts.
        let mut temp = self.temp().map_err(|error| unwritable(&error))?;
        let write = |bytes: &[u8]| temp.write_all(bytes).map_err(|error| unwritable(&error));
        let (hash, written) = hash_of(&mut open(path)?, write)?;
        self.finish(temp, hash).map_err(|error| unwritable(&error))?;
        Ok((hash, written, None))
    }

    /// Writes kept bytes to a file, or says that they are not what was kept.
    pub(super) fn copy_to(&self, hash: Hash, to: &mut impl Write) -> io::Result<()> {
        let mut file = File::open(self.place(hash))?;
        let (found, _) = hash_of(&mut file, |bytes| to.write_all(bytes))?;
        if found == hash { Ok(()) } else { Err(io::Error::other("the kept bytes were changed")) }
    }

    /// Whether these bytes are there and whole.
    pub(super) fn check(&self, hash: Hash) -> io::Result<()> {
        self.copy_to(hash, &mut io::sink())
    }

    /// All that are kept, with their sizes.
    pub(super) fn all(&self) -> Vec<(Hash, u64)> {
        let mut all = Vec::new();
        for dir in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let start = dir.file_name();
            for entry in fs::read_dir(dir.path()).into_iter().flatten().flatten() {
                let name = format!("{}{}", start.to_string_lossy(), entry.file_name().to_string_lossy());
                if let (Ok(hash), Ok(metadata)) = (name.parse(), entry.metadata()) {
                    all.push((hash, metadata.len()));
                }
            }
        }
        all
    }

    /// Removes bytes that nobody needs, unless they are young.
    pub(super) fn remove(&self, hash: Hash) {
        let place = self.place(hash);
        let age = place.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > YOUNG) {
            // What cannot be removed stays until the next time.
            drop(fs::remove_file(place));
        }
    }
}

/// Whatever keeps bytes from being kept is told apart from a file that cannot be read.
fn unwritable(error: &io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, format!("bytes cannot be kept: {error}"))
}

/// Opens a file of the workspace without following a link or waiting for a pipe that took its place.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn hash_of(from: &mut impl Read, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<(Hash, u64)> {
    let (mut hasher, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok((Hash::finish(hasher), length)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        to(&buffer[..count])?;
        length += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_once_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path().to_owned());
        let file = dir.path().join("large");
        let large = vec![7; usize::try_from(AT_ONCE).unwrap() + 9];
        fs::write(&file, &large).unwrap();
        let (hash, written, bytes) = blobs.keep_file(&file).unwrap();
        assert_eq!((hash, written, bytes), (Hash::of(&large), large.len() as u64, None));
        assert_eq!(blobs.keep_file(&file).unwrap().1, 0);
        assert_eq!(blobs.keep(b"small").unwrap(), (Hash::of(b"small"), 5));
        assert_eq!(blobs.keep(b"small").unwrap().1, 0);
        let mut back = Vec::new();
        blobs.copy_to(hash, &mut back).unwrap();
        assert_eq!(back, large);
        assert_eq!(blobs.all().len(), 2);
        fs::write(blobs.place(hash), "other").unwrap();
        assert!(blobs.check(hash).is_err());
        blobs.remove(hash);
        assert!(blobs.place(hash).exists(), "it is young");
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        assert!(blobs.keep_file(&dir.path().join("link")).is_err());
        let nowhere = Blobs::new(dir.path().join("nowhere"));
        for kept in [nowhere.keep_file(&file).map(drop), nowhere.keep(b"small").map(drop)] {
            assert_eq!(kept.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }
}
