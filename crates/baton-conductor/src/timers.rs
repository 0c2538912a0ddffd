//! Timers: how long each wait still lasts. Once one is set, the clock may jump as it likes; and time in which Baton did not
//! run counts for people only.

use std::collections::HashMap;
use std::time::Duration;

use baton_core::Timestamp;
use baton_workflow::{EffectId, RunId};
use tokio::time::Instant;

/// A wait of a run, as the journal has it.
pub(crate) struct Waiting {
    pub(crate) run: RunId,
    pub(crate) timer: EffectId,
    pub(crate) deadline: Timestamp,
    /// How long such a wait lasts from its beginning.
    pub(crate) timeout: Duration,
    /// Whether it is a person who is waited for: they had the time, whether Baton ran or not.
    pub(crate) is_for_person: bool,
}

/// When the waits of this process run out.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    ends: HashMap<EffectId, Instant>,
}

impl Timers {
    /// The next wait to run out. Those that are not among these any more are forgotten.
    pub(crate) fn next(&mut self, now: Timestamp, waits: Vec<Waiting>) -> Option<(Instant, RunId, EffectId)> {
        self.ends.retain(|timer, _| waits.iter().any(|wait| wait.timer == *timer));
        let ends = waits.into_iter().map(|wait| {
            let set = || Instant::now() + wait.left(now);
            (*self.ends.entry(wait.timer.clone()).or_insert_with(set), wait.run, wait.timer)
        });
        ends.min_by_key(|(end, ..)| *end)
    }
}

impl Waiting {
    /// What is left of it when it is taken up: never more than the whole, though the clock may have been put back since.
    fn left(&self, now: Timestamp) -> Duration {
        let by_clock = Duration::try_from(self.deadline.duration_since(now)).unwrap_or_default();
        if self.is_for_person { by_clock.min(self.timeout) } else { self.timeout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_AN_HOUR: Duration = Duration::from_mins(30);
    const YEAR: Duration = Duration::from_hours(365 * 24);

    fn waiting(deadline: Timestamp, is_for_person: bool) -> Waiting {
        let (run, timer) = (RunId::new("run_1"), EffectId::new("run_1.A.1"));
        Waiting { run, timer, deadline, timeout: HALF_AN_HOUR, is_for_person }
    }

    #[test]
    fn people_had_the_time_that_passed_and_agents_had_not() {
        let deadline = Timestamp::from_second(1_800_000_000).unwrap();
        let (person, agent) = (waiting(deadline, true), waiting(deadline, false));
        let soon = Duration::from_secs(5);
        for (now, left) in [(deadline - YEAR, HALF_AN_HOUR), (deadline - soon, soon), (deadline + YEAR, Duration::ZERO)]
        {
            assert_eq!((person.left(now), agent.left(now)), (left, HALF_AN_HOUR));
        }
    }

    #[test]
    fn a_timer_that_is_set_does_not_look_at_the_clock_again() {
        let (mut timers, now) = (Timers::default(), Timestamp::from_second(1_800_000_000).unwrap());
        let wait = || vec![waiting(now + HALF_AN_HOUR, true)];
        let (set, ..) = timers.next(now, wait()).unwrap();
        for later in [now + YEAR, now - YEAR] {
            assert_eq!(timers.next(later, wait()).unwrap().0, set);
        }
        assert!(timers.next(now, Vec::new()).is_none());
        assert!(timers.ends.is_empty());
    }
}
