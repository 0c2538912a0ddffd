//! The walls of level Landlock: made ready by Baton, put up by the child that becomes the command.
//!
//! Landlock, the filter and what takes rights away apply to the thread that asks for them, so no process has to be started
//! for that: the child does it between fork and exec. Since Baton has threads, nothing may allocate or lock there; what is
//! needed is ready, and what is left are system calls.
#![allow(unsafe_code, reason = "what runs between fork and exec makes system calls and nothing else")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::SigSet;
use rustix::process::{Pid, getpid, getppid, set_parent_process_death_signal};
use seccompiler::BpfProgram;

use super::basis::Basis;
use super::policy::Policy;
use super::{Level, landlock, rights, seccomp};

/// What one policy comes to. It can be put up any number of times.
#[derive(Debug)]
pub(super) struct Walls {
    ruleset: OwnedFd,
    filter: BpfProgram,
    /// Who starts the commands.
    parent: Pid,
}

impl Walls {
    /// Makes the walls of a policy ready, and says what they were made from.
    pub(super) fn of(policy: &Policy) -> io::Result<(Self, Basis)> {
        let (ruleset, basis) = landlock::ruleset_of(policy)?;
        let filter = seccomp::filter(Level::Landlock, policy.network)?;
        Ok((Self { ruleset, filter, parent: getpid() }, basis))
    }

    /// Has the process of this command put them up before it becomes the command. If it cannot, it does not become it.
    pub(super) fn surround(self: Arc<Self>, command: &mut Command) {
        // SAFETY: `enter` neither allocates nor locks, and what it uses lives as long as the command.
        unsafe { command.pre_exec(move || self.enter()) };
    }

    /// Whether the kernel lets them be put up: a thread does that, and ends.
    pub(super) fn try_out(&self) -> io::Result<()> {
        std::thread::scope(|scope| {
            let tried = std::thread::Builder::new().name("walls".to_owned()).spawn_scoped(scope, || self.put_up())?;
            tried.join().unwrap_or_else(|_| Err(io::Error::other("it could not be found out")))
        })
    }

    fn enter(&self) -> io::Result<()> {
        close_at_exec()?;
        set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        if getppid() != Some(self.parent) {
            // Baton has ended meanwhile.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        rights::no_core_dumps();
        // Baton may have blocked some, which a program that is started inherits.
        SigSet::empty().thread_set_mask()?;
        self.put_up()
    }

    fn put_up(&self) -> io::Result<()> {
        rights::drop_all()?;
        // SAFETY: a number of a handle that is open, and no flags.
        let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.ruleset.as_raw_fd(), 0) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        seccomp::put_on(&self.filter)
    }
}

/// The walls of the last command: most commands of a session have the same.
#[derive(Debug, Default)]
pub(super) struct Last(Mutex<Option<(Policy, Basis, Arc<Walls>)>>);

impl Last {
    /// The walls of a policy: the last ones, if they would come out the same.
    pub(super) fn or_new(&self, policy: &Policy) -> io::Result<Arc<Walls>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, basis, walls)) = &*last
            && of == policy
            && basis.is_as_it_was(policy)
        {
            return Ok(Arc::clone(walls));
        }
        let (walls, basis) = Walls::of(policy)?;
        let walls = Arc::new(walls);
        *last = Some((policy.clone(), basis, Arc::clone(&walls)));
        Ok(walls)
    }
}

/// Marks everything but the standard streams to be closed when the process becomes the command. Not closed at once: by one
/// of them the process still tells Baton what goes wrong.
fn close_at_exec() -> io::Result<()> {
    // SAFETY: numbers only.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
