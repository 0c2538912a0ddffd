//! Wiring: from the command line, the environment and settings to the parts of a conversation.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use baton_agent::{
    CompactionSettings, Environment, InstructionSetting, LimitsMax, Lookup, ModelSetting, Options, Permissions,
    RandomIds, SystemClock, TurnLimits, find_instructions, opening,
};
use baton_conductor::ProjectSettings;
use baton_config::{LayerKind, Places, Problem, Project, RootKind, Section, Warning, Watch};
use baton_core::{
    Access, AgentRole, Area, Block, Clock, EventSource, Fault, IdSource, PermissionMode, SessionId, Tier,
};
use baton_guard::credentials::{Keyring, SecretTool, Store};
use baton_guard::sandbox::SandboxSettings;
use baton_guard::secrets::Redactor;
use baton_guard::{Origin, PathGuard, PermissionSettings, Rules};
use baton_llm::{Budget, Caps, Gate, LlmError, LlmSettings, Marks, Models, Opened, Recording, Tape};
use baton_session::SessionSettings;
use baton_tools::{Confinement, Executor, Reach, Registry, Tool, Typed, WebFetch, WebSettings, Workspace};

use crate::Global;
use crate::guarding::Guarding;
use crate::keeping::Kept;
use crate::settings;
use crate::trusting::Standing;

/// Where Baton runs and how it is set up.
pub struct Setup {
    /// The working directory.
    pub cwd: PathBuf,
    /// Baton's own directories.
    pub places: Places,
    /// The project of the working directory.
    pub project: Project,
    /// Settings of models and providers.
    pub llm: LlmSettings,
    /// The model of the settings.
    pub model: ModelSetting,
    /// The limits of the settings.
    pub limits: TurnLimits,
    /// When histories are replaced by summaries.
    pub compaction: CompactionSettings,
    /// What managed settings make of all others.
    limits_max: Vec<LimitsMax>,
    /// The files with instructions that the settings name.
    instructions: Vec<(LayerKind, InstructionSetting)>,
    /// What definitions know about the project.
    pub definitions: ProjectSettings,
    /// How much of the past is kept.
    pub sessions: SessionSettings,
    /// What may be fetched from the web.
    pub web: WebSettings,
    /// The permission rules of the settings.
    pub rules: Rules,
    /// The permission mode of the settings.
    pub mode: Option<PermissionMode>,
    /// The widest mode that managed settings let anybody have.
    pub mode_max: Option<PermissionMode>,
    /// How commands are kept in.
    pub sandbox: SandboxSettings,
    /// Whether the project is trusted.
    pub trust: Standing,
    /// What is wrong with the settings.
    pub warnings: Vec<Warning>,
    /// Tells when the settings change.
    pub watch: Watch,
    /// The settings files that count, present or not.
    pub files: Vec<PathBuf>,
    /// Variables that commands must not inherit, besides those that look like secrets.
    pub hidden: Vec<String>,
    /// The keys that the person gave to Baton.
    pub keys: Store,
    /// Knows what must not be shown; made when it is first asked for.
    pub redactor: OnceLock<Redactor>,
    add_dirs: Vec<PathBuf>,
}

/// What a conversation needs beyond the setup.
pub struct Request<'a> {
    /// The model's name, if one was named.
    pub model: Option<&'a str>,
    /// How hard it should think, if that was said apart from its name.
    pub effort: Option<baton_llm::Effort>,
    /// Whether the provider may search the web, if the settings do not say so already.
    pub web_search: bool,
    /// The permission mode, if one was named.
    pub mode: Option<PermissionMode>,
    /// What ends a turn.
    pub limits: TurnLimits,
    /// Where the traffic with the model is recorded.
    pub record: Option<&'a Path>,
    /// The session that it is kept in.
    pub session: Which<'a>,
}

/// The session that a conversation is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// A new one.
    New,
    /// None: nothing is kept.
    None,
    /// One that goes on: the last one, or the one of this name.
    Old {
        /// Its name.
        name: Option<&'a str>,
        /// Whether a new one goes on in its place.
        fork: bool,
    },
}

impl Setup {
    /// Reads the environment and the settings.
    pub fn new(global: &Global) -> Result<Self, Fault> {
        Self::vouched(global, false)
    }

