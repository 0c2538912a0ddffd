//! Wiring of the guard: the mode, the rules, the place, the sandbox, the secrets and the record of a conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_agent::{Permissions, Record};
use baton_core::{Area, Clock, Fault, PermissionMode, SessionId, Tier};
use baton_guard::audit::Audit;
use baton_guard::path::resolve;
use baton_guard::sandbox::{Level, Sandbox};
use baton_guard::secrets::Redactor;
use baton_guard::{Origin, PermissionSettings, Rules, Scope};
use baton_llm::Marks;
use baton_tools::{Confinement, Outlet, is_secret_name};

use crate::commands::sandbox::{HINT, NO_HOSTS, unavailable};
use crate::rule_file::RuleFile;
use crate::rule_news::Rereading;
use crate::setup::Setup;

/// The mode of a conversation, and what keeps its commands in.
pub struct Guarding {
    /// How much may be done unasked.
    pub mode: PermissionMode,
    /// What keeps commands in.
    pub confinement: Option<Confinement>,
    /// What the person should know about that.
    pub notice: Option<String>,
}

impl Setup {
    /// What would keep commands in, if the mode needs that. It begins to find out what it can, which takes a while.
    pub fn begin_guarding(&self, asked: Option<PermissionMode>) -> Option<Confinement> {
        let (asked, _) = self.within_managed(asked.or(self.mode));
        (asked != Some(PermissionMode::Yolo)).then(|| self.confinement(self.is_read_only(asked)))
    }

    fn is_read_only(&self, asked: Option<PermissionMode>) -> bool {
        asked == Some(PermissionMode::Plan) || self.is_too_wide()
    }

    /// Decides on the mode, and on the sandbox that it needs. Asking for a mode that needs one where there is none is a
    /// fault: nothing ever runs with less than what was asked for.
    pub fn guarding(&self, asked: Option<PermissionMode>, begun: Option<Confinement>) -> Result<Guarding, Fault> {
        let (asked, of_managed) = self.within_managed(asked.or(self.mode));
        let mut guarding = self.guarding_as(asked, begun)?;
        guarding.notice = match (guarding.notice, of_managed) {
            (Some(one), Some(other)) => Some(format!("{one}; {other}")),
            (one, other) => one.or(other),
        };
        Ok(guarding)
    }

    /// The mode that managed settings leave of the one that is asked for, and what to say about that.
    fn within_managed(&self, asked: Option<PermissionMode>) -> (Option<PermissionMode>, Option<String>) {
        let Some(max) = self.mode_max else { return (asked, None) };
        match asked {
            Some(asked) if asked.is_wider_than(max) => {
                (Some(max), Some(format!("managed settings allow no wider permission mode than {max}")))
            }
            // Where nobody asks for a mode, it may become the widest that has a sandbox.
            None if PermissionMode::Auto.is_wider_than(max) => (Some(max), None),
            asked => (asked, None),
        }
    }

    fn guarding_as(&self, asked: Option<PermissionMode>, begun: Option<Confinement>) -> Result<Guarding, Fault> {
        if asked == Some(PermissionMode::Yolo) {
            return Ok(Guarding { mode: PermissionMode::Yolo, confinement: None, notice: None });
        }
        let confinement = begun.unwrap_or_else(|| self.confinement(self.is_read_only(asked)));
        let is_held = confinement.level() != Level::None;
        let missing = || unavailable(confinement.sandbox.found());
        match asked {
            Some(PermissionMode::Auto) if !is_held => {
                let hint =
                    format!("{HINT}; or let every command be refused with --permission-mode ask, or run without");
                let hint = format!("{hint} one with --permission-mode yolo");
                Err(Fault::new(Area::Sandbox, Tier::UserFixable, missing()).hint(hint))
            }
            // What a person says yes to runs all the same, so there is nothing to keep it in.
            asked if !is_held => {
                let notice = format!("{}, so every command has to be asked for", missing());
                let mode = asked.unwrap_or(PermissionMode::Ask);
                Ok(Guarding { mode, confinement: None, notice: Some(notice) })
            }
            asked => {
                let mode = asked.unwrap_or(PermissionMode::Auto);
                let is_cut_off = confinement.level() == Level::Landlock && !self.sandbox.hosts.is_empty();
                let notice = is_cut_off.then(|| NO_HOSTS.to_owned());
                Ok(Guarding { mode, confinement: Some(confinement), notice })
            }
        }
    }

