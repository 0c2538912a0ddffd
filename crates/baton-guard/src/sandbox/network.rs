//! A loopback that the commands of one session share: a server that one has started can be reached by the next.
//!
//! A network belongs to the user namespace that it was made in, so whoever joins it joins both. Making a network is also
//! what takes longest of all namespaces, so sharing it makes every command but the first start faster.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};

use super::{helper, namespaces};

/// Said when the network is there.
const MADE: &[u8] = b"made\n";

/// A user namespace and the network in it. They are there as long as their handles are.
#[derive(Debug)]
pub(super) struct Shared {
    user: File,
    network: File,
}

/// The handles of a network, as a process that is started inherits them.
#[derive(Debug)]
pub(super) struct Door([OwnedFd; 2]);

impl Door {
    /// Their numbers.
    pub(super) fn numbers(&self) -> [i32; 2] {
        self.0.each_ref().map(AsRawFd::as_raw_fd)
    }
}

impl Shared {
    /// Has a helper make a network, takes hold of it, and lets the helper go.
    pub(super) fn make(program: &Path) -> io::Result<Self> {
        let mut maker = Command::new(program);
        maker.arg0("baton").arg(helper::NETWORK).env_clear();
        let mut maker = maker.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut said = Vec::new();
        if let Some(out) = maker.stdout.as_mut() {
            out.take(MADE.len() as u64).read_to_end(&mut said)?;
        }
        let shared = if said == MADE { Self::of(maker.id()) } else { Err(io::Error::other("it was not made")) };
        // It waits for the end of its input.
        drop(maker.stdin.take());
        let output = maker.wait_with_output()?;
        shared.map_err(|error| {
            let why = String::from_utf8_lossy(&output.stderr);
            io::Error::new(error.kind(), format!("cannot make a network for commands: {error} {}", why.trim()))
        })
    }

    fn of(process: u32) -> io::Result<Self> {
        let open = |kind: &str| File::open(format!("/proc/{process}/ns/{kind}"));
        Ok(Self { user: open("user")?, network: open("net")? })
    }

    /// Handles for one process to join by.
    pub(super) fn door(&self) -> io::Result<Door> {
        Ok(Door([rustix::io::dup(&self.user)?, rustix::io::dup(&self.network)?]))
    }
}

/// The helper's part: makes a network and waits until it is let go.
pub(super) fn hold() -> io::Result<()> {
    namespaces::make(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    io::stdout().write_all(MADE)?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Joins a network by its inherited handles, which are closed.
pub(super) fn join(door: [i32; 2]) -> io::Result<()> {
    for (number, kind) in door.into_iter().zip([CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWNET]) {
        // Opened anew: a number alone is no handle.
        let handle = File::open(format!("/proc/self/fd/{number}"))?;
        setns(&handle, kind)?;
        nix::unistd::close(number)?;
    }
    Ok(())
}
