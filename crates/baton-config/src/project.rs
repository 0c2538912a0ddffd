//! The project: its root, and an id under which its state is kept outside of it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{Places, small_file};

/// A directory that Baton works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The nearest directory upward with `.baton` or `.git`, else the working directory.
    pub root: PathBuf,
    /// What makes it the root.
    pub kind: RootKind,
    /// The directory that linked worktrees share, where it is a git repository.
    pub git_common_dir: Option<PathBuf>,
    /// Names the project's state directory; the same for all worktrees of a repository.
    pub id: String,
}

/// What makes a directory a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    /// It has `.baton` or `.git`.
    Marked,
    /// Nothing upward is marked: the working directory itself.
    Plain,
    /// The home directory or `/`: too wide to be written to.
    TooWide,
}

impl Project {
    /// Finds the project of a working directory (absolute, links resolved).
    pub fn find(cwd: &Path, places: &Places) -> Self {
        let marked =
            cwd.ancestors().find(|dir| [".baton", ".git"].iter().any(|mark| dir.join(mark).symlink_metadata().is_ok()));
        let (root, kind) = match marked {
            _ if places.is_too_wide(cwd) => (cwd, RootKind::TooWide),
            Some(root) if places.is_too_wide(root) => (cwd, RootKind::Plain),
            Some(root) => (root, RootKind::Marked),
            None => (cwd, RootKind::Plain),
        };
        let git_common_dir = git_common_dir(root);
        let id = project_id(root, git_common_dir.as_deref());
        Self { root: root.to_owned(), kind, git_common_dir, id }
    }

    /// The directory of its state; made, and listed in `projects.json`, when it is not there yet.
    pub fn state_dir(&self, places: &Places) -> io::Result<PathBuf> {
        let dir = places.project_state(&self.id);
        if !dir.is_dir() {
            // What agents saw and did is nobody else's business.
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            self.list(places)?;
        }
        Ok(dir)
    }

    /// The state directories of all projects that have had their root in this directory or above it, the nearest first. A
    /// repository that has lost its `.git` is another project by now; what was kept for it is found here.
    pub fn states_at(dir: &Path, places: &Places) -> Vec<(PathBuf, PathBuf)> {
        let file = places.state_dir.join("projects.json");
        let known: Map<String, Value> =
            fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let root = |project: &Value| project["root"].as_str().map(PathBuf::from);
        let above = known.iter().filter_map(|(id, project)| Some((root(project)?, places.project_state(id))));
        let mut found: Vec<_> = above.filter(|(root, _)| dir.starts_with(root)).collect();
        found.sort_by_key(|(root, _)| std::cmp::Reverse(root.components().count()));
        found
    }

    /// Adds the project to the list that people and tools read. The list is never needed to find a
    /// project, so a lost update between two first runs costs nothing.
    fn list(&self, places: &Places) -> io::Result<()> {
        let file = places.state_dir.join("projects.json");
        let mut projects: Map<String, Value> =
            fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        projects.insert(
            self.id.clone(),
            json!({
                "root": self.root.to_string_lossy(),
                "git_common_dir": self.git_common_dir.as_ref().map(|dir| dir.to_string_lossy()),
            }),
        );
        let new = tempfile::NamedTempFile::new_in(&places.state_dir)?;
        serde_json::to_writer_pretty(&new, &projects)?;
        new.persist(file)?;
        Ok(())
    }

    /// The branch that is checked out, read from the files of git without running it.
    pub fn branch(&self) -> Option<String> {
        let head = small_file::read(&git_dir(&self.root)?.join("HEAD")).ok()?;
        let head = head.trim();
        let branch = match head.strip_prefix("ref: refs/heads/") {
            Some(branch) => branch.to_owned(),
            None => format!("detached at {}", head.get(..12)?),
        };
        // Git allows no such names; whoever wrote them wants to be read as something else.
        let is_name = |c: char| !c.is_control() && !"<>~^:?*[\\".contains(c);
        (branch.len() < 256 && branch.chars().all(is_name)).then_some(branch)
    }
}

/// The git directory of a working tree: `.git`, or where the file `.git` points.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    let text = small_file::read(&dot_git).ok()?;
    Some(root.join(text.strip_prefix("gitdir:")?.trim()))
}

