//! Asking git: one that was killed is asked again, and locks that it left are dropped. None outlives Baton.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::run_clone::{CloneError, Result};

/// How often git is asked again, and how long it is waited in between.
const TRIES: usize = 40;
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// A lock of ours that is older was left by a git that was killed.
const LOCK_AGE_MAX: Duration = Duration::from_secs(1);

/// Asks git. One that was killed has done nothing that cannot be done again, and its locks are in the way for a moment only.
pub(crate) fn ask(command: &mut Command) -> Result<String> {
    ask_counting(command).map(|(answer, _)| answer)
}

/// The same, with how often it was asked: what an answer says of changes is the whole of it only the first time.
pub(crate) fn ask_counting(command: &mut Command) -> Result<(String, usize)> {
    let what: Vec<_> = command.get_args().take(3).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let failed = |why: String| CloneError::Git { what: what.join(" "), why };
    let (mut why, began) = (String::new(), Instant::now());
    for tries in 1..=TRIES {
        let output = Asked::output(command).map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok((String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned(), tries));
        }
        String::from_utf8_lossy(&output.stderr).trim().clone_into(&mut why);
        match lock_in_the_way(&why) {
            Some(lock) => drop_if_left(&lock, began),
            None if output.status.signal() == Some(9) && !IS_ENDING.load(Ordering::Relaxed) => {}
            None => break,
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    Err(failed(why))
}

/// Those that work now, and whether nobody is to begin again.
static WORKING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A git that works.
struct Asked(i32);

impl Asked {
    fn output(command: &mut Command) -> io::Result<Output> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let asked = Self(i32::try_from(child.id()).unwrap_or_default());
        working().insert(asked.0);
        child.wait_with_output()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        working().remove(&self.0);
    }
}

fn working() -> MutexGuard<'static, BTreeSet<i32>> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every git that still works, because Baton ends: what it was asked for is asked again by whoever goes on.
pub fn end_git() {
    IS_ENDING.store(true, Ordering::Relaxed);
    for pid in working().iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // One that has just ended needs nothing.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The lock that git complains about.
fn lock_in_the_way(why: &str) -> Option<PathBuf> {
    let line = why.lines().find(|line| line.contains(".lock': File exists"))?;
    let (before, _) = line.split_once("': File exists")?;
    before.rsplit_once('\'').map(|(_, path)| PathBuf::from(path))
}

/// Removes a lock that nobody else can have, if it is not new: by the clock, or because it was waited for.
fn drop_if_left(lock: &Path, waiting_since: Instant) {
    let text = lock.to_string_lossy();
    let is_ours = ["/clones/", "/refs/baton/", "/refs/heads/baton/"].iter().any(|part| text.contains(part));
    let age = fs::metadata(lock).and_then(|known| known.modified()).ok().and_then(|at| at.elapsed().ok());
    let is_old = age.is_some_and(|age| age > LOCK_AGE_MAX) || waiting_since.elapsed() > LOCK_AGE_MAX;
    if is_ours && is_old {
        drop(fs::remove_file(lock));
    }
}