    /// The same, and trusts the project as it is if the command line vouches for it.
    pub fn vouched(global: &Global, is_vouched_for: bool) -> Result<Self, Fault> {
        let (places, cwd, project) = locate(global.dir.as_deref())?;
        let trust = Standing::find(&project, &places, is_vouched_for)?;
        let sources = settings::sources(&places, &project);
        // Before they are read: a change in between is found with the first look.
        let watch = sources.clone().watch();
        let (config, errors) = sources.read(trust.is_trusted());
        if let Some(error) = errors.first() {
            return Err(Fault::input(error.to_string()).hint("mend the file; `baton config check` lists what is wrong"));
        }
        let mut reader = config.reader();
        let unusable = |error: baton_config::ConfigError| {
            Fault::input(error.to_string())
                .hint("mend the setting; it holds the agent back, so nothing runs without it")
        };
        let llm = LlmSettings::read(&mut reader).map_err(unusable)?;
        let model = reader.section().map_err(unusable)?;
        let limits = reader.section().map_err(unusable)?;
        let compaction = reader.section().map_err(unusable)?;
        let definitions = reader.section().map_err(unusable)?;
        let sessions = reader.section().map_err(unusable)?;
        let web = reader.section().map_err(unusable)?;
        let sandbox = reader.section().map_err(unusable)?;
        let instructions = reader.each_layer().map_err(unusable)?;
        let permissions = reader.each_layer().map_err(unusable)?;
        let limits_max = reader.managed::<LimitsMax>(TurnLimits::KEY);
        let mut warnings = reader.finish();
        let mode = mode(&permissions, &mut warnings);
        let mode_max = mode_max(&permissions);
        let rules = rules(&permissions)?;
        let files = sources.files.into_iter().map(|(_, file)| file).collect();
        let add_dirs = global.add_dir.clone();
        let hidden = Vec::new();
        let keyring = SecretTool::find(|name| std::env::var_os(name)).map(|tool| Box::new(tool) as Box<dyn Keyring>);
        let keys = Store::new(&places.state_dir, keyring);
        Ok(Self {
            cwd,
            places,
            project,
            llm,
            model,
            limits,
            compaction,
            limits_max,
            instructions,
            definitions,
            sessions,
            web,
            rules,
            mode,
            mode_max,
            sandbox,
            trust,
            warnings,
            watch,
            files,
            hidden,
            keys,
            redactor: OnceLock::new(),
            add_dirs,
        })
    }

