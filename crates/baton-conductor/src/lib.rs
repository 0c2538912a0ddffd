//! The conductor: the deterministic program that owns runs. Never a model.
//!
//! May use every crate below it. What an event means is decided in `baton-workflow`, and what has happened is in the journal;
//! this crate carries out what a run owes: it hosts agents, verifies, acts, and brings results back.

mod around;
mod asking;
mod brief;
mod carrying;
mod conductor;
mod copying;
mod detecting;
mod dispatching;
mod ending;
mod finishing;
mod handing_in;
mod hearing;
mod hosting;
mod library;
mod live;
mod orders;
mod place;
mod preparing;
mod publishing;
mod report;
mod role_fence;
mod run_clone;
mod settings;
mod stage;
mod telling;
mod timers;
mod verifying;
mod workshop;

pub use asking::end_git;
pub use conductor::Conductor;
pub use detecting::{Detected, detect};
pub use library::{Library, LibraryError, Origin, Shelved};
pub use live::{ConductError, Facts, Request, Rest, Said};
pub use preparing::Preparation;
pub use report::{Report, Reports, RunEvent, RunEventBody};
pub use run_clone::{CloneError, Identity, RunClone};
pub use settings::ProjectSettings;
pub use stage::{Part, Stage};
