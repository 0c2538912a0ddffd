//! The process tree: which processes belong to which call, and how none of them escapes.
//!
//! Baton is a child subreaper, so whatever a command leaves behind becomes a child of Baton when its parent ends. Such an
//! orphan is attributed by a variable in its environment, by the process group of the shell that started it, or by the
//! pipe of its call that it still prints to. One that hid all three, in a session of its own, is a stray: it is ended
//! when no other call runs that it could belong to. A background process is such a call for as long as it runs, so a
//! stray that began meanwhile ends with it, at the latest; one that may be of a call that is kept outlives Baton. All
//! this is process-wide by nature, and so is its state.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::fstat;
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
    /// What writes down its output, and is none of its processes.
    scribe: Option<i32>,
    /// The name of the pipe that its processes print to.
    pipe: String,
    is_kept: bool,
    /// When it began, in the unit of [`Process::started`].
    began: u64,
    /// When the first of the calls began that have overlapped since then.
    since: u64,
}

/// A running call. When it is gone, nothing that it started is alive, unless it is kept.
pub(super) struct Call {
    number: u64,
    /// Processes once found to be of this call: a zombie has no environment to know it by.
    known: Mutex<HashSet<Process>>,
    finished: AtomicBool,
}

impl Call {
    /// A call whose processes print to this pipe. Must be there before the shell: a process with an unknown mark is taken
    /// for a remnant.
    pub(super) fn begin(pipe: impl AsFd) -> io::Result<Self> {
        Self::begin_as(false, pipe)
    }

    /// As [`Self::begin`], for one that goes on when Baton ends.
    pub(super) fn begin_kept(pipe: impl AsFd) -> io::Result<Self> {
        Self::begin_as(true, pipe)
    }

    fn begin_as(is_kept: bool, pipe: impl AsFd) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        set_child_subreaper(Pid::from_raw(1))?;
        let pipe = format!("pipe:[{}]", fstat(pipe)?.st_ino);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = Self { number, known: Mutex::default(), finished: AtomicBool::new(false) };
        let mut live = live();
        let began = now();
        let since = live.first().map_or(began, |first| first.since);
        live.push(Live { number, shell: None, scribe: None, pipe, is_kept, began, since });
        Ok(call)
    }

    /// The value of [`MARK`] in its processes.
    pub(super) fn mark(&self) -> String {
        format!("{}{}", *PREFIX, self.number)
    }

    /// Its shell has started.
    pub(super) fn started(&self, shell: Option<u32>) {
        self.note(|live| live.shell = shell.map(u32::cast_signed));
    }

    /// What writes down its output has started.
    pub(super) fn written_by(&self, scribe: Option<u32>) {
        self.note(|live| live.scribe = scribe.map(u32::cast_signed));
    }

    fn note(&self, change: impl Fn(&mut Live)) {
        live().iter_mut().filter(|live| live.number == self.number).for_each(change);
    }

    /// How many processes are left when the shell has ended. Mostly none, which is seen without looking at all processes.
    pub(super) fn leftovers(&self) -> usize {
        let of_others = |child: &Process| match owner(child, &live()) {
            Owner::Other => true,
            Owner::Call(number) => number != self.number,
            Owner::Ended | Owner::Unknown => false,
        };
        match Process::children() {
            Some(children) if children.iter().all(of_others) => 0,
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
            Owner::Ended | Owner::Unknown | Owner::Other => known.contains(process),
        });
        known.extend(found.iter().copied());
        let strays = |all: &[Process]| {
            members(all, |process| !known.contains(process) && is_left(process, &live(), |call| call == self.number))
        };
        if !strays(&all).is_empty() {
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
    /// A call that is dropped half-way, with the turn or the session it belongs to, is ended at once.
    fn drop(&mut self) {
        let is_kept = live().iter().any(|live| live.number == self.number && live.is_kept);
        if !is_kept && !self.finished.load(Ordering::Relaxed) {
            until_gone(|| self.signal(Signal::KILL));
        }
        live().retain(|live| live.number != self.number);
    }
}

/// Ends everything that any call has started and that is not kept, at once: for the second Ctrl-C, or before the process
/// exits.
pub fn kill_all_now() {
    until_gone(|| {
        let found = members(&Process::all(), |process| {
            let live = live();
            let may_end = |number| live.iter().any(|call| call.number == number && !call.is_kept);
            match owner(process, &live) {
                Owner::Call(number) => may_end(number),
                _ => is_left(process, &live, may_end),
            }
        });
        // Shells are waited for by their calls, so only the living count.
        let alive: Vec<_> = found.into_iter().filter(|process| !process.zombie).collect();
        kill(&alive)
    });
}

