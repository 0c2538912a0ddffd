//! What an agent can do: the tool trait, the registry, the executor and the built-in tools.
//!
//! May use `baton-core`, `baton-config`, `baton-net` and `baton-guard`. Never knows models, sessions or surfaces:
//! a call comes in as a [`ToolUse`](baton_core::ToolUse), what came of it goes out as an [`Outcome`].
//!
//! To add a tool, copy a pair in `tools/`: `NAME.rs` is what it does, `NAME.md` is what the model reads.

mod background;
mod clean;
mod confinement;
pub mod edit_match;
mod executor;
mod fence;
mod image;
mod keep;
mod ledger;
mod outlet;
mod page;
pub mod patch;
mod process;
mod redacting;
mod registry;
mod regular;
mod save;
mod shape;
mod snapshot;
mod spool;
mod tool;
mod tools;
mod transaction;
mod typed;
mod workspace;

pub use background::{Background, BackgroundProcess};
pub use baton_guard::{Grant, Reach};
pub use confinement::{Confinement, Leave, RoleFiles};
pub use executor::Executor;
pub use fence::{Fence, PUT_BACK};
pub use image::{IMAGE_BYTES_MAX, check_image, image_type};
pub use outlet::{Outlet, vars as proxy_vars};
pub use process::{is_secret_name, kill_all_now, protect_memory};
pub use registry::Registry;
pub use snapshot::TakenBack;
pub use tool::{Ask, CallContext, Nobody, Outcome, Permit, Progress, Question, Reply, Tool};
pub use tools::{WebFetch, WebSettings};
pub use typed::{Typed, TypedTool};
pub use workspace::Workspace;

/// Runs file work off the async threads; a panic in it is the caller's.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
