//! What a path held at one moment, as it is compared, written down and put back.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes: the name under which they are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a hash has 64 hexadecimal digits";
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| WRONG)?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What a path holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum State {
    /// Nothing.
    Absent,
    /// A regular file.
    File(FileState),
    /// A symbolic link.
    Link {
        /// Where it leads.
        #[serde(with = "path_text")]
        to: PathBuf,
    },
    /// A directory.
    Dir {
        /// Its permissions.
        mode: u32,
    },
    /// A device, a pipe or a socket: it cannot be put back.
    Other,
}

/// What a regular file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Under which name its bytes are kept; none if they are not, since the file was too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
    /// Its size.
    pub len: u64,
    /// Its permissions.
    pub mode: u32,
    /// What the bytes mean, where other bytes can mean the same: git rewrites its index whenever it looks at the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sense: Option<Hash>,
    /// When it was last written, in nanoseconds; only where that is all that is known of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<i64>,
}

impl State {
    /// Whether both mean the same to a person, although bytes that nobody reads may differ.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one.mode == other.mode && one.holds_same(other),
            // What is in them are entries of their own; who may use them is not a person's work that could be lost.
            (Self::Dir { .. }, Self::Dir { .. }) => true,
            _ => self == other,
        }
    }

    /// Whether it can be put back.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Absent | Self::Link { .. } | Self::Dir { .. } => true,
            Self::File(file) => file.hash.is_some(),
            Self::Other => false,
        }
    }

    /// The bytes that have to be kept to put it back.
    pub fn hash(&self) -> Option<Hash> {
        match self {
            Self::File(file) => file.hash,
            _ => None,
        }
    }
}

impl FileState {
    fn holds_same(&self, other: &Self) -> bool {
        match (self.hash, other.hash) {
            (Some(one), Some(another)) => one == another || self.sense.is_some() && self.sense == other.sense,
            (None, None) => (self.len, self.written) == (other.len, other.written),
            // Bytes that were too many at one of the two times.
            _ => self.len == other.len,
        }
    }
}

/// What became of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Where.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// What was there.
    pub before: State,
    /// What is there now.
    pub after: State,
}

impl Change {
    /// In one word.
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (State::Absent, _) => "created",
            (_, State::Absent) => "deleted",
            _ => "changed",
        }
    }
}

/// Paths as text that loses nothing: what is no UTF-8, and what a terminal would obey, is written as `%XX`.
pub mod path_text {
    use std::fmt::Write;

    use super::{Deserialize, Deserializer, OsStrExt, OsString, OsStringExt, Path, PathBuf, Serializer};

    /// The text.
    pub fn of(path: &Path) -> String {
        let bytes = path.as_os_str().as_bytes();
        let mut text = String::with_capacity(bytes.len());
        let escape = |text: &mut String, bytes: &[u8]| {
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
        };
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if matches!(c, '%' | '\n' | '\t') || crate::path::is_hidden(c) {
                    escape(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
                } else {
                    text.push(c);
                }
            }
            escape(&mut text, chunk.invalid());
        }
        text
    }

    /// The path.
    pub fn to_path(text: &str) -> PathBuf {
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let escaped = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
            if let Some(byte) = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                out.push(byte);
                at += 3;
            } else {
                out.push(*byte);
                at += 1;
            }
        }
        PathBuf::from(OsString::from_vec(out))
    }

    /// For serde.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&of(path))
    }

    /// For serde.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(to_path(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_path_survives_as_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let text = path_text::of(&path);
            prop_assert!(!text.contains(char::is_control));
            prop_assert_eq!(path_text::to_path(&text), path);
        }
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = Hash::of(b"x");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert!("+f".repeat(32).parse::<Hash>().is_err() && "".parse::<Hash>().is_err());
    }
}
