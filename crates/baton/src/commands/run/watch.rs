//! `baton run watch`: a run while others work on it.

use std::time::Duration;

use baton_core::Fault;
use baton_store::Journal;
use baton_workflow::{End, Phase};

use super::status::{Status, is_waiting};
use super::{find, reading, unusable};
use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(250);

/// Watch a run: state, role, retries, tokens, money, time
#[derive(clap::Args)]
pub struct Args {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    use std::io::{IsTerminal, Write};
    let setup = Setup::new(global)?;
    let store = reading(&setup)?;
    let id = find(&store, args.run.as_deref())?.id;
    let clones = setup.state_dir()?.join("clones");
    let is_live = std::io::stdout().is_terminal();
    let (mut shown, mut lines) = (String::new(), 0);
    loop {
        let standing = store.run(&id).map_err(|error| unusable(&error))?;
        let Some(standing) = standing else { return Err(Fault::input(format!("there is no run `{id}`"))) };
        let status = Status::of(&store, &standing, &clones)?;
        let text = status.in_full();
        if text != shown {
            let mut out = std::io::stdout().lock();
            if is_live && lines > 0 {
                // Over what was there before.
                drop(write!(out, "\x1b[{lines}A\x1b[J"));
            }
            drop(write!(out, "{text}"));
            drop(out.flush());
            lines = text.lines().count();
            shown = text;
        }
        if let Some(exit) = rests(&status) {
            return Ok(exit);
        }
        std::thread::sleep(EVERY);
    }
}

/// The exit code of a run at rest.
fn rests(status: &Status) -> Option<Exit> {
    match (&status.run().phase, &status.innermost().run().phase) {
        (Phase::Ended { end }, _) => Some(match end {
            End::Done { .. } => Exit::Done,
            End::Escalated { .. } => Exit::NeedsPerson,
            End::Failed { .. } | End::Stopped { .. } => Exit::Failed,
        }),
        (Phase::Parked(_), _) | (_, Phase::Parked(_)) => Some(Exit::Cap),
        _ if is_waiting(status.innermost().run()) => Some(Exit::NeedsPerson),
        _ => None,
    }
}