    fn confinement(&self, is_read_only: bool) -> Confinement {
        let sandbox = match self.sandbox.level {
            None => Sandbox::new(),
            Some(level) => Sandbox::only(level),
        };
        let sandbox = sandbox.remembering(self.places.state_dir.join("sandbox.json")).looking();
        Confinement {
            sandbox: if self.sandbox.hosts.is_empty() { sandbox } else { sandbox.listening() },
            home: self.places.home.clone(),
            cargo_home: std::env::var_os("CARGO_HOME").map(PathBuf::from),
            own: self.own_dirs(),
            writable: self.sandbox.write.iter().map(|dir| self.in_home(dir)).collect(),
            is_read_only: is_read_only.into(),
            role: None,
            outlet: Outlet::to(self.sandbox.hosts.clone()),
        }
    }

    fn in_home(&self, dir: &Path) -> PathBuf {
        match (dir.strip_prefix("~"), &self.places.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => dir.to_owned(),
        }
    }

    /// Where the agent works, for the guard: all of it as it really is, links resolved.
    pub fn scope(&self) -> Result<Scope, Fault> {
        Ok(Scope {
            root: real(&self.project.root),
            cwd: self.cwd.clone(),
            home: real(self.places.home.as_deref().unwrap_or(Path::new(""))),
            added: self.added_dirs()?,
            own: self.own_dirs(),
            ..Scope::default()
        })
    }

    fn own_dirs(&self) -> Vec<PathBuf> {
        vec![real(&self.places.state_dir), real(&self.places.config_dir)]
    }

    /// Knows the keys of providers, what stands for them in cassettes, and the values of variables whose names tell a
    /// secret.
    pub fn redactor(&self) -> Redactor {
        self.redactor.get_or_init(|| self.new_redactor()).clone()
    }

    fn new_redactor(&self) -> Redactor {
        let providers = &self.llm.providers;
        let keys = providers.keys(&|name| self.env(name)).into_iter().map(|(_, key)| key);
        let marks = providers.names().flat_map(|name| providers.key_variables(name)).map(Marks::of_key);
        let of_env = std::env::vars_os().filter_map(|(name, value)| {
            let value = value.into_string().ok()?;
            // Where a key is kept is no secret.
            (is_secret_name(name.to_str()?) && !value.starts_with('/')).then_some(value)
        });
        Redactor::knowing(keys.chain(marks).chain(of_env))
    }

    /// What a conversation may do, and where that is written down.
    pub fn permissions(
        &self,
        mode: PermissionMode,
        session: &SessionId,
        clock: Arc<dyn Clock>,
        redactor: Redactor,
    ) -> Result<Permissions, Fault> {
        let mut granted = Rules::none();
        // Who lets a private host be fetched from has said that it may be.
        let hosts = self.web.allow_private.iter().map(|host| format!("WebFetch(domain:{})", host.host()));
        let settings = PermissionSettings { allow: hosts.collect(), ..PermissionSettings::default() };
        granted.add(&settings, Origin::Trusted).map_err(|error| Fault::input(error.to_string()))?;
        let audit = Audit::new(&self.places.state_dir, &self.project.id, redactor);
        let record = Some(Record::new(audit, clock, format!("main {session}")));
        // Where nothing may be written there is nothing to plan.
        let plans = if self.is_too_wide() { None } else { Some(self.plans()?) };
        Ok(Permissions {
            mode,
            rules: self.rules.clone(),
            news: Some(Box::new(Rereading::new(self))),
            granted,
            record,
            rule_book: Some(Arc::new(RuleFile::of_project(self))),
            plans,
        })
    }
}

fn real(path: &Path) -> PathBuf {
    resolve::locate(path).map_or_else(|_| path.to_owned(), |located| located.path)
}
