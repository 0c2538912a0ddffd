//! The state of one run: everything that its journal says about it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::{Timestamp, Tokens, Usd};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::effect::{Act, Because};
use super::event::Seen;
use crate::definition::{Definition, Workflow};
use crate::field::Evidence;
use crate::frozen::Frozen;
use crate::names::{DefinitionHash, EffectId, Outcome, Player, RoleName, RunId, StateName, WorkflowName};
use crate::param::Params;
use crate::scope::RelPath;
use crate::verify::CommandResult;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// What it runs, by content.
    pub definition: DefinitionHash,
    /// Which workflow of the definition.
    pub workflow: WorkflowName,
    /// The values of its parameters.
    pub params: Params,
    /// Conversations that play its roles, where they are not its own.
    pub players: BTreeMap<RoleName, Player>,
    /// The latest time that an event had: it never goes back.
    pub now: Timestamp,
    /// Where it is.
    pub phase: Phase,
    /// How often each state was tried.
    pub attempts: BTreeMap<StateName, u32>,
    /// What each state used.
    pub spent: BTreeMap<StateName, Spending>,
    /// Caps in place of the definition's: from outside, or raised by a person.
    pub raised: Caps,
    /// What was submitted last in each state that was passed.
    pub evidence: BTreeMap<StateName, Evidence>,
    /// Files that each state changed, in all its attempts.
    pub changed: BTreeMap<StateName, BTreeSet<RelPath>>,
    /// Files that may not be changed.
    pub frozen: Frozen,
    /// Every state that was left, in order.
    pub trail: Vec<Left>,
    /// Effects so far.
    pub effects: u64,
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Not started.
    Ready,
    /// In exactly one state.
    At(Box<Visit>),
    /// In a state, but a cap of the run is reached.
    Parked(Box<Visit>),
    /// At its end.
    Ended {
        /// How.
        end: End,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// The task is done.
    Done {
        /// The state it ended in.
        state: StateName,
    },
    /// The task failed, as the definition foresees.
    Failed {
        /// The state it ended in.
        state: StateName,
    },
    /// A person has to take over.
    Escalated {
        /// The last state that was tried.
        state: StateName,
        /// Why.
        reason: String,
    },
    /// A person stopped it.
    Stopped {
        /// Why.
        reason: String,
    },
}

/// One attempt of one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// The state.
    pub state: StateName,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it began.
    pub since: Timestamp,
    /// Why it was entered.
    pub because: Option<Because>,
    /// The timer that counts.
    pub timer: EffectId,
    /// When that timer runs out.
    pub deadline: Timestamp,
    /// What is waited for, and whose turn it is.
    pub wait: Wait,
}

/// What a run waits for. Each has an owner and, in its visit, a timer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// An agent, for evidence.
    Agent {
        /// Its dispatch.
        dispatch: EffectId,
        /// Whether it was told that evidence is missing.
        reminded: bool,
    },
    /// A person, for an answer to an agent.
    Help {
        /// The agent's dispatch.
        dispatch: EffectId,
        /// The question.
        ask: EffectId,
    },
    /// The conductor, for the result of a command.
    Verification {
        /// The verification.
        effect: EffectId,
        /// What is verified.
        submission: Submission,
    },
    /// A person, for an answer at a gate.
    Approval {
        /// The question.
        ask: EffectId,
        /// What is asked about.
        submission: Submission,
    },
    /// The conductor, for an action.
    Action {
        /// The action.
        effect: EffectId,
        /// What is done.
        action: Act,
    },
    /// A person, for a decision.
    Person {
        /// The question.
        ask: EffectId,
    },
    /// Runs inside this one.
    Children {
        /// Those that go on, by the effect that started them.
        running: BTreeMap<EffectId, String>,
        /// Those that wait for their turn, with what they are given.
        waiting: Vec<Pending>,
        /// Those that ended well, with what they brought.
        done: BTreeMap<String, Value>,
        /// Those that did not.
        failed: BTreeMap<String, Failure>,
    },
}

/// A run inside this one that is still to be started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The branch, or `item-N`.
    pub key: String,
    /// Its place in the list, from 0.
    pub turn: u32,
    /// What it runs.
    pub workflow: WorkflowName,
    /// What it is given.
    pub params: BTreeMap<String, Value>,
}

/// A run inside this one that did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Why.
    pub reason: String,
    /// Whether a person has to look at it, so that trying again is no help.
    pub needs_person: bool,
}

/// What was submitted and is being judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// The dispatch that it answers.
    pub dispatch: EffectId,
    /// The fields.
    pub evidence: Evidence,
    /// What was chosen, at a verdict.
    pub verdict: Option<Outcome>,
    /// What the conductor saw.
    pub work: Seen,
    /// Results of commands so far.
    pub results: Vec<CommandResult>,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Tokens.
    pub tokens: Tokens,
    /// Dollars.
    pub usd: Usd,
}

impl Spending {
    pub(crate) fn add(&mut self, tokens: Tokens, usd: Usd) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.usd += usd;
    }
}

/// Caps of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Tokens.
    pub tokens: Option<Tokens>,
    /// Dollars.
    pub usd: Option<Usd>,
}

/// A state that was left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The state.
    pub state: StateName,
    /// Which attempt; 0 if it was only passed by, because it was used up.
    pub attempt: u32,
    /// How it was left.
    pub outcome: Outcome,
    /// The next state.
    pub to: StateName,
    /// When it was entered.
    pub since: Timestamp,
    /// When it was left.
    pub at: Timestamp,
}

impl Run {
    /// A run that is not started yet. None if the definition has no such workflow.
    pub fn new(id: RunId, definition: &Definition, workflow: &WorkflowName, now: Timestamp) -> Option<Self> {
        definition.workflow(workflow)?;
        Some(Self {
            id,
            definition: definition.hash().clone(),
            workflow: workflow.clone(),
            params: Params::default(),
            players: BTreeMap::new(),
            now,
            phase: Phase::Ready,
            attempts: BTreeMap::new(),
            spent: BTreeMap::new(),
            raised: Caps::default(),
            evidence: BTreeMap::new(),
            changed: BTreeMap::new(),
            frozen: Frozen::default(),
            trail: Vec::new(),
            effects: 0,
        })
    }

    /// The state it is in, also if it is parked there.
    pub fn visit(&self) -> Option<&Visit> {
        match &self.phase {
            Phase::At(visit) | Phase::Parked(visit) => Some(visit),
            Phase::Ready | Phase::Ended { .. } => None,
        }
    }

    /// How it ended.
    pub fn end(&self) -> Option<&End> {
        match &self.phase {
            Phase::Ended { end } => Some(end),
            _ => None,
        }
    }

    /// Its caps: those of the definition, unless others were given.
    pub fn caps(&self, workflow: &Workflow) -> Caps {
        Caps { tokens: self.raised.tokens.or(workflow.tokens), usd: self.raised.usd.or(workflow.usd) }
    }

    /// Why nobody in it, or in a run inside it, may use more.
    pub fn cap_reached(&self, workflow: &Workflow) -> Option<String> {
        let (caps, total) = (self.caps(workflow), self.total());
        if let Some(cap) = caps.tokens.filter(|cap| total.tokens >= *cap) {
            return Some(format!("the run has used {} of {cap} tokens", total.tokens));
        }
        let cap = caps.usd.filter(|cap| total.usd >= *cap)?;
        Some(format!("the run has cost {} of {cap}", total.usd))
    }

    /// What all states used together.
    pub fn total(&self) -> Spending {
        let mut total = Spending::default();
        for spending in self.spent.values() {
            total.add(spending.tokens, spending.usd);
        }
        total
    }
}
