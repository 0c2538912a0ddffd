//! The ledger: each file as the agent last saw or wrote it, so that nobody else's change is overwritten.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

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
