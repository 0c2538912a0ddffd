//! Bringing the index up to date: which files have changed, and what was appended to them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use baton_core::Timestamp;
use memchr::memmem;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::summary::{Known, TELLING, findable, wanted};
use super::{Index, IndexError};
use crate::codec::{decode_heads, peek, refs};
use crate::scan::{Cause, Forward, Piece};
use crate::sessions::{SessionFile, Sessions};

/// How many bytes are read before what was learned is kept.
const BATCH_BYTES: u64 = 64 * 1024 * 1024;
/// How many files are read before what was learned is kept.
const BATCH_FILES: usize = 500;
/// How many of the last bytes that were read tell whether they are still the same.
const TAIL: usize = 64;

/// How a file looks from the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: i64,
    mtime: i64,
}

/// How far a file has been read.
struct Read {
    no: i64,
    indexed: u64,
    tail: u32,
    known: Known,
}

impl Index {
    /// Reads what was appended since the last time, and forgets what is gone.
    pub(super) fn refresh(&mut self, progress: &mut dyn FnMut(usize, usize)) -> Result<(), IndexError> {
        // In this order: what is made meanwhile is new, and not gone.
        let mut known = stamps(&self.db)?;
        let files = self.sessions.files()?;
        let stale: Vec<&SessionFile> =
            files.iter().filter(|file| known.remove(file.id.as_str()) != Some(stamp(file))).collect();
        if stale.is_empty() && known.is_empty() {
            return Ok(());
        }
        // What is left is of files that are gone, or of those that are stale.
        let current: std::collections::HashSet<&str> = files.iter().map(|file| file.id.as_str()).collect();
        let gone: Vec<String> = known.into_keys().filter(|id| !current.contains(id.as_str())).collect();
        if stale.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let total = stale.len();
        let mut rest = stale.into_iter().enumerate().peekable();
        let mut gone = gone.as_slice();
        while rest.peek().is_some() || !gone.is_empty() {
            let batch = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for id in std::mem::take(&mut gone) {
                forget(&batch, id)?;
            }
            let (mut bytes, mut count) = (0, 0);
            while bytes < BATCH_BYTES
                && count < BATCH_FILES
                && let Some((done, file)) = rest.next()
            {
                progress(done, total);
                bytes += read(&batch, &self.sessions, file)?;
                count += 1;
            }
            batch.commit()?;
        }
        progress(total, total);
        Ok(())
    }
}

fn stamps(db: &Connection) -> rusqlite::Result<HashMap<String, Stamp>> {
    let mut rows = db.prepare("SELECT id, size, mtime FROM sessions INDEXED BY stamps")?;
    let rows = rows.query_map([], |row| Ok((row.get(0)?, Stamp { size: row.get(1)?, mtime: row.get(2)? })))?;
    rows.collect()
}

fn stamp(file: &SessionFile) -> Stamp {
    let since = file.used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Stamp { size: signed(file.bytes), mtime: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX) }
}

fn forget(db: &Connection, id: &str) -> rusqlite::Result<()> {
    let mut found = db.prepare_cached("SELECT no FROM sessions WHERE id = ?")?;
    let no: Option<i64> = found.query_row([id], |row| row.get(0)).optional()?;
    let Some(no) = no else { return Ok(()) };
    db.execute("DELETE FROM said WHERE session = ?", [no])?;
    db.execute("DELETE FROM blobs WHERE session = ?", [no])?;
    db.execute("DELETE FROM sessions WHERE no = ?", [no])?;
    Ok(())
}

