//! Keeping: what happens is in the session before anybody hears of it. A disk that refuses is waited for, within a limit.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::{Event, EventId, Timestamp};
use baton_session::{AppendError, Carried, EntryBody, Log, Own, Unsynced};
use tokio::time::Instant;
use tracing::warn;

/// How long a disk that is full may take to have room again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is tried meanwhile.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// While the model is asked, what was written is synced no more often than this.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What a conversation keeps.
#[derive(Default)]
pub(crate) struct Keeping(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    log: Option<Log>,
    carried: Carried,
    /// What could not be written yet.
    waiting: VecDeque<Item>,
    /// Why, once that was waited for in vain.
    failed: Option<String>,
    synced: Option<Instant>,
}

/// What came of writing.
pub(crate) enum Written {
    /// Everything is with the system; whether that had been given up.
    Done { had_failed: bool },
    /// The system refuses, and that has been waited for in vain before.
    GivenUp,
    /// The system refuses; why.
    Refused(String),
}

/// One thing to write down.
enum Item {
    Event(Box<Event>),
    Own(EventId, Timestamp, Own),
}

impl Keeping {
    /// Keeps everything in this log, after what was carried so far.
    pub(crate) fn new(log: Option<Log>, carried: Carried) -> Self {
        Self(Mutex::new(Kept { log, carried, ..Kept::default() }))
    }

    /// Takes an event to be written down.
    pub(crate) fn event(&self, event: &Event) {
        let mut kept = self.kept();
        kept.carried.note_event(&event.stamp.id, &event.body);
        kept.push(|| Item::Event(Box::new(event.clone())));
    }

    /// Takes what only the session needs.
    pub(crate) fn own(&self, id: EventId, at: Timestamp, own: Own) {
        let mut kept = self.kept();
        let body = EntryBody::Own(own);
        kept.carried.note(&id, &body);
        if let EntryBody::Own(own) = body {
            kept.push(|| Item::Own(id, at, own));
        }
    }

    /// Writes what waits, in its order. The calls to the system are short: they copy to memory.
    pub(crate) fn write(&self) -> Written {
        let mut kept = self.kept();
        let flushed = kept.flush();
        match (flushed, kept.failed.is_some()) {
            (Ok(()), had_failed) => {
                kept.failed = None;
                Written::Done { had_failed }
            }
            (Err(error), true) => {
                kept.failed = Some(error.to_string());
                Written::GivenUp
            }
            (Err(error), false) => Written::Refused(error.to_string()),
        }
    }

    /// Nothing is waited for any more, and nothing may be done until it can be written.
    pub(crate) fn give_up(&self, why: String) {
        warn!("{why}");
        self.kept().failed = Some(why);
    }

    /// What must not be left to prose, as of now.
    pub(crate) fn carried(&self) -> Carried {
        self.kept().carried.clone()
    }

    /// Why nothing can be written, so that nothing may be done either.
    pub(crate) fn failed(&self) -> Option<String> {
        self.kept().failed.clone()
    }

    /// Makes what was written survive power loss, and waits for that; why it may not.
    pub(crate) async fn sync(&self) -> Result<(), String> {
        match self.unsynced(Duration::ZERO) {
            Ok(None) => Ok(()),
            Ok(Some(unsynced)) => match tokio::task::spawn_blocking(move || unsynced.sync()).await {
                Ok(synced) => synced.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// The same, while the model is asked: nobody waits, and a disk is not kept busy by it.
    pub(crate) fn sync_meanwhile(&self) {
        if let Ok(Some(unsynced)) = self.unsynced(SYNC_EVERY) {
            tokio::task::spawn_blocking(move || {
                unsynced.sync().inspect_err(|error| warn!("the session may not last: {error}"))
            });
        }
    }

    fn unsynced(&self, every: Duration) -> io::Result<Option<Unsynced>> {
        let mut kept = self.kept();
        if kept.synced.is_some_and(|synced| synced.elapsed() < every) {
            return Ok(None);
        }
        kept.synced = Some(Instant::now());
        kept.log.as_mut().map_or(Ok(None), Log::unsynced)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn push(&mut self, item: impl FnOnce() -> Item) {
        if self.log.is_some() {
            self.waiting.push_back(item());
        }
    }

    fn flush(&mut self) -> Result<(), AppendError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        while let Some(next) = self.waiting.front() {
            match next {
                Item::Event(event) => log.append(event)?,
                Item::Own(id, at, own) => log.append_own(id.clone(), *at, own.clone())?,
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}
