//! Orders: what each conversation of a run was last told, so that one that was stopped goes on and a script is played once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_core::SessionId;
use baton_workflow::{EffectId, RunId, StateName, TreeHash};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is known about the work in a clone. It is kept in a file there and written whole.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The last words to an agent, by role.
    by_role: BTreeMap<String, Order>,
    /// The tree when a state was entered from another one, by run and state, with the attempt.
    entered: BTreeMap<String, (u32, TreeHash)>,
    /// The tree that was handed in last, as long as nobody works on.
    settled: Option<TreeHash>,
    #[serde(skip)]
    file: PathBuf,
}

/// The last words to a role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The dispatch or the reminder.
    pub(crate) effect: EffectId,
    /// The conversation that was told.
    pub(crate) session: SessionId,
    /// Where the role's script was then.
    pub(crate) place: Option<Value>,
    /// How many answers the conversation had then.
    pub(crate) answers: usize,
    /// Whether the conversation has gone on with something else: then the place is where the script was in the end.
    #[serde(default)]
    pub(crate) is_over: bool,
}

impl Orders {
    /// Where it is kept.
    pub(crate) fn file_in(dir: &Path) -> PathBuf {
        dir.join("orders.json")
    }

    /// What is known in this clone.
    pub(crate) fn read(dir: &Path) -> Self {
        let file = Self::file_in(dir);
        // Without the file, or after a power failure took it, everything begins anew: nothing here decides about a run.
        let known = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { file, ..known.unwrap_or_default() }
    }

    /// The last words to a role.
    pub(crate) fn of(&self, role: &str) -> Option<&Order> {
        self.by_role.get(role)
    }

    /// Roles whose last words went to this conversation, if it has not gone on with something else.
    pub(crate) fn told(&self, session: &SessionId) -> Vec<(String, Order)> {
        let told = self.by_role.iter().filter(|(_, order)| order.session == *session && !order.is_over);
        told.map(|(role, order)| (role.clone(), order.clone())).collect()
    }

    /// A role is told something.
    pub(crate) fn tell(&mut self, role: &str, order: Order) -> std::io::Result<()> {
        self.by_role.insert(role.to_owned(), order);
        self.write()
    }

    /// The tree when the state was entered, and in which attempt.
    pub(crate) fn entered(&self, run: &RunId, state: &StateName) -> Option<&(u32, TreeHash)> {
        self.entered.get(&format!("{run} {state}"))
    }

    /// A state is entered from another one.
    pub(crate) fn enter(
        &mut self,
        run: &RunId,
        state: &StateName,
        attempt: u32,
        tree: TreeHash,
    ) -> std::io::Result<()> {
        self.entered.insert(format!("{run} {state}"), (attempt, tree));
        self.write()
    }

    /// The tree that was handed in last, if nobody has worked on since.
    pub(crate) fn settled(&self) -> Option<&TreeHash> {
        self.settled.as_ref()
    }

    /// A tree was handed in, or somebody works on.
    pub(crate) fn settle(&mut self, tree: Option<TreeHash>) -> std::io::Result<()> {
        if self.settled == tree {
            return Ok(());
        }
        self.settled = tree;
        self.write()
    }

    fn write(&self) -> std::io::Result<()> {
        let beside = self.file.with_extension("new");
        std::fs::write(&beside, serde_json::to_vec(self)?)?;
        std::fs::rename(&beside, &self.file)
    }
}
