//! The OS sandbox: runs commands so that the kernel refuses what the policy does not allow.
//!
//! ```no_run
//! # fn run(policy: baton_guard::sandbox::Policy) -> std::io::Result<()> {
//! let sandbox = baton_guard::sandbox::Sandbox::new();
//! let prepared = sandbox.prepare(&policy)?;
//! let status = prepared.command("bash", ["-c", "make"])?.current_dir("/project").status()?;
//! let aftermath = prepared.finish()?;
//! # Ok(()) }
//! ```
//!
//! The binary has to call [`helper_mode`] first thing in `main`.

mod basis;
mod environment;
mod git;
mod helper;
mod init;
mod kernel;
mod landlock;
mod letter;
mod loopback;
mod memory;
mod mounts;
mod namespaces;
mod network;
mod plan;
mod policy;
mod prepared;
mod rights;
mod seccomp;
mod settings;
mod stand_in;
mod walls;
mod watch;
mod workspace;

use std::fmt;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use environment::may_have;
pub use helper::helper_mode;
pub use namespaces::hold_signals;
pub use policy::{Network, Policy, Protected, StandIn};
pub use prepared::{Aftermath, Prepared};
pub use settings::SandboxSettings;
pub use workspace::Workspace;

use kernel::Kernel;
use letter::Request;
use network::{Door, Shared};
use prepared::Way;
use walls::Last;
use watch::Watched;

/// How well commands are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Not at all.
    None,
    /// By Landlock and a filter of system calls. What is protected in a writable directory can be changed, and is put
    /// back when the command has ended. No network and no Unix sockets at all. Not kept from changing are modes and times
    /// of files outside that belong to the person, and on which processors their programs run.
    Landlock,
    /// By namespaces of every kind, a filter, and Landlock where the kernel has it.
    Namespaces,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
        })
    }
}

/// What a kernel can do, and why not more.
#[derive(Debug, Clone)]
pub struct Found {
    /// The best level there is.
    pub level: Level,
    /// Why better ones are not available.
    pub missing: Vec<(Level, String)>,
}

/// Makes sandboxes. Finds out at the first use what the kernel can do.
#[derive(Debug)]
pub struct Sandbox {
    kernel: Arc<Kernel>,
    /// The network that commands share which reach no other. Made for the first of them.
    network: OnceLock<Shared>,
    /// Whether there is a listener in it.
    listens: bool,
    walls: Last,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// The best level there is.
    pub fn new() -> Self {
        Self::of(vec![Level::Namespaces, Level::Landlock])
    }

    /// This level or none.
    pub fn only(level: Level) -> Self {
        Self::of(vec![level])
    }

    /// Has a listener in the network that commands share, for [`Self::listener`].
    #[must_use]
    pub fn listening(mut self) -> Self {
        self.listens = true;
        self
    }

    /// Keeps in this file what the kernel can do, so that the next process need not find out. To be called first.
    #[must_use]
    pub fn remembering(mut self, file: PathBuf) -> Self {
        if let Some(kernel) = Arc::get_mut(&mut self.kernel) {
            kernel.memory = Some(file);
        }
        self
    }

    /// Begins to find out what the kernel can do. Does not wait for it.
    #[must_use]
    pub fn looking(self) -> Self {
        self.kernel.look();
        self
    }

    fn of(levels: Vec<Level>) -> Self {
        let kernel = Arc::new(Kernel::of(levels));
        Self { kernel, network: OnceLock::new(), listens: false, walls: Last::default() }
    }

    /// What the kernel can do. A few milliseconds at the first call, during which it blocks.
    pub fn found(&self) -> &Found {
        self.kernel.found()
    }

    /// Gets everything ready for one command. Blocks for a moment: files are looked at, and places are held. Fails if
    /// there is no sandbox.
    pub fn prepare(&self, policy: &Policy) -> io::Result<Prepared> {
        match self.found().level {
            Level::None => {
                let why = self.found().missing.iter().map(|(level, why)| format!("{level}: {why}"));
                Err(io::Error::new(io::ErrorKind::Unsupported, why.collect::<Vec<_>>().join("; ")))
            }
            Level::Namespaces if policy.network == Network::Loopback => {
                self.prepare_at(Level::Namespaces, policy, Some(self.network()?.door()?))
            }
            level => self.prepare_at(level, policy, None),
        }
    }

    /// As [`Self::prepare`], for a command that shares no network with others.
    pub fn prepare_alone(&self, policy: &Policy) -> io::Result<Prepared> {
        match self.found().level {
            Level::None => self.prepare(policy),
            level => self.prepare_at(level, policy, None),
        }
    }

    fn network(&self) -> io::Result<&Shared> {
        if let Some(shared) = self.network.get() {
            return Ok(shared);
        }
        let shared = Shared::make(&self.kernel.helper, self.listens)?;
        Ok(self.network.get_or_init(|| shared))
    }

    /// A socket at which commands can be heard that share a network: it listens on their loopback and nowhere else. `None`
    /// if none was asked for, or if there is no such network at this level. Blocks for a moment the first time.
    pub fn listener(&self) -> io::Result<Option<TcpListener>> {
        if !self.listens || self.found().level != Level::Namespaces {
            return Ok(None);
        }
        self.network()?.listener()
    }

    fn prepare_at(&self, level: Level, policy: &Policy, door: Option<Door>) -> io::Result<Prepared> {
        let mut policy = policy.clone();
        policy.temp = policy.temp.canonicalize()?;
        for dir in &mut policy.writable {
            *dir = dir
                .canonicalize()
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))?;
        }
        let mut held = Vec::new();
        let mut watched = Vec::new();
        for protected in &policy.protected {
            // A link cannot be mounted over, and what is not there cannot be kept read-only.
            let is_link = fs::symlink_metadata(&protected.path).is_ok_and(|meta| meta.is_symlink());
            if level == Level::Landlock || is_link || protected.stand_in == StandIn::Nothing {
                watched.push(&protected.path);
            } else {
                held.extend(stand_in::hold(&protected.path, protected.stand_in)?);
            }
        }
        let watched = Watched::begin(watched.into_iter(), &policy.writable)?;
        let way = match level {
            Level::Landlock => Way::Through(self.walls.or_new(&policy)?),
            Level::Namespaces => {
                let numbers = door.as_ref().map(Door::numbers);
                let parent = std::process::id();
                let request = Request { policy, parent, door: numbers, forward: false, lingers: false };
                Way::helped(self.kernel.helper.clone(), request, door)?
            }
            Level::None => return Err(io::Error::other("there is no sandbox of this kind")),
        };
        Ok(Prepared::new(way, held, watched))
    }
}
