//! The lock of a file that one process writes: everybody else learns who it is.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often a lock is tried that somebody else is just giving up.
const TRIES_MAX: u32 = 100;

/// The lock, held until it is dropped. The system lets go of it when the process dies.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

/// Somebody else writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is open in another Baton{}", .pid.map_or_else(String::new, |pid| format!(" (process {pid})")))]
pub struct InUse {
    /// Who, if they have said so.
    pub pid: Option<u32>,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(path: &Path) -> io::Result<Result<Self, InUse>> {
        for _ in 0..TRIES_MAX {
            let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Err(InUse { pid: pid(&mut file) })),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The one before may have removed the file between our two calls: then this lock is of nothing.
            if fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|ours| now.ino() == ours.ino())) {
                file.set_len(0)?;
                file.rewind()?;
                write!(file, "{}", std::process::id())?;
                return Ok(Ok(Self { file, path: path.to_owned() }));
            }
        }
        Err(io::Error::other("the lock changes hands all the time"))
    }

    /// Who has the lock, if anybody does. Takes it for a moment where nobody has it and a dead process has left its file.
    pub fn holder(path: &Path) -> io::Result<Option<InUse>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(InUse { pid: pid(&mut file) })),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Whoever has the lock may not have written its number yet.
fn pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok())
}

impl Drop for Lock {
    fn drop(&mut self) {
        // First the name, then the lock: nobody can take a lock that still has a name and no owner.
        drop(fs::remove_file(&self.path));
        drop(self.file.unlock());
    }
}
