//! One limiter per provider: while it asks for patience every request to it parks here, and when
//! the wait is over one request goes first to see whether the others may follow.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Lets requests to one provider through, or parks them.
#[derive(Debug, Clone, Default)]
pub struct Limiter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

/// What the limiter knows. Decisions are pure; [`Limiter`] adds the waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Everybody may go.
    #[default]
    Open,
    /// Nobody may go before this moment.
    Parked(Instant),
    /// One request is finding out whether the provider answers again.
    Probing,
}

/// What a request that wants to go has to do.
#[derive(Debug, PartialEq, Eq)]
enum Admission {
    Go,
    GoAsProbe,
    WaitUntil(Instant),
    WaitForProbe,
}

impl State {
    fn admit(&mut self, now: Instant) -> Admission {
        match *self {
            Self::Open => Admission::Go,
            Self::Parked(until) if now < until => Admission::WaitUntil(until),
            Self::Parked(_) => {
                *self = Self::Probing;
                Admission::GoAsProbe
            }
            Self::Probing => Admission::WaitForProbe,
        }
    }

    /// A longer wait is never shortened by another request's shorter one.
    fn park(&mut self, until: Instant) {
        *self = match *self {
            Self::Parked(longer) if longer > until => Self::Parked(longer),
            _ => Self::Parked(until),
        };
    }
}

/// The right to make one request. Dropping it without a verdict (cancelled) lets another one probe.
#[derive(Debug)]
pub struct Permit {
    limiter: Limiter,
    is_probe: bool,
}

impl Limiter {
    /// Waits until a request may go.
    pub async fn admit(&self) -> Permit {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Registers before looking, so that a change in between is not missed.
            changed.as_mut().enable();
            match self.change(|state| state.admit(Instant::now())) {
                Admission::Go => return Permit { limiter: self.clone(), is_probe: false },
                Admission::GoAsProbe => return Permit { limiter: self.clone(), is_probe: true },
                Admission::WaitUntil(until) => tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = changed => {}
                },
                Admission::WaitForProbe => changed.await,
            }
        }
    }

    /// How long requests wait at the moment because the provider asked for patience.
    pub fn wait(&self) -> Option<Duration> {
        match self.change(|state| *state) {
            State::Parked(until) => {
                Some(until.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
            }
            State::Open | State::Probing => None,
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Permit {
    /// The provider answered: everybody may go.
    pub fn succeeded(mut self) {
        if std::mem::take(&mut self.is_probe) {
            self.limiter.change(|state| {
                if *state == State::Probing {
                    *state = State::Open;
                }
            });
            self.limiter.0.changed.notify_waiters();
        }
    }

    /// The provider asks for patience, or is in trouble: nobody goes for a while.
    pub fn park(mut self, delay: Duration) {
        self.is_probe = false;
        self.limiter.change(|state| state.park(Instant::now() + delay));
        self.limiter.0.changed.notify_waiters();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_probe {
            self.limiter.change(|state| {
                if *state == State::Probing {
                    *state = State::Parked(Instant::now());
                }
            });
            self.limiter.0.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_parked_provider_is_left_alone_and_then_probed_by_one() {
        let limiter = Limiter::default();
        limiter.admit().await.park(Duration::from_secs(3));
        let start = Instant::now();
        let admitted = Arc::new(AtomicUsize::new(0));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let (limiter, admitted) = (limiter.clone(), admitted.clone());
                tokio::spawn(async move {
                    let permit = limiter.admit().await;
                    admitted.fetch_add(1, Ordering::SeqCst);
                    (permit, start.elapsed())
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(admitted.load(Ordering::SeqCst), 1, "only the probe went");
        let mut probes = 0;
        for task in waiting {
            let (permit, after) = task.await.unwrap();
            assert!(after >= Duration::from_secs(3));
            probes += usize::from(permit.is_probe);
            permit.succeeded();
        }
        assert_eq!(probes, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_probe_passes_its_turn_on() {
        let limiter = Limiter::default();
        limiter.admit().await.park(Duration::from_millis(1));
        let probe = limiter.admit().await;
        let next = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.admit().await.is_probe }
        });
        tokio::task::yield_now().await;
        drop(probe);
        assert!(next.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_longer_wait_is_not_shortened() {
        let limiter = Limiter::default();
        let (one, two) = (limiter.admit().await, limiter.admit().await);
        one.park(Duration::from_secs(9));
        two.park(Duration::from_secs(1));
        let start = Instant::now();
        drop(limiter.admit().await);
        assert!(start.elapsed() >= Duration::from_secs(9));
    }
}
