//! `baton run`: starts workflows and looks after them.

mod conducting;
mod log;
mod show;
mod start;
mod status;
mod submit;
mod watch;

use std::path::{Path, PathBuf};

use baton_core::{Area, Fault, Tier};
use baton_store::{Journal, RunRow, Store, StoreError};
use baton_workflow::RunId;

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

/// The journal of the project, to look at it.
fn reading(setup: &Setup) -> Result<Store, Fault> {
    let file = database(setup)?;
    let store = Store::read(&file).map_err(|error| unusable(&error))?;
    store.ok_or_else(|| Fault::input("there are no runs in this project").hint("start one with `baton run start NAME`"))
}

/// The journal of the project, to write it; nothing if another process does.
fn writing(setup: &Setup) -> Result<Option<Store>, Fault> {
    match Store::open(&database(setup)?) {
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
    let hint = match error {
        StoreError::Held { .. } => {
            "wait until it has ended, or speak to its run with `baton run submit` and `baton run stop`"
        }
        StoreError::Newer { .. } => "use the newer Baton; nothing was changed",
        StoreError::Damaged { .. } | StoreError::Foreign(_) => "nothing was changed; move the file away to begin anew",
        _ => "is there room on the disk, and may it be written?",
    };
    Fault::new(Area::Workspace, Tier::UserFixable, error.to_string()).hint(hint)
}

/// The run that is meant: by its id or the end of it, else the last one that changed.
fn find(journal: &dyn Journal, name: Option<&str>) -> Result<RunRow, Fault> {
    let rows = journal.runs(None).map_err(|error| unusable(&error))?;
    let Some(name) = name else {
        let none = Fault::input("there are no runs in this project").hint("start one with `baton run start NAME`");
        return rows.into_iter().next().ok_or(none);
    };
    let fits = |row: &&RunRow| row.id.as_str() == name || row.id.as_str().ends_with(name);
    let mut found: Vec<&RunRow> = rows.iter().filter(fits).collect();
    match (found.pop(), found.as_slice()) {
        (Some(row), []) => Ok(row.clone()),
        (Some(_), _) => Err(Fault::input(format!("`{name}` can mean several runs")).hint("give more of the id")),
        (None, _) => inside(journal, &rows, name)?
            .ok_or_else(|| Fault::input(format!("there is no run `{name}`")).hint("`baton run status` lists them")),
    }
}

/// A run that is part of another one.
fn inside(journal: &dyn Journal, rows: &[RunRow], name: &str) -> Result<Option<RunRow>, Fault> {
    for row in rows {
        let inner = journal.runs(Some(&row.id)).map_err(|error| unusable(&error))?;
        if let Some(found) = inner.iter().find(|inner| inner.id.as_str() == name) {
            return Ok(Some(found.clone()));
        }
        if let Some(found) = inside(journal, &inner, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The outermost run that a run is part of.
fn root_of(journal: &dyn Journal, id: &RunId) -> Result<RunId, Fault> {
    let mut id = id.clone();
    while let Some(parent) = journal.run(&id).map_err(|error| unusable(&error))?.and_then(|standing| standing.parent) {
        id = parent;
    }
    Ok(id)
}

fn print(text: &str) -> Result<(), Fault> {
    use std::io::Write;
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))
}
