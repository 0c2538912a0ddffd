//! Decisions: allow, ask or deny, and what decided.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What is to happen with a call. The order is strictness, so the strictest of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It runs unasked.
    Allow,
    /// A person must say yes; where nobody is there it is refused.
    Ask,
    /// It is refused.
    Deny,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// A verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// What is to happen.
    #[serde(rename = "decision")]
    pub verdict: Verdict,
    /// The name of what decided: a built-in rule, or a person's rule as it was written.
    pub rule: Cow<'static, str>,
    /// Why, in plain words.
    pub reason: Cow<'static, str>,
}

impl Decision {
    /// A decision.
    pub fn new(verdict: Verdict, rule: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { verdict, rule: rule.into(), reason: reason.into() }
    }

    /// Goes ahead.
    pub fn allow(rule: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Verdict::Allow, rule, reason)
    }

    /// A person decides.
    pub fn ask(rule: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Verdict::Ask, rule, reason)
    }

    /// Refused.
    pub fn deny(rule: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Verdict::Deny, rule, reason)
    }

    /// The stricter of two; of equals, the first.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if other.verdict > self.verdict { other } else { self }
    }
}
