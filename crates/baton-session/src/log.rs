//! The log: the file of a session, open for writing. An entry is with the system before anybody hears of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use baton_config::{InUse, Lock};
use baton_core::{Event, EventBody, EventId, IdSource, SessionId, Timestamp};

use crate::blobs::{self, Blobs};
use crate::codec::encode;
use crate::entry::{Entry, EntryBody, Header, Own};
use crate::load::{LoadError, Loaded, load};
use crate::search::Archive;

/// A session file that this process writes, and nobody else.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    blobs: Blobs,
    lock: Option<Lock>,
    file: Option<File>,
    leaf: Option<EventId>,
    /// Entries from before the first prompt: until it is accepted, nothing is written.
    early: Vec<Entry>,
    is_begun: bool,
    /// Bytes that a failed write has left at the end.
    is_torn: bool,
    unsynced: Vec<PathBuf>,
}

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else writes it.
    #[error(transparent)]
    Held(#[from] InUse),
    /// It cannot be read, or not be written.
    #[error("{}: {why}", .file.display())]
    Unusable {
        /// Its file.
        file: PathBuf,
        /// Why.
        why: LoadError,
    },
}

/// An entry could not be written. Nothing of it is in the file, and it can be tried again.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the session {}: {why}", .file.display())]
pub struct AppendError {
    /// Its file.
    pub file: PathBuf,
    /// Why.
    pub why: io::Error,
}

impl Log {
    /// A new session, whose file is made with the first prompt.
    pub fn new(dir: &Path, blobs: Blobs, header: Header, at: Timestamp, ids: &dyn IdSource) -> Self {
        let path = dir.join(file_name(&header.session));
        let id = EventId::fresh(ids);
        let first = Entry { id: id.clone(), parent: None, at, item: None, body: EntryBody::Own(Own::Header(header)) };
        Self {
            path,
            blobs,
            lock: None,
            file: None,
            leaf: Some(id),
            early: vec![first],
            is_begun: false,
            is_torn: false,
            unsynced: Vec::new(),
        }
    }

