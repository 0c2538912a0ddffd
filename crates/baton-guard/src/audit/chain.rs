//! The chain: how entries are written, hashed and sealed, and what can be wrong with them. No files here.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Decision;

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What kind of thing it is: `command`, `file.write`, `permission`, `credential`, …
    pub kind: String,
    /// Who did it: an agent, a person, Baton itself.
    pub actor: String,
    /// What was asked or done. Secrets are taken out.
    pub what: String,
    /// What was decided, where there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// An entry of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub record: Record,
    /// The hash of the entry before; empty for the first.
    pub prev: String,
}

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub enum Finding {
    /// The line is no entry.
    Unreadable {
        /// Which line, from 1.
        line: u64,
    },
    /// The text is not what was hashed.
    Edited {
        /// Which line.
        line: u64,
    },
    /// It was written by somebody without the key.
    Forged {
        /// Which line.
        line: u64,
    },
    /// An entry is missing, doubled or out of its place.
    Order {
        /// Which entry should be here.
        seq: u64,
        /// Which one is.
        found: u64,
    },
    /// The entry does not follow the one before it.
    Broken {
        /// Which line.
        line: u64,
    },
    /// Entries at the end are missing.
    Cut {
        /// How many.
        missing: u64,
        /// How many of them a power loss could explain.
        unsynced: u64,
    },
    /// The last entry that was sealed is another one.
    Head,
    /// The checkpoint is not there.
    NoCheckpoint,
    /// The checkpoint was written by somebody without the key.
    Checkpoint,
    /// The key that sealed the log is not there.
    NoKey,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { line } => write!(f, "line {line} is no entry"),
            Self::Edited { line } => write!(f, "line {line} was edited"),
            Self::Forged { line } => write!(f, "line {line} was written without the key"),
            Self::Order { seq, found } => write!(f, "entry {found} stands where {seq} should"),
            Self::Broken { line } => write!(f, "line {line} does not follow the one before it"),
            Self::Cut { missing, unsynced: 0 } => write!(f, "{missing} entries at the end are missing"),
            Self::Cut { missing, unsynced } => {
                write!(f, "{missing} entries at the end are missing; a power loss could explain {unsynced} of them")
            }
            Self::Head => f.write_str("the last sealed entry is another one"),
            Self::NoCheckpoint => f.write_str("the checkpoint is gone"),
            Self::Checkpoint => f.write_str("the checkpoint was written without the key"),
            Self::NoKey => f.write_str("the key that sealed it is gone"),
        }
    }
}

/// The key of the seals.
pub(super) struct Key([u8; 32]);

impl Key {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// As it is kept in its file.
    pub fn text(&self) -> String {
        format!("{}\n", hex(&self.0))
    }

    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let mut key = [0; 32];
        for (at, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        (text.len() == 64).then_some(Self(key))
    }

    fn mac(&self, text: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("any length will do"));
        mac.update(text);
        mac
    }

    fn seal(&self, text: &[u8]) -> String {
        hex(&self.mac(text).finalize().into_bytes())
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
        text
    })
}

/// What stands at the end of each line: `,"hash":"…","seal":"…"}`.
const HASH: &str = ",\"hash\":\"";
const SEAL: &str = "\",\"seal\":\"";
const TAIL: usize = HASH.len() + 64 + SEAL.len() + 64 + 2;

/// The line of an entry, and its hash. What is hashed is the text as it is written, up to the hash itself.
pub(super) fn line(entry: &Entry, key: &Key) -> (String, String) {
    // An entry consists of strings and numbers, which can always be written.
    let mut line = serde_json::to_string(entry).unwrap_or_else(|error| unreachable!("{error}"));
    line.pop();
    let hash = hex(&Sha256::digest(line.as_bytes()));
    let seal = key.seal(hash.as_bytes());
    line.extend([HASH, &hash, SEAL, &seal, "\"}\n"]);
    (line, hash)
}

/// Reads a line and checks its hash and its seal. Line numbers in findings are 0: the caller knows them.
pub(super) fn read(line: &str, key: &Key) -> Result<(Entry, String), Finding> {
    let unreadable = Finding::Unreadable { line: 0 };
    let split = line.len().checked_sub(TAIL).filter(|at| line.is_char_boundary(*at)).ok_or(unreadable.clone())?;
    let (body, tail) = line.split_at(split);
    let (hash, seal) = tail
        .strip_prefix(HASH)
        .and_then(|tail| tail.strip_suffix("\"}"))
        .and_then(|tail| tail.split_once(SEAL))
        .ok_or(unreadable.clone())?;
    if hex(&Sha256::digest(body.as_bytes())) != hash {
        return Err(Finding::Edited { line: 0 });
    }
    if key.seal(hash.as_bytes()) != seal {
        return Err(Finding::Forged { line: 0 });
    }
    let entry = serde_json::from_str(&format!("{body}}}")).map_err(|_| unreadable)?;
    Ok((entry, hash.to_owned()))
}

/// How far the log went when it was last written to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub count: u64,
    pub bytes: u64,
    pub synced: u64,
    pub head: String,
}

impl Checkpoint {
    /// Always of the same length, so that it is replaced by one write.
    pub fn line(&self, key: &Key) -> String {
        let body = format!("{:020} {:020} {:020} {:64}", self.count, self.bytes, self.synced, self.head);
        format!("{body} {}\n", key.seal(body.as_bytes()))
    }

    pub fn read(text: &str, key: &Key) -> Option<Self> {
        let (body, seal) = text.strip_suffix('\n')?.rsplit_once(' ')?;
        let fields: Vec<&str> = body.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        let head = (*fields.get(3)?).to_owned();
        (key.seal(body.as_bytes()) == seal).then_some(())?;
        Some(Self { count: number(0)?, bytes: number(1)?, synced: number(2)?, head })
    }
}
