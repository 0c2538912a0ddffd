//! What the kernel can do: found out at the first use, or before.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use super::letter::Request;
use super::policy::{Network, Policy};
use super::prepared::{Prepared, Way};
use super::walls::Walls;
use super::watch::Watched;
use super::{Found, Level, memory};

/// The levels to be tried, and what came of it.
#[derive(Debug)]
pub(super) struct Kernel {
    /// The program that goes into namespaces.
    pub(super) helper: PathBuf,
    levels: Vec<Level>,
    found: OnceLock<Found>,
    /// Where it is kept what was found.
    pub(super) memory: Option<PathBuf>,
}

impl Kernel {
    /// The first of these levels that there is.
    pub(super) fn of(levels: Vec<Level>) -> Self {
        // Not by its name: that may lead to another version by now.
        Self { helper: PathBuf::from("/proc/self/exe"), levels, found: OnceLock::new(), memory: None }
    }

    /// What was found. Finds it out if nobody has, and waits for whoever does.
    pub(super) fn found(&self) -> &Found {
        self.found.get_or_init(|| self.find())
    }

    /// Finds it out in a thread of its own.
    pub(super) fn look(self: &Arc<Self>) {
        let kernel = Arc::clone(self);
        // Without a thread it is found out at the first use.
        let _ = std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || kernel.found().level);
    }

    fn find(&self) -> Found {
        let memory = self.memory.as_deref().and_then(|file| Some((file, memory::key(&self.levels)?)));
        if let Some(level) = memory.as_ref().and_then(|(file, key)| memory::recall(file, key)) {
            return Found { level, missing: Vec::new() };
        }
        let mut missing = Vec::new();
        for level in &self.levels {
            match self.probe(*level) {
                // Only the best is kept: why it was not better could not be told the next time.
                Ok(()) => {
                    if let Some((file, key)) = memory.filter(|_| missing.is_empty()) {
                        // If it cannot be kept, it is found out again.
                        let _ = memory::keep(file, key, *level);
                    }
                    return Found { level: *level, missing };
                }
                Err(why) => missing.push((*level, why.to_string())),
            }
        }
        Found { level: Level::None, missing }
    }

    /// Makes a sandbox and runs nothing in it.
    fn probe(&self, level: Level) -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let policy = Policy {
            writable: Vec::new(),
            protected: Vec::new(),
            hidden: Vec::new(),
            readable: Vec::new(),
            temp: temp.path().canonicalize()?,
            network: Network::Loopback,
        };
        match level {
            Level::Landlock => Walls::of(&policy)?.0.try_out(),
            Level::Namespaces => {
                let request =
                    Request { policy, parent: std::process::id(), door: None, forward: false, lingers: false };
                let way = Way::helped(self.helper.clone(), request, None)?;
                let prepared = Prepared::new(way, Vec::new(), Watched::default());
                let mut helper = prepared.start(std::iter::empty::<&OsStr>())?;
                let status = helper.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
                match prepared.finish()?.error {
                    Some(error) => Err(io::Error::other(error)),
                    None if status.success() => Ok(()),
                    None => Err(io::Error::other(format!("the helper ended with {status}"))),
                }
            }
            Level::None => Err(io::Error::other("there is no sandbox of this kind")),
        }
    }
}
