//! Which session a conversation is kept in: a new one, or one that goes on.

use std::path::Path;

use baton_core::{Area, Fault, IdSource, SessionId, Tier, Timestamp};
use baton_session::{FindError, History, Log, OpenError, Sessions};

use crate::setup::{Setup, Which};

/// Where a conversation is kept, and what was said before.
pub struct Kept {
    /// The session.
    pub id: SessionId,
    /// Where it is written, if it is.
    pub log: Option<Log>,
    /// What was said before.
    pub history: Option<History>,
    /// What the person should know about it.
    pub notices: Vec<String>,
}

impl Setup {
    /// The sessions of this project.
    pub fn kept_sessions(&self) -> Result<Sessions, Fault> {
        Ok(Sessions::new(&self.state_dir()?))
    }

    /// The session that is meant.
    pub fn session(&self, which: Which<'_>, now: Timestamp, ids: &dyn IdSource) -> Result<Kept, Fault> {
        let fresh = SessionId::fresh(ids);
        let (name, fork) = match which {
            Which::None => return Ok(Kept { id: fresh, log: None, history: None, notices: Vec::new() }),
            Which::New => {
                let log = self.kept_sessions()?.create(fresh.clone(), &self.cwd, now, ids);
                return Ok(Kept { id: fresh, log: Some(log), history: None, notices: Vec::new() });
            }
            Which::Old { name, fork } => (name, fork),
        };
        let sessions = self.kept_sessions()?;
        let old = find(&sessions, name)?;
        let id = if fork {
            let forked = sessions.fork(&old, None, fresh.clone(), now, ids);
            // It is opened like any other: from its file.
            drop(forked.map_err(|error| Fault::input(format!("cannot fork {old}: {error}")))?);
            fresh
        } else {
            old
        };
        let (log, history, notices) = open(&sessions, &id, now, ids)?;
        Ok(Kept { id, log: Some(log), history: Some(history), notices })
    }

    /// The session of an agent in a run: it goes on if there is one of this id.
    pub fn run_session(
        &self,
        id: &SessionId,
        dir: &Path,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<(Log, Option<History>, Vec<String>), Fault> {
        let sessions = self.kept_sessions()?;
        if sessions.path(id).metadata().is_ok_and(|known| known.len() > 0) {
            let (log, history, notices) = open(&sessions, id, now, ids)?;
            return Ok((log, Some(history), notices));
        }
        Ok((sessions.create(id.clone(), dir, now, ids), None, Vec::new()))
    }
}

/// Opens a session to go on with it, and says what is wrong with it.
fn open(
    sessions: &Sessions,
    id: &SessionId,
    now: Timestamp,
    ids: &dyn IdSource,
) -> Result<(Log, History, Vec<String>), Fault> {
    let (log, loaded) = sessions.open(id, now, ids).map_err(|error| unopened(id, &error))?;
    let mut notices: Vec<String> =
        loaded.damage.iter().map(|damage| format!("the session {id} is damaged, {damage}: skipped")).collect();
    if loaded.missing > 0 {
        notices.push(format!("{} texts of the session {id} are gone", loaded.missing));
    }
    Ok((log, loaded.history(), notices))
}

/// The session of a name, or the last one.
pub fn find(sessions: &Sessions, name: Option<&str>) -> Result<SessionId, Fault> {
    let unfound = |error: FindError| {
        Fault::input(error.to_string()).hint("`baton sessions list` shows them; the end of an id is enough")
    };
    match name {
        Some(name) => sessions.find(name).map_err(unfound),
        None => sessions.latest().map_err(unfound)?.ok_or_else(|| {
            Fault::input("there is no session to go on with in this project").hint("leave -c out to begin one")
        }),
    }
}

fn unopened(id: &SessionId, error: &OpenError) -> Fault {
    let fault = Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot go on with {id}: {error}"));
    match error {
        OpenError::Held(_) => fault.hint("end it there, or go on in a copy with --fork"),
        OpenError::Unusable { .. } => fault.hint("`baton sessions show` reads what is whole; nothing was changed"),
    }
}
