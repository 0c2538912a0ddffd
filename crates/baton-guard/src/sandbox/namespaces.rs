//! The outer half of the namespaces level: makes the namespaces, starts the first process in them, waits for it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::thread::{CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities};

use super::letter::{Letter, Report, Request};
use super::mounts::{self, Before};
use super::policy::Network;
use super::{helper, loopback, network};

/// Runs a command in namespaces of its own and ends as it ended.
pub(super) fn run(letter: &Letter, request: &Request, command: &[OsString], stdin: bool) -> io::Result<i32> {
    let cwd = std::env::current_dir()?;
    let before = Before::look()?;
    // The path of this program may be covered by then; the handle is not.
    let program = File::open("/proc/self/exe")?;
    let signals = block_signals()?;
    enter(request)?;
    mounts::arrange(&request.policy, before)?;
    keep_for_init()?;

    let letter_handle = letter.inheritable()?;
    let mut init = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    init.arg0("baton").arg(helper::INIT).arg(letter_handle.as_raw_fd().to_string()).arg(std::process::id().to_string());
    init.args(command);
    // A directory that is hidden or gone inside is no place to start in.
    init.current_dir(if cwd.is_dir() { cwd.as_path() } else { Path::new("/") });
    if !stdin {
        init.stdin(std::process::Stdio::null());
    }
    let child = init
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start the first process: {error}")))?;
    drop(letter_handle);
    let status = if request.forward { follow(child, &signals)? } else { wait(child)? };
    end_like(status, letter)
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

/// The first process has to mount its own `/proc` and then to drop its rights, so it must have them at first.
fn keep_for_init() -> io::Result<()> {
    let all = CapabilitySet::SYS_ADMIN | CapabilitySet::SETPCAP;
    set_capabilities(None, CapabilitySets { effective: all, permitted: all, inheritable: all })?;
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP] {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
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
    follow(child, &signals)
}

fn wait(mut child: Child) -> io::Result<ExitStatus> {
    child.wait()
}

/// Waits, and hands signals on meanwhile.
fn follow(mut child: Child, signals: &SigSet) -> io::Result<ExitStatus> {
    let inbox = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC)?;
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let Some(info) = inbox.read_signal()? else { continue };
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        if let Some(signal) = signal.filter(|signal| FORWARDED.contains(signal)) {
            // It fails only if the process has just ended.
            let _ = nix::sys::signal::kill(pid, signal);
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