    /// A variable of the environment; a key that it lacks comes from the person's keys.
    pub fn env(&self, name: &str) -> Option<String> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        set(name).or_else(|| {
            let providers = &self.llm.providers;
            let provider =
                providers.names().find(|provider| providers.key_variables(provider).first() == Some(&name))?;
            // Whatever the environment says about this provider counts more.
            if providers.key_variables(provider).into_iter().any(|name| set(name).is_some()) {
                return None;
            }
            self.keys.get(provider).ok().flatten().map(|(key, _)| key)
        })
    }

    /// The project's state directory, made if need be.
    pub fn state_dir(&self) -> Result<PathBuf, Fault> {
        self.project.state_dir(&self.places).map_err(|error| {
            Fault::new(
                Area::Workspace,
                Tier::UserFixable,
                format!("cannot keep state in {}: {error}", self.places.state_dir.display()),
            )
            .hint("make it writable, or set BATON_HOME to a directory that is")
        })
    }

    /// What the person should know before the work begins.
    fn notices(&self) -> Vec<String> {
        let mut notices: Vec<String> = self.warnings.iter().map(ToString::to_string).collect();
        notices.extend(self.trust.notice());
        if self.is_too_wide() {
            notices.push(format!("{} is too wide to work in: Baton stays read-only", self.project.root.display()));
        }
        notices.extend(self.keys.list().err().map(|error| format!("the keys of `baton auth` do not count: {error}")));
        notices
    }

    /// Everything a conversation is made of, and the recording of its traffic if one was asked for.
    pub fn conversation(&self, request: Request<'_>) -> Result<(Options, Option<Recording>), Fault> {
        let asked = if self.is_too_wide() { Some(PermissionMode::Plan) } else { request.mode };
        let begun = self.begin_guarding(asked);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds::default());
        let Kept { id, log, history, notices: of_session } = self.session(request.session, clock.now(), &*ids)?;
        let gate = Arc::new(Gate::new(self.llm.retry.clone(), Arc::clone(&clock)));
        let models = Models::new(self.llm.clone(), Arc::clone(&clock), Arc::clone(&ids));
        let env = |name: &str| self.env(name);
        let fault = |error: LlmError| error.fault();
        let before = history.as_ref().and_then(|history| history.model.as_deref());
        let chosen = request.model.or(before).or(self.model.0.as_deref());
        let mut name = models.resolve(chosen, &env).map_err(fault)?;
        name.effort = request.effort.or(name.effort);
        let wants_search = request.web_search || self.llm.web_search.0;
        let search = if wants_search { models.web_search(&name, &env) } else { Ok(()) };
        let tape = Tape { record: request.record, marks: self.marks(&env)? };
        let Opened { model, recording, notice } = models.open(name, &gate, &self.cwd, &env, tape).map_err(fault)?;

        let redactor = self.redactor();
        let source = EventSource::new(id, Arc::clone(&clock), ids);
        let web = WebFetch::new(self.web.clone(), self.llm.network.ca_file.clone());
        let tools = Registry::builtin().with(Typed::new(web));
        let environment = Environment {
            cwd: self.cwd.display().to_string(),
            root: self.project.root.display().to_string(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            now: clock.now(),
            branch: self.project.branch(),
        };
        let lookup = Lookup {
            user_dir: &self.places.config_dir,
            home: self.places.home.as_deref(),
            root: &self.project.root,
            cwd: &self.cwd,
        };
        let instructions = find_instructions(lookup, &self.instructions);
        let beginning = opening(&environment, &instructions, self.trust.voice());
        let (beginning, _) = clean(beginning, &redactor);

        // Waits for what the kernel can do: whatever need not know that comes before.
        let Guarding { mode, confinement, notice: of_guard } = self.guarding(asked, begun)?;
        let permissions = self.permissions(mode, source.session(), clock.clone(), redactor.clone())?;
        let is_denied = |tool: &dyn Tool| match mode {
            PermissionMode::Deny => tool.access() != Access::Read,
            _ => permissions.rules.forbid(&tool.spec().name),
        };
        // What can never run is not offered.
        let tools = tools.only(|tool| !is_denied(tool));
        let workspace = self.workspace(&permissions, confinement, redactor, source.session())?;
        let executor = Executor::new(tools, Arc::new(workspace));
        let is_capped = self.limits.usd.or(request.limits.usd).is_some();
        if is_capped && model.price().is_none() {
            let message = format!("the price of {} is not known, so a cap on money cannot be kept", model.name);
            let hint = format!("give its price in the settings (models, \"{}\"), or cap tokens instead", model.name);
            return Err(Fault::input(message).hint(hint));
        }
        let caps = |limits: &TurnLimits| Caps { tokens: limits.tokens, usd: limits.usd };
        let process = Budget::new("process", caps(&self.limits));
        let session = Budget::new("session", caps(&request.limits));
        let options = Options {
            source,
            model,
            web_search: wants_search && search.is_ok(),
            gate,
            executor,
            permissions,
            limits: self.within_managed_limits(request.limits),
            budgets: vec![process, session],
            role: AgentRole::default(),
            opening: beginning,
            notices: self
                .notices()
                .into_iter()
                .chain(of_session)
                .chain(of_guard)
                .chain(notice)
                .chain(instructions.notices)
                .chain(search.err())
                .collect(),
            answer_schema: None,
            is_attended: false,
            compaction: self.compaction.clone(),
            session: log,
            history,
        };
        Ok((options, recording))
    }

    /// The files with instructions that the settings name.
    pub fn instruction_settings(&self) -> &[(LayerKind, InstructionSetting)] {
        &self.instructions
    }

    /// Limits as managed settings leave them.
    pub fn within_managed_limits(&self, limits: TurnLimits) -> TurnLimits {
        self.limits_max.iter().fold(limits, |limits, max| limits.within(*max))
    }

    /// What a cassette does not say about this person and this machine.
    pub fn marks(&self, env: baton_llm::Env<'_>) -> Result<Marks, Fault> {
        let places = [
            ("project", Some(self.project.root.clone())),
            ("state", Some(self.state_dir()?)),
            ("config", Some(self.places.config_dir.clone())),
            ("home", self.places.home.clone()),
        ];
        let places = places.into_iter().filter_map(|(name, place)| Some((name, place?)));
        Ok(Marks::new(self.llm.providers.keys(env), places))
    }

    /// The directories that were added, as they really are.
    pub fn added_dirs(&self) -> Result<Vec<PathBuf>, Fault> {
        let real = |dir: &PathBuf| {
            let dir = self.cwd.join(dir);
            dir.canonicalize().map_err(|error| Fault::input(format!("cannot add {}: {error}", dir.display())))
        };
        self.add_dirs.iter().map(real).collect()
    }

    /// Whether the project is a home or a whole system.
    pub fn is_too_wide(&self) -> bool {
        self.project.kind == RootKind::TooWide
    }

    fn workspace(
        &self,
        permissions: &Permissions,
        confinement: Option<Confinement>,
        redactor: Redactor,
        session: &SessionId,
    ) -> Result<Workspace, Fault> {
        let root = &self.project.root;
        let unusable = |error: std::io::Error| {
            Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot work in {}: {error}", root.display()))
        };
        let reach = if permissions.mode == PermissionMode::Yolo { Reach::Anywhere } else { Reach::Inside };
        let guard = PathGuard::new(self.scope()?, permissions.rules.clone(), reach);
        let workspace = Workspace::guarded(guard, self.state_dir()?.join("outputs"))
            .map_err(unusable)?
            .hide_env(self.llm.providers.key_names().chain(self.hidden.clone()))
            .with_vars(self.trust.vars(root))
            .redact(redactor)
            .with_undo(&self.state_dir()?.join("undo"), session.as_str(), vec![self.places.state_dir.clone()]);
        Ok(match confinement {
            Some(confinement) => workspace.confine(confinement),
            None => workspace,
        })
    }
}

