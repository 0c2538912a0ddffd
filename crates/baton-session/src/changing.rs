//! Changing a session as a whole: its name, where it goes on from, and whether it is there at all.

use std::fs;
use std::io;
use std::path::PathBuf;

use baton_core::{EventId, IdSource, SessionId, Timestamp};

use crate::entry::{Entry, EntryBody, Own};
use crate::log::{OpenError, file_name, lock_path};
use crate::sessions::Sessions;
use baton_config::{InUse, Lock};

/// A session in the trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trashed {
    /// The session.
    pub id: SessionId,
    /// When it was put there.
    pub at: Timestamp,
    /// Its file.
    pub path: PathBuf,
    /// How long that is.
    pub bytes: u64,
}

/// Why a session cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It cannot be opened: somebody else writes it, or it is not usable.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be written.
    #[error(transparent)]
    Append(#[from] crate::log::AppendError),
    /// Something else in the state directory cannot be used.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not in the trash.
    #[error("`{0}` is not in the trash")]
    NotTrashed(String),
    /// There are several like it in the trash.
    #[error("`{0}` can mean {1} sessions in the trash")]
    Several(String, usize),
    /// There is one of the same id again.
    #[error("there is a session {0} again")]
    Occupied(SessionId),
}

impl From<InUse> for ChangeError {
    fn from(held: InUse) -> Self {
        Self::Open(held.into())
    }
}

impl Sessions {
    /// Gives a session a name.
    pub fn rename(
        &self,
        session: &SessionId,
        title: &str,
        at: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<(), ChangeError> {
        let (mut log, _) = self.open(session, at, ids)?;
        log.append_own(EventId::fresh(ids), at, Own::Titled { title: title.to_owned() })?;
        Ok(log.unsynced()?.map_or(Ok(()), |unsynced| unsynced.sync())?)
    }

    /// Lets a session go on from one of its entries. What came after stays in the file.
    pub fn roll_back(
        &self,
        session: &SessionId,
        to: EventId,
        at: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<(), ChangeError> {
        let (mut log, _) = self.open(session, at, ids)?;
        let body = EntryBody::Own(Own::Moved);
        log.append_entry(Entry { id: EventId::fresh(ids), parent: Some(to), at, item: None, body })?;
        Ok(log.unsynced()?.map_or(Ok(()), |unsynced| unsynced.sync())?)
    }

    /// Whether somebody writes a session.
    pub fn holder(&self, session: &SessionId) -> io::Result<Option<InUse>> {
        let path = lock_path(&self.path(session));
        if !path.exists() {
            return Ok(None);
        }
        Ok(Lock::take(&path)?.err())
    }

    /// Puts a session into the trash.
    pub fn discard(&self, session: &SessionId, at: Timestamp) -> Result<Trashed, ChangeError> {
        fs::metadata(self.path(session))?;
        let _lock = Lock::take(&lock_path(&self.path(session)))??;
        self.discard_locked(session, at)
    }

    /// The same of a session that nobody else can open now.
    pub(crate) fn discard_locked(&self, session: &SessionId, at: Timestamp) -> Result<Trashed, ChangeError> {
        let path = self.path(session);
        let bytes = fs::metadata(&path)?.len();
        let trash = self.trash_dir();
        fs::create_dir_all(&trash)?;
        let mut millis = at.as_millisecond();
        let into = loop {
            let into = trash.join(format!("{millis}.{}", file_name(session)));
            if !into.exists() {
                break into;
            }
            millis += 1;
        };
        fs::rename(&path, &into)?;
        Ok(Trashed { id: session.clone(), at: Timestamp::from_millisecond(millis).unwrap_or(at), path: into, bytes })
    }

    /// What is in the trash, the last one first.
    pub fn trash(&self) -> io::Result<Vec<Trashed>> {
        let listing = match fs::read_dir(self.trash_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listing => listing?,
        };
        let mut found = Vec::new();
        for entry in listing {
            let entry = entry?;
            let name = entry.file_name();
            let Some((at, id)) = name.to_str().and_then(trashed_name) else { continue };
            // Removed since.
            let Ok(known) = entry.metadata() else { continue };
            found.push(Trashed { id, at, path: entry.path(), bytes: known.len() });
        }
        found.sort_by(|one, other| (other.at, &other.id).cmp(&(one.at, &one.id)));
        Ok(found)
    }

    /// Takes a session out of the trash: the one whose id is this or ends so.
    pub fn restore(&self, name: &str) -> Result<SessionId, ChangeError> {
        let plain = name.trim().trim_start_matches("ses_").to_ascii_uppercase();
        let is_meant = |one: &Trashed| {
            let id = one.id.as_str().to_ascii_uppercase();
            !plain.is_empty() && id.ends_with(&plain)
        };
        let mut meant: Vec<Trashed> = self.trash()?.into_iter().filter(is_meant).collect();
        // Of one session it may have several states: the last one counts.
        meant.sort_by(|one, other| (&one.id, other.at).cmp(&(&other.id, one.at)));
        meant.dedup_by(|later, first| later.id == first.id);
        let found = match meant.as_slice() {
            [] => return Err(ChangeError::NotTrashed(name.to_owned())),
            [one] => one.clone(),
            several => return Err(ChangeError::Several(name.to_owned(), several.len())),
        };
        let path = self.path(&found.id);
        fs::create_dir_all(self.dir())?;
        let _lock = Lock::take(&lock_path(&path))??;
        if path.exists() {
            return Err(ChangeError::Occupied(found.id));
        }
        fs::rename(&found.path, &path)?;
        Ok(found.id)
    }

    fn trash_dir(&self) -> PathBuf {
        self.state_dir().join("trash")
    }
}

/// What the name of a file in the trash says: when it was put there, and whose it is.
fn trashed_name(name: &str) -> Option<(Timestamp, SessionId)> {
    let (millis, rest) = name.split_once('.')?;
    let id = rest.strip_suffix(".jsonl")?;
    Some((Timestamp::from_millisecond(millis.parse().ok()?).ok()?, SessionId::new(id)))
}
