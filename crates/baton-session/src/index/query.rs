//! Questions to the index: lists and searches.

use std::collections::HashSet;

use baton_core::{EventId, SessionId, Timestamp};
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use super::refresh::{signed, unsigned};
use super::summary::{Summary, untitled};
use super::{Index, IndexError};

/// Marks around the words that were looked for, in an excerpt.
pub const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

/// A place where something was said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// The session.
    pub session: SessionId,
    /// The name of the session.
    pub title: String,
    /// The entry.
    pub entry: EventId,
    /// When it was made.
    pub at: Timestamp,
    /// Whose words: `person`, `agent`, or the name of a tool.
    pub who: String,
    /// What stands there; the words that were looked for stand between U+0002 and U+0003.
    pub excerpt: String,
}

const COLUMNS: &str =
    "id, title, prompt, cwd, model, created, mtime, entries, turns, damage + torn, forked, imported, size";

impl Index {
    /// The sessions, the last used first.
    pub fn list(&self, max: Option<usize>) -> Result<Vec<Summary>, IndexError> {
        let mut rows =
            self.db.prepare(&format!("SELECT {COLUMNS} FROM sessions ORDER BY mtime DESC, id DESC LIMIT ?"))?;
        // A negative limit is none.
        let max = max.map_or(-1, |max| signed(max as u64));
        let rows = rows.query_map([max], summary)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many sessions there are.
    pub fn count(&self) -> Result<u64, IndexError> {
        Ok(self.db.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0).map(unsigned))?)
    }

    /// One session.
    pub fn get(&self, session: &SessionId) -> Result<Option<Summary>, IndexError> {
        let mut row = self.db.prepare(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?"))?;
        Ok(row.query_row([session.as_str()], summary).optional()?)
    }

    /// Where all of these words are said, the best places first. A word may go on where it ends here.
    pub fn search(&self, words: &str, max: usize) -> Result<Vec<Found>, IndexError> {
        let Some(query) = query(words) else { return Ok(Vec::new()) };
        let mut rows = self.db.prepare(
            "SELECT sessions.id, sessions.title, sessions.prompt, said.entry, said.at, said.who,
             snippet(words, 0, char(2), char(3), '…', 20)
             FROM words JOIN said ON said.no = words.rowid JOIN sessions ON sessions.no = said.session
             WHERE words MATCH ? ORDER BY words.rank LIMIT ?",
        )?;
        let rows = rows.query_map(params![query, signed(max as u64)], |row| {
            let (title, prompt): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
            Ok(Found {
                session: SessionId::new(row.get::<_, String>(0)?),
                title: title.unwrap_or_else(|| untitled(prompt.as_deref())),
                entry: EventId::new(row.get::<_, String>(3)?),
                at: Timestamp::from_millisecond(row.get(4)?).unwrap_or_default(),
                who: row.get(5)?,
                excerpt: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The hashes of all blobs that the sessions refer to.
    pub(crate) fn blobs(&self) -> Result<HashSet<String>, IndexError> {
        let mut rows = self.db.prepare("SELECT DISTINCT sha256 FROM blobs")?;
        let rows = rows.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Words as the full text wants them: each quoted, so that nothing in them is an operator. Nothing if there are none.
fn query(words: &str) -> Option<String> {
    let quoted = words.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    let quoted: Vec<String> = quoted.map(|word| format!("\"{}\"*", word.replace('"', "\"\""))).collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    let (title, prompt): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    let created: Option<i64> = row.get(5)?;
    let used = i128::from(row.get::<_, i64>(6)?);
    Ok(Summary {
        id: SessionId::new(row.get::<_, String>(0)?),
        title: title.unwrap_or_else(|| untitled(prompt.as_deref())),
        prompt,
        cwd: row.get(3)?,
        model: row.get(4)?,
        created: created.and_then(|at| Timestamp::from_millisecond(at).ok()),
        used: Timestamp::from_nanosecond(used).unwrap_or_default(),
        entries: unsigned(row.get(7)?),
        turns: unsigned(row.get(8)?),
        damage: unsigned(row.get(9)?),
        forked: row.get::<_, Option<String>>(10)?.map(SessionId::new),
        imported: row.get(11)?,
        bytes: unsigned(row.get(12)?),
    })
}
