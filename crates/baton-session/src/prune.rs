//! Pruning: what the budget says is done, and every step of it is written down first.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use baton_core::{SessionId, Timestamp};
use serde::Serialize;

use crate::blobs::is_hash;
use crate::budget::{Candidate, Discarded, SessionSettings, Verdict, Why, decide};
use crate::changing::{ChangeError, Trashed};
use crate::codec::refs;
use crate::index::{Index, IndexError};
use crate::log::OpenError;
use crate::scan::{Forward, Piece};
use crate::sessions::Sessions;

/// A younger blob may belong to an entry that is just being written.
const YOUNG: Duration = Duration::from_hours(24);

/// One thing that was pruned, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// When.
    pub at: Timestamp,
    /// What was done with it.
    pub done: Done,
    /// The session, or the hash of the blob.
    pub what: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    /// A session went to the trash.
    Discarded,
    /// A session was deleted from the trash.
    Deleted,
    /// A text that no session refers to was deleted.
    Blob,
}

/// Why something cannot be pruned.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// A file cannot be read or removed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A session cannot be moved.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// Which blobs are in use cannot be found out.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// What there is, and what the rules say about it.
struct Found {
    verdict: Verdict,
    trash: Vec<Trashed>,
    sessions: Vec<Candidate>,
}

impl Sessions {
    /// What would be pruned. Blobs are found only once their sessions are gone.
    pub fn prunable(&self, settings: &SessionSettings, now: Timestamp) -> Result<Vec<Pruned>, PruneError> {
        let Found { verdict, trash, sessions } = self.judged(settings, now)?;
        let of_trash = verdict.delete.iter().map(|(place, why)| deleted(&trash[*place], now, *why));
        let of_sessions = verdict.discard.iter().map(|(id, why)| discarded(id, &sessions, now, *why));
        Ok(of_trash.chain(of_sessions).collect())
    }

    /// Does what the rules say. Whatever is done is in `pruned.jsonl` before it is done.
    pub fn prune(&self, settings: &SessionSettings, now: Timestamp) -> Result<Vec<Pruned>, PruneError> {
        let mut done = Vec::new();
        let Found { verdict, trash, sessions } = self.judged(settings, now)?;
        for (place, why) in verdict.delete {
            let line = deleted(&trash[place], now, why);
            self.write_down(&line)?;
            gone(fs::remove_file(&trash[place].path))?;
            done.push(line);
        }
        for (id, why) in verdict.discard {
            let line = discarded(&id, &sessions, now, why);
            self.write_down(&line)?;
            match self.discard(&id, now) {
                Ok(_) => done.push(line),
                // Opened or removed since.
                Err(ChangeError::Open(OpenError::Held(_))) => {}
                Err(ChangeError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.prune_blobs(now, &mut done)?;
        Ok(done)
    }

    /// Prunes if that was not done in the last day; whether it was its turn.
    pub fn prune_daily(&self, settings: &SessionSettings, now: Timestamp) -> Result<bool, PruneError> {
        let stamp = self.state_dir().join("pruned");
        let day = Duration::from_hours(24);
        let is_recent = fs::metadata(&stamp)
            .and_then(|known| known.modified())
            .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|since| since < day));
        if is_recent || !self.dir().is_dir() {
            return Ok(false);
        }
        // First: what fails or is cut off is not tried again with every prompt.
        OpenOptions::new().create(true).append(true).mode(0o600).open(&stamp)?.set_modified(SystemTime::now())?;
        self.prune(settings, now)?;
        Ok(true)
    }

    fn judged(&self, settings: &SessionSettings, now: Timestamp) -> Result<Found, PruneError> {
        let mut sessions = Vec::new();
        for file in self.files()? {
            let used = Timestamp::try_from(file.used).unwrap_or(now);
            let is_open = self.holder(&file.id)?.is_some();
            sessions.push(Candidate { id: file.id, used, bytes: file.bytes, is_open });
        }
        let trash = self.trash()?;
        let discarded: Vec<Discarded> =
            trash.iter().enumerate().map(|(place, one)| Discarded { place, at: one.at, bytes: one.bytes }).collect();
        let blobs = self.blob_files()?.iter().map(|blob| blob.bytes).sum();
        Ok(Found { verdict: decide(settings, now, &sessions, &discarded, blobs), trash, sessions })
    }

    /// Deletes texts that no session refers to any more, not even one in the trash.
    fn prune_blobs(&self, now: Timestamp, done: &mut Vec<Pruned>) -> Result<(), PruneError> {
        let mut old: Vec<BlobFile> = self.blob_files()?;
        old.retain(BlobFile::is_old);
        if old.is_empty() {
            return Ok(());
        }
        let index = Index::open(self, &mut |_, _| {})?;
        let mut used = index.blobs()?;
        for one in self.trash()? {
            used.extend(referred(&one.path)?);
        }
        for blob in old.into_iter().filter(|blob| !used.contains(&blob.sha256)) {
            // Somebody may have used it again meanwhile, and has then made it young.
            if !blob.is_still_old() {
                continue;
            }
            let line = Pruned { at: now, done: Done::Blob, what: blob.sha256, bytes: blob.bytes, why: None };
            self.write_down(&line)?;
            gone(fs::remove_file(&blob.path))?;
            done.push(line);
        }
        Ok(())
    }

    fn blob_files(&self) -> io::Result<Vec<BlobFile>> {
        let mut found = Vec::new();
        for dir in listing(self.blobs().dir())? {
            for path in listing(&dir)? {
                let first = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let rest = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let sha256 = format!("{first}{rest}");
                let Ok(known) = fs::metadata(&path) else { continue };
                if is_hash(&sha256) && known.is_file() {
                    let modified = known.modified().unwrap_or_else(|_| SystemTime::now());
                    found.push(BlobFile { sha256, path, bytes: known.len(), modified });
                }
            }
        }
        Ok(found)
    }

    fn write_down(&self, line: &Pruned) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let file = self.state_dir().join("pruned.jsonl");
        OpenOptions::new().create(true).append(true).mode(0o600).open(file)?.write_all(&text)
    }
}

struct BlobFile {
    sha256: String,
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

impl BlobFile {
    fn is_old(&self) -> bool {
        SystemTime::now().duration_since(self.modified).is_ok_and(|age| age > YOUNG)
    }

    fn is_still_old(&self) -> bool {
        fs::metadata(&self.path).and_then(|known| known.modified()).is_ok_and(|modified| modified == self.modified)
    }
}

/// The blobs that a file refers to.
pub(crate) fn referred(path: &std::path::Path) -> io::Result<HashSet<String>> {
    let mut scan = Forward::new(File::open(path)?, 0);
    let mut found = HashSet::new();
    while let Some(piece) = scan.next()? {
        if let Piece::Whole(_, line) = piece
            && memchr::memmem::find(&line, b"\"refs\":[").is_some()
        {
            found.extend(refs(&line).into_iter().map(|blob| blob.sha256));
        }
    }
    Ok(found)
}

fn listing(dir: &std::path::Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        listing => listing?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}

/// What somebody else has removed is gone, too.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn deleted(one: &Trashed, at: Timestamp, why: Why) -> Pruned {
    Pruned { at, done: Done::Deleted, what: one.id.to_string(), bytes: one.bytes, why: Some(why) }
}

fn discarded(id: &SessionId, sessions: &[Candidate], at: Timestamp, why: Why) -> Pruned {
    let bytes = sessions.iter().find(|one| one.id == *id).map_or(0, |one| one.bytes);
    Pruned { at, done: Done::Discarded, what: id.to_string(), bytes, why: Some(why) }
}

#[cfg(test)]
mod tests;
