//! The background processes of a session: numbered, counted, and ended with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use crate::process::{self, Job, Start};
use crate::{CallContext, spool};

/// How many may run at once.
pub(crate) const RUNNING_MAX: usize = 16;
/// How many are remembered, those that have ended included.
const REMEMBERED_MAX: usize = 48;

/// A handle to the background processes of a session; clones are handles to the same ones.
#[derive(Clone, Default)]
pub struct Background(Arc<Mutex<Jobs>>);

#[derive(Default)]
struct Jobs {
    last: u32,
    known: BTreeMap<u32, Arc<Job>>,
    /// When the first one began.
    since: Option<u64>,
    is_over: bool,
}

/// A background process that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// Its number in the session.
    pub id: u32,
    /// The command.
    pub command: String,
    /// Of its shell.
    pub pid: u32,
    /// Whether it goes on when the session ends.
    pub is_kept: bool,
}

impl Background {
    /// Those that run, in the order in which they were started.
    pub fn running(&self) -> Vec<BackgroundProcess> {
        let told = |(id, job): (u32, Arc<Job>)| BackgroundProcess {
            id,
            command: job.command.clone(),
            pid: job.pid,
            is_kept: job.is_kept,
        };
        self.all().into_iter().filter(|(_, job)| job.is_running()).map(told).collect()
    }

    /// Ends all that are not kept, at the same time and politely first, and waits for that; it takes seconds if they are
    /// stubborn. None can be started from now on: the session is over.
    pub async fn end(&self) {
        let since = {
            let mut jobs = self.jobs();
            jobs.is_over = true;
            jobs.since
        };
        let Some(since) = since else { return };
        let ending: Vec<_> = self.all().into_iter().filter(|(_, job)| job.is_running() && !job.is_kept).collect();
        join_all(ending.iter().map(|(_, job)| job.end())).await;
        crate::blocking(move || process::sweep(since)).await;
    }

    /// Starts a command; its number.
    pub(crate) async fn start(
        &self,
        command: &str,
        is_kept: bool,
        cx: &CallContext,
    ) -> Result<(u32, Arc<Job>), String> {
        let cwd = process::runs_in(command, &cx.workspace)?;
        self.jobs().check()?;
        let room = process::enter(cx, true).await.map_err(|error| format!("not started: {error}"))?;
        if is_kept && room.is_some() {
            return Err(
                "not started: what outlives the session cannot be kept in a sandbox. Start it without `keep`, or \
                        tell the person how to start it"
                    .to_owned(),
            );
        }
        let file = spool::file_for(cx.workspace.outputs(), cx.call.as_str()).await;
        let mut jobs = self.jobs();
        jobs.check()?;
        jobs.since.get_or_insert_with(process::now);
        let start = Start { command, cwd: &cwd, workspace: &cx.workspace, room, file, is_kept };
        let job =
            Job::start(start).map_err(|error| format!("it could not be started in {}: {error}", cwd.display()))?;
        Ok(jobs.add(job))
    }

    /// The one of this number, or why there is none.
    pub(crate) fn get(&self, id: u32) -> Result<Arc<Job>, String> {
        let jobs = self.jobs();
        jobs.known.get(&id).cloned().ok_or_else(|| {
            let known: Vec<_> = jobs.known.keys().map(ToString::to_string).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            format!("there is no background process {id}; known: {known}")
        })
    }

    /// All that are remembered, in the order in which they were started.
    pub(crate) fn all(&self) -> Vec<(u32, Arc<Job>)> {
        self.jobs().known.iter().map(|(id, job)| (*id, Arc::clone(job))).collect()
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Jobs {
    /// Whether there is room for one more.
    fn check(&self) -> Result<(), String> {
        if self.is_over {
            return Err("not started: the session is over".to_owned());
        }
        if self.known.values().filter(|job| job.is_running()).count() >= RUNNING_MAX {
            return Err(format!("not started: {RUNNING_MAX} background processes run already; kill one first"));
        }
        Ok(())
    }

    fn add(&mut self, job: Job) -> (u32, Arc<Job>) {
        self.last += 1;
        let job = Arc::new(job);
        self.known.insert(self.last, Arc::clone(&job));
        let ended = self.known.iter().find(|(_, job)| !job.is_running()).map(|(id, _)| *id);
        if let Some(id) = ended
            && self.known.len() > REMEMBERED_MAX
        {
            self.known.remove(&id);
        }
        (self.last, job)
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Background").field(&self.running()).finish()
    }
}
