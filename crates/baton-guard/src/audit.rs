//! The audit log: what was asked, decided and done in a project, in a chain that shows when it was changed.
//!
//! Every entry is one line that carries the hash of the line before it, its own hash, and a seal: a keyed hash, so that
//! nobody without the key can write or rewrite a line. Behind each entry a checkpoint with the count and the head is
//! sealed in another directory, so that a tail that was cut off is missed. The key is a file of its own in the state root.
//!
//! An entry survives `kill -9` once [`Audit::append`] returns. It survives power loss after [`Audit::sync`], which also
//! happens by itself every [`SYNC_EVERY`] entries.

mod chain;
mod query;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use chain::{Entry, Finding, Record};
pub use query::{Filter, Report};

use crate::secrets::Redactor;
use chain::{Checkpoint, Key};

/// How many entries may be lost by a power loss at most.
pub const SYNC_EVERY: u64 = 64;
/// The longest text of one entry; the rest is cut.
const WHAT_MAX: usize = 16 * 1024;

/// Why the log could not be written or read. Whoever acts must stop when an append fails.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A file could not be used.
    #[error("cannot use the audit log at {file}: {error}")]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is there is not what was written.
    #[error("the audit log at {file} was changed: {finding}")]
    Changed {
        /// The log.
        file: PathBuf,
        /// What is wrong with it.
        finding: String,
    },
}

/// The log of one project. Any number of processes may use it at once.
#[derive(Debug, Clone)]
pub struct Audit {
    log: PathBuf,
    checkpoint: PathBuf,
    key: PathBuf,
    redactor: Redactor,
}

/// How far the log goes when nothing is wrong with it.
struct Head {
    seq: u64,
    hash: String,
    bytes: u64,
    synced: u64,
}

impl Audit {
    /// The log of the project with this id below Baton's state directory. Nothing is read or made yet.
    pub fn new(state_dir: &Path, project: &str, redactor: Redactor) -> Self {
        Self {
            log: state_dir.join("projects").join(project).join("audit/log.jsonl"),
            checkpoint: state_dir.join("audit").join(format!("{project}.checkpoint")),
            key: state_dir.join("audit/key"),
            redactor,
        }
    }

    /// Where the log is.
    pub fn file(&self) -> &Path {
        &self.log
    }

    /// Adds an entry. When this returns, it is written; when it fails, nothing may be done that should have been logged.
    pub fn append(&self, at: Timestamp, record: Record) -> Result<Entry, AuditError> {
        let mut log = self.open_log()?;
        let key = self.open_key(&log)?;
        let checkpoint = self.open(&self.checkpoint)?;
        let mut head = self.head(&mut log, &checkpoint, &key)?;
        let torn = self.drop_torn(&mut log, &head)?;
        if torn > 0 {
            let what = format!("a line of {torn} bytes was never finished and is dropped");
            let record = Record { kind: "audit.repair".into(), actor: "baton".into(), what, decision: None };
            self.write(&mut log, &checkpoint, &key, &mut head, at, record)?;
        }
        self.write(&mut log, &checkpoint, &key, &mut head, at, record)
    }

    /// Makes all entries so far survive power loss.
    pub fn sync(&self) -> Result<(), AuditError> {
        if !self.log.exists() {
            return Ok(());
        }
        let mut log = self.open_log()?;
        let key = self.open_key(&log)?;
        let checkpoint = self.open(&self.checkpoint)?;
        let mut head = self.head(&mut log, &checkpoint, &key)?;
        log.sync_data().map_err(|error| io_error(&self.log, error))?;
        head.synced = head.seq;
        self.seal(&checkpoint, &key, &head)?;
        checkpoint.sync_data().map_err(|error| io_error(&self.checkpoint, error))
    }

    fn write(
        &self,
        log: &mut File,
        checkpoint: &File,
        key: &Key,
        head: &mut Head,
        at: Timestamp,
        mut record: Record,
    ) -> Result<Entry, AuditError> {
        record.what = self.redactor.redact_str(&record.what).into_owned();
        if record.what.len() > WHAT_MAX {
            record.what.truncate(record.what.floor_char_boundary(WHAT_MAX));
            record.what.push_str(" […]");
        }
        let entry = Entry { seq: head.seq + 1, at, record, prev: head.hash.clone() };
        let (line, hash) = chain::line(&entry, key);
        log.write_all(line.as_bytes()).map_err(|error| io_error(&self.log, error))?;
        (head.seq, head.hash, head.bytes) = (entry.seq, hash, head.bytes + line.len() as u64);
        if head.seq - head.synced >= SYNC_EVERY {
            log.sync_data().map_err(|error| io_error(&self.log, error))?;
            head.synced = head.seq;
        }
        self.seal(checkpoint, key, head)?;
        Ok(entry)
    }

