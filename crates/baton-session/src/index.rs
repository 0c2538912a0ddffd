//! The index: what the sessions of a project are about, for lists and searches. It can be thrown away at any time.
//!
//! Whoever writes a session never touches it. Whoever lists or searches brings it up to date first: by the sizes and times of
//! the files, and reading only what was appended. Where it cannot be written, the same is done in a file without a name.

mod query;
mod refresh;
mod summary;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::sessions::Sessions;

pub use query::{Found, MARKS};
pub use summary::Summary;

/// Another form of the tables is thrown away, and so is what was read by older rules.
const FORM: i32 = 1;
/// How long one process waits for another one that writes.
const BUSY: Duration = Duration::from_secs(5);

/// Rows are found by their stamps and by when they were used without reading the rest of them.
const TABLES: &str = "
    CREATE TABLE sessions (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL, mtime INTEGER NOT NULL,
        indexed INTEGER NOT NULL, tail INTEGER NOT NULL,
        title TEXT, prompt TEXT, cwd TEXT, model TEXT, created INTEGER,
        entries INTEGER NOT NULL, turns INTEGER NOT NULL, damage INTEGER NOT NULL, torn INTEGER NOT NULL,
        forked TEXT, imported TEXT
    );
    CREATE INDEX stamps ON sessions (id, size, mtime);
    CREATE INDEX used ON sessions (mtime);
    CREATE TABLE blobs (session INTEGER NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL);
    CREATE INDEX blobs_of ON blobs (session);
    CREATE TABLE said (
        no INTEGER PRIMARY KEY, session INTEGER NOT NULL, entry TEXT NOT NULL, at INTEGER NOT NULL, who TEXT NOT NULL,
        text TEXT NOT NULL
    );
    CREATE INDEX said_in ON said (session);
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = 'said', content_rowid = 'no', tokenize = 'unicode61 remove_diacritics 2'
    );
    CREATE TRIGGER said_added AFTER INSERT ON said BEGIN
        INSERT INTO words (rowid, text) VALUES (new.no, new.text);
    END;
    CREATE TRIGGER said_removed AFTER DELETE ON said BEGIN
        INSERT INTO words (words, rowid, text) VALUES ('delete', old.no, old.text);
    END;
";

/// The index of a project's sessions, up to date as of when it was opened.
#[derive(Debug)]
pub struct Index {
    db: Connection,
    sessions: Sessions,
    why_unkept: Option<String>,
}

/// Why there is no index, not even one that is not kept.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The sessions cannot be read.
    #[error("the sessions cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// There is no room for it anywhere.
    #[error("the index of the sessions: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Index {
    /// Opens the index and brings it up to date; `progress` hears how many of how many files have been read.
    pub fn open(sessions: &Sessions, progress: &mut dyn FnMut(usize, usize)) -> Result<Self, IndexError> {
        Self::ask(sessions, progress, |_| Ok(())).map(|(index, ())| index)
    }

    /// The same, with an answer to a question. Damage that only the question finds is mended, too.
    pub fn ask<T>(
        sessions: &Sessions,
        progress: &mut dyn FnMut(usize, usize),
        question: impl Fn(&Self) -> Result<T, IndexError>,
    ) -> Result<(Self, T), IndexError> {
        let path = path(sessions);
        let mut attempt = |db: rusqlite::Result<Connection>, why_unkept| {
            let mut index = Self { db: db?, sessions: sessions.clone(), why_unkept };
            index.refresh(progress)?;
            let answer = question(&index)?;
            Ok((index, answer))
        };
        let mut unkept = None;
        // What is damaged is made anew once; what is not usable even then is not kept.
        for is_second in [false, true] {
            match attempt(connect(&path, is_second), None) {
                Err(IndexError::Database(error)) => {
                    unkept = Some(error.to_string());
                    if is_elsewhere(&error) {
                        break;
                    }
                }
                done => return done,
            }
        }
        // Kept by nobody: the file has no name, and goes with the process.
        attempt(Connection::open("").and_then(|db| prepare(&db).map(|()| db)), unkept)
    }

    /// Why it will have to be made anew next time, if it will.
    pub fn why_unkept(&self) -> Option<&str> {
        self.why_unkept.as_deref()
    }

    /// The sessions that it is of.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }
}

/// Whether an error is no fault of the file's content: it would be the same with a new one.
fn is_elsewhere(error: &rusqlite::Error) -> bool {
    let codes = [
        ErrorCode::ReadOnly,
        ErrorCode::DiskFull,
        ErrorCode::CannotOpen,
        ErrorCode::PermissionDenied,
        ErrorCode::DatabaseBusy,
        ErrorCode::DatabaseLocked,
        ErrorCode::SystemIoFailure,
        ErrorCode::OutOfMemory,
    ];
    error.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

fn path(sessions: &Sessions) -> PathBuf {
    sessions.state_dir().join("index.db")
}

/// Opens the file; makes it if it is not there, of another form, or to be made anew.
fn connect(path: &Path, is_anew: bool) -> rusqlite::Result<Connection> {
    if !is_anew && let Some(db) = as_it_is(path)? {
        return Ok(db);
    }
    // Two processes must not throw away what the other one has just made.
    let lock = File::options().create(true).append(true).open(path.with_extension("lock"));
    let held = lock.as_ref().is_ok_and(|lock| lock.lock().is_ok());
    if held
        && !is_anew
        && let Some(db) = as_it_is(path)?
    {
        return Ok(db);
    }
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        drop(fs::remove_file(name));
    }
    let db = Connection::open(path)?;
    settle(&db)?;
    prepare(&db)?;
    Ok(db)
}

/// The file as it is, if it has the form that this version writes.
fn as_it_is(path: &Path) -> rusqlite::Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let db = Connection::open(path)?;
    let form: rusqlite::Result<i32> =
        settle(&db).and_then(|()| db.query_row("PRAGMA user_version", [], |row| row.get(0)));
    match form {
        Ok(FORM) => Ok(Some(db)),
        Err(error) if is_elsewhere(&error) => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn settle(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY)?;
    // What power loss takes from it is read again from the sessions.
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = FILE;")
}

fn prepare(db: &Connection) -> rusqlite::Result<()> {
    let is_made: bool =
        db.query_row("SELECT count(*) > 0 FROM sqlite_master WHERE name = 'sessions'", [], |row| row.get(0))?;
    if is_made {
        return Ok(());
    }
    db.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {FORM}; COMMIT;"))
}

#[cfg(test)]
mod tests;
