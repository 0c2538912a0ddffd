//! `baton run log`: everything that happened to a run, as the journal has it.

use baton_core::Fault;
use baton_store::{Journal, Recorded};
use baton_workflow::RunId;
use serde_json::json;

use super::status::event_in_words;
use super::{find, print, reading, unusable};
use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// How many events are read at once.
const AT_ONCE: usize = 1000;

/// Show what happened to a run: evidence, verifications, refusals, costs
#[derive(clap::Args)]
pub struct Args {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let store = reading(&setup)?;
    let row = find(&store, args.run.as_deref())?;
    let mut all = Vec::new();
    gather(&store, &row.id, &mut all)?;
    all.sort_by_key(|(_, recorded)| recorded.event.at);
    for (run, recorded) in &all {
        let event = &recorded.event;
        let line = if args.json {
            let mut line = json!({"run": run, "number": recorded.number, "at": event.at});
            let body = serde_json::to_value(&event.body).unwrap_or_default();
            if let (Some(line), Some(body)) = (line.as_object_mut(), body.as_object()) {
                line.extend(body.clone());
            }
            line.to_string()
        } else {
            let inner = run.as_str().strip_prefix(row.id.as_str()).unwrap_or_default();
            format!(
                "{} {}{}",
                event.at.strftime("%H:%M:%S"),
                if inner.is_empty() { String::new() } else { format!("{} ", inner.trim_start_matches('.')) },
                event_in_words(&event.body)
            )
        };
        print(&format!("{line}\n"))?;
    }
    Ok(Exit::Done)
}

/// The events of a run and of those inside it.
fn gather(journal: &dyn Journal, id: &RunId, all: &mut Vec<(RunId, Recorded)>) -> Result<(), Fault> {
    let mut from = 1;
    loop {
        let some = journal.events(id, from, AT_ONCE).map_err(|error| unusable(&error))?;
        let Some(last) = some.last() else { break };
        from = last.number + 1;
        all.extend(some.into_iter().map(|recorded| (id.clone(), recorded)));
    }
    for row in journal.runs(Some(id)).map_err(|error| unusable(&error))? {
        gather(journal, &row.id, all)?;
    }
    Ok(())
}
