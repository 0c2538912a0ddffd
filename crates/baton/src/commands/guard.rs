//! `baton guard`: what the guard would say, and what it would hide.

mod check;
mod redact;

use baton_core::Fault;

use crate::Global;
use crate::exit::Exit;

/// Try what the guard does; nothing is run
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Check(check::Args),
    Redact(redact::Args),
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    match &args.action {
        Action::Check(args) => check::run(global, args),
        Action::Redact(args) => redact::run(args),
    }
}
