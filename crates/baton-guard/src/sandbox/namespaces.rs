//! The outer half of the namespaces level: makes the namespaces, starts the first process in them, waits for it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid};
use rustix::process::{WaitOptions, waitpid};

use super::letter::{Letter, Report, Request};
use super::mounts::{self, Before};
use super::policy::Network;
use super::{helper, init, loopback, network, rights};

/// Runs a command in namespaces of its own and ends as it ended.
pub(super) fn run(letter: &Letter, request: &Request, command: &[OsString], stdin: bool) -> io::Result<i32> {
    let cwd = std::env::current_dir()?;
    let before = Before::look()?;
    let signals = block_signals()?;
    enter(request)?;
    mounts::arrange(&request.policy, before)?;
    // A directory that is hidden or gone inside is no place to start in.
    std::env::set_current_dir(if cwd.is_dir() { cwd.as_path() } else { Path::new("/") })?;
    if !stdin {
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    }
    let outer = std::process::id();
    let init = fork(|| helper::end(letter, init::run(letter, request, outer, command)))
        .map_err(named("start the first process"))?;
    // All that is left to do is to wait.
    rights::drop_all()?;
    let status = if request.forward { follow(init, &signals)? } else { wait(init)? };
    end_like(status, letter)
}

/// Starts another process that does this and exits with its code. Becoming another program would take longer than all the
/// rest, and the new process has nothing in its memory that the command may not know.
#[allow(unsafe_code, reason = "this process has one thread, so its copy may do whatever it could do itself")]
fn fork(work: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: there is no other thread that could hold a lock.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => std::process::exit(work()),
    }
}

/// Namespaces of every kind, with this user and nobody else in them; new ones, but for a network that is joined.
fn enter(request: &Request) -> io::Result<()> {
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if let Some(door) = request.door {
        network::join(door).map_err(named("join the network"))?;
        return unshare(flags).map_err(io::Error::from).map_err(named("make namespaces"));
    }
    flags |= CloneFlags::CLONE_NEWUSER;
    if request.policy.network == Network::Loopback {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    make(flags)
}

/// Makes these namespaces, of which one is for users, with this one in it; brings up the loopback if there is a new one.
pub(super) fn make(flags: CloneFlags) -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(flags).map_err(io::Error::from).map_err(named("make namespaces"))?;
    fs::write("/proc/self/setgroups", "deny").map_err(named("keep groups"))?;
    let (user, group) = (user.as_raw(), group.as_raw());
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(named("map the user"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(named("map the group"))?;
    if flags.contains(CloneFlags::CLONE_NEWNET) {
        loopback::bring_up().map_err(named("bring up the loopback"))?;
    }
    Ok(())
}

fn named(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

/// Keeps what is handed on to a command from this thread, and from those that it starts.
pub fn hold_signals() -> io::Result<()> {
    block_signals().map(drop)
}

/// What would end this process before the command.
fn block_signals() -> io::Result<SigSet> {
    let mut signals = SigSet::empty();
    for signal in FORWARDED {
        signals.add(signal);
    }
    signals.add(Signal::SIGCHLD);
    signals.thread_block()?;
    Ok(signals)
}

/// Signals by which people and programs talk to a command.
pub(super) const FORWARDED: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Starts a program and hands signals on to it until it ends.
pub(super) fn start_and_follow(mut program: Command) -> io::Result<ExitStatus> {
    let signals = block_signals()?;
    let child = program.spawn()?;
    follow(Pid::from_raw(child.id().cast_signed()), &signals)
}

fn wait(child: Pid) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = ended(child, WaitOptions::empty())? {
            return Ok(status);
        }
    }
}

fn ended(child: Pid, how: WaitOptions) -> io::Result<Option<ExitStatus>> {
    match waitpid(rustix::process::Pid::from_raw(child.as_raw()), how) {
        Ok(ended) => Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()))),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits, and hands signals on meanwhile.
fn follow(child: Pid, signals: &SigSet) -> io::Result<ExitStatus> {
    let inbox = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC)?;
    loop {
        if let Some(status) = ended(child, WaitOptions::NOHANG)? {
            return Ok(status);
        }
        let Some(info) = inbox.read_signal()? else { continue };
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal.filter(|signal| FORWARDED.contains(signal)) {
            // It fails only if the process has just ended.
            let _ = nix::sys::signal::kill(child, signal);
        }
    }
}

fn end_like(status: ExitStatus, letter: &Letter) -> io::Result<i32> {
    let report: Report = letter.read().unwrap_or_default();
    let signal = report.signal.or(status.signal());
    if let Some(signal) = signal.and_then(|number| Signal::try_from(number).ok()) {
        let mut only = SigSet::empty();
        only.add(signal);
        only.thread_unblock()?;
        nix::sys::signal::raise(signal)?;
        // Some signals do not end a process, or are ignored by this one.
        return Ok(128 + signal as i32);
    }
    Ok(status.code().unwrap_or(1))
}
