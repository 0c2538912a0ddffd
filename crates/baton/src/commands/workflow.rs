//! `baton workflow`: which workflows there are, whether they hold, and how they look.

use std::io::Write;
use std::path::Path;

use baton_agent::{RandomIds, SystemClock};
use baton_conductor::{Library, Origin, RunClone, Shelved};
use baton_core::{Fault, Price};
use baton_llm::Models;
use baton_workflow::{
    Bound, Definition, Problem, RoleName, RunId, Workflow, WorkflowName, bound, dot, mermaid, picture,
};
use serde_json::{Value, json};

use crate::Global;
use crate::commands::run::{Order, Style, start};
use crate::exit::Exit;
use crate::setup::Setup;

/// How wide a picture is where nobody says how wide the terminal is.
const COLUMNS: usize = 100;

/// Look at workflows: list, check, graph
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the workflows that can be named, and where they are from
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check and prove workflows: every mistake with its line, and the most that a run can take
    #[command(after_help = "\
A definition is read without running anything. What is proved: every state can reach an end, every wait
has a timer and an owner, no gate blocks the only role that could pass it, every cycle has a budget.
Exit code 2 if something is wrong.
")]
    Check {
        /// Workflows, by name or as files [default: all]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Play a workflow with a scripted model, on a copy of this repository: nothing is left of it
    #[command(after_help = "\
The script has the answers of every role, a JSON object each line; `role` chooses who gives it:
  {\"role\": \"ping\", \"call\": [{\"tool\": \"write\", \"input\": {\"path\": \"tests/a.sh\", \"content\": \"...\"}}]}
Everything but the model is real: tools, sandbox, scopes, gates. Exit codes as of `baton run start`.
")]
    Rehearse {
        /// The workflow, by name or as a file
        name: String,
        /// The script
        #[arg(short, long, value_name = "FILE")]
        script: std::path::PathBuf,
        /// A parameter of it (repeatable)
        #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = crate::commands::run::pair)]
        params: Vec<(String, String)>,
        /// Print events as JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Show a workflow as a picture
    Graph {
        /// The workflow, by name or as a file
        name: String,
        /// How: a picture for the terminal, Mermaid, or DOT for Graphviz
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Print JSON: each workflow of it, for Mermaid and for Graphviz
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Format {
    #[default]
    Picture,
    Mermaid,
    Dot,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    if let Command::Rehearse { name, script, params, json } = &args.command {
        return rehearse(global, name, script, params, *json);
    }
    let setup = Setup::new(global)?;
    let library = Library::find(&setup.places.config_dir, Some(&setup.project.root))
        .map_err(|error| Fault::input(format!("cannot read definitions: {error}")))?;
    let (text, exit) = match &args.command {
        Command::List { json } => (list(&setup, &library, *json), Exit::Done),
        Command::Check { names, json } => check(&setup, &library, names, *json)?,
        Command::Graph { name, format, json } => (graph(&setup, &library, name, *format, *json)?, Exit::Done),
        Command::Rehearse { .. } => (String::new(), Exit::Done),
    };
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(exit)
}

/// Plays a workflow on a copy of the repository, with a state of its own, and leaves nothing behind.
fn rehearse(
    global: &Global,
    name: &str,
    script: &Path,
    params: &[(String, String)],
    as_json: bool,
) -> Result<Exit, Fault> {
    let mut setup = Setup::new(global)?;
    let unusable = |error: std::io::Error| Fault::input(format!("cannot rehearse: {error}"));
    let script = setup.cwd.join(script).canonicalize();
    let script = script.map_err(|error| Fault::input(format!("cannot read the script: {error}")))?;
    let stage = tempfile::Builder::new().prefix("baton-rehearsal-").tempdir().map_err(unusable)?;
    setup.places.state_dir = stage.path().canonicalize().map_err(unusable)?.join("state");
    let model = format!("script/{}", script.display());
    let order = Order { name, params, model: Some(&model), is_new: true, is_rehearsal: true, is_passing: true };
    let (repository, clones) = (setup.project.root.clone(), setup.state_dir()?.join("clones"));
    let exit = start(setup, &order, if as_json { Style::Json } else { Style::Text });
    for clone in std::fs::read_dir(&clones).into_iter().flatten().flatten() {
        // What is left of one that did not end well; the directory goes anyway.
        let run = RunId::new(clone.file_name().to_string_lossy());
        drop(RunClone::new(clone.path(), repository.clone()).remove(&run));
    }
    exit
}

fn list(setup: &Setup, library: &Library, as_json: bool) -> String {
    let loaded: Vec<_> =
        library.workflows().map(|(name, shelved)| (name, shelved, load(setup, library, name))).collect();
    if as_json {
        let row = |(name, shelved, loaded): &(&str, &Shelved, Loaded)| {
            let about = loaded.as_ref().ok().and_then(Definition::main).map(|main| main.about.clone());
            let problems = loaded.as_ref().err().map_or(0, Vec::len);
            json!({"name": name, "about": about, "origin": shelved.origin, "shadows": shelved.shadows, "problems": problems})
        };
        return lines(&loaded.iter().map(row).collect::<Vec<_>>());
    }
    let width = loaded.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let row = |(name, shelved, loaded): &(&str, &Shelved, Loaded)| {
        let about = match loaded {
            Ok(definition) => definition.main().map(|main| main.about.clone()).unwrap_or_default(),
            Err(problems) => format!("does not hold: {} (`baton workflow check {name}`)", counted(problems.len())),
        };
        let origin = match &shelved.origin {
            Origin::Shipped => String::new(),
            other => format!("  [{other}]"),
        };
        format!("{name:width$}  {about}{origin}\n")
    };
    loaded.iter().map(row).collect::<Vec<_>>().concat()
}

type Loaded = Result<Definition, Vec<Problem>>;

fn load(setup: &Setup, library: &Library, name: &str) -> Loaded {
    let name = WorkflowName::parse(name).map_err(|error| {
        let at = baton_workflow::Pos { file: format!("{name}.star").into(), line: 1 };
        vec![Problem { at, message: error.to_string(), hint: None, path: Vec::new() }]
    })?;
    library.load(&name, setup.definitions.0.clone())
}

/// The library with a file that was named as such, and the name of its workflow.
fn named(library: &Library, name: &str, cwd: &Path) -> Result<(Library, String), Fault> {
    if library.workflow(name).is_some() {
        return Ok((library.clone(), name.to_owned()));
    }
    let file = cwd.join(name);
    if !file.is_file() {
        let known = library.workflows().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        return Err(
            Fault::input(format!("there is no workflow `{name}`")).hint(format!("there is: {known}; or name a file"))
        );
    }
    let mut library = library.clone();
    let name = library.add(&file).map_err(|error| Fault::input(format!("cannot read {error}")))?;
    Ok((library, name))
}

fn check(setup: &Setup, library: &Library, names: &[String], as_json: bool) -> Result<(String, Exit), Fault> {
    let all: Vec<String> = library.workflows().map(|(name, _)| name.to_owned()).collect();
    let names = if names.is_empty() { &all } else { names };
    let prices = Prices::new(setup);
    let (mut rows, mut said, mut holds) = (Vec::new(), Vec::new(), true);
    for name in names {
        let (library, name) = named(library, name, &setup.cwd)?;
        match load(setup, &library, &name) {
            Ok(definition) => {
                let most = bound(&definition, &|workflow, role| prices.of(workflow, role));
                said.push(format!("{name}: holds; {}\n", in_words(&most)));
                rows.push(json!({"name": name, "holds": true, "hash": definition.hash().as_str(), "bound": most}));
            }
            Err(problems) => {
                holds = false;
                said.extend(problems.iter().map(|problem| format!("{problem}\n")));
                said.push(format!("{name}: {}\n", counted(problems.len())));
                rows.push(json!({"name": name, "holds": false, "problems": problems}));
            }
        }
    }
    let text = if as_json { lines(&rows) } else { said.concat() };
    Ok((text, if holds { Exit::Done } else { Exit::Input }))
}

fn graph(setup: &Setup, library: &Library, name: &str, format: Format, as_json: bool) -> Result<String, Fault> {
    let (library, name) = named(library, name, &setup.cwd)?;
    let definition = load(setup, &library, &name).map_err(|problems| does_not_hold(&name, &problems))?;
    if as_json {
        let row = |workflow: &Workflow| json!({"workflow": workflow.name, "mermaid": mermaid(workflow), "dot": dot(workflow)});
        return Ok(lines(&definition.workflows().map(row).collect::<Vec<_>>()));
    }
    let columns = terminal_columns();
    let drawn = definition.workflows().map(|workflow| match format {
        Format::Picture => format!("{}\n\n{}\n", workflow.name, picture(workflow, columns)),
        Format::Mermaid => mermaid(workflow),
        Format::Dot => dot(workflow),
    });
    Ok(drawn.collect())
}

/// The definition of this name or file, with the library that it is from. What the project has counts where it is trusted.
pub fn load_named(setup: &Setup, name: &str) -> Result<(Library, Definition), Fault> {
    let project = setup.trust.is_trusted().then_some(setup.project.root.as_path());
    let library = Library::find(&setup.places.config_dir, project)
        .map_err(|error| Fault::input(format!("cannot read definitions: {error}")))?;
    if project.is_none() && library.workflow(name).is_none() && is_of_project(setup, name) {
        let message = format!("the workflow `{name}` is the project's, and the project is not trusted");
        return Err(
            Fault::input(message).hint("look at it and say `baton trust`; `baton run start --trust` is for one run")
        );
    }
    let (library, name) = named(&library, name, &setup.cwd)?;
    let definition = load(setup, &library, &name).map_err(|problems| does_not_hold(&name, &problems))?;
    Ok((library, definition))
}

/// Whether a name, or a file that is named, is among what a project is trusted for. Another file that a person names is
/// their own choice.
fn is_of_project(setup: &Setup, name: &str) -> bool {
    let own = setup.project.root.join(".baton");
    let real = |path: &Path| path.canonicalize().ok();
    let is_inside = || real(&setup.cwd.join(name)).zip(real(&own)).is_some_and(|(file, own)| file.starts_with(own));
    own.join("workflows").join(format!("{name}.star")).is_file() || is_inside()
}

fn does_not_hold(name: &str, problems: &[Problem]) -> Fault {
    let shown = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    Fault::input(format!("{name} does not hold:\n{shown}"))
}

/// The most that a run can take.
pub fn most(setup: &Setup, definition: &Definition) -> Bound {
    let prices = Prices::new(setup);
    bound(definition, &|workflow, role| prices.of(workflow, role))
}

fn terminal_columns() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let real = || crate::screen::size().map(|(columns, _)| columns);
    asked.filter(|columns| *columns > 0).or_else(real).unwrap_or(COLUMNS)
}

fn counted(problems: usize) -> String {
    if problems == 1 { "1 mistake".to_owned() } else { format!("{problems} mistakes") }
}

/// An upper bound for people.
pub fn in_words(most: &Bound) -> String {
    let money = most.usd.map(|usd| format!(" and {usd}")).unwrap_or_default();
    format!("a run takes at most {} steps, {} tokens{money}", most.steps, most.tokens)
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect::<Vec<_>>().concat()
}

/// What models charge, as far as that is known.
struct Prices(Option<Price>);

impl Prices {
    fn new(setup: &Setup) -> Self {
        let models =
            Models::new(setup.llm.clone(), std::sync::Arc::new(SystemClock), std::sync::Arc::new(RandomIds::default()));
        let env = |name: &str| setup.env(name);
        let chosen = models.resolve(setup.model.0.as_deref(), &env).ok();
        let priced = chosen.and_then(|chosen| {
            let mut known = models.catalogue().iter();
            known.find(|(model, _)| model.provider == chosen.provider && model.name == chosen.name)?.1.price
        });
        Self(priced)
    }

    /// Roles that name a model of their own are not priced here: it may not be there.
    fn of(&self, workflow: &Workflow, role: &RoleName) -> Option<Price> {
        self.0.filter(|_| workflow.roles.get(role).is_some_and(|role| role.model.is_none()))
    }
}
