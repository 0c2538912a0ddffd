//! Tokens and money: what a model call used and what it cost.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of tokens.
pub type Tokens = u64;

/// Tokens of one or more model calls, as providers tell them: sums do not overflow. The parts do not overlap, except that reasoning is part of output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens that were read in full.
    pub input_tokens: Tokens,
    /// Tokens the model wrote, reasoning included.
    pub output_tokens: Tokens,
    /// Prompt tokens that came from the provider's cache.
    pub cache_read_tokens: Tokens,
    /// Prompt tokens that were put into the provider's cache.
    pub cache_write_tokens: Tokens,
    /// The part of the output that was reasoning, where the provider tells.
    pub reasoning_tokens: Tokens,
}

impl Usage {
    /// Everything that was sent.
    pub fn prompt_tokens(&self) -> Tokens {
        self.input_tokens.saturating_add(self.cache_read_tokens).saturating_add(self.cache_write_tokens)
    }

    /// Everything that was sent and received.
    pub fn total_tokens(&self) -> Tokens {
        self.prompt_tokens().saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// US dollars, kept in whole billionths so that sums are exact. In JSON it is a number of dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd {
    nanos: u64,
}

const NANOS_PER_DOLLAR: f64 = 1e9;

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };
    /// More than anyone has.
    pub const MAX: Self = Self { nanos: u64::MAX };

    /// From dollars; negative or unreal amounts are none.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nanos = (dollars * NANOS_PER_DOLLAR).round();
        (0.0..9e18).contains(&nanos).then_some(Self { nanos: nanos as u64 })
    }

    /// As dollars, for display and JSON.
    #[expect(clippy::cast_precision_loss, reason = "exact up to nine million dollars")]
    pub fn dollars(self) -> f64 {
        self.nanos as f64 / NANOS_PER_DOLLAR
    }

    /// How many tokens at this price per million fit into `self`.
    pub fn buys(self, per_million: Self) -> Option<Tokens> {
        (u128::from(self.nanos) * 1_000_000)
            .checked_div(u128::from(per_million.nanos))
            .map(|tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
    }

    fn for_tokens(self, tokens: Tokens) -> Self {
        let nanos = (u128::from(self.nanos) * u128::from(tokens)).div_ceil(1_000_000);
        Self { nanos: u64::try_from(nanos).unwrap_or(u64::MAX) }
    }

    /// The difference, or nothing.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nanos {
            0 => f.write_str("$0"),
            1..10_000_000 => write!(f, "${:.4}", self.dollars()),
            _ => write!(f, "${:.2}", self.dollars()),
        }
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not as `f64`: where some crate asks serde_json for arbitrary precision, a fraction inside a tagged enum is none.
        let dollars = serde_json::Number::deserialize(deserializer)?;
        dollars
            .as_f64()
            .and_then(Self::from_dollars)
            .ok_or_else(|| serde::de::Error::custom(format!("{dollars} is not an amount of money")))
    }
}

/// What a model charges, in dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    /// Prompt tokens.
    #[schemars(with = "f64")]
    pub input: Usd,
    /// Output tokens.
    #[schemars(with = "f64")]
    pub output: Usd,
    /// Prompt tokens from the cache; as input where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub cache_read: Option<Usd>,
    /// Prompt tokens into the cache; as input where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub cache_write: Option<Usd>,
}

impl Price {
    /// What this usage costs.
    pub fn of(&self, usage: &Usage) -> Usd {
        self.input.for_tokens(usage.input_tokens)
            + self.output.for_tokens(usage.output_tokens)
            + self.cache_read.unwrap_or(self.input).for_tokens(usage.cache_read_tokens)
            + self.cache_write.unwrap_or(self.input).for_tokens(usage.cache_write_tokens)
    }
}
