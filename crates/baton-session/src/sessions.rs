//! The sessions of a project: a directory with a file for each.

use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use baton_core::{EventId, IdSource, SessionId, Timestamp};

use crate::blobs::Blobs;
use crate::codec::peek;
use crate::entry::{Header, Origin, VERSION};
use crate::load::{LoadError, Loaded, header, load};
use crate::log::{Log, OpenError, file_name};
use crate::tree::Tree;

/// How many candidates an ambiguous name shows.
const SHOWN_MAX: usize = 5;
/// The end of a session file's name.
const SUFFIX: &str = ".jsonl";
/// So many files are looked at by two threads.
const MANY: usize = 1000;

/// The sessions of a project.
#[derive(Debug, Clone)]
pub struct Sessions {
    dir: PathBuf,
    blobs: Blobs,
}

/// A session file, from the outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// The session.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
    /// When it was last written.
    pub used: SystemTime,
    /// How long it is.
    pub bytes: u64,
}

/// The session files among these.
fn look_at(entries: &[DirEntry]) -> Vec<SessionFile> {
    let seen = |entry: &DirEntry| {
        let id = SessionId::new(entry.file_name().to_str()?.strip_suffix(SUFFIX)?);
        // Nothing if it was removed since. Whoever made an empty one was stopped before there was anything to keep.
        let known = entry.metadata().ok().filter(|known| known.is_file() && known.len() > 0)?;
        let used = known.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        Some(SessionFile { id, path: entry.path(), used, bytes: known.len() })
    };
    entries.iter().filter_map(seen).collect()
}

/// No session, or more than one, is meant by a name.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The directory cannot be read.
    #[error("the sessions in {} cannot be read: {why}", .dir.display())]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// There is none.
    #[error("there is no session `{0}` in this project")]
    None(String),
    /// There are several.
    #[error("`{name}` can mean several sessions: {}", .candidates.join(", "))]
    Several {
        /// The name.
        name: String,
        /// Some of them.
        candidates: Vec<String>,
    },
    /// The entries of a session cannot be read.
    #[error("its entries cannot be read: {0}")]
    Entries(io::Error),
    /// There is no such entry.
    #[error("it has no entry `{0}`")]
    NoEntry(String),
    /// There are several such entries.
    #[error("`{0}` can mean {1} entries of it")]
    SeveralEntries(String, usize),
}

impl Sessions {
    /// The sessions in a project's state directory, which need not have any yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { dir: state_dir.join("sessions"), blobs: Blobs::new(state_dir.join("blobs")) }
    }

    /// Where their files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The project's state directory.
    pub fn state_dir(&self) -> &Path {
        self.dir.parent().unwrap_or(&self.dir)
    }

    /// Where their big texts are.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// The file of a session.
    pub fn path(&self, session: &SessionId) -> PathBuf {
        self.dir.join(file_name(session))
    }

    /// A new session, whose file is made with the first prompt.
    pub fn create(&self, session: SessionId, cwd: &Path, at: Timestamp, ids: &dyn IdSource) -> Log {
        let header = Header { v: VERSION, session, cwd: cwd.display().to_string(), forked: None, imported: None };
        Log::new(&self.dir, self.blobs.clone(), header, at, ids)
    }

    /// Opens a session to go on with it.
    pub fn open(&self, session: &SessionId, at: Timestamp, ids: &dyn IdSource) -> Result<(Log, Loaded), OpenError> {
        Log::open(&self.dir, self.blobs.clone(), session, at, ids)
    }

    /// Loads a session to look at it; somebody may be writing it.
    pub fn load(&self, session: &SessionId) -> Result<Loaded, LoadError> {
        load(&File::open(self.path(session))?, &self.blobs)
    }

    /// All session files, in no order.
    pub fn files(&self) -> io::Result<Vec<SessionFile>> {
        let listing = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listing => listing?,
        };
        let mut entries = Vec::new();
        for entry in listing {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().ends_with(SUFFIX.as_bytes()) {
                entries.push(entry);
            }
        }
        if entries.len() < MANY {
            return Ok(look_at(&entries));
        }
        // Looking at a file takes microseconds, which add up.
        let (some, others) = entries.split_at(entries.len() / 2);
        Ok(thread::scope(|scope| {
            let others = scope.spawn(|| look_at(others));
            let mut files = look_at(some);
            match others.join() {
                Ok(found) => files.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            files
        }))
    }

    /// The session that was used last.
    pub fn latest(&self) -> Result<Option<SessionId>, FindError> {
        let last = self.listed()?.into_iter().max_by(|one, other| (one.used, &one.id).cmp(&(other.used, &other.id)));
        Ok(last.map(|file| file.id))
    }

    /// The session that is meant: its id, with or without `ses_`, or an end or a beginning of it that no other has.
    pub fn find(&self, name: &str) -> Result<SessionId, FindError> {
        let plain = name.trim().trim_start_matches("ses_").to_ascii_uppercase();
        let mut meant = Vec::new();
        for file in self.listed()? {
            let id = file.id.as_str().trim_start_matches("ses_").to_ascii_uppercase();
            if id == plain {
                return Ok(file.id);
            }
            if !plain.is_empty() && (id.starts_with(&plain) || id.ends_with(&plain)) {
                meant.push(file.id);
            }
        }
        meant.sort();
        match meant.as_slice() {
            [] => Err(FindError::None(name.to_owned())),
            [one] => Ok(one.clone()),
            several => {
                let candidates = several.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
                Err(FindError::Several { name: name.to_owned(), candidates })
            }
        }
    }

    fn listed(&self) -> Result<Vec<SessionFile>, FindError> {
        self.files().map_err(|why| FindError::Unreadable { dir: self.dir.clone(), why })
    }

    /// Makes a session of its own that goes on from an entry of another one, or from its last. The entries up to there are
    /// copied as they are; the other session is not touched.
    pub fn fork(
        &self,
        from: &SessionId,
        entry: Option<&EventId>,
        session: SessionId,
        at: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Log, ForkError> {
        let file = File::open(self.path(from))?;
        let cwd = header(&file, &self.blobs)?.map(|header| header.cwd).unwrap_or_default();
        let tree = Tree::read(&file, &self.blobs)?;
        let leaf = match entry {
            Some(entry) => tree.find(entry).ok_or_else(|| ForkError::NoEntry(entry.clone()))?,
            None => tree.last().ok_or_else(|| ForkError::Empty(from.clone()))?,
        };
        let path = tree.path(leaf);
        let origin = tree.line(&file, leaf)?;
        let entry = peek(&origin).map(|head| EventId::new(head.id)).ok_or_else(|| ForkError::Empty(from.clone()))?;
        let forked = Some(Origin { session: from.clone(), entry: entry.clone() });
        let header = Header { v: VERSION, session, cwd, forked, imported: None };
        let mut log = Log::new(&self.dir, self.blobs.clone(), header, at, ids);
        let mut lines = Vec::new();
        for node in path {
            lines.extend(tree.line(&file, node)?);
            lines.push(b'\n');
        }
        log.begin_with(&lines, entry)?;
        Ok(log)
    }
}

/// Why a session cannot be forked.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// It cannot be read, or the new one not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It has no such entry.
    #[error("it has no entry `{0}`")]
    NoEntry(EventId),
    /// It has no entry at all.
    #[error("the session {0} has no entries")]
    Empty(SessionId),
}
