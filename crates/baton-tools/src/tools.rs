//! The built-in tools, one file each; the text the model reads about a tool is beside it.

mod bash;
mod edit;
mod glob;
mod grep;
mod ls;
mod read;
mod walk;
mod write;

pub(crate) use bash::Bash;
pub(crate) use edit::Edit;
pub(crate) use glob::Glob;
pub(crate) use grep::Grep;
pub(crate) use ls::Ls;
pub(crate) use read::Read;
pub(crate) use write::Write;
