//! The guard: everything that can refuse or hide. Permission rules, shell command analysis, paths, the OS sandbox, secrets,
//! credentials, the audit chain, undo, plans, trust in repositories, and git without what a repository makes it do.
//!
//! May use `baton-core` and `baton-config`. Decisions are pure functions: [`evaluate`] is the one question, [`analyse`] reads a
//! command, [`Scope`] judges a path, [`secrets`] finds what must not be seen.

pub mod audit;
mod command;
pub mod credentials;
mod decision;
mod evaluate;
pub mod git;
pub mod path;
mod plan;
pub mod program;
mod rule;
pub mod sandbox;
pub mod secrets;
mod shipped;
pub mod trust;
pub mod undo;

pub use command::{About, Analysis, Finding, Leaves, Part, PathUse, SyntaxError, analyse};
pub use decision::{Decision, Verdict};
pub use evaluate::{Call, Context, evaluate, evaluate_command};
pub use path::{Grant, Judged, PathGuard, Place, Reach, Refusal, Scope};
pub use plan::{Plan, PlanError, Plans};
pub use rule::{Origin, PermissionSettings, Proposal, Proposed, Rule, RuleError, Rules, correction, propose};
