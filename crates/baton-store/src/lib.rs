//! The truth about runs: every event with the state after it and the effects it owes, in one transaction.
//!
//! May use `baton-core`, `baton-config` and `baton-workflow`. [`Journal`] is what a conductor needs, and another database can
//! be behind it; [`Store`] is SQLite. Nothing here decides anything about a run.

mod blobs;
mod error;
mod journal;
mod metrics;
mod schema;
mod store;
mod writer;

pub use error::StoreError;
pub use journal::{Beginning, Commit, Debt, Journal, Recorded, RunRow, Settled, Standing};
pub use metrics::Metric;
pub use store::Store;
