//! Time as a parameter: the core asks a [`Clock`], it never looks at one itself.

use jiff::Timestamp;

/// Where "now" comes from.
pub trait Clock: Send + Sync {
    /// The current moment.
    fn now(&self) -> Timestamp;
}

/// A clock that always shows the same moment; for tests and replays.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}
