//! The store: one SQLite file for each project. One process writes it; anybody may read.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_config::{InUse, Lock};
use baton_core::Timestamp;
use baton_workflow::{DefinitionHash, Effect, EffectId, Pin, RunId, WorkflowName};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
use serde::de::DeserializeOwned;

use crate::blobs;
use crate::error::StoreError;
use crate::journal::{Commit, Debt, Journal, Recorded, RunRow, Settled, Standing};
use crate::metrics::Metric;
use crate::schema::{APPLICATION, KNOWN, migrate};
use crate::writer::{Job, Writer};

/// How long a reader waits for a moment in which nobody writes.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// The journal of a project in a SQLite file.
pub struct Store {
    file: PathBuf,
    reader: Mutex<Connection>,
    writer: Option<Writer>,
    /// Held as long as this process writes.
    _lock: Option<Lock>,
}

impl Store {
    /// Opens the database to write it, and makes it if need be. Another process that writes it is an error.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let io = |why: std::io::Error| StoreError::Io { file: file.to_owned(), why };
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir).map_err(io)?;
        }
        let lock = Lock::take(&lock_of(file)).map_err(io)?;
        let lock = lock.map_err(|held| StoreError::Held { file: file.to_owned(), pid: held.pid })?;
        let mut db = connect(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let form = form(&db, file)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // What was acknowledged survives power loss.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "foreign_keys", true)?;
        if form < KNOWN {
            migrate(&mut db, form)?;
        }
        let reader = Mutex::new(connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?);
        let writer = Some(Writer::start(db).map_err(io)?);
        Ok(Self { file: file.to_owned(), reader, writer, _lock: Some(lock) })
    }

    /// Opens the database to look at it, whoever writes it. Nothing if there is none.
    pub fn read(file: &Path) -> Result<Option<Self>, StoreError> {
        if !file.exists() {
            return Ok(None);
        }
        let db = connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if form(&db, file)? == 0 {
            return Ok(None);
        }
        Ok(Some(Self { file: file.to_owned(), reader: Mutex::new(db), writer: None, _lock: None }))
    }

    /// Who writes the database, if anybody does: their process, as far as they have said so.
    pub fn holder(file: &Path) -> Result<Option<InUse>, StoreError> {
        Lock::holder(&lock_of(file)).map_err(|why| StoreError::Io { file: file.to_owned(), why })
    }

    /// Looks at every page; what is wrong, if something is.
    pub fn check(&self) -> Result<(), StoreError> {
        let db = self.reader();
        let mut query = db.prepare("PRAGMA integrity_check(20)")?;
        let found: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if found == ["ok"] {
            return Ok(());
        }
        Err(StoreError::Damaged { file: self.file.clone(), what: found.join("; ") })
    }

    /// Writes a copy that is whole, while others go on writing. The copy must not exist.
    pub fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let io = |why: std::io::Error| StoreError::Io { file: to.to_owned(), why };
        let name = to.to_str().ok_or_else(|| io(std::io::Error::other("its name is not UTF-8")))?;
        self.reader().execute("VACUUM INTO ?", [name])?;
        std::fs::File::open(to).and_then(|copy| copy.sync_all()).map_err(io)
    }

    fn reader(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, job: Job) -> Result<(), StoreError> {
        self.writer.as_ref().ok_or(StoreError::Closed)?.write(job)
    }
}

fn lock_of(file: &Path) -> PathBuf {
    file.with_extension("lock")
}

fn connect(file: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let db = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.busy_timeout(BUSY_MAX)?;
    Ok(db)
}

/// The form of a database; 0 if it is empty.
fn form(db: &Connection, file: &Path) -> Result<u32, StoreError> {
    let damaged = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Foreign(file.to_owned()),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { file: file.to_owned(), what: error.to_string() }
        }
        _ => error.into(),
    };
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(damaged);
    let (application, found) = (number("application_id")?, number("user_version")?);
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(damaged)?;
    if tables == 0 && found == 0 {
        return Ok(0);
    }
    if application != i64::from(APPLICATION) {
        return Err(StoreError::Foreign(file.to_owned()));
    }
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > KNOWN {
        return Err(StoreError::Newer { file: file.to_owned(), found, known: KNOWN });
    }
    Ok(found)
}

impl Journal for Store {
    fn commit(&self, commits: Vec<Commit>) -> Result<(), StoreError> {
        self.write(Job::Commits(commits))
    }

    fn begin(&self, effect: &EffectId) -> Result<(), StoreError> {
        self.write(Job::Begin(effect.clone()))
    }

