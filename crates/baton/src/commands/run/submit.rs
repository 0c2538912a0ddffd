//! `baton run submit`, `resume` and `stop`: what a person says to a run.

use baton_conductor::Said;
use baton_core::{Fault, Tokens, Usd};
use baton_store::Journal;
use baton_workflow::{Caps, Definition, End, Fields, Kind, RunId, Wait};
use serde_json::{Map, Value};

use super::choosing::{last, root_of};
use super::conducting::{Conducting, Spoken, speak};
use super::show::{Style, one_line};
use super::start::{pair, repository};
use super::status::{ended, how_to_raise};
use super::view::{Activity, Status, View, is_waiting};
use super::{print, socket, unusable, writing};
use crate::Global;
use crate::exit::Exit;
use crate::setup::{Setup, block_on};

/// Answer a question of a run, or hand in the work of a role yourself
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  baton run submit --answer approved                       to the question of the last run that asks one
  baton run submit 7f3k -p test_file=tests/a.sh -p failure=\"exit 1\"     in place of the agent; work in its clone
                                                           (`baton run status --json` has its path)
")]
pub struct Args {
    /// The run; the end of its id is enough [default: the last one that waits for it]
    run: Option<String>,
    /// The answer to its question
    #[arg(long, value_name = "ANSWER", conflicts_with_all = ["fields", "file"])]
    answer: Option<String>,
    /// What else you say to it
    #[arg(long, requires = "answer")]
    comment: Option<String>,
    /// A field of the evidence, as the gate wants it; a list is given one item at a time, or as JSON (repeatable)
    #[arg(short = 'p', long = "field", value_name = "NAME=VALUE", value_parser = pair)]
    fields: Vec<(String, String)>,
    /// All fields, as a JSON object in this file; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "fields")]
    file: Option<std::path::PathBuf>,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
}

/// Go on with a run that was interrupted or has reached a cap
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes: as of `baton run start`; a run that is over says how it ended, by its code as well
")]
pub struct ResumeArgs {
    /// The run; the end of its id is enough [default: the last one that can go on]
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
    /// The run; the end of its id is enough [default: the last one that is not over]
    run: Option<String>,
    /// Why
    #[arg(long, default_value = "a person stopped it")]
    reason: String,
    /// Print JSON: the run as `baton run status --json` shows it
    #[arg(long)]
    json: bool,
}

/// Runs `submit`.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let view = View::new(&setup)?;
    let name = args.run.as_deref();
    let style = if args.json { Style::Json } else { Style::Text };
    if let Some(answer) = &args.answer {
        let said = Said::Answer { answer: answer.clone(), comment: args.comment.clone().unwrap_or_default() };
        let chosen = chosen(&view, name, asks, "nobody has asked anything: no run waits for an answer")?;
        let to = inner(&chosen, asks);
        let done = format!("{} has your answer; `baton run watch` shows what comes of it", to.run.id);
        return go_on(setup, &view, &to.run.id, Some(said), style, &done);
    }
    let chosen = chosen(&view, name, works, "no evidence is waited for: no agent of a run is at work")?;
    let to = inner(&chosen, works);
    let fields = match &args.file {
        Some(file) => read_fields(file)?,
        None => asked_of(&view, to)?.typed(&args.fields).map_err(|why| Fault::input(why.join("\n")))?,
    };
    let done = format!("{} has your evidence; `baton run watch` shows what comes of it", to.run.id);
    go_on(setup, &view, &to.run.id, Some(Said::Evidence { fields }), style, &done)
}

/// Runs `resume`.
pub fn resume(global: &Global, args: &ResumeArgs) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let view = View::new(&setup)?;
    let caps = Caps { tokens: args.max_tokens, usd: args.max_usd };
    let is_raised = caps != Caps::default();
    let can_go_on = |status: &Status| matches!(status.activity, Activity::Interrupted | Activity::Parked);
    let can_be_raised = |status: &Status| status.activity != Activity::Over;
    let found = view.chosen(args.run.as_deref(), if is_raised { can_be_raised } else { can_go_on })?;
    let status = found.map_or_else(|| other(&view), Ok)?;
    let (id, workflow) = (&status.run.id, &status.run.workflow);
    match (status.activity, status.run.end()) {
        (Activity::Over, Some(end)) => {
            anstream::eprintln!("{id} is over: {}", ended(end));
            anstream::eprintln!("  start another one with: baton run start {workflow} … --new");
            Ok(exit_of(end))
        }
        (Activity::Parked, _) if !is_raised => {
            anstream::eprintln!("{id} rests: {}", status.rests.as_deref().unwrap_or_default());
            anstream::eprintln!("  {}", how_to_raise(&status));
            Ok(Exit::Cap)
        }
        _ => {
            let style = if args.json { Style::Json } else { Style::Text };
            let said = is_raised.then_some(Said::Raise { caps });
            go_on(setup, &view, id, said, style, &format!("the cap of {id} is raised"))
        }
    }
}

