//! What is known about the work in a state: who, how much, how long, and what came of it.

use baton_core::{Timestamp, Tokens, Usd};
use baton_workflow::{EffectId, RoleName, RunId, StateName};
use serde::{Deserialize, Serialize};

/// One attempt of one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The run.
    pub run: RunId,
    /// The effect that it measures.
    pub effect: EffectId,
    /// The state.
    pub state: StateName,
    /// Who worked, if somebody did.
    pub role: Option<RoleName>,
    /// The model, as `provider/name`.
    pub model: Option<String>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Tokens that were read, those from a cache included.
    pub tokens_in: Tokens,
    /// Tokens that were written.
    pub tokens_out: Tokens,
    /// What it cost.
    pub cost_usd: Usd,
    /// How long it took.
    pub duration_ms: u64,
    /// What came of it.
    pub outcome: String,
    /// When it ended.
    pub at: Timestamp,
}
