//! `baton run submit`, `resume` and `stop`: what a person says to a run.

use baton_conductor::Said;
use baton_core::{Fault, Tokens, Usd};
use baton_store::Journal;
use baton_workflow::{Caps, RunId};
use serde_json::{Map, Value};

use super::conducting::{Conducting, Spoken, speak};
use super::show::Style;
use super::start::repository;
use super::{find, reading, root_of, socket, writing};
use crate::Global;
use crate::exit::Exit;
use crate::setup::{Setup, block_on};

/// Answer a question of a run, or hand in the work of a role yourself
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  baton run submit --answer approved                       to the question of the last run
  baton run submit 7f3k -p test_file=tests/a.sh -p failure=\"exit 1\"     in place of the agent; work in its clone
                                                           (`baton run status --json` has its path)
")]
pub struct Args {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
    /// The answer to its question
    #[arg(long, value_name = "ANSWER", conflicts_with_all = ["fields", "file"])]
    answer: Option<String>,
    /// What else you say to it
    #[arg(long, requires = "answer")]
    comment: Option<String>,
    /// A field of the evidence; what is JSON is taken as such (repeatable)
    #[arg(short = 'p', long = "field", value_name = "NAME=VALUE", value_parser = field)]
    fields: Vec<(String, Value)>,
    /// All fields, as a JSON object in this file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "fields")]
    file: Option<std::path::PathBuf>,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
}

/// Go on with a run that was interrupted or has reached a cap
#[derive(clap::Args)]
pub struct ResumeArgs {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
    /// The tokens that the whole run may use from now on
    #[arg(long, value_name = "N")]
    max_tokens: Option<Tokens>,
    /// The dollars that the whole run may cost from now on
    #[arg(long, value_name = "X", value_parser = crate::commands::exec::parse_usd)]
    max_usd: Option<Usd>,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
}

/// Stop a run for good; its clone is kept
#[derive(clap::Args)]
pub struct StopArgs {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
    /// Why
    #[arg(long, default_value = "a person stopped it")]
    reason: String,
}

fn field(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let parsed = serde_json::from_str::<Value>(value).ok().filter(|value| !value.is_number());
    Ok((key.trim().to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// Runs `submit`.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let said = match (&args.answer, &args.file) {
        (Some(answer), _) => Said::Answer { answer: answer.clone(), comment: args.comment.clone().unwrap_or_default() },
        (None, Some(file)) => Said::Evidence { fields: read_fields(file)? },
        (None, None) => Said::Evidence { fields: args.fields.iter().cloned().collect() },
    };
    say(global, args.run.as_deref(), said, args.json)
}

/// Runs `resume`.
pub fn resume(global: &Global, args: &ResumeArgs) -> Result<Exit, Fault> {
    if args.max_tokens.is_some() || args.max_usd.is_some() {
        let caps = Caps { tokens: args.max_tokens, usd: args.max_usd };
        return say(global, args.run.as_deref(), Said::Raise { caps }, args.json);
    }
    let setup = Setup::new(global)?;
    let id = find(&reading(&setup)?, args.run.as_deref())?.id;
    go_on(setup, &id, None, args.json)
}

/// Runs `stop`.
pub fn stop(global: &Global, args: &StopArgs) -> Result<Exit, Fault> {
    say(global, args.run.as_deref(), Said::Stop { reason: args.reason.clone() }, false).map(|exit| match exit {
        // It is stopped, as was asked.
        Exit::Failed => Exit::Done,
        exit => exit,
    })
}

fn read_fields(file: &std::path::Path) -> Result<Map<String, Value>, Fault> {
    let unusable = |why: String| Fault::input(format!("cannot use the evidence in {}: {why}", file.display()));
    let text =
        if file.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    serde_json::from_str(&text.map_err(|error| unusable(error.to_string()))?)
        .map_err(|error| unusable(error.to_string()))
}

/// Says something to a run: to the process that conducts it, or by going on with it here.
fn say(global: &Global, name: Option<&str>, said: Said, as_json: bool) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let row = find(&reading(&setup)?, name)?;
    go_on(setup, &row.id, Some(said), as_json)
}

fn go_on(setup: Setup, id: &RunId, said: Option<Said>, as_json: bool) -> Result<Exit, Fault> {
    crate::log::start(&setup.state_dir()?, false, setup.redactor());
    let Some(store) = writing(&setup)? else {
        let socket = socket(&setup)?;
        let Some(said) = said else {
            anstream::eprintln!("another Baton conducts it already; `baton run watch` shows it");
            return Ok(Exit::Done);
        };
        let spoken = Spoken { run: waiting_inside(&reading(&setup)?, id)?, said };
        return block_on(async move { speak(&socket, &spoken).await.map(|()| Exit::Done) });
    };
    let (root, to) = (root_of(&store, id)?, waiting_inside(&store, id)?);
    let repository = repository(&setup.project.root)?;
    let style = if as_json { Style::Json } else { Style::Text };
    let to = if matches!(said, Some(Said::Stop { .. } | Said::Raise { .. })) { id.clone() } else { to };
    let conducting = Conducting::new(setup, store, repository, style)?;
    block_on(taken_up(conducting, root, said.map(|said| (to, said))))
}

/// Goes on with a run in this process.
pub(super) async fn taken_up(conducting: Conducting, root: RunId, said: Option<(RunId, Said)>) -> Result<Exit, Fault> {
    let id = root.clone();
    conducting
        .go_on(&root, |mut conductor, _, _| async move {
            match said {
                // What a person says comes before what is owed: it may make it superfluous.
                Some((to, said)) => conductor.take_up_saying(&id, &to, said).await?,
                None => conductor.take_up(&id).await?,
            }
            conductor.tell_resumed(&id);
            Ok(conductor)
        })
        .await
}

/// The run inside this one that waits for a person or an agent, if it is not this one itself.
fn waiting_inside(journal: &dyn Journal, id: &RunId) -> Result<RunId, Fault> {
    let rows = journal.runs(Some(id)).map_err(|error| super::unusable(&error))?;
    match rows.iter().find(|row| row.phase == "at" || row.phase == "parked") {
        Some(row) => waiting_inside(journal, &row.id),
        None => Ok(id.clone()),
    }
}
