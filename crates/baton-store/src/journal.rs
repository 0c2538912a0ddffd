//! What a conductor asks of a journal, whatever database is behind it.

use baton_core::Timestamp;
use baton_workflow::{DefinitionHash, Effect, EffectId, Event, Pin, Run, RunId, WorkflowName};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::metrics::Metric;

/// One event with everything that follows from it. All of it is written, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// How many events the run had before.
    pub after: u64,
    /// What happened.
    pub event: Event,
    /// The run as it is now.
    pub run: Run,
    /// What it owes because of that.
    pub owes: Vec<Effect>,
    /// What it does not owe any more.
    pub settles: Vec<Settled>,
    /// What is known about the work that it ended.
    pub metrics: Vec<Metric>,
    /// Where the run comes from, if this is its first event.
    pub begins: Option<Beginning>,
}

/// Where a run comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// What it depends on.
    pub pin: Pin,
    /// The run that it is a part of.
    pub parent: Option<RunId>,
    /// Facts that whoever carries it out needs again: the model, the base commit, files that were pinned.
    pub facts: serde_json::Value,
}

/// An effect that is not owed any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The effect.
    pub effect: EffectId,
    /// What it left: a commit, a result, or why nothing is to be done about it.
    pub receipt: String,
}

/// An effect that is owed.
#[derive(Debug, Clone, PartialEq)]
pub struct Debt {
    /// The run that owes it.
    pub run: RunId,
    /// The effect.
    pub effect: Effect,
    /// Whether somebody has begun to carry it out.
    pub is_begun: bool,
}

/// A run as the journal has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The run after its last event.
    pub run: Run,
    /// How many events it has.
    pub events: u64,
    /// The run that it is a part of.
    pub parent: Option<RunId>,
    /// What was given when it began.
    pub facts: serde_json::Value,
    /// When it began.
    pub began: Timestamp,
}

/// One run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// What it runs.
    pub workflow: WorkflowName,
    /// By content.
    pub definition: DefinitionHash,
    /// The run that it is a part of.
    pub parent: Option<RunId>,
    /// When it began.
    pub began: Timestamp,
    /// When it last changed.
    pub changed: Timestamp,
    /// The state that it is in, if it has not ended.
    pub state: Option<String>,
    /// `ready`, `at`, `parked` or `ended`.
    pub phase: String,
    /// How many events it has.
    pub events: u64,
}

/// An event as it was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its number in the run, from 1.
    pub number: u64,
    /// What happened.
    pub event: Event,
}

/// The log of events from which the state of every run follows.
///
/// Calls block: they wait for a disk. Whoever is on an async thread moves them off it.
pub trait Journal: Send + Sync {
    /// Writes commits in their order, all or none; when it returns, they survive power loss. What was only used or noted
    /// survives the end of the process, and power loss with the next that does.
    fn commit(&self, commits: Vec<Commit>) -> Result<(), StoreError>;

    /// Notes that somebody begins to carry an effect out, so that after a crash it is in doubt.
    fn begin(&self, effect: &EffectId) -> Result<(), StoreError>;

    /// Notes that effects are not owed any more, where no event follows from that.
    fn settle(&self, settled: Vec<Settled>) -> Result<(), StoreError>;

    /// One run.
    fn run(&self, id: &RunId) -> Result<Option<Standing>, StoreError>;

    /// All runs, the last changed first; those that are part of another only if that one is named.
    fn runs(&self, parent: Option<&RunId>) -> Result<Vec<RunRow>, StoreError>;

    /// What is owed, in the order in which it came to be.
    fn owed(&self) -> Result<Vec<Debt>, StoreError>;

    /// The events of a run from a number on.
    fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Recorded>, StoreError>;

    /// What a run depends on.
    fn pin(&self, hash: &DefinitionHash) -> Result<Option<Pin>, StoreError>;

    /// What is known about the work of a run and of those inside it.
    fn metrics(&self, run: &RunId) -> Result<Vec<Metric>, StoreError>;

    /// Keeps bytes once, under their hash.
    fn put(&self, bytes: &[u8]) -> Result<String, StoreError>;

    /// The bytes of a hash.
    fn get(&self, hash: &str) -> Result<Vec<u8>, StoreError>;
}
