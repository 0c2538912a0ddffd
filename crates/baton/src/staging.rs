//! Wiring of runs: the conversations and workshops that a conductor asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_agent::{Environment, Lookup, Options, RandomIds, SystemClock, TurnLimits, find_instructions, opening};
use baton_conductor::{Part, Stage};
use baton_core::{AgentRole, Area, Clock, EventSource, Fault, IdSource, PermissionMode, SessionId, Tier};
use baton_guard::path::Pattern;
use baton_guard::{PathGuard, Scope};
use baton_llm::{Budget, Caps, Gate, LlmError, Models, Opened, Tape};
use baton_session::History;
use baton_tools::{Confinement, Executor, Reach, Registry, Typed, WebFetch, Workspace};

use crate::guarding::Guarding;
use crate::setup::{Setup, clean};

/// Makes what runs need from the person's settings.
pub struct Staging {
    setup: Setup,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    gate: Arc<Gate>,
    /// Money and tokens of the settings, for all agents together.
    process: Budget,
}

impl Staging {
    /// From settings that are read.
    pub fn new(setup: Setup) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let gate = Arc::new(Gate::new(setup.llm.retry.clone(), Arc::clone(&clock)));
        let caps = Caps { tokens: setup.limits.tokens, usd: setup.limits.usd };
        Self { process: Budget::new("process", caps), setup, clock, ids: Arc::new(RandomIds::default()), gate }
    }

    /// Says before anything is done that a model cannot be used: for want of a key, or because there is none of its name.
    pub fn check_model(&self, model: Option<&str>) -> Result<(), Fault> {
        let setup = &self.setup;
        let models = Models::new(setup.llm.clone(), Arc::clone(&self.clock), Arc::clone(&self.ids));
        let env = |name: &str| setup.env(name);
        let fault = |error: LlmError| error.fault();
        let name = models.resolve(model.or(setup.model.0.as_deref()), &env).map_err(fault)?;
        let tape = Tape { record: None, marks: setup.marks(&env)? };
        models.open(name, &self.gate, &setup.cwd, &env, tape).map_err(fault).map(drop)
    }

    /// What keeps commands in. Nothing runs in a run without it.
    fn confinement(&self) -> Result<Confinement, Fault> {
        let asked = Some(PermissionMode::Auto);
        let Guarding { confinement, .. } = self.setup.guarding(asked, self.setup.begin_guarding(asked))?;
        confinement.ok_or_else(|| Fault::new(Area::Sandbox, Tier::UserFixable, "agents of a run need a sandbox"))
    }

    /// Where the tools of a run work: like the person's project, but in another place.
    fn scope(&self, root: &Path) -> Result<Scope, Fault> {
        Ok(Scope { root: root.to_owned(), cwd: root.to_owned(), added: Vec::new(), ..self.setup.scope()? })
    }

    fn workspace(&self, scope: Scope, confinement: Confinement) -> Result<Workspace, Fault> {
        let setup = &self.setup;
        let root = scope.root.clone();
        let guard = PathGuard::new(scope, setup.rules.clone(), Reach::Inside);
        let workspace = Workspace::guarded(guard, setup.state_dir()?.join("outputs")).map_err(|error| {
            Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot work in {}: {error}", root.display()))
        })?;
        Ok(workspace
            .hide_env(setup.llm.providers.key_names().chain(setup.hidden.clone()))
            .with_vars(setup.trust.vars(&root))
            .redact(setup.redactor())
            .confine(confinement))
    }
}

