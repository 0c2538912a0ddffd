//! `baton completions`: tab completion for shells.

use std::io::Write;

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
pub fn run(args: &Args, cli: &mut clap::Command) -> Result<Exit, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, cli, "baton", &mut script);
    std::io::stdout()
        .write_all(&script)
        .map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(Exit::Done)
}
