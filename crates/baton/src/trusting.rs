//! Whether the project is trusted, and what follows from that for a run.

use std::ffi::OsString;
use std::path::Path;

use baton_agent::Voice;
use baton_config::{Places, Project, RootKind};
use baton_core::{Area, Fault, Tier};
use baton_guard::audit::{Audit, Decision, Record};
use baton_guard::git::{self, Quiet};
use baton_guard::secrets::Redactor;
use baton_guard::trust::{Change, Difference, Keep, Ledger, State, Survey, state, survey};

use jiff::Timestamp;

/// How many files a notice names.
const NAMED_MAX: usize = 4;

/// Where the project stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What was found.
    pub state: State,
    /// Whether the command line says that it is to be trusted as it is.
    is_vouched_for: bool,
    /// Why what was trusted is not known.
    problem: Option<String>,
}

impl Standing {
    /// Looks at the project. Settings that are links are an error: they would be read from wherever they lead.
    pub fn find(project: &Project, places: &Places, is_vouched_for: bool) -> Result<Self, Fault> {
        // A home is no repository, and what lies in it is the person's.
        if project.kind == RootKind::TooWide {
            return Ok(Self { state: State::Nothing, is_vouched_for: false, problem: None });
        }
        let found = survey(&project.root, Keep::Hashes);
        refuse_links(&project.root, &found)?;
        if found.items().is_empty() {
            return Ok(Self { state: State::Nothing, is_vouched_for: false, problem: None });
        }
        let (trusted, problem) = match Ledger::new(&places.state_dir).get(&project.root) {
            Ok(trusted) => (trusted, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let state = state(&found, trusted.as_ref());
        let is_refused = found.items().iter().any(|item| item.problem.is_some());
        Ok(Self { state, is_vouched_for: is_vouched_for && !is_refused, problem })
    }

    /// Whether what the repository allows and starts counts.
    pub fn is_trusted(&self) -> bool {
        self.state == State::Trusted || self.is_vouched_for
    }

    /// Whether it is trusted for this run only.
    pub fn is_vouched_for(&self) -> bool {
        self.is_vouched_for
    }

    /// How its instructions are to be taken.
    pub fn voice(&self) -> Voice {
        if self.is_trusted() { Voice::Trusted } else { Voice::Untrusted }
    }

    /// Variables for commands, so that git starts nothing of what is not trusted.
    pub fn vars(&self, root: &Path) -> Vec<(OsString, OsString)> {
        match self.state {
            _ if self.is_trusted() => Vec::new(),
            State::Nothing => git::quiet(root, Quiet::Unnamed),
            _ => git::quiet(root, Quiet::Untrusted),
        }
    }

    /// Notes in the project's log that something of it is not used, and why.
    pub fn log_what_is_refused(&self, places: &Places, project: &Project) -> Result<(), Fault> {
        match self.notice() {
            None => Ok(()),
            Some(notice) if self.is_vouched_for => log(places, project, "person", notice, Decision::Approved),
            Some(notice) => log(places, project, "baton", notice, Decision::Denied),
        }
    }

    /// What the person should know, if anything.
    pub fn notice(&self) -> Option<String> {
        let problem = self.problem.as_ref().map(|problem| format!(" ({problem})")).unwrap_or_default();
        match &self.state {
            State::Nothing | State::Trusted => None,
            State::Changed(files) | State::Untrusted(files) if self.is_vouched_for => {
                Some(format!("--trust: for this run the repository is trusted as it is: {}", named(files)))
            }
            State::Changed(files) => Some(format!(
                "this repository has changed since you trusted it: {}. Nothing of it is used, and git starts none of its \
                 programs, until you look at it with `baton trust`",
                named(files)
            )),
            State::Untrusted(files) => Some(format!(
                "this repository is not trusted{problem}: {}. They are not used, and git starts none of its programs, until \
                 you look at them with `baton trust`",
                named(files)
            )),
        }
    }
}

/// Notes in the project's log what was decided about it.
pub fn log(places: &Places, project: &Project, actor: &str, what: String, decision: Decision) -> Result<(), Fault> {
    let audit = Audit::new(&places.state_dir, &project.id, Redactor::new());
    let record = Record { kind: "trust".to_owned(), actor: actor.to_owned(), what, decision: Some(decision) };
    let logged = audit.append(Timestamp::now(), record);
    logged.map(drop).map_err(|error| Fault::new(Area::Workspace, Tier::UserFixable, error.to_string()))
}

fn refuse_links(root: &Path, found: &Survey) -> Result<(), Fault> {
    let is_settings = |path: &str| matches!(path, ".baton" | ".baton/config.jsonc" | ".baton/local.jsonc");
    let link = found.items().iter().find_map(|item| {
        let problem = item.problem.as_ref().filter(|problem| problem.starts_with("is a link"))?;
        is_settings(&item.path).then(|| (root.join(&item.path), problem))
    });
    match link {
        Some((path, problem)) => {
            Err(Fault::input(format!("{} {problem}, and links in a project's settings are refused", path.display()))
                .hint("remove the link, or put what it leads to in its place"))
        }
        None => Ok(()),
    }
}

fn named(files: &[Difference]) -> String {
    let word = |change| match change {
        Change::New => "",
        Change::Changed => " (changed)",
        Change::Removed => " (removed)",
        Change::Refused => " (refused)",
    };
    let mut names: Vec<String> =
        files.iter().take(NAMED_MAX).map(|file| format!("{}{}", file.path, word(file.change))).collect();
    if files.len() > NAMED_MAX {
        names.push(format!("{} more", files.len() - NAMED_MAX));
    }
    names.join(", ")
}
