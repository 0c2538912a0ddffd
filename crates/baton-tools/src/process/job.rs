//! Background jobs: a command that runs on while the agent does other things, followed until it ends.
//!
//! If Baton itself is killed by SIGKILL nobody is left to end its jobs: those that print find their pipe closed and are
//! ended by SIGPIPE, those that do not run on. More would take a second process that watches the first.

use std::fs::File;
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::log::{Log, Phase, Recorder};
use super::room::{self, Room};
use super::source::Source;
use super::spawn::{Shell, shell};
use super::tree::{self, Call};
use super::{DRAIN_TIME_MAX, KILL_GRACE, Running};
use crate::Workspace;
use crate::spool::{FILE_MAX, Spool};

/// How a job is ended. What a shell starts with `&` does not hear SIGINT, so that its grace is mostly lost time.
const STAGES: [(Signal, Duration); 3] =
    [(Signal::INT, Duration::from_secs(1)), (Signal::TERM, Duration::from_secs(2)), (Signal::KILL, KILL_GRACE)];
/// Longer than all stages and the draining take.
const END_MAX: Duration = Duration::from_secs(6);
/// How often the dead are buried that a job leaves to Baton.
const BURY_EVERY: Duration = Duration::from_secs(10);

/// What a job is made of.
pub(crate) struct Start<'a> {
    pub(crate) command: &'a str,
    pub(crate) cwd: &'a Path,
    pub(crate) workspace: &'a Workspace,
    /// What keeps it in.
    pub(crate) room: Option<Room>,
    /// Where its output is kept; an error if it cannot be.
    pub(crate) file: io::Result<(File, PathBuf)>,
    /// Whether it outlives Baton.
    pub(crate) is_kept: bool,
}

/// A command in the background.
pub(crate) struct Job {
    pub(crate) command: String,
    /// Of the shell.
    pub(crate) pid: u32,
    /// Whether it outlives Baton.
    pub(crate) is_kept: bool,
    /// Where its output is kept, or why it is not.
    pub(crate) path: Result<PathBuf, String>,
    pub(crate) began: Instant,
    pub(crate) log: Arc<Log>,
    stop: CancellationToken,
}

impl Job {
    /// Starts a job, and a task that follows it. When that task is dropped with its runtime, the job is ended at once.
    pub(crate) fn start(start: Start<'_>) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let call = Arc::new(if start.is_kept { Call::begin_kept(&reader)? } else { Call::begin(&reader)? });
        let path = start.file.as_ref().map(|(_, path)| path.clone()).map_err(ToString::to_string);
        let (scribe, source, spool) = match start.file {
            Ok((file, path)) if start.is_kept => {
                let source = Source::file(File::open(path)?);
                (Some(scribe(reader, file, &call)?), source, None)
            }
            Ok((file, path)) => (None, Source::pipe(reader)?, Some(Spool::at(file, path))),
            Err(error) if start.is_kept => return Err(error),
            Err(_) => (None, Source::pipe(reader)?, None),
        };
        let Start { command, cwd, workspace, room, is_kept, .. } = start;
        let shell = Shell { call: &call, workspace, cwd, vars: Vec::new(), is_kept, room: room.as_ref() };
        let child = shell.spawn(&["-c", command, "bash"], writer)?;
        let job = Self {
            command: command.to_owned(),
            pid: child.id().unwrap_or_default(),
            is_kept,
            path,
            began: Instant::now(),
            log: Arc::default(),
            stop: CancellationToken::new(),
        };
        let sink = Recorder::new(Arc::clone(&job.log), spool, workspace.redactor());
        let running = Running { child, status: None, source, sink, call };
        tokio::spawn(running.follow_job(scribe, room, job.stop.clone()));
        Ok(job)
    }

    /// Whether it runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.log.phase().is_end()
    }

    /// Ends it, politely first, and waits for that.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.log.wait_for_end(Instant::now() + END_MAX).await;
    }
}

impl Running<Recorder> {
    /// Follows a job until it has ended by itself or has been ended.
    async fn follow_job(mut self, scribe: Option<Child>, room: Option<Room>, stop: CancellationToken) {
        let began = Instant::now();
        let is_killed = self.watch_job(&stop).await;
        // It fails only if the shell cannot be waited for: then its status stays unknown.
        let survivors = if is_killed { self.end(&STAGES).await.unwrap_or(0) } else { 0 };
        self.call.finish();
        if let Some(mut scribe) = scribe {
            // Nobody prints any more, so it has little to do.
            drop(timeout(DRAIN_TIME_MAX, scribe.wait()).await);
        }
        self.drain(DRAIN_TIME_MAX).await;
        // What is protected was put back if it was changed. If there was no sandbox, the helper said so in the output.
        drop(room::leave(room).await);
        let phase = Phase::Ended { status: self.status, is_killed, survivors, after: began.elapsed() };
        self.sink.finish(phase).await;
    }

    /// Waits for its end; whether it has to be ended.
    async fn watch_job(&mut self, stop: &CancellationToken) -> bool {
        let mut bury = interval_at(Instant::now() + BURY_EVERY, BURY_EVERY);
        bury.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let status = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return true,
                status = self.child.wait() => break status,
                _ = bury.tick() => crate::blocking(tree::bury).await,
                () = self.source.read(), if self.source.is_open() => self.absorb().await,
            }
        };
        self.status = status.ok();
        // What the shell left running is what was asked for: `server &` is meant to run.
        let mut pause = Duration::from_millis(10);
        while self.leftovers().await > 0 {
            if let Some(status) = self.status {
                self.sink.runs_on(status);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return true,
                _ = self.follow(pause) => {}
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        false
    }
}

/// Starts what writes down the output of a job that outlives Baton: as much as any file of ours takes, and the rest goes
/// nowhere, so that the job never blocks. The limit is of this process alone. (Bash counts it in KiB.)
fn scribe(pipe: PipeReader, file: File, call: &Call) -> io::Result<Child> {
    let script = format!("trap '' XFSZ; ulimit -f {}; cat; exec cat >/dev/null", FILE_MAX / 1024);
    let child = shell(true)
        .args(["-c", &script])
        .current_dir("/")
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH"))
        .stdin(pipe)
        .stdout(file)
        .stderr(Stdio::null())
        .spawn()?;
    call.written_by(child.id());
    Ok(child)
}
