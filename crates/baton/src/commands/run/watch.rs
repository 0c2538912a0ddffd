//! `baton run watch`: a run while others work on it.

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use baton_agent::SystemClock;
use baton_core::{Clock, Fault};

use super::choosing::{find, last};
use super::submit::exit_of;
use super::view::{Activity, Status, View};
use crate::Global;
use crate::exit::Exit;
use crate::screen::{self, Canvas};
use crate::setup::Setup;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(250);
/// What a terminal is taken for that does not say how large it is.
const SIZE: (usize, usize) = (80, 24);

/// Watch a run: state, role, retries, tokens, money, time
#[derive(clap::Args)]
#[command(after_help = "\
Ends when the run rests. Exit codes: 0 done · 3 failed or stopped · 4 escalated, a person is asked, or nobody works on
it any more (baton run resume) · 5 a cap is used up
")]
pub struct Args {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
    /// Print a line of JSON for each change, as `baton run status --json` does
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let view = View::new(&setup)?;
    let id = match &args.run {
        Some(name) => find(&view.store, name)?.id,
        None => last(&view.store)?.id,
    };
    let is_live = !args.json && std::io::stdout().is_terminal();
    let (mut canvas, mut shown) = (Canvas::default(), String::new());
    loop {
        // Time goes by on a screen; elsewhere only what changes is worth a line.
        let status = view.status(&id, is_live.then(|| SystemClock.now()))?;
        let text = if args.json { format!("{}\n", status.json()) } else { status.in_full() };
        let next = if is_live {
            canvas.draw(&text, screen::size().unwrap_or(SIZE))
        } else {
            (text != shown).then(|| text.clone())
        };
        shown = text;
        if let Some(next) = next {
            let mut out = std::io::stdout().lock();
            match out.write_all(next.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Done),
                written => written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?,
            }
        }
        if let Some(exit) = rests(&status) {
            return Ok(exit);
        }
        std::thread::sleep(EVERY);
    }
}

/// The exit code of a run at rest.
fn rests(status: &Status) -> Option<Exit> {
    match status.activity {
        Activity::Working => None,
        Activity::Over => status.run.end().map(exit_of),
        Activity::Parked => Some(Exit::Cap),
        Activity::Waiting | Activity::Interrupted => Some(Exit::NeedsPerson),
    }
}