/// Ends what calls that have ended left behind since then, as far as no call that runs could have started it.
pub(crate) fn sweep(since: u64) {
    if no_children() {
        return;
    }
    until_gone(|| {
        let left = |process: &Process| {
            let live = live();
            is_left(process, &live, |_| false)
                || (owner(process, &live) == Owner::Other
                    && process.started >= since
                    && is_outside(process)
                    && !could_be_of(process, &live, |_| false))
        };
        kill(&reap(members(&Process::all(), left), None))
    });
}

/// Waits for the dead that Baton adopted from calls that go on: nobody else does, and they would pile up.
pub(super) fn bury() {
    let dead = |process: &Process| {
        let live = live();
        let is_waited_for = live.iter().any(|call| [call.shell, call.scribe].contains(&Some(process.pid)));
        let is_adopted = is_outside(process) || live.iter().any(|call| call.shell == Some(process.group));
        process.zombie && is_adopted && !is_waited_for
    };
    let children = Process::children().unwrap_or_else(Process::all);
    reap(children.into_iter().filter(|child| child.is_child() && dead(child)).collect(), None);
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
    /// Of a call that has ended.
    Ended,
    /// Left by some call, it cannot be told which.
    Unknown,
    /// Started by Baton for another purpose.
    Other,
}

fn owner(child: &Process, live: &[Live]) -> Owner {
    if live.iter().any(|call| call.scribe == Some(child.pid)) {
        return Owner::Other;
    }
    if let Some(call) = live.iter().find(|call| call.shell == Some(child.group)) {
        return Owner::Call(call.number);
    }
    match child.mark() {
        Some(number) if live.iter().any(|call| call.number == number) => Owner::Call(number),
        Some(_) => Owner::Ended,
        None if !is_stray(child, live) => Owner::Other,
        None => {
            live.iter().find(|call| child.prints_to(&call.pipe)).map_or(Owner::Unknown, |call| Owner::Call(call.number))
        }
    }
}

/// Whether a child began a session of its own while calls ran.
fn is_stray(child: &Process, live: &[Live]) -> bool {
    is_outside(child) && live.iter().any(|call| child.started >= call.since)
}

/// Whether a child is in another session. What Baton starts for other purposes stays in its own; what those left behind
/// before there were calls is none of our business.
fn is_outside(child: &Process) -> bool {
    OWN_SESSION.is_some_and(|own| own != child.session)
}

/// Whether a child was left by a call, and by none that runs except perhaps those that are `ending`.
fn is_left(child: &Process, live: &[Live], ending: impl Fn(u64) -> bool) -> bool {
    match owner(child, live) {
        Owner::Ended => true,
        Owner::Unknown => !could_be_of(child, live, ending),
        Owner::Call(_) | Owner::Other => false,
    }
}

/// Whether a call runs, not one of the `except`ed, that had begun when a child started.
fn could_be_of(child: &Process, live: &[Live], except: impl Fn(u64) -> bool) -> bool {
    live.iter().any(|call| child.started >= call.began && !except(call.number))
}

/// The time since boot in the clock ticks of `/proc`.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let ticks = clock_ticks_per_second();
    time.tv_sec.cast_unsigned() * ticks + time.tv_nsec.cast_unsigned() * ticks / 1_000_000_000
}

/// The children of Baton that `root` accepts, and all their descendants.
fn members(all: &[Process], root: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut found: Vec<_> = all.iter().filter(|process| process.is_child() && root(process)).copied().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(all.iter().filter(|process| process.parent == parent));
        next += 1;
    }
    found
}

/// Takes the dead out. Those that Baton adopted are waited for; the shell is not, since its call does that.
fn reap(mut found: Vec<Process>, shell: Option<i32>) -> Vec<Process> {
    found.retain(|process| {
        if process.zombie
            && process.is_child()
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

    fn is_child(&self) -> bool {
        self.parent == process::id().cast_signed()
    }

    /// Whether its standard output or standard error is this pipe.
    fn prints_to(&self, pipe: &str) -> bool {
        let is_pipe =
            |fd| fs::read_link(format!("/proc/{}/fd/{fd}", self.pid)).is_ok_and(|file| file == Path::new(pipe));
        is_pipe(1) || is_pipe(2)
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
