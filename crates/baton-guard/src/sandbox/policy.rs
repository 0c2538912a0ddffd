//! What a command may touch, as plain data.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a command may touch. Everything else can be read and executed, and nothing else can be written.
///
/// Paths are absolute. Where they overlap, the deeper one counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Directories whose content may be changed, and single files. They must exist.
    pub writable: Vec<PathBuf>,
    /// What may not be changed although it lies in a writable directory, there or not.
    pub protected: Vec<Protected>,
    /// What seems to be empty: secrets, and sockets of services that act for the person.
    pub hidden: Vec<PathBuf>,
    /// What can be read although it lies in something hidden.
    pub readable: Vec<PathBuf>,
    /// The session's temporary directory. Inside, it is `/tmp` and `/var/tmp` as well.
    pub temp: PathBuf,
    /// What can be reached.
    pub network: Network,
}

/// A path that programs obey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// The path itself.
    pub path: PathBuf,
    /// What keeps it from coming into being if it is not there.
    pub stand_in: StandIn,
}

/// What takes the place of a protected path that is not there, while a command runs. The kernel can only keep others off
/// a name that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandIn {
    /// An empty directory. Git does not list those, so this is the one to take where nothing minds.
    Dir,
    /// An empty file.
    File,
    /// Nothing, since anything there would be obeyed: what has come into being is removed afterwards.
    Nothing,
}

/// What can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Only what runs in the same sandbox, over a loopback of its own. At level [`Landlock`](super::Level::Landlock)
    /// nothing at all: that cannot tell a loopback from the world.
    Loopback,
    /// Everything that Baton can reach.
    Host,
}

impl Protected {
    /// A path and what stands in for it.
    pub fn new(path: impl Into<PathBuf>, stand_in: StandIn) -> Self {
        Self { path: path.into(), stand_in }
    }
}
