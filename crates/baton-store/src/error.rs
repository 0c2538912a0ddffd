//! What can go wrong with the store, and what to do about it.

use std::path::PathBuf;

use baton_workflow::RunId;

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
        why: std::io::Error,
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