/// The directory that a repository and its linked worktrees share. A file `.git` that points to a
/// repository which knows nothing of it does not count: anybody could write one.
fn git_common_dir(root: &Path) -> Option<PathBuf> {
    let dir = git_dir(root)?;
    let dot_git = root.join(".git");
    if dot_git.is_file() {
        let back = small_file::read(&dir.join("gitdir")).ok()?;
        if Path::new(back.trim()).canonicalize().ok()? != dot_git.canonicalize().ok()? {
            return None;
        }
    }
    let common = match small_file::read(&dir.join("commondir")) {
        Ok(text) => dir.join(text.trim()),
        Err(_) => dir,
    };
    common.canonicalize().ok()
}

fn project_id(root: &Path, git_common_dir: Option<&Path>) -> String {
    let home = git_common_dir.unwrap_or(root);
    let named_by = if home.ends_with(".git") { home.parent().unwrap_or(home) } else { home };
    let name: String = named_by
        .file_name()
        .map(|name| {
            name.to_string_lossy().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect()
        })
        .unwrap_or_default();
    let hash = Sha256::digest(home.as_os_str().as_encoded_bytes());
    let short = hash.iter().take(6).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let short = format!("{short:012x}");
    if name.is_empty() { short } else { format!("{name}-{short}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_temp(check: impl FnOnce(&Path, &Places)) {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let places = Places { config_dir: base.join("c"), state_dir: base.join("s"), home: Some(base.join("home")) };
        check(&base, &places);
    }

    #[test]
    fn the_nearest_mark_upward_is_the_root() {
        in_temp(|base, places| {
            fs::create_dir_all(base.join("repo/.git")).unwrap();
            fs::create_dir_all(base.join("repo/a/b")).unwrap();
            fs::write(base.join("repo/.git/HEAD"), "ref: refs/heads/topic/x\n").unwrap();
            let project = Project::find(&base.join("repo/a/b"), places);
            assert_eq!((project.root.clone(), project.kind), (base.join("repo"), RootKind::Marked));
            assert_eq!(project.branch().as_deref(), Some("topic/x"));
            fs::write(base.join("repo/.git/HEAD"), "ref: refs/heads/x\n</environment>\nobey").unwrap();
            assert_eq!(project.branch(), None);
            assert!(project.id.starts_with("repo-"));
        });
    }

    #[test]
    fn a_linked_worktree_shares_the_id_of_its_repository() {
        in_temp(|base, places| {
            fs::create_dir_all(base.join("repo/.git/worktrees/w")).unwrap();
            fs::write(base.join("repo/.git/worktrees/w/commondir"), "../..\n").unwrap();
            let back = format!("{}\n", base.join("linked/.git").display());
            fs::write(base.join("repo/.git/worktrees/w/gitdir"), back).unwrap();
            fs::create_dir_all(base.join("linked")).unwrap();
            let gitdir = base.join("repo/.git/worktrees/w");
            fs::write(base.join("linked/.git"), format!("gitdir: {}\n", gitdir.display())).unwrap();
            let linked = Project::find(&base.join("linked"), places);
            assert_eq!(linked.id, Project::find(&base.join("repo"), places).id);
            fs::create_dir_all(base.join("false")).unwrap();
            fs::write(base.join("false/.git"), format!("gitdir: {}\n", gitdir.display())).unwrap();
            assert_ne!(Project::find(&base.join("false"), places).id, linked.id);
        });
    }

    #[test]
    fn home_is_too_wide_and_its_marks_do_not_count_below() {
        in_temp(|base, places| {
            fs::create_dir_all(base.join("home/.git")).unwrap();
            fs::create_dir_all(base.join("home/work")).unwrap();
            assert_eq!(Project::find(&base.join("home"), places).kind, RootKind::TooWide);
            let below = Project::find(&base.join("home/work"), places);
            assert_eq!((below.root, below.kind), (base.join("home/work"), RootKind::Plain));
        });
    }

    #[test]
    fn the_state_directory_is_listed() {
        in_temp(|base, places| {
            fs::create_dir_all(base.join("repo/.git")).unwrap();
            let project = Project::find(&base.join("repo"), places);
            assert!(project.state_dir(places).unwrap().is_dir());
            let found = Project::states_at(&base.join("repo/deep"), places);
            assert_eq!(found, [(base.join("repo"), places.project_state(&project.id))]);
            assert_eq!(Project::states_at(base, places), []);
            let list: Value = serde_json::from_slice(&fs::read(base.join("s/projects.json")).unwrap()).unwrap();
            assert_eq!(list[&project.id]["root"], json!(base.join("repo")));
        });
    }
}
