//! The log of a background process: what it has printed that nobody has read yet, and what has become of it.

use std::mem;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_guard::secrets::Redactor;
use regex::Regex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::source::Sink;
use crate::clean::Cleaner;
use crate::redacting::Redacting;
use crate::shape::{HeadTail, Shaped};
use crate::spool::{FILE_MAX, Spool};

/// What has become of a background process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It runs.
    Running,
    /// Its shell has ended like this, and what that started runs on.
    RunsOn(ExitStatus),
    /// All of it has ended, or could not be ended.
    Ended {
        /// Of the shell; unknown if that could not be ended.
        status: Option<ExitStatus>,
        /// Whether it was ended and did not end by itself.
        is_killed: bool,
        /// How many processes could not be ended.
        survivors: usize,
        /// How long it ran.
        after: Duration,
    },
}

impl Phase {
    /// Whether nothing of it runs any more.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Ended { .. })
    }
}

/// Written by what follows the process, read by whoever asks. Holds a few hundred kilobytes at most.
pub(crate) struct Log {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

struct State {
    cleaner: Cleaner,
    unread: HeadTail,
    /// What was read of an unfinished line and has still to go to the file.
    owed: String,
    awaited: Option<Regex>,
    is_found: bool,
    bytes: usize,
    phase: Phase,
}

/// What there is to read.
pub(crate) struct Unread {
    /// What was printed since the last time.
    pub(crate) output: Shaped,
    /// Whether the file has only the beginning of it all.
    pub(crate) is_capped: bool,
    pub(crate) phase: Phase,
}

impl Default for Log {
    fn default() -> Self {
        let state = State {
            cleaner: Cleaner::default(),
            unread: HeadTail::default(),
            owed: String::new(),
            awaited: None,
            is_found: false,
            bytes: 0,
            phase: Phase::Running,
        };
        Self { state: Mutex::new(state), changes: watch::Sender::default() }
    }
}

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it and tells those who wait.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changes.send_replace(());
        result
    }

    /// What has become of the process.
    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// How many lines wait to be read.
    pub(crate) fn unread_lines(&self) -> usize {
        let state = self.state();
        state.unread.lines() + usize::from(!state.cleaner.line().is_empty())
    }

    /// Takes what was printed since the last time; the unfinished line, too.
    pub(crate) fn read(&self) -> Unread {
        let mut state = self.state();
        let mut line = String::new();
        state.cleaner.flush(&mut line);
        state.unread.push(&line);
        state.owed.push_str(&line);
        Unread { output: mem::take(&mut state.unread).finish(), is_capped: state.bytes >= FILE_MAX, phase: state.phase }
    }

    /// Waits until something can be read or it has ended; whether that was in time.
    pub(crate) async fn wait(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, State::is_fresh).await
    }

    /// Waits until it has ended.
    pub(crate) async fn wait_for_end(&self, deadline: Instant) -> bool {
        self.wait_until(deadline, |state| state.phase.is_end()).await
    }

    /// Waits until something is printed, or was and is unread, in which this is found; whether that was so in time.
    pub(crate) async fn wait_for(&self, pattern: Regex, deadline: Instant) -> bool {
        {
            let mut state = self.state();
            state.is_found = state.unread.held().iter().any(|text| pattern.is_match(text));
            state.awaited = Some(pattern);
            state.look("");
        }
        self.wait_until(deadline, |state| state.is_found || state.phase.is_end()).await;
        let mut state = self.state();
        state.awaited = None;
        state.is_found
    }

    /// Waits until nothing is printed for a while.
    pub(crate) async fn wait_for_quiet(&self, quiet: Duration, deadline: Instant) {
        let mut changes = self.changes.subscribe();
        while !self.phase().is_end()
            && timeout_at(deadline.min(Instant::now() + quiet), changes.changed()).await.is_ok()
        {}
    }

    async fn wait_until(&self, deadline: Instant, done: impl Fn(&State) -> bool) -> bool {
        let mut changes = self.changes.subscribe();
        loop {
            if done(&self.state()) {
                return true;
            }
            if timeout_at(deadline, changes.changed()).await.is_err() {
                return false;
            }
        }
    }
}

impl State {
    fn is_fresh(&self) -> bool {
        !self.unread.is_empty() || !self.cleaner.line().is_empty() || self.phase.is_end()
    }

    /// Takes the next bytes; what has to go to the file.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.bytes = self.bytes.saturating_add(bytes.len());
        let mut text = String::with_capacity(bytes.len());
        self.cleaner.push(bytes, &mut text);
        self.look(&text);
        self.unread.push(&text);
        mem::take(&mut self.owed) + &text
    }

    /// Looks for what is waited for; each piece is seen once, since a flood would wash it away.
    fn look(&mut self, text: &str) {
        if let Some(awaited) = &self.awaited {
            self.is_found |= awaited.is_match(text) || awaited.is_match(self.cleaner.line());
        }
    }

    /// Takes the last line; what has to go to the file.
    fn finish(&mut self) -> String {
        let mut text = String::new();
        mem::take(&mut self.cleaner).finish(&mut text);
        self.look(&text);
        self.unread.push(&text);
        mem::take(&mut self.owed) + &text
    }
}

/// Writes a log, and a file unless somebody else does that. What is read of the log loses its secrets with the result.
pub(super) struct Recorder {
    log: Arc<Log>,
    spool: Option<(Spool, Redacting)>,
}

impl Recorder {
    pub(super) fn new(log: Arc<Log>, spool: Option<Spool>, redactor: &Redactor) -> Self {
        Self { log, spool: spool.map(|spool| (spool, Redacting::new(redactor))) }
    }

    /// The shell has ended, and what it started has not.
    pub(super) fn runs_on(&self, status: ExitStatus) {
        let phase = Phase::RunsOn(status);
        if self.log.phase() != phase {
            self.log.change(|state| state.phase = phase);
        }
    }

    /// Nothing more will come, and this has become of the process.
    pub(super) async fn finish(self, phase: Phase) {
        let text = self.log.state().finish();
        if let Some((mut spool, mut redacting)) = self.spool {
            let text = redacting.push(&text) + &redacting.finish();
            spool.push(&text, true).await;
            // Where it is was told at the beginning.
            spool.finish().await;
        }
        self.log.change(|state| state.phase = phase);
    }
}

impl Sink for Recorder {
    async fn take(&mut self, bytes: &[u8]) {
        let text = self.log.change(|state| state.push(bytes));
        if let Some((spool, redacting)) = &mut self.spool {
            spool.push(&redacting.push(&text), true).await;
        }
    }
}
