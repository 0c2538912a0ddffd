//! `baton guard`: what the guard would say, what it is to say from now on, and what it would hide.

mod add;
mod check;
mod redact;

use baton_core::Fault;

use crate::Global;
use crate::exit::Exit;

/// Try what the guard does, and keep rules for it; nothing is run
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Check(check::Args),
    Add(add::Args),
    Redact(redact::Args),
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    match &args.action {
        Action::Check(args) => check::run(global, args),
        Action::Add(args) => add::run(global, args),
        Action::Redact(args) => redact::run(args),
    }
}
