//! The process tree: which processes belong to which call, and how none of them escapes.
//!
//! Baton is a child subreaper, so whatever a command leaves behind becomes a child of Baton when its parent ends. Such an
//! orphan is attributed by a variable in its environment, or by the process group of the shell that started it. One that
//! hid both, in a session of its own, is a stray: it is ended when no other call runs that it could belong to. All this
//! is process-wide by nature, and so is its state.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, set_child_subreaper, waitid,
};
use rustix::time::{ClockId, clock_gettime};

/// The variable by which a process is known to belong to a call.
pub(super) const MARK: &str = "BATON_CALL";

/// The calls whose shells are about to start, run, or are being cleaned up after.
static LIVE: Mutex<Vec<Live>> = Mutex::new(Vec::new());

/// Tells this Baton's marks from those of another one above or below it.
static PREFIX: LazyLock<String> = LazyLock::new(|| format!("{}.{:x}.", process::id(), RandomState::new().hash_one(0)));

/// The session of this Baton, which is 0 in a container where it was begun from outside.
static OWN_SESSION: LazyLock<Option<i32>> =
    LazyLock::new(|| Process::read(process::id().cast_signed()).map(|process| process.session));

struct Live {
    number: u64,
    shell: Option<i32>,
    /// When the first of the calls began that have overlapped since then, in the unit of [`Process::started`].
    since: u64,
}

/// A running call. When it is gone, nothing that it started is alive.
pub(super) struct Call {
    number: u64,
    /// Processes once found to be of this call: a zombie has no environment to know it by.
    known: Mutex<HashSet<Process>>,
    finished: AtomicBool,
}

impl Call {
    /// Must be there before the shell: a process with an unknown mark is taken for a remnant.
    pub(super) fn begin() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        set_child_subreaper(Pid::from_raw(1))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = Self { number, known: Mutex::default(), finished: AtomicBool::new(false) };
        let mut live = live();
        let since = live.first().map_or_else(now, |first| first.since);
        live.push(Live { number, shell: None, since });
        Ok(call)
    }

    /// The value of [`MARK`] in its processes.
    pub(super) fn mark(&self) -> String {
        format!("{}{}", *PREFIX, self.number)
    }

    /// Its shell has started.
    pub(super) fn started(&self, shell: Option<u32>) {
        let shell = shell.and_then(|pid| i32::try_from(pid).ok());
        live().iter_mut().filter(|live| live.number == self.number).for_each(|live| live.shell = shell);
    }

    /// How many processes are left when the shell has ended. Mostly none, which is seen without looking at all processes.
    pub(super) fn leftovers(&self) -> usize {
        let of_no_call = |child: &Process| owner(child, &live()) == Owner::Other;
        match Process::children() {
            Some(children) if children.iter().all(of_no_call) => 0,
            _ => self.count(),
        }
    }

    /// The living processes of this call, the shell included. Strays are ended on the way.
    fn processes(&self) -> Vec<Process> {
        if no_children() {
            return Vec::new();
        }
        let all = Process::all();
        let mut known = lock(&self.known);
        let found = members(&all, |process| match owner(process, &live()) {
            Owner::Call(number) => number == self.number,
            Owner::Nobody | Owner::Other => known.contains(process),
        });
        known.extend(found.iter().copied());
        let strays = |all: &[Process]| {
            members(all, |process| !known.contains(process) && owner(process, &live()) == Owner::Nobody)
        };
        if live().len() == 1 && !strays(&all).is_empty() {
            until_gone(|| kill(&reap(strays(&Process::all()), None)));
        }
        let shell = live().iter().find(|live| live.number == self.number).and_then(|live| live.shell);
        reap(found, shell)
    }

    /// Everything has ended, or cannot be ended.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    /// How many of its processes are alive.
    pub(super) fn count(&self) -> usize {
        self.processes().len()
    }

    /// Signals all of its processes; how many there were.
    pub(super) fn signal(&self, signal: Signal) -> usize {
        let processes = self.processes();
        for process in &processes {
            process.signal(signal);
            // One that is stopped, perhaps because it asked for a password on the terminal, has to wake up to notice.
            process.signal(Signal::CONT);
        }
        processes.len()
    }
}

impl Drop for Call {
    /// A call that is dropped half-way, with the turn it belongs to, is ended at once.
    fn drop(&mut self) {
        if !self.finished.load(Ordering::Relaxed) {
            until_gone(|| self.signal(Signal::KILL));
        }
        live().retain(|live| live.number != self.number);
    }
}

/// Ends everything that any call has started, at once: for the second Ctrl-C, or before the process exits.
pub fn kill_all_now() {
    until_gone(|| {
        let found = members(&Process::all(), |process| !matches!(owner(process, &live()), Owner::Other));
        // Shells are waited for by their calls, so only the living count.
        let alive: Vec<_> = found.into_iter().filter(|process| !process.zombie).collect();
        kill(&alive)
    });
}

fn kill(processes: &[Process]) -> usize {
    for process in processes {
        process.signal(Signal::KILL);
    }
    processes.len()
}

