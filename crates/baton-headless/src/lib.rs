//! Baton without a screen: `exec` and its output formats, and the scripted model server.
//!
//! May use `baton-agent` and everything below it. It must never choose an exit code: it tells how a
//! turn ended, and the binary decides.

mod anthropic_form;
mod exec;
mod input;
pub mod model_server;
mod output;
mod signals;

pub use exec::{Finish, exec};
pub use input::{Input, gather};
pub use output::{Format, Replay, show_fault};
pub use signals::{Signal, Signals};
