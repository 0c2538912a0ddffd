//! Events: what happened to a run, as it is written to the journal.

use std::collections::BTreeMap;

use baton_core::{Timestamp, Tokens, Usd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::run::{Caps, End};
use crate::field::Evidence;
use crate::names::{EffectId, Player, RoleName, StateName, TreeHash};
use crate::param::Params;
use crate::scope::RelPath;
use crate::verify::CommandResult;

/// Something that happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When; a run takes the latest time that it has seen for now.
    pub at: Timestamp,
    /// What.
    pub body: EventBody,
}

/// What happened. `effect` is the effect that it is an answer to: anything else is out of date.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventBody {
    /// The run was started.
    Started {
        /// The values of its parameters.
        params: Params,
        /// Conversations that play its roles; others get their own.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        players: BTreeMap<RoleName, Player>,
        /// Caps from outside, in place of the definition's.
        #[serde(default)]
        caps: Caps,
    },
    /// An agent, or a person in its place, submitted evidence. Where a gate asks for no fields, the end of the turn counts.
    EvidenceSubmitted {
        /// The dispatch.
        effect: EffectId,
        /// What was submitted, a verdict as the field `verdict`.
        fields: Map<String, Value>,
        /// What the conductor sees of the work.
        work: Seen,
    },
    /// A command for a gate ended.
    Verified {
        /// The verification.
        effect: EffectId,
        /// What came of it.
        result: CommandResult,
    },
    /// A timer ran out.
    TimedOut {
        /// The timer.
        effect: EffectId,
    },
    /// The attempt failed for a reason outside of it: the agent was lost, its provider gave up.
    AttemptFailed {
        /// The dispatch, the verification, or the start of a run.
        effect: EffectId,
        /// Why.
        reason: String,
    },
    /// An agent ended its turn and submitted nothing.
    AgentEnded {
        /// The dispatch.
        effect: EffectId,
    },
    /// An agent asked for help.
    HelpRequested {
        /// The dispatch.
        effect: EffectId,
        /// What it needs.
        question: String,
    },
    /// A person answered.
    PersonAnswered {
        /// The question.
        effect: EffectId,
        /// One of the options, or free text to an agent's request for help.
        answer: String,
        /// What else they said.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        comment: String,
    },
    /// An action was done.
    ActionDone {
        /// The action.
        effect: EffectId,
        /// What it left: a commit, an exit code.
        receipt: String,
    },
    /// An action failed, and left nothing.
    ActionFailed {
        /// The action.
        effect: EffectId,
        /// Why.
        reason: String,
    },
    /// After a crash nobody knows whether an action was done.
    ActionInDoubt {
        /// The action.
        effect: EffectId,
    },
    /// An agent, or a run inside this one, used tokens and money. It counts whenever it comes.
    Spent {
        /// The dispatch, or the start of the run.
        effect: EffectId,
        /// How many tokens.
        tokens: Tokens,
        /// How much money.
        usd: Usd,
    },
    /// An agent could not go on within what is left of a budget or a cap.
    OutOfBudget {
        /// The dispatch.
        effect: EffectId,
        /// What is used up, in words.
        reason: String,
        /// Whether it is the cap of a run around this one.
        #[serde(default)]
        is_around: bool,
    },
    /// Something that belongs on record and changes nothing: an agent tried what it may not do.
    Noted {
        /// The dispatch.
        effect: EffectId,
        /// What.
        text: String,
    },
    /// A run inside this one ended.
    ChildEnded {
        /// The effect that started it.
        effect: EffectId,
        /// How it ended.
        end: End,
        /// What was submitted in it last, by state.
        evidence: BTreeMap<StateName, Evidence>,
    },
    /// A person raised the caps of a run, and a parked one goes on.
    CapRaised {
        /// Tokens of the whole run from now on.
        tokens: Option<Tokens>,
        /// Dollars of the whole run from now on.
        usd: Option<Usd>,
    },
    /// A person stopped the run.
    Stopped {
        /// Why.
        reason: String,
    },
}

/// What the conductor sees of an agent's work, whatever the agent says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The tree that was submitted.
    pub tree: TreeHash,
    /// Files that differ from when the state was entered from another one; its retries do not begin anew.
    pub changed: Vec<RelPath>,
}
