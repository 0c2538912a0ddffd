//! `baton sessions export` and `import`: sessions are carried elsewhere, and come from there.
use baton_core::Fault;
use super::Here;
use crate::{Global, exit::Exit};
#[derive(clap::Args)]
pub struct ExportArgs {}
#[derive(clap::Args)]
pub struct ImportArgs {}
pub fn export(_: &Global, _: &Here, _: &ExportArgs) -> Result<Exit, Fault> { Ok(Exit::Done) }
pub fn import(_: &Here, _: &ImportArgs) -> Result<Exit, Fault> { Ok(Exit::Done) }
