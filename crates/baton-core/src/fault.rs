//! Faults: errors in the form in which they cross a boundary, with a tier that says what may be done.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What can be done about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// It passes by itself: retried quietly.
    Transient,
    /// It will happen again: not retried.
    Permanent,
    /// A person can mend it (a key, a quota, a flag): not retried, the hint says how.
    UserFixable,
    /// The other side asks to wait: retried after the wait, with a countdown.
    RateLimited,
    /// The other side is in trouble: retried a few times, with a notice.
    Degraded,
}

/// Which part of the world the fault belongs to. The binary derives exit codes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// What the person gave: arguments, files, settings, scripts.
    Input,
    /// The model's provider: keys, quota, network, refusals.
    Provider,
    /// A cap that the person set.
    Cap,
    /// A file or directory that cannot be used as asked.
    Workspace,
    /// What keeps commands in.
    Sandbox,
    /// The work itself: it failed, or its tests did.
    Task,
    /// What only a person can decide or mend before the work goes on.
    Person,
    /// Baton itself.
    Internal,
}

/// What happened, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What can be done about it.
    pub tier: Tier,
    /// What it belongs to.
    pub area: Area,
    /// What happened and why, without a full stop.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(area: Area, tier: Tier, message: impl Into<String>) -> Self {
        Self { tier, area, message: message.into(), hint: None }
    }

    /// Something the person gave is wrong.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Area::Input, Tier::UserFixable, message)
    }

    /// Baton itself is wrong.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Area::Internal, Tier::Permanent, message)
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
