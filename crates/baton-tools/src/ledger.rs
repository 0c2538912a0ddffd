//! The ledger: each file as the agent last saw or wrote it, so that nobody else's change is overwritten.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::regular::Regular;

/// A larger file is known by its size and time; it is never read as a whole.
pub(crate) const CONTENTS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What a file was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// These contents.
    Contents([u8; 32]),
    /// This size and time.
    Large { len: u64, modified: Option<SystemTime> },
}

impl Stamp {
    /// Of these contents.
    pub(crate) fn of(contents: &[u8]) -> Self {
        Self::Contents(Sha256::digest(contents).into())
    }

    /// Of a file larger than [`CONTENTS_BYTES_MAX`].
    pub(crate) fn large(metadata: &Metadata) -> Self {
        Self::Large { len: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// Takes the stamp of a file while it is read, so that it never has to be in memory.
pub(crate) struct Stamping {
    file: Regular,
    contents: Sha256,
    bytes: u64,
}

impl Stamping {
    /// Will take the stamp of this file.
    pub(crate) fn new(file: Regular) -> Self {
        Self { file, contents: Sha256::new(), bytes: 0 }
    }

    /// The stamp of all of it: what was not read yet is read now, unless the file is large.
    pub(crate) fn finish(mut self) -> io::Result<Stamp> {
        const BUFFER_BYTES: usize = 64 * 1024;
        let mut rest = vec![0; BUFFER_BYTES];
        while self.is_small() {
            if self.read(&mut rest)? == 0 {
                return Ok(Stamp::Contents(self.contents.finalize().into()));
            }
        }
        Ok(Stamp::large(self.file.metadata()))
    }

    /// What the kernel says about a file's size need not be true: some grow, and some of its own have none.
    fn is_small(&self) -> bool {
        self.file.metadata().len().max(self.bytes) <= CONTENTS_BYTES_MAX
    }
}

impl Read for Stamping {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.bytes += count as u64;
        if self.is_small() {
            self.contents.update(&buffer[..count]);
        }
        Ok(count)
    }
}

/// The stamps, by resolved path.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<HashMap<PathBuf, Stamp>>);

impl Ledger {
    /// The agent has now seen or written this.
    pub(crate) fn note(&self, path: &Path, stamp: Stamp) {
        self.stamps().insert(path.to_owned(), stamp);
    }

    /// Refuses when the file is not what the agent last saw. A file it never saw is no conflict.
    pub(crate) fn check(&self, path: &Path, now: &Stamp) -> Result<(), String> {
        match self.stamps().get(path) {
            Some(seen) if seen != now => Err(format!(
                "{} was changed since you read it; nothing was written. Read it again, then repeat the change",
                path.display()
            )),
            _ => Ok(()),
        }
    }

    fn stamps(&self) -> MutexGuard<'_, HashMap<PathBuf, Stamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::regular::tests::held;

    fn stamping(path: &Path) -> Stamping {
        Stamping::new(crate::regular::open(&held(path), &CancellationToken::new()).unwrap())
    }

    #[test]
    fn a_stamp_is_the_same_however_it_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let contents = "some line\n".repeat(20_000);
        std::fs::write(&path, &contents).unwrap();
        for read in [0, 1, 100_000, contents.len()] {
            let mut stamping = stamping(&path);
            stamping.read_exact(&mut vec![0; read]).unwrap();
            assert_eq!(stamping.finish().unwrap(), Stamp::of(contents.as_bytes()), "after {read} bytes");
        }
        std::fs::File::options().write(true).open(&path).unwrap().set_len(CONTENTS_BYTES_MAX + 1).unwrap();
        assert_eq!(stamping(&path).finish().unwrap(), Stamp::large(&path.metadata().unwrap()));
    }
}
