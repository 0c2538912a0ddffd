//! `baton completions`: tab completion for shells.

use baton_core::Fault;
use clap_complete::Shell;

use crate::exit::Exit;

/// Print tab completion for a shell
#[derive(clap::Args)]
#[command(after_help = "Example:\n  baton completions bash > ~/.local/share/bash-completion/completions/baton\n")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the command.
#[expect(clippy::unnecessary_wraps, reason = "commands have one shape")]
pub fn run(args: &Args, cli: &mut clap::Command) -> Result<Exit, Fault> {
    clap_complete::generate(args.shell, cli, "baton", &mut std::io::stdout());
    Ok(Exit::Done)
}