/// Baton's own directories, the working directory and its project.
pub fn locate(dir: Option<&Path>) -> Result<(Places, PathBuf, Project), Fault> {
    let places = Places::from_env(|name| std::env::var_os(name))
        .map_err(|error| Fault::input(error.to_string()).hint("set HOME, or BATON_HOME to a directory of its own"))?;
    let cwd = working_directory(dir)?;
    let project = Project::find(&cwd, &places);
    Ok((places, cwd, project))
}

/// Texts without secrets, and whether there were any.
pub fn clean(blocks: Vec<Block>, redactor: &Redactor) -> (Vec<Block>, bool) {
    let mut found = false;
    let clean = |block: Block| match block {
        Block::Text { text } => {
            let clean = redactor.redact_str(&text).into_owned();
            found |= clean != text;
            Block::Text { text: clean }
        }
        other => other,
    };
    let blocks = blocks.into_iter().map(clean).collect();
    (blocks, found)
}

/// The mode of the last layer. Everything without a question must be said on the command line.
fn mode(layers: &[(LayerKind, PermissionSettings)], warnings: &mut Vec<Warning>) -> Option<PermissionMode> {
    let own = layers.iter().filter(|(kind, _)| *kind != LayerKind::Managed);
    let mode = own.rev().find_map(|(_, settings)| settings.mode)?;
    if mode != PermissionMode::Yolo {
        return Some(mode);
    }
    let key = "permissions.mode".to_owned();
    let message = format!("`{key}` is ignored: yolo must be said on the command line");
    warnings.push(Warning { problem: Problem::Ignored, key, place: None, message });
    None
}

/// The narrowest mode of managed settings.
fn mode_max(layers: &[(LayerKind, PermissionSettings)]) -> Option<PermissionMode> {
    let managed = layers.iter().filter(|(kind, _)| *kind == LayerKind::Managed);
    managed.filter_map(|(_, settings)| settings.mode).reduce(PermissionMode::narrower)
}

/// The rules of all layers. What a repository may not say is not among them.
pub fn rules(layers: &[(LayerKind, PermissionSettings)]) -> Result<Rules, Fault> {
    let mut rules = Rules::none();
    for (_, settings) in layers {
        rules
            .add(settings, Origin::Trusted)
            .map_err(|error| Fault::input(error.to_string()).hint("mend the setting `permissions`"))?;
    }
    Ok(rules)
}

fn working_directory(dir: Option<&Path>) -> Result<PathBuf, Fault> {
    let dir = dir.unwrap_or(Path::new("."));
    let unusable = |why: String| {
        Fault::new(Area::Input, Tier::UserFixable, format!("cannot work in {}: {why}", dir.display()))
            .hint("name a directory that exists with -C DIR")
    };
    let cwd = dir.canonicalize().map_err(|error| unusable(error.to_string()))?;
    if cwd.is_dir() { Ok(cwd) } else { Err(unusable("it is not a directory".to_owned())) }
}

/// Runs work to its end on one thread, with helpers for what blocks. A helper that is stuck in the
/// kernel is not waited for: the process ends without it.
pub fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::internal(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}