/// Reads what is new in a file; how many bytes that was.
fn read(db: &Connection, sessions: &Sessions, file: &SessionFile) -> Result<u64, IndexError> {
    // Removed since, or somebody else's: the others can be listed all the same.
    let Ok(mut open) = File::open(&file.path) else { return Ok(0) };
    let before = before(db, file.id.as_str())?.filter(|read| continues(&open, read).unwrap_or(false));
    let mut read = if let Some(read) = before {
        read
    } else {
        forget(db, file.id.as_str())?;
        let mut add = db.prepare_cached(
            "INSERT INTO sessions (id, size, mtime, indexed, tail, entries, turns, damage, torn)
             VALUES (?, -1, -1, 0, 0, 0, 0, 0, 0)",
        )?;
        add.execute([file.id.as_str()])?;
        Read { no: db.last_insert_rowid(), indexed: 0, tail: crc32fast::hash(b""), known: Known::default() }
    };
    let from = read.indexed;
    open.seek(SeekFrom::Start(from))?;
    let mut add_text = db.prepare_cached("INSERT INTO said (session, entry, at, who, text) VALUES (?, ?, ?, ?, ?)")?;
    let mut add_blob = db.prepare_cached("INSERT INTO blobs (session, sha256, bytes) VALUES (?, ?, ?)")?;
    // What is appended meanwhile is for the next time: the stamp is of before.
    let mut scan = Forward::new(io::Read::take(&open, file.bytes.saturating_sub(from)), from);
    let mut torn = None;
    while let Some(piece) = scan.next()? {
        let line = match piece {
            Piece::Whole(_, line) => line,
            // It may just be being written.
            Piece::Damage(damage) if damage.cause == Cause::Torn => {
                torn = Some(damage.span.from);
                break;
            }
            Piece::Damage(_) => {
                read.known.damage += 1;
                continue;
            }
        };
        read.known.entries += 1;
        let Some(head) = peek(&line) else { continue };
        if memmem::find(&line, b"\"refs\":[").is_some() {
            for blob in refs(&line) {
                add_blob.execute(params![read.no, blob.sha256, signed(blob.bytes)])?;
            }
        }
        if read.known.created.is_some() && !TELLING.contains(&&*head.kind) {
            continue;
        }
        let Ok(entry) = decode_heads(&line, sessions.blobs(), wanted(&head.kind)) else { continue };
        read.known.created.get_or_insert(entry.at);
        read.known.note(&entry);
        for (who, text) in findable(&entry) {
            let at = entry.at.as_millisecond();
            add_text.execute(params![read.no, entry.id.as_str(), at, who, text])?;
        }
    }
    read.indexed = torn.unwrap_or_else(|| scan.position());
    read.tail = tail(&open, read.indexed)?;
    keep(db, file, &read, torn.is_some())?;
    Ok(file.bytes.saturating_sub(from))
}

/// Whether a file still has what was read of it.
fn continues(file: &File, read: &Read) -> io::Result<bool> {
    Ok(file.metadata()?.len() >= read.indexed && tail(file, read.indexed)? == read.tail)
}

/// The checksum of the last bytes before a place.
fn tail(file: &File, end: u64) -> io::Result<u32> {
    let mut bytes = [0; TAIL];
    let length = usize::try_from(end).unwrap_or(TAIL).min(TAIL);
    let bytes = &mut bytes[..length];
    file.read_exact_at(bytes, end - length as u64)?;
    Ok(crc32fast::hash(bytes))
}

fn before(db: &Connection, id: &str) -> rusqlite::Result<Option<Read>> {
    let mut row = db.prepare_cached(
        "SELECT no, indexed, tail, title, prompt, cwd, model, created, entries, turns, damage, forked, imported
         FROM sessions WHERE id = ?",
    )?;
    row.query_row([id], |row| {
        let created: Option<i64> = row.get(7)?;
        let known = Known {
            title: row.get(3)?,
            prompt: row.get(4)?,
            cwd: row.get(5)?,
            model: row.get(6)?,
            created: created.and_then(|at| Timestamp::from_millisecond(at).ok()),
            entries: unsigned(row.get(8)?),
            turns: unsigned(row.get(9)?),
            damage: unsigned(row.get(10)?),
            forked: row.get(11)?,
            imported: row.get(12)?,
        };
        Ok(Read { no: row.get(0)?, indexed: unsigned(row.get(1)?), tail: row.get(2)?, known })
    })
    .optional()
}

fn keep(db: &Connection, file: &SessionFile, read: &Read, is_torn: bool) -> rusqlite::Result<()> {
    let Stamp { size, mtime } = stamp(file);
    let Known { title, prompt, cwd, model, created, entries, turns, damage, forked, imported } = &read.known;
    let mut update = db.prepare_cached(
        "UPDATE sessions SET size = ?, mtime = ?, indexed = ?, tail = ?, title = ?, prompt = ?, cwd = ?, model = ?,
         created = ?, entries = ?, turns = ?, damage = ?, torn = ?, forked = ?, imported = ? WHERE no = ?",
    )?;
    update.execute(params![
        size,
        mtime,
        signed(read.indexed),
        read.tail,
        title,
        prompt,
        cwd,
        model,
        created.map(Timestamp::as_millisecond),
        signed(*entries),
        signed(*turns),
        signed(*damage),
        is_torn,
        forked,
        imported,
        read.no,
    ])?;
    Ok(())
}

/// SQLite counts with signs.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
