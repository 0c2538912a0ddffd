//! What is wrong with a setting, with file and line; the work goes on without it, or stops.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// A setting that is not understood or not heeded; the work goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What kind of problem it is.
    pub problem: Problem,
    /// The setting, as it is written in commands; empty for a whole file.
    pub key: String,
    /// Where it stands.
    #[serde(flatten, serialize_with = "place")]
    pub place: Option<(PathBuf, usize)>,
    /// What is wrong.
    pub message: String,
}

/// What can be wrong with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// There is no such setting.
    Unknown,
    /// Its value cannot be used.
    Wrong,
    /// A repository may not set it, or not before it is trusted.
    NotTrusted,
    /// Managed settings may only tighten.
    Widens,
    /// It may not be set so here.
    Ignored,
    /// The whole file cannot be used.
    Unreadable,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some((file, line)) => write!(f, "{}:{line}: {}", file.display(), self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// A setting whose value cannot be used, and without which the work would not be held back as the person wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub Warning);

#[expect(clippy::ref_option, reason = "serde hands it so")]
fn place<S: serde::Serializer>(place: &Option<(PathBuf, usize)>, to: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("file", &place.as_ref().map(|(file, _)| file.to_string_lossy()))?;
    map.serialize_entry("line", &place.as_ref().map(|(_, line)| line))?;
    map.end()
}
