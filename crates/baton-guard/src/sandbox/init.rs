//! The inner half of the namespaces level: process 1, which drops all rights, starts the command and clears up after it.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, mount};
use rustix::process::{DumpableBehavior, set_dumpable_behavior, set_parent_process_death_signal, setsid};

use super::letter::{Letter, Report, Request};
use super::namespaces::FORWARDED;
use super::{Level, helper, landlock, rights, seccomp};

/// How long what a command left running has to end by itself.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// Runs a command as the first process of its namespaces and ends as it ended.
pub(super) fn run(letter: &Letter, request: &Request, outer: u32, command: &[OsString]) -> io::Result<i32> {
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent is outside and has no number in here; the old /proc still knows it.
    if parent()? != Some(outer) {
        return Err(io::Error::other("the process outside has ended"));
    }
    // No terminal to type into, and no process group with anyone outside.
    setsid()?;
    // Where an outer container forbids it, the old one stays: read-only, and closed as far as others are concerned.
    let proc = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let _ = mount("proc", "/proc", "proc", proc, None);
    let inbox = inbox()?;
    rights::drop_all()?;
    landlock::confine_writes(&request.policy)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    seccomp::apply(Level::Namespaces, request.policy.network)?;

    let Some((program, args)) = command.split_first() else { return Ok(0) };
    let child = match start(program, args) {
        Ok(child) => child,
        Err(error) => return Ok(helper::cannot_run(program, &error)),
    };
    let ended = follow(child, &inbox, request.forward)?;
    while request.lingers && any_left()? {
        wait_for_signal(&inbox, None)?;
        while inbox.read_signal()?.is_some() {}
    }
    let leftovers = end_leftovers(&inbox)?;
    let (code, signal) = match ended {
        WaitStatus::Signaled(_, signal, _) => (128 + signal as i32, Some(signal as i32)),
        WaitStatus::Exited(_, code) => (code, None),
        _ => (1, None),
    };
    letter.write(&Report { error: None, leftovers, signal })?;
    Ok(code)
}

fn parent() -> io::Result<Option<u32>> {
    let status = fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()))
}

/// Signals come as data: a handler would be needed otherwise, since the kernel drops what process 1 does not expect.
fn inbox() -> io::Result<SignalFd> {
    let mut signals = SigSet::from_iter(FORWARDED);
    signals.add(Signal::SIGCHLD);
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Starts the command with no signal blocked or ignored. This process never unblocks any: one that came just then would be
/// lost on process 1.
fn start(program: &OsStr, args: &[OsString]) -> io::Result<Pid> {
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::other);
    let mut how = PosixSpawnAttr::init()?;
    // The runtime of Rust ignores this one.
    how.set_sigdefault(&SigSet::from_iter([Signal::SIGPIPE]))?;
    how.set_sigmask(&SigSet::empty())?;
    how.set_pgroup(Pid::from_raw(0))?;
    let flags = [
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
    ];
    how.set_flags(flags.into_iter().collect())?;
    let program = text(program)?;
    let words: Vec<CString> =
        std::iter::once(Ok(program.clone())).chain(args.iter().map(|arg| text(arg))).collect::<io::Result<_>>()?;
    let vars = std::env::vars_os().map(|(name, value)| {
        let mut var = name;
        var.push("=");
        var.push(value);
        text(&var)
    });
    let vars: Vec<CString> = vars.collect::<io::Result<_>>()?;
    Ok(posix_spawnp(&program, &PosixSpawnFileActions::init()?, &how, &words, &vars)?)
}

/// Waits until the command has ended, and for orphans on the way.
fn follow(child: Pid, inbox: &SignalFd, forward: bool) -> io::Result<WaitStatus> {
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(status) if status.pid() == Some(child) => return Ok(status),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        wait_for_signal(inbox, None)?;
        while let Some(info) = inbox.read_signal()? {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal.filter(|signal| forward && FORWARDED.contains(signal)) {
                // It fails only if nobody of the group is left.
                let _ = kill(Pid::from_raw(-child.as_raw()), signal);
            }
        }
    }
}

fn wait_for_signal(inbox: &SignalFd, timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut [PollFd::new(inbox, PollFlags::IN)], timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends what the command left running; how many those were. The kernel kills the rest when this process ends.
fn end_leftovers(inbox: &SignalFd) -> io::Result<usize> {
    if !any_left()? {
        return Ok(0);
    }
    let count = processes().max(1);
    let everyone = Pid::from_raw(-1);
    // They fail only if nobody is left.
    let _ = kill(everyone, Signal::SIGTERM);
    let _ = kill(everyone, Signal::SIGCONT);
    let deadline = Instant::now() + LEFTOVER_GRACE;
    while any_left()? && Instant::now() < deadline {
        wait_for_signal(inbox, Some(deadline.saturating_duration_since(Instant::now())))?;
        while inbox.read_signal()?.is_some() {}
    }
    Ok(count)
}

/// Whether anything but this process is alive: every orphan is a child of this process, and every other has one.
fn any_left() -> io::Result<bool> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return Ok(true),
            Err(Errno::ECHILD) => return Ok(false),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn processes() -> usize {
    // If the old /proc is still there, its numbers are not ours and cannot be counted.
    if fs::read_link("/proc/self").is_ok_and(|own| own.as_os_str() != "1") {
        return 0;
    }
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name != "1" && name.parse::<u32>().is_ok()))
        .count()
}
