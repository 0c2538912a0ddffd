//! When a failed call is made again: pure decisions on tiers, attempts and what the provider asks.

use std::time::Duration;

use baton_config::Section;
use baton_core::{Tier, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{LlmError, LlmErrorKind};

/// The setting `retry`: one schedule for each tier that is retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetryPolicy {
    /// Network blips, broken streams.
    pub transient: Schedule,
    /// The provider asks to wait.
    pub rate_limited: Schedule,
    /// The provider is in trouble.
    pub degraded: Schedule,
    /// A provider that asks for more than this is given up at once.
    pub wait_max_ms: u64,
}

/// Exponential waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Schedule {
    /// How many calls are made at most, the first included.
    pub attempts: u32,
    /// The first wait; each further one is twice as long.
    pub base_ms: u64,
    /// The longest wait.
    pub max_ms: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        RetryPolicy::default().transient
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            transient: Schedule { attempts: 5, base_ms: 100, max_ms: 5_000 },
            rate_limited: Schedule { attempts: 10, base_ms: 1_000, max_ms: 60_000 },
            degraded: Schedule { attempts: 3, base_ms: 5_000, max_ms: 30_000 },
            wait_max_ms: 600_000,
        }
    }
}

impl Section for RetryPolicy {
    const KEY: &'static str = "retry";
}

/// How often each tier has failed during one call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempts {
    transient: u32,
    rate_limited: u32,
    degraded: u32,
}

/// A further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// How many there are at most.
    pub attempts_max: u32,
    /// How long to wait before the next.
    pub delay: Duration,
}

impl RetryPolicy {
    /// Whether the call is made again after this failure. `jitter` is random in `0.0..1.0`.
    pub fn next(&self, error: &LlmError, attempts: &mut Attempts, jitter: f64) -> Option<Again> {
        let (schedule, failed) = match error.tier {
            Tier::Transient => (self.transient, &mut attempts.transient),
            Tier::RateLimited => (self.rate_limited, &mut attempts.rate_limited),
            Tier::Degraded => (self.degraded, &mut attempts.degraded),
            Tier::Permanent | Tier::UserFixable => return None,
        };
        *failed += 1;
        // A model may truly have nothing more to say: one more try tells.
        let attempts_max = if error.kind == LlmErrorKind::Empty { schedule.attempts.min(2) } else { schedule.attempts };
        if *failed >= attempts_max {
            return None;
        }
        let delay = match error.retry_after {
            Some(asked) if asked > Duration::from_millis(self.wait_max_ms) => return None,
            Some(asked) if !asked.is_zero() => asked,
            // To wait no time at all is to be asked again at once, and again: the usual wait is kept.
            Some(_) | None => schedule.wait(*failed, jitter),
        };
        Some(Again { attempt: *failed, attempts_max, delay })
    }
}

impl Schedule {
    /// The wait after failure `n` (from 1): doubling, within a fifth of it either way, never above the cap.
    fn wait(self, n: u32, jitter: f64) -> Duration {
        let doubled = self.base_ms.saturating_mul(1_u64.checked_shl(n - 1).unwrap_or(u64::MAX));
        let around = Duration::from_millis(doubled.min(self.max_ms)).mul_f64(0.8 + 0.4 * jitter);
        around.min(Duration::from_millis(self.max_ms))
    }
}

/// How long a `Retry-After` header asks to wait: seconds (also fractions) or an HTTP date.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let now = std::time::SystemTime::from(now);
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waits(tier: Tier, jitter: f64) -> Vec<u128> {
        let mut attempts = Attempts::default();
        let error = LlmError::provider(tier, "x");
        std::iter::from_fn(|| RetryPolicy::default().next(&error, &mut attempts, jitter))
            .map(|again| again.delay.as_millis())
            .collect()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        assert_eq!(waits(Tier::RateLimited, 0.5), [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]);
        assert_eq!(waits(Tier::Transient, 0.5), [100, 200, 400, 800]);
        assert_eq!(waits(Tier::Degraded, 0.5), [5000, 10000]);
        assert_eq!(waits(Tier::Permanent, 0.5), [0_u128; 0]);
        assert_eq!(waits(Tier::UserFixable, 0.5), [0_u128; 0]);
    }

    #[test]
    fn the_provider_says_how_long() {
        let policy = RetryPolicy::default();
        let asked = |seconds| LlmError {
            retry_after: Some(Duration::from_secs(seconds)),
            ..LlmError::provider(Tier::RateLimited, "x")
        };
        assert_eq!(policy.next(&asked(3), &mut Attempts::default(), 0.9).unwrap().delay, Duration::from_secs(3));
        assert_eq!(policy.next(&asked(7200), &mut Attempts::default(), 0.9), None);
        assert_eq!(policy.next(&asked(0), &mut Attempts::default(), 0.5).unwrap().delay, Duration::from_secs(1));
    }

    #[test]
    fn both_forms_of_retry_after() {
        let now: Timestamp = "2026-01-01T00:00:00.4Z".parse().unwrap();
        assert_eq!(parse_retry_after("3", now), Some(Duration::from_secs(3)));
        assert_eq!(parse_retry_after("0.25", now), Some(Duration::from_millis(250)));
        assert_eq!(parse_retry_after("Thu, 01 Jan 2026 00:00:10 GMT", now), Some(Duration::from_millis(9600)));
        assert_eq!(parse_retry_after("Wed, 01 Jan 2020 00:00:10 GMT", now), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("-4", now), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("soon", now), None);
        assert_eq!(parse_retry_after("inf", now), None);
    }

    proptest! {
        #[test]
        fn no_wait_leaves_its_band(n in 1_u32..200, jitter in 0.0..1.0_f64) {
            let schedule = RetryPolicy::default().rate_limited;
            let wait = schedule.wait(n, jitter).as_millis();
            let plain = if n > 6 { 60_000 } else { 1_000_u128 << (n - 1) };
            prop_assert!(wait >= plain * 8 / 10 - 1 && wait <= (plain * 12 / 10 + 1).min(60_000));
        }
    }
}