/// What `resume` is about where nothing was interrupted and nothing rests: what is conducted or waits, else the last end.
fn other(view: &View) -> Result<Status, Fault> {
    let open = view.chosen(None, |status| status.activity != Activity::Over)?;
    open.map_or_else(|| view.status(&last(&view.store)?.id, None), Ok)
}

/// Runs `stop`.
pub fn stop(global: &Global, args: &StopArgs) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let view = View::new(&setup)?;
    let status = chosen(&view, args.run.as_deref(), |status| status.run.end().is_none(), "no run can be stopped")?;
    let id = &status.run.id;
    let said = Said::Stop { reason: args.reason.clone() };
    // What is around a part that is stopped goes on.
    let style = if root_of(&view.store, id)? == *id { Style::Quiet } else { Style::Text };
    if let signal @ Exit::Signal(_) = go_on(setup, &view, id, Some(said), style, "")? {
        return Ok(signal);
    }
    let stopped = view.status(id, None)?;
    if args.json {
        print(&format!("{}\n", stopped.json()))?;
    } else {
        let kept = stopped.clone.as_ref().map(|clone| format!("\n  its clone is kept: {clone}")).unwrap_or_default();
        let (workflow, was) = (&status.run.workflow, status.place());
        anstream::eprintln!("stopped {id} ({workflow}), which was at: {was}\n  why: {}{kept}", one_line(&args.reason));
    }
    Ok(Exit::Done)
}

/// The exit code of a run that has ended.
pub(super) fn exit_of(end: &End) -> Exit {
    match end {
        End::Done { .. } => Exit::Done,
        End::Escalated { .. } => Exit::NeedsPerson,
        End::Failed { .. } | End::Stopped { .. } => Exit::Failed,
    }
}

/// The run that something is said to. One that is over hears nothing.
fn chosen(view: &View, name: Option<&str>, fits: fn(&Status) -> bool, none: &str) -> Result<Status, Fault> {
    let Some(status) = view.chosen(name, fits)? else {
        return Err(Fault::input(none).hint(format!("there is: {}", view.what_there_is()?)));
    };
    match status.run.end() {
        Some(end) => {
            let message = format!("{} is at its end: {}", status.run.id, ended(end));
            Err(Fault::input(message).hint("`baton run status` lists the others"))
        }
        None => Ok(status),
    }
}

/// Whether a person is asked, in this run or inside it.
fn asks(status: &Status) -> bool {
    is_waiting(&status.run) || status.inside.iter().any(asks)
}

/// Whether an agent is at work or has asked for help, in this run or inside it: a person can do its work.
fn works(status: &Status) -> bool {
    let wait = status.run.visit().map(|visit| &visit.wait);
    let is_it = matches!(wait, Some(Wait::Agent { .. } | Wait::Help { .. }));
    is_it || status.inside.iter().any(works)
}

/// The innermost run that this is true of; the outermost if it is true of none.
fn inner(status: &Status, is_it: fn(&Status) -> bool) -> &Status {
    status.inside.iter().find(|inner| is_it(inner)).map_or(status, |found| inner(found, is_it))
}

/// The fields that the gate asks for at which a run is.
fn asked_of(view: &View, status: &Status) -> Result<Fields, Fault> {
    let run = &status.run;
    let pin = view.store.pin(&run.definition).map_err(|error| unusable(&error))?;
    let definition = pin.and_then(|pin| Definition::from_pin(&pin).ok());
    let workflow = definition.as_ref().and_then(|definition| definition.workflow(&run.workflow));
    let state = workflow.zip(run.visit()).and_then(|(workflow, visit)| workflow.state(&visit.state));
    let fields = state.and_then(|state| match &state.kind {
        Kind::Agent(work) => work.gate.fields().cloned(),
        _ => None,
    });
    Ok(fields.unwrap_or_default())
}

fn read_fields(file: &std::path::Path) -> Result<Map<String, Value>, Fault> {
    let unusable = |why: String| Fault::input(format!("cannot use the evidence in {}: {why}", file.display()));
    let text =
        if file.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    serde_json::from_str(&text.map_err(|error| unusable(error.to_string()))?)
        .map_err(|error| unusable(error.to_string()))
}

/// Goes on with a run here, or speaks to the process that conducts it and tells that it was `done`.
fn go_on(setup: Setup, view: &View, to: &RunId, said: Option<Said>, style: Style, done: &str) -> Result<Exit, Fault> {
    crate::log::start(&setup.state_dir()?, false, setup.redactor());
    let root = root_of(&view.store, to)?;
    let Some(store) = writing(&setup)? else {
        let presence = view.presence()?;
        let Some(said) = said.filter(|_| presence.conducts(&root)) else {
            return Err(presence.in_the_way(Some(&root)));
        };
        let (socket, spoken) = (socket(&setup)?, Spoken { run: to.clone(), said });
        block_on(async move { speak(&socket, &spoken).await })?;
        if !done.is_empty() {
            anstream::eprintln!("{done}");
        }
        return Ok(Exit::Done);
    };
    let repository = repository(&setup.project.root)?;
    let conducting = Conducting::new(setup, store, repository, style)?;
    block_on(taken_up(conducting, root, said.map(|said| (to.clone(), said))))
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
