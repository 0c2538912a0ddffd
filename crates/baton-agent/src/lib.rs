//! The agent: a [`Conversation`] is what every surface talks to. [`Op`](baton_core::Op)s go in,
//! [`Event`](baton_core::Event)s come out, in one order.
//!
//! May use `baton-core`, `baton-config`, `baton-guard`, `baton-llm`, `baton-tools` (and later session).
//! It must never know a surface: nothing here prints, reads the terminal or chooses an exit code.

mod answer_schema;
mod approvals;
mod calls;
mod conversation;
mod events;
mod instructions;
mod limits;
mod permission;
mod planning;
mod prompt;
mod record;
mod repetition;
mod strikes;
mod system;
mod telling;
mod turn;

pub use answer_schema::AnswerSchema;
pub use conversation::{Conversation, Events, Options};
pub use instructions::{Instructions, find_instructions};
pub use limits::{ModelSetting, TurnLimits};
pub use permission::{Permissions, RuleBook};
pub use prompt::{Environment, SYSTEM_PROMPT, Voice, opening};
pub use record::Record;
pub use system::{RandomIds, SystemClock};
