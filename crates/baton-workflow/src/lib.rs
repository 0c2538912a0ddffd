//! Workflows: definitions in Starlark, their checks and proofs, and the state machine that a run is.
//!
//! Uses `baton-core` only. It does no I/O, reads no clock and makes no ids: files come in as text ([`Sources`]), time with
//! every event, and the ids of effects follow from the run. What is in here decides; others carry it out.
//!
//! - [`Definition::load`] reads, checks and proves a workflow, or says everything that is wrong with it.
//! - [`step`] is the one way in which a run changes: an event in, the next state and the effects owed out.
//! - [`verify::evaluate`] replays a verify function from recorded results.

mod agent_file;
mod check;
mod command;
mod definition;
mod field;
mod frozen;
mod graph;
mod machine;
mod names;
mod param;
mod problem;
mod project;
mod scope;
mod stack;
mod template;
mod typed;
pub mod verify;

pub use agent_file::AgentFile;
pub use check::{Bound, bound};
pub use command::{Argv, BadCommand};
pub use definition::{
    Action, CHILD_TIMEOUT, Call, Definition, Each, Gate, Given, ITEMS, Join, Kind, Limits, Parallel, Pin, Question,
    RETRIES, Role, Sources, State, TIMEOUT, TOKENS, TOOLS, Target, VerifyRef, Work, Workflow, reference,
};
pub use field::{Evidence, Field, FieldType, Fields};
pub use frozen::{Freeze, Frozen};
pub use graph::{dot, mermaid, picture};
pub use machine::{
    Act, Because, Caps, Dispatch, Effect, EffectBody, End, Event, EventBody, Failure, Left, Pending, Phase, Rejected,
    Run, Seen, Spending, Submission, Visit, Wait, step,
};
pub use names::{
    AgentName, BadName, BranchName, DefinitionHash, EffectId, FieldName, FileHash, Outcome, ParamName, Player, Pos,
    RoleName, RunId, StateName, TreeHash, WorkflowName,
};
pub use param::{Param, ParamType, ParamTypes, Params};
pub use problem::Problem;
pub use project::Project;
pub use scope::{BadPath, Glob, RelPath, Scope};
pub use template::{Reference, Template};
