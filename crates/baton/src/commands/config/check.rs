//! `baton config check`: everything that is wrong in any settings file, with file and line.

use baton_config::{LayerError, Problem, Warning, problems};
use baton_core::Fault;
use baton_guard::path::escaped;
use baton_guard::secrets::Redactor;
use serde_json::json;

use super::{find, print};
use crate::Global;
use crate::exit::Exit;
use crate::settings::SECTIONS;

/// Check all settings files; every problem with file and line
#[derive(clap::Args)]
#[command(after_help = "Exit codes: 0 nothing is wrong · 2 something is")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let found = find(global)?;
    let mut all: Vec<Warning> = found.errors.iter().map(unreadable).collect();
    all.extend(problems(&found.config, &SECTIONS));
    let redactor = Redactor::new();
    for problem in &mut all {
        problem.message = redactor.redact_str(&problem.message).into_owned();
    }
    let text = if args.json {
        format!("{:#}", json!(all))
    } else if all.is_empty() {
        "nothing is wrong".to_owned()
    } else {
        all.iter().map(|problem| escaped(&problem.to_string())).collect::<Vec<_>>().join("\n")
    };
    print(&text)?;
    Ok(if all.is_empty() { Exit::Done } else { Exit::Input })
}

fn unreadable(error: &LayerError) -> Warning {
    let (place, message) = match error {
        LayerError::Unreadable { .. } => (None, error.to_string()),
        LayerError::Malformed { file, line, message } => (Some((file.clone(), *line)), message.clone()),
    };
    Warning { problem: Problem::Unreadable, key: String::new(), place, message }
}
