//! `baton run`: starts workflows and looks after them.

mod choosing;
mod conducting;
mod log;
mod presence;
mod show;
mod start;
mod status;
mod submit;
mod view;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_core::{Area, Fault, Tier};
use baton_store::{Store, StoreError};

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

pub use show::Style;
pub use start::{Order, pair, start};

/// Run workflows: start, status, watch, log, submit, resume, stop
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Start(start::Args),
    Status(status::Args),
    Watch(watch::Args),
    Log(log::Args),
    Submit(submit::Args),
    Resume(submit::ResumeArgs),
    Stop(submit::StopArgs),
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    match &args.command {
        Command::Start(args) => start::run(global, args),
        Command::Status(args) => status::run(global, args),
        Command::Watch(args) => watch::run(global, args),
        Command::Log(args) => log::run(global, args),
        Command::Submit(args) => submit::run(global, args),
        Command::Resume(args) => submit::resume(global, args),
        Command::Stop(args) => submit::stop(global, args),
    }
}

/// The journal of the project, to look at it; nothing if there is none.
fn looking(setup: &Setup) -> Result<Option<Store>, Fault> {
    Store::read(&database(setup)?).map_err(|error| unusable(&error))
}

/// The same where there has to be one.
fn reading(setup: &Setup) -> Result<Store, Fault> {
    looking(setup)?.ok_or_else(choosing::none)
}

/// The journal of the project, to write it; nothing if another process does.
fn writing(setup: &Setup) -> Result<Option<Store>, Fault> {
    /// Whoever looks who writes it has it for a moment.
    const A_MOMENT: Duration = Duration::from_millis(20);
    let file = database(setup)?;
    let opened = match Store::open(&file) {
        Err(StoreError::Held { .. }) => {
            std::thread::sleep(A_MOMENT);
            Store::open(&file)
        }
        opened => opened,
    };
    match opened {
        Ok(store) => Ok(Some(store)),
        Err(StoreError::Held { .. }) => Ok(None),
        Err(error) => Err(unusable(&error)),
    }
}

fn database(setup: &Setup) -> Result<PathBuf, Fault> {
    Ok(setup.state_dir()?.join("baton.db"))
}

/// Where the process that conducts can be spoken to.
fn socket(setup: &Setup) -> Result<PathBuf, Fault> {
    Ok(socket_in(&setup.state_dir()?, setup.project.id.as_str()))
}

fn socket_in(state: &Path, project: &str) -> PathBuf {
    /// The system takes no longer name.
    const LENGTH_MAX: usize = 100;
    let file = state.join("conductor.sock");
    if file.as_os_str().len() <= LENGTH_MAX {
        return file;
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    runtime.join("baton").join(format!("{project}.sock"))
}

fn unusable(error: &StoreError) -> Fault {
    Fault::new(Area::Workspace, Tier::UserFixable, error.to_string()).hint(error.hint())
}

fn print(text: &str) -> Result<(), Fault> {
    use std::io::Write;
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))
}
