//! The workspace: where an agent works, where it may write, and where it is.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use baton_guard::secrets::Redactor;
use tempfile::TempDir;

use crate::Background;
use crate::confinement::Confinement;
use crate::ledger::Ledger;
use crate::snapshot::Snapshot;

/// Directories and files that other programs obey.
const CONTROL: [&str; 3] = [".git", ".baton", ".envrc"];

/// How far writes may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The root, the extra directories and the private temporary directory.
    Inside,
    /// Everywhere.
    Anywhere,
}

/// The directories of one session and what its agent knows about their files.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    extra: Vec<PathBuf>,
    outputs: PathBuf,
    reach: Reach,
    hidden_env: Vec<String>,
    temp: TempDir,
    cwd: Mutex<PathBuf>,
    ledger: Ledger,
    snapshot: Snapshot,
    background: Background,
    confinement: Option<Confinement>,
    redactor: Redactor,
}

impl Workspace {
    /// A workspace at `root`, which must exist. Full outputs are kept in `outputs`, which is made when needed.
    pub fn new(root: &Path, outputs: impl Into<PathBuf>, reach: Reach) -> io::Result<Self> {
        let root = root.canonicalize()?;
        Ok(Self {
            cwd: Mutex::new(root.clone()),
            extra: Vec::new(),
            outputs: outputs.into(),
            reach,
            hidden_env: Vec::new(),
            temp: tempfile::Builder::new().prefix("baton-").permissions(Permissions::from_mode(0o700)).tempdir()?,
            ledger: Ledger::default(),
            snapshot: Snapshot::default(),
            background: Background::default(),
            confinement: None,
            redactor: Redactor::new(),
            root,
        })
    }

    /// Writes may go to this directory, too. It must exist.
    pub fn add_dir(mut self, dir: &Path) -> io::Result<Self> {
        self.extra.push(dir.canonicalize()?);
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
        std::iter::once(&self.root).chain(&self.extra)
    }

    /// The project.
    pub fn root(&self) -> &Path {
        &self.root
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

    /// The absolute path that the agent means: from where it is, `~` expanded, `.` and `..` taken away.
    pub fn resolve(&self, path: &str) -> PathBuf {
        let path = match (path.strip_prefix('~'), std::env::home_dir()) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => PathBuf::from(path),
        };
        normalise(&self.cwd().join(path))
    }

    /// The path as the agent would write it: from where it is, if it lies below.
    pub(crate) fn show(&self, path: &Path) -> String {
        match path.strip_prefix(self.cwd()) {
            Ok(rest) if !rest.as_os_str().is_empty() => rest.display().to_string(),
            _ => path.display().to_string(),
        }
    }

    /// Where a write to this path would really go, or why it may not.
    pub fn check_write(&self, path: &Path) -> Result<PathBuf, String> {
        let target = follow(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let temp = self.temp().canonicalize().unwrap_or_else(|_| self.temp().to_owned());
        if self.reach == Reach::Anywhere {
            return Ok(target);
        }
        // Files that git and Baton obey: whoever writes them can make others run what they like.
        if let Some(name) = CONTROL.iter().find(|name| target.components().any(|part| part.as_os_str() == **name)) {
            return Err(format!("refused: {} controls programs ({name}); no tool may write there", target.display()));
        }
        let mut allowed = self.extra.iter().chain([&self.root, &temp]);
        if allowed.any(|dir| target.starts_with(dir)) {
            return Ok(target);
        }
        let scope: Vec<_> = [&self.root].into_iter().chain(&self.extra).map(|dir| dir.display().to_string()).collect();
        Err(format!(
            "refused: {} is outside of the workspace; writes are limited to {}",
            target.display(),
            scope.join(", ")
        ))
    }
}

/// Takes `.` and `..` away without looking at the disk.
fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Resolves symbolic links, also of a path whose last parts do not exist yet and of a link that leads nowhere.
fn follow(path: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let mut missing = Vec::new();
        let mut at = path.as_path();
        loop {
            match at.canonicalize() {
                Ok(real) => return Ok(missing.iter().rev().fold(real, |dir, name| dir.join(name))),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(error) => {
                    if at.is_symlink() {
                        break;
                    }
                    let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return Err(error) };
                    missing.push(name.to_owned());
                    at = parent;
                }
            }
        }
        let link = at.parent().unwrap_or(at).canonicalize()?.join(at.read_link()?);
        path = normalise(&missing.iter().rev().fold(link, |dir, name| dir.join(name)));
    }
    Err(io::Error::other("too many symbolic links"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        assert_eq!(workspace.resolve("a/./b/../c"), root.join("a/c"));
        assert_eq!(workspace.resolve("/x//y/.."), Path::new("/x"));
        assert_eq!(workspace.resolve("~"), std::env::home_dir().unwrap());
        assert_eq!(workspace.resolve("~x"), root.join("~x"));
        workspace.set_cwd(root.join("sub"));
        assert_eq!(workspace.resolve("../a"), root.join("a"));
        assert_eq!(workspace.show(&root.join("sub/f")), "f");
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

        assert_eq!(workspace.check_write(&root.join("new/deep/file")), Ok(root.join("new/deep/file")));
        assert!(workspace.check_write(&workspace.temp().join("x")).is_ok());
        for outside in [
            beside.join("proj-evil/x"),
            root.join("out/x"),
            root.join("out/new/x"),
            root.join("dangling"),
            root.join("dangling/x"),
            PathBuf::from("/etc/passwd"),
        ] {
            let refusal = workspace.check_write(&outside).unwrap_err();
            assert!(refusal.contains(&root.display().to_string()), "{refusal}");
        }
        assert!(workspace.check_write(&root.join("loop")).is_err());
        for control in [".git/config", "sub/.git/hooks/pre-commit", ".baton/config.jsonc", ".envrc"] {
            let refusal = workspace.check_write(&root.join(control)).unwrap_err();
            assert!(refusal.contains("controls programs"), "{refusal}");
        }
        assert!(workspace.check_write(&root.join(".gitignore")).is_ok());

        let wider = workspace.add_dir(&beside.join("proj-evil")).unwrap();
        assert!(wider.check_write(&root.join("out/x")).is_ok());
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
