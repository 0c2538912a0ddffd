//! Running a shell command: one ordered output, limits in time and size, and nothing left behind.

mod capture;
mod environment;
mod job;
mod log;
mod room;
mod source;
mod spawn;
mod tree;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};
use tokio::process::Child;
use tokio::time::{Instant, sleep_until};

use crate::CallContext;
use crate::shape::Shaped;
use crate::spool::Kept;
use capture::Capture;
use source::{Sink, Source};
use spawn::Shell;
use tree::Call;

pub use environment::is_secret_name;
pub(crate) use job::{Job, Start};
pub(crate) use log::Phase;
pub(crate) use room::enter;
pub(crate) use spawn::runs_in;
pub use tree::kill_all_now;
pub(crate) use tree::{now, sweep};

/// Runs the command it is given as an argument and leaves behind where that ended up. A trap, since the command may call
/// `exit`; `set --`, so that the command does not find itself in `$1`; no process is started for any of this.
const WRAPPER: &str = r#"trap 'pwd -P >|"$BATON_CWD" 2>/dev/null' EXIT; eval "set --; $1""#;
const CWD_FILE: &str = "BATON_CWD";

/// How long the pipe is read after everything has ended, in case something holds it that could not be ended.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(200);
/// How long is waited for the end of what got SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// Keeps other processes of the same person, commands above all, from reading the environment and the memory of this one,
/// which hold keys: `/proc/PID/environ` and `/proc/PID/mem` are closed to them, and so are debuggers and core dumps. Root
/// is not kept out. Programs that are started from here are not affected. To be called once, at the start.
pub fn protect_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Without a sign of progress.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) total: Duration,
    /// From SIGINT to SIGTERM.
    pub(crate) interrupt_grace: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate_grace: Duration,
    /// From SIGTERM to SIGKILL for what a shell left running in the background.
    pub(crate) leftover_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(2),
            total: Duration::from_mins(30),
            interrupt_grace: Duration::from_secs(5),
            terminate_grace: Duration::from_secs(3),
            leftover_grace: Duration::from_millis(500),
        }
    }
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself.
    Exited,
    /// The turn was cancelled.
    Cancelled,
    /// There was no sign of progress for too long.
    Idle,
    /// It took too long in all.
    Overdue,
}

/// What came of a command.
pub(crate) struct Finished {
    pub(crate) ending: Ending,
    /// Unknown if the shell could not be ended.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: Shaped,
    pub(crate) kept: Kept,
    /// How many processes the shell left running; they were ended.
    pub(crate) leftovers: usize,
    /// How many processes could not be ended.
    pub(crate) survivors: usize,
    /// What it changed although that is protected; it was put back.
    pub(crate) restored: Vec<PathBuf>,
    /// The hosts that it was not led to.
    pub(crate) refused: Vec<String>,
    /// The directory the shell ended in, if it told; empty if that was gone.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) duration: Duration,
}

/// Runs a command in `cwd` until it and everything it started has ended.
pub(crate) async fn run(command: &str, cwd: &Path, limits: &Limits, cx: &CallContext) -> io::Result<Finished> {
    let start = Instant::now();
    let room = room::enter(cx, false).await?;
    let (reader, writer) = io::pipe()?;
    let call = Arc::new(Call::begin(&reader)?);
    let cwd_file = cx.workspace.temp().join(format!("cwd.{}", call.mark()));
    let vars = vec![(CWD_FILE.into(), cwd_file.clone().into())];
    let shell = Shell { call: &call, workspace: &cx.workspace, cwd, vars, is_kept: false, room: room.as_ref() };
    let child = shell.spawn(&["-c", WRAPPER, "bash", command], writer)?;
    let mut running = Running { child, status: None, source: Source::pipe(reader)?, sink: Capture::new(cx), call };

    let ending = running.watch(limits, start, cx).await?;
    let kill = (Signal::KILL, KILL_GRACE);
    let (leftovers, survivors) = match ending {
        Ending::Exited => match running.leftovers().await {
            0 => (0, 0),
            leftovers => (leftovers, running.end(&[(Signal::TERM, limits.leftover_grace), kill]).await?),
        },
        Ending::Cancelled | Ending::Idle | Ending::Overdue => {
            let interrupt = (Signal::INT, limits.interrupt_grace);
            let terminate = (Signal::TERM, limits.terminate_grace);
            (0, running.end(&[interrupt, terminate, kill]).await?)
        }
    };
    running.call.finish();
    running.drain(DRAIN_TIME_MAX).await;
    let Running { status, sink, .. } = running;
    let (output, kept) = sink.finish().await;
    let left = room::leave(room).await?;
    let (leftovers, restored) = (leftovers + left.aftermath.leftovers, left.aftermath.restored);
    let (cwd, duration) = (told(&cwd_file), start.elapsed());
    Ok(Finished { ending, status, output, kept, leftovers, survivors, restored, refused: left.refused, cwd, duration })
}

