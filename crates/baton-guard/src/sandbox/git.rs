//! What git obeys in a repository, so that a command can commit there and yet make nobody run anything.
//!
//! Git takes and drops locks in its directory, so that has to be writable. What makes git run programs is its `config`,
//! its `hooks`, and every pointer to another directory that has those: `commondir`, `gitdir`, a `.git` that is a file.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::policy::{Protected, StandIn};

/// How many repositories of submodules are looked at.
const MODULES_MAX: usize = 256;
/// How deep their names may be: `modules/a/modules/b` is one in another.
const MODULES_DEPTH_MAX: usize = 8;
/// No list of submodules and no pointer is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a repository needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// The directories of a linked worktree, which lie elsewhere.
    pub(super) writable: Vec<PathBuf>,
    pub(super) protected: Vec<Protected>,
}

/// What git obeys in the work tree `root`.
pub(super) fn control(root: &Path) -> Control {
    let dot_git = root.join(".git");
    let mut control = Control::default();
    match fs::symlink_metadata(&dot_git) {
        Ok(meta) if meta.is_dir() => protect_git_dir(&dot_git, &mut control.protected),
        Ok(meta) => {
            control.protected.push(Protected::new(&dot_git, StandIn::File));
            if meta.is_file() {
                linked_worktree(&dot_git, &mut control);
            }
        }
        Err(_) => control.protected.push(Protected::new(&dot_git, StandIn::Dir)),
    }
    for module in submodules(root) {
        let dot_git = module.join(".git");
        match fs::symlink_metadata(&dot_git) {
            Ok(meta) if meta.is_dir() => protect_git_dir(&dot_git, &mut control.protected),
            Ok(_) => control.protected.push(Protected::new(dot_git, StandIn::File)),
            Err(_) => {}
        }
    }
    control
}

fn protect_git_dir(dir: &Path, protected: &mut Vec<Protected>) {
    let names = [
        ("config", StandIn::File),
        ("config.worktree", StandIn::Nothing),
        ("commondir", StandIn::Nothing),
        // To git, a file in place of its directory is nothing, and a file costs nothing: a directory takes a block of the
        // disk, and some disks are told to forget that at once when it goes.
        ("hooks", StandIn::File),
        // Not the whole of `info`, where git keeps lists of its own.
        if dir.join("info").is_dir() { ("info/attributes", StandIn::File) } else { ("info", StandIn::File) },
    ];
    protected.extend(names.map(|(name, stand_in)| Protected::new(dir.join(name), stand_in)));
    // The pointers of other worktrees; a new one concerns nobody yet.
    let worktrees = dir.join("worktrees");
    if worktrees.is_dir() {
        protected.push(Protected::new(worktrees, StandIn::Dir));
    }
    let mut modules = Vec::new();
    find_modules(&dir.join("modules"), 0, &mut modules);
    for module in modules {
        protect_git_dir_flat(&module, protected);
    }
}

/// The same for the repository of a submodule, whose own submodules have been found already.
fn protect_git_dir_flat(dir: &Path, protected: &mut Vec<Protected>) {
    protected.push(Protected::new(dir.join("config"), StandIn::File));
    protected.push(Protected::new(dir.join("commondir"), StandIn::Nothing));
    protected.push(Protected::new(dir.join("hooks"), StandIn::File));
}

fn find_modules(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if depth > MODULES_DEPTH_MAX {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if found.len() >= MODULES_MAX || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if path.join("HEAD").is_file() {
            find_modules(&path.join("modules"), depth + 1, found);
            found.push(path);
        } else {
            find_modules(&path, depth + 1, found);
        }
    }
}

/// Where the submodules are, by `.gitmodules`, which is the repository's own word: only places below `root` count.
fn submodules(root: &Path) -> Vec<PathBuf> {
    let list = small_file(&root.join(".gitmodules")).unwrap_or_default();
    list.lines()
        .filter_map(|line| line.trim().strip_prefix("path")?.trim_start().strip_prefix('='))
        .map(|path| PathBuf::from(path.trim().trim_matches('"')))
        .filter(|path| path.components().all(|part| matches!(part, Component::Normal(_))))
        .take(MODULES_MAX)
        .map(|path| root.join(path))
        .filter(|dir| dir.canonicalize().is_ok_and(|real| real == *dir))
        .collect()
}

/// The directories of a linked worktree. The `.git` file is the repository's own word, and could name any directory; it
/// is believed only if that directory points back.
fn linked_worktree(dot_git: &Path, control: &mut Control) {
    let Some((own, common)) = worktree_dirs(dot_git) else { return };
    protect_git_dir(&common, &mut control.protected);
    control.protected.push(Protected::new(own.join("commondir"), StandIn::File));
    control.protected.push(Protected::new(own.join("gitdir"), StandIn::File));
    control.protected.push(Protected::new(own.join("config.worktree"), StandIn::Nothing));
    control.writable.extend([common, own]);
}

fn worktree_dirs(dot_git: &Path) -> Option<(PathBuf, PathBuf)> {
    let root = dot_git.parent()?;
    let text = small_file(dot_git)?;
    let own = root.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = own.join(small_file(&own.join("gitdir"))?.trim_end());
    let common = own.join(small_file(&own.join("commondir"))?.trim_end()).canonicalize().ok()?;
    let is_ours = back.parent()?.canonicalize().ok()? == root.canonicalize().ok()? && back.file_name()? == ".git";
    (is_ours && own.parent()? == common.join("worktrees") && common.join("HEAD").is_file()).then_some((own, common))
}

fn small_file(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    (meta.is_file() && meta.len() <= FILE_BYTES_MAX).then(|| fs::read_to_string(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        control(root).protected.iter().map(|protected| relative(&protected.path)).collect()
    }

    #[test]
    fn what_makes_git_run_programs_is_protected() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert_eq!(names(&root), [".git"]);
        write(&root.join(".git/HEAD"), "ref: refs/heads/main\n");
        let own = [".git/config", ".git/config.worktree", ".git/commondir", ".git/hooks", ".git/info"];
        assert_eq!(names(&root), own);
        write(&root.join(".gitmodules"), "[submodule \"a/b\"]\n\tpath = lib/b\n[submodule \"x\"]\n path = ../out\n");
        write(&root.join("lib/b/.git"), "gitdir: ../../.git/modules/a/b\n");
        write(&root.join(".git/modules/a/b/HEAD"), "ref: refs/heads/main\n");
        let all = names(&root);
        assert!(all.contains(&"lib/b/.git".to_owned()), "{all:?}");
        assert!(all.contains(&".git/modules/a/b/hooks".to_owned()), "{all:?}");
        assert_eq!(all.len(), own.len() + 4, "{all:?}");
    }

    #[test]
    fn a_git_file_is_believed_only_if_the_directory_points_back() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (main, tree) = (base.join("main/.git"), base.join("tree"));
        let own = main.join("worktrees/tree");
        write(&main.join("HEAD"), "ref: refs/heads/main\n");
        write(&own.join("commondir"), "../..\n");
        write(&own.join("gitdir"), &format!("{}\n", tree.join(".git").display()));
        write(&tree.join(".git"), &format!("gitdir: {}\n", own.display()));
        assert_eq!(control(&tree).writable, [main.clone(), own.clone()]);
        write(&base.join("evil/.git"), &format!("gitdir: {}\n", own.display()));
        assert_eq!(control(&base.join("evil")).writable, Vec::<PathBuf>::new());
    }
}
