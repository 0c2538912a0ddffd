//! `baton run start`: a new run, or one that was interrupted and is the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_agent::RandomIds;
use baton_conductor::{Facts, Library, Preparation, RunClone};
use baton_core::{Area, Fault, IdSource, Tier};
use baton_store::{Journal, Store};
use baton_workflow::{Definition, Params, RunId};

use super::conducting::Conducting;
use super::presence::Presence;
use super::show::Style;
use super::{database, unusable, writing};
use crate::Global;
use crate::commands::workflow::{in_words, load_named, most};
use crate::exit::Exit;
use crate::setup::{Setup, block_on};

/// Start a workflow and wait until it has ended or needs a person
#[derive(clap::Args)]
#[command(after_help = "\
A run works in a clone of its own, outside of the repository; its result comes back as one branch. Your
working tree, index and stash stay as they are. Whatever is interrupted goes on where it was.

Examples:
  baton run start tdd-ping-pong -p scenario=\"an empty title gives an empty slug\"
  baton run start hello -p who=you -m script/answers.jsonl      rehearsed: one script plays every role

Exit codes: 0 done · 3 ended in a failure state, or the base is red · 4 escalated, or a person is asked
  5 a cap was reached · 6 the provider refuses · 8 the repository or the disk cannot be used ·
  130 interrupted (after 5, 6, 8 and 130: baton run resume)
")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// The workflow, by name or as a file
    name: String,
    /// A parameter of it; a list is given one item at a time (repeatable)
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// The model that plays every role which names none; script/FILE rehearses
    #[arg(short, long)]
    pub(super) model: Option<String>,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
    /// Wait until the run rests; this is how it is
    #[arg(long, hide = true)]
    wait: bool,
    /// Start another run, even if the same one was interrupted
    #[arg(long)]
    new: bool,
    /// Trust this repository as it is now, for this run
    #[arg(long)]
    trust: bool,
}

/// A parameter as it is typed.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::vouched(global, args.trust)?;
    let style = if args.json { Style::Json } else { Style::Text };
    let order = Order {
        name: &args.name,
        params: &args.params,
        model: args.model.as_deref(),
        is_new: args.new,
        is_rehearsal: false,
        is_passing: false,
    };
    start(setup, &order, style)
}

/// What is to be run.
pub struct Order<'a> {
    /// The workflow.
    pub name: &'a str,
    /// Its parameters.
    pub params: &'a [(String, String)],
    /// The model.
    pub model: Option<&'a str>,
    /// Whether one that was interrupted is left alone.
    pub is_new: bool,
    /// Whether it is only rehearsed: it brings no branch back.
    pub is_rehearsal: bool,
    /// Whether it is kept elsewhere than other runs, or not at all: `baton run` does not find it.
    pub is_passing: bool,
}

/// Starts a run and waits until it rests.
pub fn start(setup: Setup, order: &Order<'_>, style: Style) -> Result<Exit, Fault> {
    crate::log::start(&setup.state_dir()?, false, setup.redactor());
    // Whoever says --trust knows it.
    if let Some(notice) = setup.trust.notice().filter(|_| !setup.trust.is_vouched_for()) {
        anstream::eprintln!("{notice}");
    }
    let (library, definition) = load_named(&setup, order.name)?;
    let types = definition.main().map(|main| main.params.clone()).unwrap_or_default();
    // They are written down, and become part of what models are told.
    let redactor = setup.redactor();
    let clean = |(key, value): &(String, String)| (key.clone(), redactor.redact_str(value).into_owned());
    let given: Vec<_> = order.params.iter().map(clean).collect();
    if given != order.params {
        anstream::eprintln!("secrets were taken out of the parameters");
    }
    let params = Params::typed(&types, &given).map_err(|problems| Fault::input(problems.join("\n")))?;
    let repository = repository(&setup.project.root)?;
    let Some(store) = writing(&setup)? else {
        return Err(Presence::of(&database(&setup)?)?.in_the_way(None));
    };
    sweep(&setup.state_dir()?.join("clones"), &repository, &store)?;
    if let Some(known) = interrupted(&store, &definition, &params, order.model)?.filter(|_| !order.is_new) {
        let conducting = Conducting::new(setup, store, repository, style)?.passing(order.is_passing);
        anstream::eprintln!("run {known} of the same was interrupted: it goes on (--new starts another)");
        return block_on(super::submit::taken_up(conducting, known, None));
    }
    let base = RunClone::head_of(&repository).ok_or_else(|| {
        Fault::new(Area::Workspace, Tier::UserFixable, format!("{} has no commit to start from", repository.display()))
            .hint("commit what there is: git add -A && git commit")
    })?;
    if style == Style::Text {
        anstream::eprintln!("{}: {}", definition.pin().workflow, in_words(&most(&setup, &definition)));
    }
    mention_uncommitted(&repository);
    let id = RunId::new(format!("run_{}", RandomIds::default().fresh().to_string().to_lowercase()));
    let facts = facts(&setup, &library, &definition, &repository, order, &base, &id)?;
    let project = definition.project().clone();
    let main = definition.main();
    let expects_red = main.is_some_and(|main| main.expects_red_base);
    let given = main.and_then(|main| main.params.keys().find(|name| name.as_str() == "test").cloned());
    let given = given.and_then(|name| params.get(&name).and_then(|value| value.as_str().map(str::to_owned)));
    let test = given.or(project.test.clone()).filter(|_| !expects_red);
    let conducting = Conducting::new(setup, store, repository, style)?.passing(order.is_passing);
    for role in definition.workflows().flat_map(|workflow| workflow.roles.values()) {
        let of_agent = library.agent(&role.agent).and_then(Result::ok).and_then(|agent| agent.model);
        let model = role.model.as_deref().or(order.model).or(of_agent.as_deref());
        conducting.stage.check_model(model)?;
    }
    let preparation = Preparation {
        run: id.clone(),
        clone: conducting.conductor().clone_of(&id),
        base,
        setup: project.setup.clone(),
        test,
        caches: facts.caches.clone(),
    };
    block_on(async move {
        let stage = std::sync::Arc::clone(&conducting.stage);
        let root = id.clone();
        conducting
            .go_on(&root, |mut conductor, reports, stop| async move {
                let clone = preparation.clone.clone();
                let prepared = preparation.carry_out(stage, &reports, &baton_agent::SystemClock, &stop).await;
                if let Err(fault) = prepared {
                    // Nothing has begun, so nothing is kept.
                    drop(clone.remove(&id));
                    return Err(fault.into());
                }
                conductor.start(&id, definition, params, facts).await?;
                Ok(conductor)
            })
            .await
    })
}

