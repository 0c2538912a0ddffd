//! The real clock and the real source of ids.

use std::sync::Mutex;
use std::sync::PoisonError;

use baton_core::{Clock, IdSource, Timestamp};
use ulid::Ulid;

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Random ids that sort by time, also within a millisecond and when the clock is set back.
#[derive(Debug, Default)]
pub struct RandomIds(Mutex<Ulid>);

impl IdSource for RandomIds {
    fn fresh(&self) -> Ulid {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let random = Ulid::from_parts(now, fastrand::u128(..));
        *last = if random > *last && random.timestamp_ms() > last.timestamp_ms() {
            random
        } else {
            Ulid(last.0.wrapping_add(1 + u128::from(fastrand::u32(..))))
        };
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow() {
        let ids = RandomIds::default();
        let mut last = ids.fresh();
        for _ in 0..10_000 {
            let next = ids.fresh();
            assert!(next > last);
            last = next;
        }
    }
}