    /// One write of fixed length, so that there is always a whole checkpoint.
    fn seal(&self, file: &File, key: &Key, head: &Head) -> Result<(), AuditError> {
        let checkpoint =
            Checkpoint { count: head.seq, bytes: head.bytes, synced: head.synced, head: head.hash.clone() };
        file.write_all_at(checkpoint.line(key).as_bytes(), 0).map_err(|error| io_error(&self.checkpoint, error))
    }

    /// Where to go on: at the checkpoint, and behind it what a killed process wrote and did not seal.
    fn head(&self, log: &mut File, checkpoint: &File, key: &Key) -> Result<Head, AuditError> {
        let changed = |finding: String| AuditError::Changed { file: self.log.clone(), finding };
        let length = log.metadata().map_err(|error| io_error(&self.log, error))?.len();
        let mut text = String::new();
        (&*checkpoint).read_to_string(&mut text).map_err(|error| io_error(&self.checkpoint, error))?;
        let sealed = match (text.is_empty(), Checkpoint::read(&text, key)) {
            (true, _) => Checkpoint::default(),
            (false, Some(sealed)) => sealed,
            (false, None) => return Err(changed(Finding::Checkpoint.to_string())),
        };
        if length < sealed.bytes {
            return Err(changed(format!("it is {length} bytes long and was {}", sealed.bytes)));
        }
        let mut head = Head { seq: sealed.count, hash: sealed.head, bytes: sealed.bytes, synced: sealed.synced };
        if length > head.bytes {
            let mut rest = String::new();
            log.seek(SeekFrom::Start(head.bytes)).map_err(|error| io_error(&self.log, error))?;
            log.read_to_string(&mut rest).map_err(|error| io_error(&self.log, error))?;
            for line in rest.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let (entry, hash) =
                    chain::read(line.trim_end_matches('\n'), key).map_err(|found| changed(found.to_string()))?;
                if entry.seq != head.seq + 1 || entry.prev != head.hash {
                    return Err(changed(Finding::Order { seq: head.seq + 1, found: entry.seq }.to_string()));
                }
                (head.seq, head.hash, head.bytes) = (entry.seq, hash, head.bytes + line.len() as u64);
            }
        }
        Ok(head)
    }

    /// Takes off a line whose writer was killed; returns how long it was.
    fn drop_torn(&self, log: &mut File, head: &Head) -> Result<u64, AuditError> {
        let length = log.metadata().map_err(|error| io_error(&self.log, error))?.len();
        if length > head.bytes {
            log.set_len(head.bytes).map_err(|error| io_error(&self.log, error))?;
        }
        Ok(length - head.bytes)
    }

    /// The log, locked until it is dropped.
    fn open_log(&self) -> Result<File, AuditError> {
        let log = self.open(&self.log)?;
        // Appends take microseconds; whoever holds the lock for longer is stopped, and its end frees the lock.
        log.lock().map_err(|error| io_error(&self.log, error))?;
        Ok(log)
    }

    fn open(&self, file: &Path) -> Result<File, AuditError> {
        let is_log = file == self.log;
        let mut options = OpenOptions::new();
        // A file is never truncated; the log is only ever added to.
        options.read(true).write(true).append(is_log).create(true).mode(0o600);
        let opened = match options.open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let dir = file.parent().unwrap_or(file);
                DirBuilder::new().recursive(true).mode(0o700).create(dir).and_then(|()| options.open(file))
            }
            opened => opened,
        };
        opened.map_err(|error| io_error(file, error))
    }

    /// The key; made if there is nothing yet that it should have sealed.
    fn open_key(&self, log: &File) -> Result<Key, AuditError> {
        match fs::read(&self.key) {
            Ok(bytes) => Key::read(&bytes).ok_or_else(|| io_error(&self.key, io::Error::other("it is no key"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_new = log.metadata().is_ok_and(|data| data.len() == 0) && !self.checkpoint.exists();
                if !is_new {
                    return Err(io_error(&self.key, io::Error::other("the key that sealed the log is gone")));
                }
                self.make_key().map_err(|error| io_error(&self.key, error))
            }
            Err(error) => Err(io_error(&self.key, error)),
        }
    }

    fn make_key(&self) -> io::Result<Key> {
        let mut random = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let dir = self.key.parent().unwrap_or(&self.key);
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mut new = tempfile::NamedTempFile::new_in(dir)?;
        new.write_all(Key::new(random).text().as_bytes())?;
        new.as_file().sync_all()?;
        // Two first appends in two projects may meet here: the first key stays.
        match new.persist_noclobber(&self.key) {
            Ok(_) => Ok(Key::new(random)),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Key::read(&fs::read(&self.key)?).ok_or_else(|| io::Error::other("it is no key"))
            }
            Err(error) => Err(error.error),
        }
    }
}

fn io_error(file: &Path, error: io::Error) -> AuditError {
    AuditError::Io { file: file.to_owned(), error }
}

/// How an entry ended, where a decision was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It was allowed without a question.
    Allowed,
    /// A person allowed it.
    Approved,
    /// It was refused.
    Denied,
    /// It was allowed and failed.
    Failed,
}

#[cfg(test)]
mod tests;