    fn settle(&self, settled: Vec<Settled>) -> Result<(), StoreError> {
        self.write(Job::Settle(settled))
    }

    fn run(&self, id: &RunId) -> Result<Option<Standing>, StoreError> {
        let db = self.reader();
        let mut query = db.prepare_cached("SELECT snapshot, events, parent, facts, began FROM runs WHERE id = ?")?;
        let row = query.query_row([id.as_str()], |row| {
            let row = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
            Ok::<(String, i64, Option<String>, String, String), _>(row)
        });
        let Some((snapshot, events, parent, facts, began)) = row.optional()? else { return Ok(None) };
        Ok(Some(Standing {
            run: serde_json::from_str(&snapshot)?,
            events: count(events),
            parent: parent.map(RunId::new),
            facts: serde_json::from_str(&facts)?,
            began: time(&began)?,
        }))
    }

    fn runs(&self, parent: Option<&RunId>) -> Result<Vec<RunRow>, StoreError> {
        let db = self.reader();
        let mut query = db.prepare_cached(
            "SELECT id, workflow, definition, parent, began, changed, state, phase, events FROM runs
             WHERE parent IS ? ORDER BY changed DESC, id DESC",
        )?;
        let rows = query.query_map([parent.map(RunId::as_str)], |row| Ok(run_row(row)))?;
        rows.collect::<Result<Vec<_>, _>>()?.into_iter().collect()
    }

    fn owed(&self) -> Result<Vec<Debt>, StoreError> {
        let db = self.reader();
        let mut query =
            db.prepare_cached("SELECT run, body, is_begun FROM effects WHERE receipt IS NULL ORDER BY seq")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let debt = |(run, body, is_begun): (String, String, bool)| {
            Ok(Debt { run: RunId::new(run), effect: serde_json::from_str::<Effect>(&body)?, is_begun })
        };
        rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(debt).collect()
    }

    fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Recorded>, StoreError> {
        let db = self.reader();
        let mut query =
            db.prepare_cached("SELECT number, body FROM events WHERE run = ? AND number >= ? ORDER BY number LIMIT ?")?;
        let (from, max) = (i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(max).unwrap_or(i64::MAX));
        let rows = query.query_map((run.as_str(), from, max), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let recorded =
            |(number, body): (i64, String)| Ok(Recorded { number: count(number), event: serde_json::from_str(&body)? });
        rows.collect::<Result<Vec<_>, _>>()?.into_iter().map(recorded).collect()
    }

    fn pin(&self, hash: &DefinitionHash) -> Result<Option<Pin>, StoreError> {
        let db = self.reader();
        let mut query = db.prepare_cached("SELECT pin FROM definitions WHERE hash = ?")?;
        let pin: Option<String> = query.query_row([hash.as_str()], |row| row.get(0)).optional()?;
        Ok(pin.map(|pin| serde_json::from_str(&pin)).transpose()?)
    }

    fn metrics(&self, run: &RunId) -> Result<Vec<Metric>, StoreError> {
        let db = self.reader();
        let mut query = db.prepare_cached(
            "WITH RECURSIVE inside (id) AS (
                 SELECT ?1 UNION SELECT runs.id FROM runs JOIN inside ON runs.parent = inside.id
             ) SELECT body FROM metrics WHERE run IN inside ORDER BY seq",
        )?;
        let rows = query.query_map([run.as_str()], |row| row.get::<_, String>(0))?;
        rows.map(|body| parsed(&body?)).collect()
    }

    fn put(&self, bytes: &[u8]) -> Result<String, StoreError> {
        let hash = blobs::hash(bytes);
        self.write(Job::Blob(hash.clone(), bytes.to_vec()))?;
        Ok(hash)
    }

    fn get(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        blobs::get(&self.reader(), hash)
    }
}

fn run_row(row: &Row<'_>) -> Result<RunRow, StoreError> {
    let text = |at: usize| row.get::<_, String>(at);
    let form = |error: baton_workflow::BadName| StoreError::Form(serde::de::Error::custom(error));
    Ok(RunRow {
        id: RunId::new(text(0)?),
        workflow: WorkflowName::parse(&text(1)?).map_err(form)?,
        definition: DefinitionHash::new(text(2)?),
        parent: row.get::<_, Option<String>>(3)?.map(RunId::new),
        began: time(&text(4)?)?,
        changed: time(&text(5)?)?,
        state: row.get(6)?,
        phase: text(7)?,
        events: count(row.get(8)?),
    })
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    Ok(serde_json::from_str(text)?)
}

fn time(text: &str) -> Result<Timestamp, StoreError> {
    text.parse().map_err(|error| StoreError::Form(serde::de::Error::custom(error)))
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