/// A command that runs.
struct Running<S> {
    child: Child,
    status: Option<ExitStatus>,
    source: Source,
    sink: S,
    call: Arc<Call>,
}

impl Running<Capture> {
    /// Follows the command until it has ended or has to.
    async fn watch(&mut self, limits: &Limits, start: Instant, cx: &CallContext) -> io::Result<Ending> {
        loop {
            let idle_end = self.sink.last_real() + limits.idle;
            let total_end = start + limits.total;
            let deadline = idle_end.min(total_end);
            let wake = self.sink.report_at().map_or(deadline, |report| report.min(deadline));
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return Ok(Ending::Cancelled),
                status = self.child.wait() => {
                    self.status = Some(status?);
                    return Ok(Ending::Exited);
                }
                () = self.source.read(), if self.source.is_open() => self.absorb().await,
                () = sleep_until(wake) => {
                    let now = Instant::now();
                    if now >= total_end {
                        return Ok(Ending::Overdue);
                    }
                    if now >= idle_end {
                        return Ok(Ending::Idle);
                    }
                    self.sink.report_due();
                }
            }
        }
    }
}

impl<S: Sink> Running<S> {
    /// Takes in what was read.
    async fn absorb(&mut self) {
        self.sink.take(self.source.bytes()).await;
        self.source.clear();
    }

    /// Takes in what can still be read, but does not wait for the end if somebody holds the pipe open.
    async fn drain(&mut self, time_max: Duration) {
        let deadline = Instant::now() + time_max;
        while self.source.is_open() && tokio::time::timeout_at(deadline, self.source.read()).await.is_ok() {
            self.absorb().await;
        }
    }

    /// Signals what is alive, stage by stage, until all of it has ended; how many have not. Output is read meanwhile.
    async fn end(&mut self, stages: &[(Signal, Duration)]) -> io::Result<usize> {
        let mut alive = 0;
        for (signal, grace) in stages {
            self.signal(*signal).await;
            let deadline = Instant::now() + *grace;
            let mut pause = Duration::from_millis(1);
            while Instant::now() < deadline {
                self.follow(pause.min(deadline - Instant::now())).await?;
                // What was started since the last signal gets SIGKILL as well; the others may clean up in peace.
                alive = if *signal == Signal::KILL { self.signal(*signal).await } else { self.count().await };
                if alive == 0 && self.status.is_some() {
                    return Ok(0);
                }
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
        Ok(alive)
    }

    /// Reads, and waits for the shell, for a while.
    async fn follow(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until) => return Ok(()),
                status = self.child.wait(), if self.status.is_none() => {
                    self.status = Some(status?);
                    return Ok(());
                }
                () = self.source.read(), if self.source.is_open() => self.absorb().await,
            }
        }
    }

    async fn leftovers(&self) -> usize {
        if tree::no_children() {
            return 0;
        }
        let call = Arc::clone(&self.call);
        crate::blocking(move || call.leftovers()).await
    }

    async fn count(&self) -> usize {
        let call = Arc::clone(&self.call);
        crate::blocking(move || call.count()).await
    }

    async fn signal(&self, signal: Signal) -> usize {
        let call = Arc::clone(&self.call);
        crate::blocking(move || call.signal(signal)).await
    }
}

/// How a command ended by itself.
pub(crate) fn status_in_words(status: Option<ExitStatus>) -> String {
    match (status.and_then(|status| status.code()), status.and_then(|status| status.signal())) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended, it is not known how".to_owned(),
    }
}

/// The directory that the wrapper wrote down. A few bytes, just written: not worth a hop to another thread.
fn told(file: &Path) -> Option<PathBuf> {
    let mut path = std::fs::read(file).ok()?;
    // Left for the end of the session if it cannot be removed now.
    let _ = std::fs::remove_file(file);
    path.pop_if(|last| *last == b'\n');
    Some(PathBuf::from(OsString::from_vec(path)))
}