/// The repository of a project, from its top.
pub fn repository(root: &Path) -> Result<PathBuf, Fault> {
    let top = RunClone::top_of(root).ok_or_else(|| {
        Fault::new(Area::Workspace, Tier::UserFixable, format!("{} is not in a git repository", root.display()))
            .hint("a run works in a clone, so it needs one: git init && git add -A && git commit")
    })?;
    Ok(top)
}

fn mention_uncommitted(repository: &Path) {
    if let Ok(files) = RunClone::uncommitted(repository)
        && let Some(first) = files.first()
    {
        let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
        anstream::eprintln!("what you have not committed stays as it is, and is not part of the run: {first}{more}");
    }
}

/// Removes clones of runs that never began: Baton was killed while it prepared them. Nobody else does so now.
fn sweep(clones: &Path, repository: &Path, store: &Store) -> Result<(), Fault> {
    for entry in std::fs::read_dir(clones).into_iter().flatten().flatten() {
        let (id, clone) =
            (RunId::new(entry.file_name().to_string_lossy()), RunClone::new(entry.path(), repository.to_owned()));
        // One in which somebody worked stays, also if the journal was lost.
        if clone.is_untouched() && store.run(&id).map_err(|error| unusable(&error))?.is_none() {
            // What cannot be removed is tried again at the next start.
            drop(clone.remove(&id));
        }
    }
    Ok(())
}

/// A run of the same definition, parameters and model that is not at its end.
fn interrupted(
    store: &Store,
    definition: &Definition,
    params: &Params,
    model: Option<&str>,
) -> Result<Option<RunId>, Fault> {
    let rows = store.runs(None).map_err(|error| unusable(&error))?;
    let open = rows.into_iter().filter(|row| row.phase == "at" && row.definition == *definition.hash());
    for row in open {
        let Some(standing) = store.run(&row.id).map_err(|error| unusable(&error))? else { continue };
        let is_same_model = standing.facts["model"].as_str() == model;
        if standing.run.params == *params && is_same_model && !super::status::is_waiting(&standing.run) {
            return Ok(Some(row.id));
        }
    }
    Ok(None)
}

fn facts(
    setup: &Setup,
    library: &Library,
    definition: &Definition,
    repository: &Path,
    order: &Order<'_>,
    base: &str,
    id: &RunId,
) -> Result<Facts, Fault> {
    let roles = || definition.workflows().flat_map(|workflow| workflow.roles.values());
    let agents = roles().filter_map(|role| Some((role.agent.to_string(), library.agent_text(&role.agent)?.to_owned())));
    let agents: BTreeMap<String, String> = agents.collect();
    let mut personas = BTreeMap::new();
    for file in roles().filter_map(|role| role.persona.clone()) {
        let path = setup.project.root.join(&file);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Fault::input(format!("cannot read the persona {}: {error}", path.display())))?;
        personas.insert(file, text);
    }
    let short: String = id.as_str().chars().rev().take(6).collect::<Vec<_>>().into_iter().rev().collect();
    Ok(Facts {
        base: base.to_owned(),
        branch: (!order.is_rehearsal).then(|| format!("baton/{}-{short}", definition.pin().workflow)),
        model: order.model.map(str::to_owned),
        identity: RunClone::identity(repository),
        agents,
        personas,
        caches: definition.project().caches.clone(),
    })
}
