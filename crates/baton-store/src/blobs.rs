//! Blobs: bytes that are kept once, under their hash.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use crate::error::StoreError;

/// The name of these bytes.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}"))
}

/// Keeps bytes; nothing happens if they are there.
pub(crate) fn put(db: &Connection, hash: &str, bytes: &[u8]) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO blobs (hash, bytes) VALUES (?, ?)")?.execute((hash, bytes)).map(drop)
}

/// The bytes of a hash, if they are what they were.
pub(crate) fn get(db: &Connection, name: &str) -> Result<Vec<u8>, StoreError> {
    let mut query = db.prepare_cached("SELECT bytes FROM blobs WHERE hash = ?")?;
    let bytes: Option<Vec<u8>> = query.query_row([name], |row| row.get(0)).optional()?;
    bytes.filter(|bytes| hash(bytes) == name).ok_or_else(|| StoreError::Blob(name.to_owned()))
}
