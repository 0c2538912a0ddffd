//! What Baton and its helper tell each other: a file in memory that nobody else has.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::policy::Policy;

/// What the helper is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) policy: Policy,
    /// Who asks: the helper ends when it ends.
    pub(super) parent: u32,
    /// The handles of the network to be joined; without, a new one is made if there is to be one.
    pub(super) door: Option<[i32; 2]>,
    /// Whether signals that reach the helper are meant for the command.
    pub(super) forward: bool,
    /// Whether what the command leaves running is part of it, and is waited for.
    pub(super) lingers: bool,
}

/// What the helper found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// Why the command was not run.
    pub(super) error: Option<String>,
    /// How many processes the command left running; they were ended.
    pub(super) leftovers: usize,
    /// The signal that ended the command.
    pub(super) signal: Option<i32>,
}

/// A file in memory.
#[derive(Debug)]
pub(super) struct Letter(File);

impl Letter {
    /// One with a request in it.
    pub(super) fn new(request: &Request) -> io::Result<Self> {
        let letter = Self(memfd_create("baton-sandbox", MemfdFlags::CLOEXEC)?.into());
        letter.write(request)?;
        Ok(letter)
    }

    /// The one that came as standard input.
    pub(super) fn from_stdin() -> io::Result<Self> {
        Ok(Self(rustix::stdio::stdin().try_clone_to_owned()?.into()))
    }

    /// The one that was left open under this number. It is opened anew, so the number is free to be closed.
    pub(super) fn from_number(number: u32) -> io::Result<Self> {
        File::options().read(true).write(true).open(format!("/proc/self/fd/{number}")).map(Self)
    }

    /// Another handle, which programs that are started inherit.
    pub(super) fn inheritable(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::dup(&self.0)?)
    }

    /// Its number.
    pub(super) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Another handle.
    pub(super) fn handle(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Replaces what it says.
    pub(super) fn write(&self, message: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        self.0.set_len(0)?;
        self.0.write_all_at(&text, 0)
    }

    /// What it says.
    pub(super) fn read<T: DeserializeOwned>(&self) -> io::Result<T> {
        let mut text = vec![0; usize::try_from(self.0.metadata()?.len()).map_err(io::Error::other)?];
        self.0.read_exact_at(&mut text, 0)?;
        Ok(serde_json::from_slice(&text)?)
    }
}
