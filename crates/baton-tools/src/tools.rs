//! The built-in tools, one file each; the text the model reads about a tool is beside it.

mod apply_patch;
mod ask_user;
mod bash;
mod bash_background;
mod edit;
mod glob;
mod grep;
mod ls;
mod multi_edit;
mod read;
mod todo;
mod walk;
mod web_fetch;
mod write;

pub(crate) use apply_patch::ApplyPatch;
pub(crate) use ask_user::AskUser;
pub(crate) use bash::Bash;
pub(crate) use bash_background::BashBackground;
pub(crate) use edit::Edit;
pub(crate) use glob::Glob;
pub(crate) use grep::Grep;
pub(crate) use ls::Ls;
pub(crate) use multi_edit::MultiEdit;
pub(crate) use read::Read;
pub(crate) use todo::Todo;
pub use web_fetch::{WebFetch, WebSettings};
pub(crate) use write::Write;
