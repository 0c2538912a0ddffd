//! The agent: a [`Conversation`] is what every surface talks to. [`Op`](baton_core::Op)s go in,
//! [`Event`](baton_core::Event)s come out, in one order.
//!
//! May use `baton-core`, `baton-config`, `baton-guard`, `baton-llm`, `baton-tools`, `baton-session`.
//! It must never know a surface: nothing here prints, reads the terminal or chooses an exit code.

mod again;
mod answer_schema;
mod approvals;
mod calls;
mod compacting;
mod conversation;
mod events;
mod instructions;
mod keeping;
mod limits;
mod permission;
mod planning;
mod prompt;
mod recalling;
mod record;
mod repetition;
mod strikes;
mod system;
mod telling;
mod turn;

pub use answer_schema::AnswerSchema;
pub use compacting::CompactionSettings;
pub use conversation::{Conversation, Events, Options};
pub use instructions::{InstructionSetting, Instructions, Lookup, find_instructions};
pub use limits::{LimitsMax, ModelSetting, TurnLimits};
pub use permission::{Permissions, RuleBook, RuleNews};
pub use prompt::{Environment, SYSTEM_PROMPT, Voice, opening};
pub use record::Record;
pub use system::{RandomIds, SystemClock};
