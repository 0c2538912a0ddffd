//! The guard: everything that can refuse. Permission rules, shell command analysis, paths.
//!
//! May use `baton-core` and `baton-config`. Decisions are pure functions: [`analyse`] reads a command, [`Scope`] judges a
//! path. Only `path::resolve` touches the disk.

mod command;
mod decision;
pub mod path;
mod shipped;

pub use command::{About, Analysis, Finding, Part, PathUse, SyntaxError, analyse};
pub use decision::{Decision, Verdict};
pub use path::{Place, Scope};
