//! The binary: reads the command line, wires the crates together, and decides exit codes.

mod asking;
mod commands;
mod exit;
mod guarding;
mod keeping;
mod log;
mod planning;
mod rule_file;
mod rule_news;
mod screen;
mod settings;
mod settings_file;
mod setup;
mod staging;
mod trusting;

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use exit::Exit;

/// A fast terminal coding agent, and a conductor for teams of them.
#[derive(Parser)]
#[command(name = "baton", version, max_term_width = 100, arg_required_else_help = true, subcommand_required = true)]
#[command(after_help = "\
Examples:
  baton demo                                                  without a key and without a network
  baton exec --permission-mode auto \"fix the failing test\"    with a provider's key
")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(clap::Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Work in this directory
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
    /// Let the agent write to this directory, too (repeatable)
    #[arg(long, value_name = "DIR", global = true)]
    add_dir: Vec<PathBuf>,
    /// Tell on stderr what happens inside
    #[arg(long, global = true)]
    verbose: bool,
    /// Never use colour
    #[arg(long, global = true)]
    no_color: bool,
}

#[derive(Subcommand)]
enum Command {
    Exec(commands::exec::Args),
    Sessions(commands::sessions::Args),
    Demo(commands::demo::Args),
    Models(commands::models::Args),
    Auth(commands::auth::Args),
    Guard(commands::guard::Args),
    Trust(commands::trust::Args),
    Sandbox(commands::sandbox::Args),
    Undo(commands::undo::Args),
    Audit(commands::audit::Args),
    Config(commands::config::Args),
    Init(commands::init::Args),
    Workflow(commands::workflow::Args),
    Run(commands::run::Args),
    Doctor(commands::doctor::Args),
    Completions(commands::completions::Args),
    Dev(commands::dev::Args),
}

fn main() {
    // Started anew by itself to put a command into a sandbox: before there is a second thread.
    if let Some(code) = baton_guard::sandbox::helper_mode() {
        std::process::exit(code);
    }
    let cli = Cli::parse();
    // Commands of the agent could read our keys out of /proc otherwise; where it fails they still cannot inherit them.
    drop(baton_tools::protect_memory());
    if cli.global.no_color {
        anstream::ColorChoice::Never.write_global();
    }
    let outcome = match cli.command {
        Command::Exec(args) => commands::exec::run(&cli.global, &args),
        Command::Sessions(args) => commands::sessions::run(&cli.global, &args),
        Command::Demo(args) => commands::demo::run(&cli.global, &args),
        Command::Models(args) => commands::models::run(&cli.global, &args),
        Command::Auth(args) => commands::auth::run(&cli.global, args),
        Command::Guard(args) => commands::guard::run(&cli.global, &args),
        Command::Trust(args) => commands::trust::run(&cli.global, &args),
        Command::Sandbox(args) => commands::sandbox::run(&cli.global, &args),
        Command::Undo(args) => commands::undo::run(&cli.global, &args),
        Command::Audit(args) => commands::audit::run(&cli.global, args),
        Command::Config(args) => commands::config::run(&cli.global, &args),
        Command::Init(args) => commands::init::run(&cli.global, &args),
        Command::Workflow(args) => commands::workflow::run(&cli.global, &args),
        Command::Run(args) => commands::run::run(&cli.global, &args),
        Command::Doctor(args) => commands::doctor::run(&cli.global, &args),
        Command::Completions(args) => commands::completions::run(&args, &mut Cli::command()),
        Command::Dev(args) => commands::dev::run(&cli.global, args),
    };
    let exit = outcome.unwrap_or_else(|fault| {
        baton_headless::show_fault(&fault);
        Exit::from(&fault)
    });
    // Not by returning: a thread that waits for standard input must not keep the process alive.
    std::process::exit(exit.code())
}
