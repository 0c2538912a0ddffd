//! The vocabulary of Baton: everything that crosses a boundary between crates, processes or disks.
//!
//! Uses no other Baton crate, does no I/O, reads no clock: time and fresh ids come in as parameters
//! ([`Clock`], [`IdSource`]). Every type here is serde and round-trips through JSON.

mod clock;
mod event;
mod fault;
mod host;
mod id;
mod message;
mod money;
mod op;
mod permission;
mod tool_spec;

pub use clock::{Clock, FixedClock};
pub use event::{Event, EventBody, EventSource, EventStamp, TurnReason};
pub use fault::{Area, Fault, Tier};
pub use host::{Host, HostPattern, HostPort};
pub use id::{AgentRole, ApprovalId, CallId, EventId, IdSource, ItemId, SequentialIds, SessionId};
pub use jiff::Timestamp;
pub use message::{Block, Foreign, Image, Message, Role, Signature, StopReason, ToolResult, ToolUse};
pub use money::{Price, Tokens, Usage, Usd};
pub use op::{Answer, Op};
pub use permission::{Access, PermissionMode};
pub use tool_spec::ToolSpec;
