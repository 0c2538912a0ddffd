//! What the person has trusted: `trust.json`, and the trusted contents, so that a change can be shown as one.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::survey::shown;
use super::{Survey, hash_of};

/// The most that is read of the file.
const BYTES_MAX: u64 = 16 << 20;

/// What was trusted of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// One hash for all of it.
    pub hash: String,
    /// When.
    pub at: Timestamp,
    /// The hash of each file.
    pub files: BTreeMap<String, String>,
}

/// Why trust could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A file could not be used.
    #[error("cannot use {file}: {error}")]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others could have written it.
    #[error("{file} is not a file that only you can write")]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// It cannot be understood.
    #[error("{file} is damaged: {error}")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
}

#[derive(Default, Serialize, Deserialize)]
struct Book {
    version: u32,
    projects: BTreeMap<String, Record>,
}

/// What one person has trusted.
#[derive(Debug, Clone)]
pub struct Ledger {
    file: PathBuf,
    contents: PathBuf,
}

impl Ledger {
    /// The ledger below Baton's state directory. Nothing is read or made yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { file: state_dir.join("trust.json"), contents: state_dir.join("trust") }
    }

    /// What was trusted of the repository at `root`.
    pub fn get(&self, root: &Path) -> Result<Option<Record>, LedgerError> {
        Ok(self.read()?.projects.remove(&key(root)))
    }

    /// Everything that was trusted, by root.
    pub fn list(&self) -> Result<BTreeMap<String, Record>, LedgerError> {
        Ok(self.read()?.projects)
    }

    /// Trusts a repository as the survey found it, and keeps the contents that came with that.
    pub fn put(&self, root: &Path, survey: &Survey, at: Timestamp) -> Result<Record, LedgerError> {
        let files = survey.hashes();
        let record = Record { hash: hash_of(&files), at, files };
        let _lock = self.lock()?;
        let mut book = self.read()?;
        for item in survey.items() {
            if let Some(content) = &item.content {
                let file = self.contents.join(&item.hash);
                replace(&file, content).map_err(|error| LedgerError::Io { file, error })?;
            }
        }
        book.projects.insert(key(root), record.clone());
        self.write(&book)?;
        Ok(record)
    }

    /// Trusts a repository no more; says whether it was.
    pub fn remove(&self, root: &Path) -> Result<bool, LedgerError> {
        let _lock = self.lock()?;
        let mut book = self.read()?;
        let was = book.projects.remove(&key(root)).is_some();
        if was {
            self.write(&book)?;
        }
        Ok(was)
    }

    /// What a trusted file held, by its hash, if that was kept.
    pub fn content(&self, hash: &str) -> Option<Vec<u8>> {
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        fs::read(self.contents.join(hash)).ok().filter(|_| is_hash)
    }

    fn read(&self) -> Result<Book, LedgerError> {
        let io = |error| LedgerError::Io { file: self.file.clone(), error };
        let meta = match fs::symlink_metadata(&self.file) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
            Err(error) => return Err(io(error)),
        };
        let is_ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.permissions().mode() & 0o022 == 0;
        if !meta.is_file() || !is_ours || meta.len() > BYTES_MAX {
            return Err(LedgerError::Foreign { file: self.file.clone() });
        }
        let text = fs::read(&self.file).map_err(io)?;
        serde_json::from_slice(&text).map_err(|error| LedgerError::Damaged { file: self.file.clone(), error })
    }

    /// Writes the book, then drops contents that nothing refers to any more.
    fn write(&self, book: &Book) -> Result<(), LedgerError> {
        let io = |error| LedgerError::Io { file: self.file.clone(), error };
        let book = Book { version: 1, projects: book.projects.clone() };
        let mut text = serde_json::to_vec_pretty(&book).map_err(|error| io(error.into()))?;
        text.push(b'\n');
        replace(&self.file, &text).map_err(io)?;
        let used: Vec<&String> = book.projects.values().flat_map(|record| record.files.values()).collect();
        for entry in fs::read_dir(&self.contents).into_iter().flatten().flatten() {
            if !used.iter().any(|hash| entry.file_name() == hash.as_str()) {
                // Left over, it costs room and nothing else.
                drop(fs::remove_file(entry.path()));
            }
        }
        Ok(())
    }

    /// One writer at a time; free again when dropped.
    fn lock(&self) -> Result<File, LedgerError> {
        let file = self.file.with_extension("lock");
        let dir = self.contents.clone();
        let locked = DirBuilder::new().recursive(true).mode(0o700).create(&dir).and_then(|()| {
            let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&file)?;
            lock.lock().map(|()| lock)
        });
        locked.map_err(|error| LedgerError::Io { file: self.file.clone(), error })
    }
}

/// Replaces a file as a whole: at any moment there is the old one or the new one.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = file.parent().unwrap_or(file);
    let mut new = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o600)).tempfile_in(dir)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    File::open(dir)?.sync_all()
}

/// The name of a repository in the book. Two roots never have the same.
fn key(root: &Path) -> String {
    shown(root.as_os_str().as_bytes())
}