impl Stage for Staging {
    fn conversation(&self, part: &Part) -> Result<Options, Fault> {
        let setup = &self.setup;
        let root = real(&part.root)?;
        let moved =
            |path: &PathBuf| path.strip_prefix(&part.root).map_or_else(|_| path.clone(), |rest| root.join(rest));
        let mut confinement = self.confinement()?;
        let mut files = part.files.clone();
        for paths in [&mut files.writable, &mut files.kept, &mut files.watched] {
            *paths = paths.iter().map(moved).collect();
        }
        confinement.set_read_only(files.writable.is_empty());
        for dir in files.writable.iter().filter(|dir| has_no_link(dir)) {
            // So that it can be written at all; git does not see empty directories.
            drop(std::fs::create_dir_all(dir));
        }
        confinement.role = Some(files);
        let models = Models::new(setup.llm.clone(), Arc::clone(&self.clock), Arc::clone(&self.ids));
        let env = |name: &str| setup.env(name);
        let fault = |error: LlmError| error.fault();
        let chosen = part.model.as_deref().or(setup.model.0.as_deref());
        let name = models.resolve(chosen, &env).map_err(fault)?;
        let tape = Tape { record: None, marks: setup.marks(&env)? };
        let Opened { model, notice, .. } = models.open(name, &self.gate, &setup.cwd, &env, tape).map_err(fault)?;
        let source = EventSource::new(part.session.clone(), Arc::clone(&self.clock), Arc::clone(&self.ids));
        let redactor = setup.redactor();
        let permissions =
            setup.permissions(PermissionMode::Auto, source.session(), Arc::clone(&self.clock), redactor.clone())?;
        let web = WebFetch::new(setup.web.clone(), setup.llm.network.ca_file.clone());
        let is_given = |name: &str| part.tools.iter().any(|tool| tool == name);
        let tools = Registry::builtin().with(Typed::new(web));
        let tools = tools.only(|tool| is_given(&tool.spec().name) && !permissions.rules.forbid(&tool.spec().name));
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
        let scope =
            Scope { writable: Some(patterns(&part.write)), frozen: patterns(&part.frozen), ..self.scope(&root)? };
        let mut workspace = self.workspace(scope, confinement)?;
        if let Some(fence) = &part.fence {
            workspace = workspace.with_fence(Arc::clone(fence));
        }
        let executor = Executor::new(tools, Arc::new(workspace));
        let environment = Environment {
            cwd: root.display().to_string(),
            root: root.display().to_string(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            now: self.clock.now(),
            branch: None,
        };
        let lookup =
            Lookup { user_dir: &setup.places.config_dir, home: setup.places.home.as_deref(), root: &root, cwd: &root };
        let instructions = find_instructions(lookup, setup.instruction_settings());
        if part.usd.is_some() && model.price().is_none() {
            let message = format!("the price of {} is not known, so a budget of money cannot be kept", model.name);
            return Err(Fault::input(message).hint("give its price in the settings (models), or leave `usd` out"));
        }
        let (beginning, _) = clean(opening(&environment, &instructions, setup.trust.voice()), &redactor);
        let (log, history, of_session) = setup.run_session(&part.session, &root, self.clock.now(), &*self.ids)?;
        let limits = TurnLimits { tokens: Some(part.tokens), usd: part.usd, ..setup.limits.clone() };
        let session = Budget::new("remaining", Caps { tokens: Some(part.tokens), usd: part.usd });
        Ok(Options {
            source,
            model,
            web_search: false,
            gate: Arc::clone(&self.gate),
            executor,
            permissions,
            limits: setup.within_managed_limits(limits),
            budgets: [self.process.clone(), session].into_iter().chain(part.around.clone()).collect(),
            role: AgentRole::new(part.role.as_str()),
            opening: beginning,
            notices: of_session.into_iter().chain(notice).chain(instructions.notices).collect(),
            answer_schema: None,
            is_attended: false,
            compaction: setup.compaction.clone(),
            session: Some(log),
            history,
        })
    }

    fn history(&self, session: &SessionId) -> Option<History> {
        let sessions = self.setup.kept_sessions().ok()?;
        sessions.load(session).ok().map(|loaded| loaded.history())
    }

    fn workshop(&self, root: &Path) -> Result<Executor, Fault> {
        let root = real(root)?;
        let workspace = self.workspace(self.scope(&root)?, self.confinement()?)?;
        Ok(Executor::new(Registry::builtin(), Arc::new(workspace)))
    }
}

/// Whether no link leads to where this path is, or will be.
fn has_no_link(path: &Path) -> bool {
    let there = path.ancestors().find(|dir| dir.symlink_metadata().is_ok());
    there.is_some_and(|dir| dir.canonicalize().is_ok_and(|real| real == dir))
}

fn real(path: &Path) -> Result<PathBuf, Fault> {
    path.canonicalize().map_err(|error| {
        Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot work in {}: {error}", path.display()))
    })
}
