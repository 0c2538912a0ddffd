//! The workspace: where an agent works, where it may write, and where it is.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_guard::path::{Found, Spot, meant, normalise, resolve, shown};
use baton_guard::secrets::Redactor;
use baton_guard::undo::Undo;
use baton_guard::{Decision, Grant, PathGuard, Reach, Refusal, Rules, Scope};
use tempfile::TempDir;

use crate::Background;
use crate::Fence;
use crate::confinement::Confinement;
use crate::ledger::Ledger;
use crate::snapshot::Snapshot;

/// The directories of one session and what its agent knows about their files.
#[derive(Debug)]
pub struct Workspace {
    guard: PathGuard,
    outputs: PathBuf,
    hidden_env: Vec<String>,
    vars: Vec<(OsString, OsString)>,
    temp: TempDir,
    cwd: Mutex<PathBuf>,
    ledger: Ledger,
    snapshot: Snapshot,
    undo: Option<Arc<Undo>>,
    background: Background,
    confinement: Option<Confinement>,
    redactor: Redactor,
    fence: Option<Arc<dyn Fence>>,
}

impl Workspace {
    /// A workspace at `root`, which must exist, without rules. Full outputs are kept in `outputs`, which is made when needed.
    pub fn new(root: &Path, outputs: impl Into<PathBuf>, reach: Reach) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let home = std::env::home_dir().unwrap_or_default();
        let home = resolve::locate(&home).map_or(home, |located| located.path);
        let scope = Scope { cwd: root.clone(), root, home, ..Scope::default() };
        Self::guarded(PathGuard::new(scope, Rules::none(), reach), outputs)
    }

    /// A workspace where this guard says what the tools may touch. The agent begins where its scope says.
    pub fn guarded(mut guard: PathGuard, outputs: impl Into<PathBuf>) -> io::Result<Self> {
        let temp = tempfile::Builder::new().prefix("baton-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        let outputs = outputs.into();
        guard.add(temp.path().canonicalize()?);
        guard.add_readable(resolve::locate(&outputs)?.path);
        Ok(Self {
            cwd: Mutex::new(guard.scope().cwd.clone()),
            guard,
            outputs,
            hidden_env: Vec::new(),
            vars: Vec::new(),
            temp,
            ledger: Ledger::default(),
            snapshot: Snapshot::default(),
            undo: None,
            background: Background::default(),
            confinement: None,
            redactor: Redactor::new(),
            fence: None,
        })
    }

    /// This directory belongs to the workspace, too. It must exist.
    pub fn add_dir(mut self, dir: &Path) -> io::Result<Self> {
        self.guard.add(dir.canonicalize()?);
        Ok(self)
    }

    /// The agent starts in this directory instead of the root. It must exist.
    pub fn in_dir(self, dir: &Path) -> io::Result<Self> {
        self.set_cwd(dir.canonicalize()?);
        Ok(self)
    }

    /// Commands do not get the variables of these names. Those whose names tell that they carry a secret are never handed
    /// on; this is for secrets whose names do not, such as a key in a variable that the settings name.
    #[must_use]
    pub fn hide_env(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.hidden_env.extend(names);
        self
    }

    /// Commands are kept in; without this they are not.
    #[must_use]
    pub fn confine(mut self, confinement: Confinement) -> Self {
        self.confinement = Some(confinement);
        self
    }

    /// Knows these secrets, which nobody sees in what tools answer.
    #[must_use]
    pub fn redact(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// What takes secrets out.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// What keeps commands in.
    pub fn confinement(&self) -> Option<&Confinement> {
        self.confinement.as_ref()
    }

    /// The project and what was added to it.
    pub fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        let scope = self.guard.scope();
        // The temporary directory was added for the tools; it is no place for a project.
        std::iter::once(&scope.root).chain(scope.added.iter().filter(|dir| !dir.starts_with(self.temp())))
    }

    /// Commands get these variables, whatever is set elsewhere.
    #[must_use]
    pub fn with_vars(mut self, vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.vars.extend(vars);
        self
    }

    /// The project.
    pub fn root(&self) -> &Path {
        &self.guard.scope().root
    }

    /// What says which files the tools may touch.
    pub fn guard(&self) -> &PathGuard {
        &self.guard
    }

    /// Where full outputs are kept.
    pub fn outputs(&self) -> &Path {
        &self.outputs
    }

    /// The session's private temporary directory; it goes when the workspace goes.
    pub fn temp(&self) -> &Path {
        self.temp.path()
    }

    /// Where the agent is: relative paths start here.
    pub fn cwd(&self) -> PathBuf {
        self.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_cwd(&self, dir: PathBuf) {
        *self.cwd.lock().unwrap_or_else(PoisonError::into_inner) = dir;
    }

    /// The names of the variables that commands do not get.
    pub(crate) fn hidden_env(&self) -> &[String] {
        &self.hidden_env
    }

    /// The variables that every command gets.
    pub(crate) fn vars(&self) -> &[(OsString, OsString)] {
        &self.vars
    }

    /// What the agent keeps running.
    pub fn background(&self) -> &Background {
        &self.background
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn undo(&self) -> Option<&Arc<Undo>> {
        self.undo.as_ref()
    }

    pub(crate) fn fence(&self) -> Option<&Arc<dyn Fence>> {
        self.fence.as_ref()
    }

    pub(crate) fn set_fence(&mut self, fence: Arc<dyn Fence>) {
        self.fence = Some(fence);
    }

    pub(crate) fn set_undo(&mut self, undo: Arc<Undo>) {
        self.undo = Some(undo);
    }

    /// The absolute path that the agent means: from where it is, with `~` expanded. `.` and `..` stay, since they may come
    /// after a link.
    pub fn resolve(&self, path: &str) -> PathBuf {
        meant(path, &self.cwd(), &self.guard.scope().home)
    }

    /// Holds what the agent names and may read.
    pub fn find(&self, path: &str, grant: &Grant) -> Result<Found, Refusal> {
        named(path)?;
        self.guard.find(&self.resolve(path), grant)
    }

    /// Holds the place of a file that the agent names and may write.
    pub fn spot(&self, path: &str, grant: &Grant) -> Result<Spot, Refusal> {
        named(path)?;
        self.guard.spot(&self.resolve(path), grant)
    }

    /// The path as the agent would write it: from where it is, if it lies below.
    pub(crate) fn show(&self, path: &Path) -> String {
        let path = normalise(path);
        match path.strip_prefix(self.cwd()) {
            Ok(rest) if !rest.as_os_str().is_empty() => shown(rest),
            _ => shown(&path),
        }
    }
}

/// Why something was not opened, for the model.
pub(crate) fn told(what: &str, shown: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Judged(_) => refusal.to_string(),
        Refusal::Missing(_) => format!("{shown} does not exist"),
        Refusal::Failed(error) => format!("cannot {what} {shown}: {error}"),
    }
}

fn named(path: &str) -> Result<(), Refusal> {
    if path.is_empty() {
        return Err(Refusal::Judged(Decision::deny("path.malformed", "the path is empty")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use baton_core::Access;

    use super::*;

    fn workspace() -> (TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("proj");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap();
        (dir, workspace)
    }

    #[test]
    fn paths_resolve_from_where_the_agent_is() {
        let (_dir, workspace) = workspace();
        let root = workspace.root().to_owned();
        assert_eq!(workspace.resolve("a/./b/../c"), root.join("a/./b/../c"));
        assert_eq!(workspace.resolve("~"), workspace.guard().scope().home.join(""));
        assert_eq!(workspace.resolve("~x"), root.join("~x"));
        workspace.set_cwd(root.join("sub"));
        assert_eq!(workspace.show(&workspace.resolve("../a")), root.join("a").display().to_string());
        assert_eq!(workspace.show(&root.join("sub/f\n\u{1b}")), "f\\n\\u{1b}");
    }

    #[test]
    fn writes_stay_inside() {
        let (dir, workspace) = workspace();
        let root = workspace.root().to_owned();
        let beside = dir.path().canonicalize().unwrap();
        std::fs::create_dir(beside.join("proj-evil")).unwrap();
        symlink(beside.join("proj-evil"), root.join("out")).unwrap();
        symlink(beside.join("nowhere"), root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let spot = |workspace: &Workspace, path: PathBuf, grant: &Grant| {
            let spot = workspace.spot(path.to_str().unwrap(), grant);
            spot.map(|spot| spot.path().to_owned()).map_err(|refusal| refusal.to_string())
        };
        let none = Grant::none();

        assert_eq!(spot(&workspace, root.join("new/deep/file"), &none), Ok(root.join("new/deep/file")));
        assert!(spot(&workspace, workspace.temp().join("x"), &none).is_ok());
        for outside in ["../proj-evil/x", "out/x", "out/new/x", "dangling", "dangling/x"].map(|path| root.join(path)) {
            let refusal = spot(&workspace, outside, &none).unwrap_err();
            assert!(refusal.contains("outside of the workspace") && refusal.contains("a person"), "{refusal}");
        }
        assert!(spot(&workspace, root.join("loop"), &none).is_err());
        for control in [".git/config", "sub/.git/hooks/pre-commit", ".baton/config.jsonc", ".envrc"] {
            let refusal = spot(&workspace, root.join(control), &none).unwrap_err();
            assert!(refusal.contains("No tool may do this"), "{refusal}");
        }
        assert!(spot(&workspace, root.join(".gitignore"), &none).is_ok());

        // What was granted is one file, wherever the way to it leads, and nothing that is denied.
        let grant = Grant::none().path(beside.join("proj-evil/x"), Access::Write);
        assert_eq!(spot(&workspace, root.join("out/x"), &grant), Ok(beside.join("proj-evil/x")));
        assert!(spot(&workspace, root.join("out/y"), &grant).is_err());
        let grant = Grant::none().path(root.join(".envrc"), Access::Write);
        assert!(spot(&workspace, root.join(".envrc"), &grant).is_err());

        let wider = workspace.add_dir(&beside.join("proj-evil")).unwrap();
        assert!(spot(&wider, root.join("out/x"), &none).is_ok());
    }

    #[test]
    fn the_private_temp_goes_with_the_workspace() {
        let (_dir, workspace) = workspace();
        let temp = workspace.temp().to_owned();
        assert!(temp.is_dir());
        drop(workspace);
        assert!(!temp.exists());
    }
}
