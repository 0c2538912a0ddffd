//! Parcels: sessions, their big texts and a project's definitions in one tar file, with a list of all that is in it.

mod pack;
mod unpack;

use std::io;
use std::path::{Component, Path};

use baton_core::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::blobs::is_hash;

pub use pack::{Packed, pack};
pub use unpack::unpack;

/// The version of the form of a parcel.
pub const PARCEL_VERSION: u32 = 1;
/// The name of the list, which is the first file.
const MANIFEST: &str = "manifest.json";
/// What a project's definitions are, below `.baton`.
pub const DEFINITIONS: [&str; 4] = ["agents", "skills", "commands", "workflows"];
/// The settings of a project, below `.baton`.
pub const SETTINGS: &str = "config.jsonc";

/// What is in a parcel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of its form.
    pub version: u32,
    /// The Baton that made it.
    pub made_by: String,
    /// When.
    pub at: Timestamp,
    /// All files, in their order.
    pub files: Vec<Item>,
}

/// One file of a parcel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its name.
    pub path: String,
    /// How long it is.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// Why a parcel cannot be read. Nothing of it has been used then.
#[derive(Debug, thiserror::Error)]
pub enum ParcelError {
    /// It cannot be read, or what comes out of it not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is no parcel of sessions: {0}")]
    Foreign(&'static str),
    /// A newer Baton has made it.
    #[error("a newer Baton has made it (form {0}; this one knows {PARCEL_VERSION})")]
    TooNew(u32),
    /// A file is not what the list says.
    #[error("`{path}`: {why}")]
    Wrong {
        /// Its name.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// What a file of a parcel is, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Session(SessionId),
    Blob(String),
    Definition(String),
}

impl Place {
    /// Nothing if no parcel has such a file.
    fn of(path: &str) -> Option<Self> {
        let (kind, rest) = path.split_once('/')?;
        match kind {
            "sessions" => {
                let id = rest.strip_suffix(".jsonl")?;
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                (!id.is_empty() && id.len() <= 100 && id.chars().all(is_name))
                    .then(|| Self::Session(SessionId::new(id)))
            }
            "blobs" => {
                let (first, last) = rest.split_once('/')?;
                let sha256 = format!("{first}{last}");
                (first.len() == 2 && is_hash(&sha256)).then_some(Self::Blob(sha256))
            }
            "definitions" => is_definition(rest).then(|| Self::Definition(rest.to_owned())),
            _ => None,
        }
    }
}

/// Whether a path below `.baton` is one of a definition or of the settings, and leads nowhere else.
fn is_definition(path: &str) -> bool {
    let is_plain = !path.contains(['\\', '\0', ':']) && !path.contains("//") && !path.ends_with('/');
    let components: Vec<_> = Path::new(path).components().collect();
    let is_below = components.iter().all(|component| matches!(component, Component::Normal(_)));
    let first = path.split('/').next().unwrap_or_default();
    let is_known = path == SETTINGS || (components.len() > 1 && DEFINITIONS.contains(&first));
    // What is hidden has a meaning for others, such as git.
    is_plain && is_below && is_known && path.split('/').all(|name| !name.starts_with('.')) && path.len() < 1000
}

#[cfg(test)]
mod tests;