    /// Opens a session to go on with it.
    pub fn open(
        dir: &Path,
        blobs: Blobs,
        session: &SessionId,
        at: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<(Self, Loaded), OpenError> {
        let path = dir.join(file_name(session));
        let unusable = |why: LoadError| OpenError::Unusable { file: path.clone(), why };
        let open = OpenOptions::new().read(true).append(true).open(&path);
        let file = open.map_err(|error| unusable(error.into()))?;
        let lock = Lock::take(&lock_path(&path)).map_err(|error| unusable(error.into()))??;
        let loaded = load(&file, &blobs).map_err(unusable)?;
        // A line that was cut off is ended, so that the next one stands alone.
        let is_torn = !ends_with_break(&file).map_err(|error| unusable(error.into()))?;
        let mut log = Self {
            blobs,
            lock: Some(lock),
            file: Some(file),
            leaf: loaded.leaf.clone(),
            early: Vec::new(),
            is_begun: false,
            is_torn,
            unsynced: Vec::new(),
            path,
        };
        if !loaded.damage.is_empty() {
            // Reported once: whoever comes next knows of it.
            let found = loaded.damage.iter().map(|damage| damage.span).collect();
            let (id, body) = (EventId::fresh(ids), EntryBody::Own(Own::Damage { found }));
            log.early.push(Entry { id: id.clone(), parent: log.leaf.replace(id), at, item: None, body });
        }
        Ok((log, loaded))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same for whoever looks something up in it.
    pub fn archive(&self) -> Archive {
        Archive::new(&self.path, self.blobs.clone())
    }

    /// Writes an event down.
    pub fn append(&mut self, event: &Event) -> Result<(), AppendError> {
        self.append_entry(Entry::of_event(event, self.leaf.clone()))
    }

    /// Writes down what only the session needs.
    pub fn append_own(&mut self, id: EventId, at: Timestamp, own: Own) -> Result<(), AppendError> {
        self.append_entry(Entry { id, parent: self.leaf.clone(), at, item: None, body: EntryBody::Own(own) })
    }

    /// Writes an entry down that may follow any other one.
    pub fn append_entry(&mut self, entry: Entry) -> Result<(), AppendError> {
        let id = entry.id.clone();
        if self.is_begun {
            self.write(std::slice::from_ref(&entry))?;
        } else if self.begins_with(&entry.body) {
            let mut early = std::mem::take(&mut self.early);
            early.push(entry);
            if let Err(error) = self.write(&early) {
                early.pop();
                self.early = early;
                return Err(error);
            }
            self.is_begun = true;
        } else {
            self.early.push(entry);
        }
        self.leaf = Some(id);
        Ok(())
    }

    /// Whether the person has said something that counts: a prompt, or, of a session that is there already, more.
    fn begins_with(&self, body: &EntryBody) -> bool {
        match body {
            EntryBody::Event(EventBody::TurnStarted { .. }) => true,
            EntryBody::Own(Own::Compacted(_) | Own::Titled { .. } | Own::Moved) => self.file.is_some(),
            _ => false,
        }
    }

    /// Begins with the lines of another session, the last of which is this entry.
    pub(crate) fn begin_with(&mut self, lines: &[u8], leaf: EventId) -> io::Result<()> {
        let early = std::mem::take(&mut self.early);
        self.try_write(&early)?;
        if let Some(file) = &mut self.file {
            file.write_all(lines)?;
        }
        (self.is_begun, self.leaf) = (true, Some(leaf));
        Ok(())
    }

    /// Writes entries in one go: all or none.
    fn write(&mut self, entries: &[Entry]) -> Result<(), AppendError> {
        self.try_write(entries).map_err(|why| AppendError { file: self.path.clone(), why })
    }

    fn try_write(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.is_torn {
            bytes.push(b'\n');
        }
        for entry in entries {
            let encoded = encode(entry, &self.blobs)?;
            bytes.extend(encoded.line);
            self.unsynced.extend(encoded.blobs);
        }
        if self.file.is_none() {
            self.create()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let before = file.metadata()?.len();
        if let Err(error) = file.write_all(&bytes) {
            // Half an entry is taken away again; if even that fails, the next one begins on a line of its own.
            if file.set_len(before).is_err() && file.metadata().is_ok_and(|now| now.len() != before) {
                self.is_torn = true;
            }
            return Err(error);
        }
        self.is_torn = false;
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        if self.lock.is_none() {
            self.lock = Some(Lock::take(&lock_path(&self.path))?.map_err(io::Error::other)?);
        }
        // A first attempt may have failed after the file was made: it is ours, and empty.
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.open(&self.path)?;
        if file.metadata()?.len() > 0 {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is such a session already"));
        }
        self.file = Some(file);
        Ok(())
    }

    /// What has yet to be made to survive power loss.
    pub fn unsynced(&mut self) -> io::Result<Option<Unsynced>> {
        let Some(file) = self.file.as_ref().filter(|_| self.is_begun) else { return Ok(None) };
        Ok(Some(Unsynced { file: file.try_clone()?, blobs: std::mem::take(&mut self.unsynced) }))
    }
}

/// What has yet to be made to survive power loss.
#[derive(Debug)]
pub struct Unsynced {
    file: File,
    blobs: Vec<PathBuf>,
}

impl Unsynced {
    /// Waits for the disk. It takes milliseconds: not for the async threads.
    pub fn sync(&self) -> io::Result<()> {
        blobs::sync(&self.blobs)?;
        self.file.sync_data()
    }
}

/// The name of a session's file.
pub(crate) fn file_name(session: &SessionId) -> String {
    format!("{session}.jsonl")
}

/// The lock of a session's file.
pub(crate) fn lock_path(file: &Path) -> PathBuf {
    file.with_extension("lock")
}

fn ends_with_break(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    Ok(last == *b"\n")
}
