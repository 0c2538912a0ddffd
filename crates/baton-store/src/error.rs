//! What can go wrong with the store, and what to do about it.

use std::io;
use std::path::PathBuf;

use baton_workflow::RunId;
use rusqlite::ErrorCode;

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes it.
    #[error("{} is in use by another Baton{}", .file.display(), .pid.map_or_else(String::new, |pid| format!(" (process {pid})")))]
    Held {
        /// The database.
        file: PathBuf,
        /// Who, if they have said so.
        pid: Option<u32>,
    },
    /// A newer Baton has written it.
    #[error("{} was written by a newer Baton (form {found}; this one knows {known})", .file.display())]
    Newer {
        /// The database.
        file: PathBuf,
        /// Its form.
        found: u32,
        /// The newest form that is known.
        known: u32,
    },
    /// It is not one of ours.
    #[error("{} is not a database of Baton", .0.display())]
    Foreign(PathBuf),
    /// It does not hold together.
    #[error("{} is damaged: {what}", .file.display())]
    Damaged {
        /// The database.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Somebody else has gone on with the run.
    #[error("the run {run} is at event {found}, not {expected}: somebody else has gone on with it")]
    Conflict {
        /// The run.
        run: RunId,
        /// Where it was taken to be.
        expected: u64,
        /// Where it is.
        found: u64,
    },
    /// A blob is not there, or not what it was.
    #[error("the blob {0} is gone or has changed")]
    Blob(String),
    /// The disk refuses.
    #[error("{}: {why}", .file.display())]
    Io {
        /// What was used.
        file: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// SQLite refuses.
    #[error("the journal cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// What is stored does not have its form.
    #[error("the journal holds something that cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// The thread that writes has ended.
    #[error("the journal is closed")]
    Closed,
}

impl StoreError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        const DAMAGED: &str = "nothing was changed; put a copy of the file back, or move it away to begin anew";
        match self {
            Self::Held { .. } => {
                "wait until it has ended, or speak to its run with `baton run submit` and `baton run stop`"
            }
            Self::Newer { .. } => "use the newer Baton; nothing was changed",
            Self::Foreign(_) => "nothing was changed; move the file away to begin anew",
            Self::Damaged { .. } | Self::Form(_) | Self::Blob(_) => DAMAGED,
            Self::Conflict { .. } => "look where it is with `baton run status`, and try again",
            Self::Io { why, .. } => match why.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FULL,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FORBIDDEN,
                _ => "see to the disk, and try again",
            },
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DAMAGED,
                Some(ErrorCode::DiskFull) => FULL,
                Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => FORBIDDEN,
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    "another program has the file for long; end it, and try again"
                }
                Some(ErrorCode::SystemIoFailure) => "see to the disk, and try again",
                _ => "this is a mistake in Baton: please report it",
            },
            Self::Closed => "an earlier error says why; try again",
        }
    }
}

const FULL: &str = "make room on the disk; nothing is lost, and `baton run resume` goes on";
const FORBIDDEN: &str = "may you read and write the file and its directory?";
