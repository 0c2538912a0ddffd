//! Effects: what a run owes to the world after an event.

use std::collections::BTreeMap;

use baton_core::{Timestamp, Tokens, Usd};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::{Caps, End};
use crate::command::Argv;
use crate::field::Evidence;
use crate::names::{EffectId, Outcome, Player, RoleName, RunId, StateName, TreeHash, WorkflowName};

/// Something that the conductor has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Follows from the run, the state and a count, so that a replay gives the same.
    pub id: EffectId,
    /// What.
    pub body: EffectBody,
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EffectBody {
    /// Give an agent its work.
    Dispatch(Box<Dispatch>),
    /// Tell an agent that ended without evidence what is missing.
    Remind {
        /// Its dispatch.
        dispatch: EffectId,
        /// What is missing.
        missing: String,
    },
    /// End an agent's turn: its work here is over.
    Release {
        /// Its dispatch.
        dispatch: EffectId,
        /// Why.
        reason: String,
    },
    /// Run a command for a gate, on this tree, without any agent having a hand in it.
    Verify {
        /// What to run.
        argv: Argv,
        /// The tree that was submitted.
        tree: TreeHash,
    },
    /// Do something to the clone.
    Act {
        /// What.
        action: Act,
    },
    /// Ask a person.
    Ask {
        /// The question.
        question: String,
        /// The answers that count; none for free text.
        options: Vec<Outcome>,
    },
    /// Start a run inside this one.
    StartChild {
        /// Its id, which is known before it starts.
        run: RunId,
        /// What it runs.
        workflow: WorkflowName,
        /// What it is given.
        params: BTreeMap<String, Value>,
        /// Conversations that play its roles.
        players: BTreeMap<RoleName, Player>,
        /// What is left of this run's caps.
        caps: Caps,
    },
    /// Stop a run inside this one.
    StopChild {
        /// Its id.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// Say so when it is that late. A later timer of the run takes its place.
    SetTimer {
        /// When.
        deadline: Timestamp,
    },
    /// The run rests: bring its result back, tell the person.
    Finish {
        /// How it ended.
        end: End,
    },
    /// The run has reached a cap and rests until it is raised.
    Park {
        /// Which.
        reason: String,
    },
}

/// An agent's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Whose scope, tools and instructions count.
    pub role: RoleName,
    /// The conversation that goes on.
    pub player: Player,
    /// Which attempt of the state this is, from 1.
    pub attempt: u32,
    /// What to do, beyond what the agent file says.
    pub task: Option<String>,
    /// What was submitted in earlier states.
    pub inputs: BTreeMap<StateName, Evidence>,
    /// Why the state is entered again.
    pub because: Option<Because>,
    /// Tokens that are left for the state.
    pub tokens_left: Tokens,
    /// Dollars that are left for the state or the run.
    pub usd_left: Option<Usd>,
}

/// Where a run comes from, and what was said there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Because {
    /// The state that was left.
    pub state: StateName,
    /// How.
    pub outcome: Outcome,
    /// What went wrong, or what a person said.
    pub reason: Option<String>,
    /// What was submitted there.
    pub evidence: Option<Evidence>,
}

/// An action with everything filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Act {
    /// Commit all changes, with the effect's id as trailer.
    Commit {
        /// The message.
        message: String,
    },
    /// Run a command.
    Command {
        /// What to run.
        argv: Argv,
        /// Whether it may be repeated.
        idempotent: bool,
    },
}
