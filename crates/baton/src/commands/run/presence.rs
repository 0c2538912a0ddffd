//! Who conducts: whether a process has the journal, and which run it works on.

use std::path::{Path, PathBuf};

use baton_core::{Area, Fault, Tier};
use baton_store::Store;
use baton_workflow::RunId;
use serde::{Deserialize, Serialize};

use super::unusable;

/// Who conducts the runs of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Presence {
    /// Nobody.
    Nobody,
    /// A process; its number and its run as far as they are known.
    Process { pid: Option<u32>, run: Option<RunId> },
}

/// What a process that conducts says about itself.
#[derive(Serialize, Deserialize)]
struct Said {
    pid: u32,
    run: RunId,
}

impl Presence {
    /// Looks who has the journal. What is read in the journal after this is at least as new.
    pub(super) fn of(database: &Path) -> Result<Self, Fault> {
        let Some(holder) = Store::holder(database).map_err(|error| unusable(&error))? else { return Ok(Self::Nobody) };
        let said = std::fs::read(announcement(database)).ok();
        let said = said.and_then(|text| serde_json::from_slice::<Said>(&text).ok());
        // What a process that is gone has said does not count.
        let said = said.filter(|said| Some(said.pid) == holder.pid);
        Ok(Self::Process { pid: holder.pid, run: said.map(|said| said.run) })
    }

    /// Whether somebody may work on this run.
    pub(super) fn conducts(&self, root: &RunId) -> bool {
        matches!(self, Self::Process { run, .. } if run.as_ref().is_none_or(|run| run == root))
    }

    /// That another process has the journal, for whoever wants to conduct a run, or this one.
    pub(super) fn in_the_way(&self, root: Option<&RunId>) -> Fault {
        let (who, what) = match self {
            Self::Process { pid, run } => {
                (pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), run.as_ref())
            }
            Self::Nobody => (String::new(), None),
        };
        let (message, hint) = match what {
            Some(run) if Some(run) == root => (
                format!("another Baton{who} conducts {run} already"),
                format!("`baton run watch {run}` shows it, `baton run stop {run}` stops it"),
            ),
            Some(run) => (
                format!("another Baton{who} conducts {run} in this project, and one at a time is conducted"),
                format!("wait for it, or stop it with `baton run stop {run}`"),
            ),
            None => (
                format!("another Baton{who} conducts a run in this project"),
                "wait for it, or stop it with `baton run stop`".to_owned(),
            ),
        };
        Fault::new(Area::Workspace, Tier::UserFixable, message).hint(hint)
    }

    /// Says that this process, which has the journal, conducts a run.
    pub(super) fn announce(database: &Path, run: &RunId) -> Announced {
        let file = announcement(database);
        let said = Said { pid: std::process::id(), run: run.clone() };
        // Where it cannot be written, others see that somebody conducts, but not what.
        drop(serde_json::to_vec(&said).map(|text| std::fs::write(&file, text)));
        Announced(file)
    }
}

fn announcement(database: &Path) -> PathBuf {
    database.with_file_name("conductor.json")
}

/// Holds as long as this process conducts.
pub(super) struct Announced(PathBuf);

impl Drop for Announced {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
