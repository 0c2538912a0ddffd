//! The form of the database, and how older forms become the newest.

use rusqlite::Connection;

/// Marks the file as ours: "BATN".
pub(crate) const APPLICATION: i32 = 0x4241_544E;

/// What makes each form of the one before. Never changed, only added to.
const STEPS: [&str; 1] = ["
CREATE TABLE definitions (hash TEXT PRIMARY KEY, pin TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    id TEXT PRIMARY KEY, workflow TEXT NOT NULL, definition TEXT NOT NULL REFERENCES definitions,
    parent TEXT, facts TEXT NOT NULL, began TEXT NOT NULL, changed TEXT NOT NULL, state TEXT, phase TEXT NOT NULL,
    events INTEGER NOT NULL, snapshot TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_parent ON runs (parent, changed);
CREATE TABLE events (
    run TEXT NOT NULL REFERENCES runs, number INTEGER NOT NULL, at TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE effects (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run TEXT NOT NULL REFERENCES runs, body TEXT NOT NULL,
    is_begun INTEGER NOT NULL DEFAULT 0, receipt TEXT
);
CREATE INDEX effects_owed ON effects (seq) WHERE receipt IS NULL;
CREATE TABLE metrics (seq INTEGER PRIMARY KEY, run TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX metrics_by_run ON metrics (run);
CREATE TABLE blobs (hash TEXT PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID;
"];

/// The newest form that is known.
pub(crate) const KNOWN: u32 = 1;
const _: () = assert!(STEPS.len() == KNOWN as usize);

/// Brings a database from a form to the newest one.
pub(crate) fn migrate(db: &mut Connection, from: u32) -> rusqlite::Result<()> {
    let write = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for step in STEPS.iter().skip(from as usize) {
        write.execute_batch(step)?;
    }
    write.pragma_update(None, "application_id", APPLICATION)?;
    write.pragma_update(None, "user_version", KNOWN)?;
    write.commit()
}
