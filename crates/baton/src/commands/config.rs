//! `baton config`: what is set, by whom, what is wrong with it, and changes that keep comments.

mod check;
mod explain;
mod set;

use std::io::Write;

use baton_config::{Config, LayerError};
use baton_core::Fault;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use serde_json::Value;

use crate::Global;
use crate::exit::Exit;
use crate::settings::{self, SECTIONS};
use crate::setup::locate;
use crate::trusting::Standing;

/// Explain, check and change settings
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  baton config explain limits                 what is set, by which file and line, and what that overrode
  baton config check                          everything that is wrong in any settings file
  baton config set limits.usd 5               in your own settings; comments and layout stay
  baton config set --project model x/y        in .baton/config.jsonc, which is committed
  baton config schema > baton.schema.json     for editors: \"$schema\": \"./baton.schema.json\"
")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Explain(explain::Args),
    Check(check::Args),
    Set(set::Args),
    Unset(set::UnsetArgs),
    /// Print one JSON Schema of all settings, for editors
    Schema,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    match &args.action {
        Action::Explain(args) => explain::run(global, args),
        Action::Check(args) => check::run(global, args),
        Action::Set(args) => set::run(global, args),
        Action::Unset(args) => set::run_unset(global, args),
        Action::Schema => print(&format!("{:#}", baton_config::schema(&SECTIONS))),
    }
}

/// The settings as they are, also where something is wrong with them.
struct Found {
    config: Config,
    /// The files that cannot be used.
    errors: Vec<LayerError>,
}

fn find(global: &Global) -> Result<Found, Fault> {
    let (places, _, project) = locate(global.dir.as_deref())?;
    let trust = Standing::find(&project, &places, false)?;
    let (config, errors) = settings::sources(&places, &project).read(trust.is_trusted());
    Ok(Found { config, errors })
}

fn print(text: &str) -> Result<Exit, Fault> {
    let mut out = anstream::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(Exit::Done)
}

/// A value in one line of JSON.
fn shown(value: Option<&Value>) -> String {
    match value {
        None => "(set; not shown)".to_owned(),
        Some(Value::Null) => "-".to_owned(),
        Some(value) => value.to_string(),
    }
}

/// Takes any key, and completes those that are known.
#[derive(Clone)]
struct KeyParser;

impl TypedValueParser for KeyParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(baton_config::known_keys(&SECTIONS).into_iter().map(PossibleValue::new)))
    }
}