/// Repeats a kill, since a process may start another one between being found and being killed.
fn until_gone(mut kill: impl FnMut() -> usize) {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        if kill() == 0 {
            break;
        }
        std::thread::yield_now();
    }
}

fn live() -> MutexGuard<'static, Vec<Live>> {
    lock(&LIVE)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn no_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, look).is_err_and(|error| error == rustix::io::Errno::CHILD)
}

/// Whose a child of Baton is.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// Of this call.
    Call(u64),
    /// Left by some call that cannot be told any more.
    Nobody,
    /// Started by Baton for another purpose.
    Other,
}

fn owner(child: &Process, live: &[Live]) -> Owner {
    if let Some(call) = live.iter().find(|call| call.shell.is_some_and(|shell| child.group == shell)) {
        return Owner::Call(call.number);
    }
    match child.mark() {
        Some(number) if live.iter().any(|call| call.number == number) => Owner::Call(number),
        Some(_) => Owner::Nobody,
        None if is_stray(child, live) => Owner::Nobody,
        None => Owner::Other,
    }
}

/// Whether a child began a session of its own while calls ran. What Baton starts for other purposes stays in its session;
/// what those left behind earlier is none of our business.
fn is_stray(child: &Process, live: &[Live]) -> bool {
    OWN_SESSION.is_some_and(|own| own != child.session) && live.iter().any(|call| child.started >= call.since)
}

/// The time since boot in the clock ticks of `/proc`.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let ticks = clock_ticks_per_second();
    time.tv_sec.cast_unsigned() * ticks + time.tv_nsec.cast_unsigned() * ticks / 1_000_000_000
}

/// The children of Baton that `root` accepts, and all their descendants.
fn members(all: &[Process], root: impl Fn(&Process) -> bool) -> Vec<Process> {
    let baton = process::id().cast_signed();
    let mut found: Vec<_> = all.iter().filter(|process| process.parent == baton && root(process)).copied().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(all.iter().filter(|process| process.parent == parent));
        next += 1;
    }
    found
}

/// Takes the dead out. Those that Baton adopted are waited for; the shell is not, since its call does that.
fn reap(mut found: Vec<Process>, shell: Option<i32>) -> Vec<Process> {
    let baton = process::id().cast_signed();
    found.retain(|process| {
        if process.zombie
            && process.parent == baton
            && Some(process.pid) != shell
            && let Some(pid) = Pid::from_raw(process.pid)
        {
            // It fails only if somebody else was faster.
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        !process.zombie
    });
    found
}

/// A process as `/proc` showed it.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    zombie: bool,
    /// When it started, in clock ticks since boot; together with the pid it is never the same again.
    started: u64,
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

impl Eq for Process {}

impl std::hash::Hash for Process {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.pid, self.started).hash(state);
    }
}

impl Process {
    fn all() -> Vec<Self> {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        pids.filter_map(|entry| Self::read(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    /// The children of Baton, where the kernel lists them. One that begins or ends meanwhile can make it miss another,
    /// which is then ended as a remnant by the next call.
    fn children() -> Option<Vec<Self>> {
        let mut found = Vec::new();
        for thread in fs::read_dir("/proc/self/task").ok()? {
            let pids = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
            found.extend(pids.split_ascii_whitespace().filter_map(|pid| Self::read(pid.parse().ok()?)));
        }
        Some(found)
    }

    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads `pid (name) state parent group session ...`; the name may have anything in it, parentheses too.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let zombie = matches!(fields.next()?, "Z" | "X");
        let mut number = || fields.next()?.parse().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        let started = fields.nth(15)?.parse().ok()?;
        Some(Self { pid, parent, group, session, zombie, started })
    }

    /// The number of the call in its environment, if this Baton put one there.
    fn mark(&self) -> Option<u64> {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let mark = environment.split(|byte| *byte == 0).find_map(|var| var.strip_prefix(MARK.as_bytes()))?;
        str::from_utf8(mark).ok()?.strip_prefix('=')?.strip_prefix(PREFIX.as_str())?.parse().ok()
    }

    /// Signals this process and never one that has its pid by now.
    fn signal(&self, signal: Signal) {
        let Some(Ok(pidfd)) = Pid::from_raw(self.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        if Self::read(self.pid).as_ref() == Some(self) {
            // It fails if the process is gone, or is not ours to signal: then it is counted as a survivor.
            let _ = pidfd_send_signal(pidfd, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_read_whatever_the_name_is() {
        let stat = "42 (a) Z (b) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1000 2";
        let process = Process::parse(42, stat).unwrap();
        assert_eq!((process.parent, process.group, process.session), (7, 8, 9));
        assert_eq!((process.zombie, process.started), (false, 12345));
        assert!(Process::parse(1, "1 (x) S 7").is_none());
    }

    #[test]
    fn this_process_is_found() {
        assert!(Process::all().iter().any(|process| process.pid == std::process::id().cast_signed()));
    }
}
