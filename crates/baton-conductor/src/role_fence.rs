//! The fence of a role: after each command, what it changed beyond its files is put back.

use std::path::{Path, PathBuf};

use baton_tools::{Fence, RoleFiles};
use baton_workflow::{Frozen, Glob, RelPath, RoleName, Scope, StateName, TreeHash};

use crate::run_clone::{Result, RunClone};

/// What a role may change in a clone.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) clone: RunClone,
    pub(crate) role: RoleName,
    /// Its files, and those of build caches.
    pub(crate) write: Vec<Glob>,
    pub(crate) frozen: Frozen,
}

/// The bounds, and the tree when the state was entered: what may not be changed is as it was then.
#[derive(Debug)]
pub(crate) struct RoleFence {
    bounds: Bounds,
    scope: Scope,
    began: TreeHash,
}

impl Bounds {
    pub(crate) fn since(self, began: TreeHash) -> RoleFence {
        RoleFence { scope: Scope::of(&self.write), bounds: self, began }
    }
}

impl RoleFence {
    fn why_not(&self, path: &RelPath) -> Option<String> {
        match self.bounds.frozen.by(path) {
            Some(state) => Some(format!("frozen by {state}")),
            None if self.scope.allows(path) => None,
            None => Some(format!("not among the files of role {}", self.bounds.role)),
        }
    }

    /// Puts back what lies beyond, in a tree that is as it is now. The tree then, and what was put back.
    pub(crate) fn mend_from(&self, now: TreeHash) -> Result<(TreeHash, Vec<(RelPath, String)>)> {
        let clone = &self.bounds.clone;
        let changed = clone.changed(&self.began, &now)?;
        let beyond: Vec<(RelPath, String)> =
            changed.into_iter().filter_map(|path| self.why_not(&path).map(|why| (path, why))).collect();
        if beyond.is_empty() {
            return Ok((now, beyond));
        }
        let paths: Vec<RelPath> = beyond.iter().map(|(path, _)| path.clone()).collect();
        let mended = clone.mixed(&now, &self.began, &paths)?;
        clone.put_back(&mended)?;
        Ok((mended, beyond))
    }
}

impl Fence for RoleFence {
    fn mend(&self) -> std::result::Result<Vec<(String, String)>, String> {
        let mended = self.bounds.clone.snapshot().and_then(|now| self.mend_from(now));
        let (_, beyond) = mended.map_err(|error| error.to_string())?;
        Ok(beyond.into_iter().map(|(path, why)| (path.to_string(), why)).collect())
    }
}

/// The directories that commands of a role may write: as far as globs can be said in directories.
pub(crate) fn role_files(tree: &Path, write: &[Glob], caches: &[String], readable: Vec<PathBuf>) -> RoleFiles {
    let mut writable: Vec<PathBuf> = write.iter().map(|glob| tree.join(fixed_dir(glob.as_str()))).collect();
    writable.extend(caches.iter().map(|cache| tree.join(cache)));
    writable.sort();
    writable.dedup();
    let (mut kept, mut watched) = (Vec::new(), Vec::new());
    if writable.iter().any(|dir| dir == tree) {
        // The whole tree would be writable: what nobody may write is held apart.
        let scope = Scope::of(write);
        let is_reached = |name: &str| {
            let inside = RelPath::parse(name).is_ok_and(|path| scope.allows(&path));
            inside
                || write.iter().any(|glob| leads_into(glob.as_str(), name))
                || caches.iter().any(|cache| cache == name)
        };
        let entries = std::fs::read_dir(tree).into_iter().flatten().flatten();
        kept.extend(
            entries.filter(|entry| !is_reached(&entry.file_name().to_string_lossy())).map(|entry| entry.path()),
        );
        let git = tree.join(".git");
        watched.extend(GIT_OBEYS.map(|name| git.join(name)));
        kept.push(git);
    }
    RoleFiles { writable, kept, watched, readable }
}

/// What says in a clone what git does and what was committed. Not its index, which is large and which nobody believes.
const GIT_OBEYS: [&str; 9] =
    ["HEAD", "commondir", "config", "config.worktree", "hooks", "info", "objects/info", "packed-refs", "refs"];

/// The part of a glob before its first wildcard, as a directory.
fn fixed_dir(glob: &str) -> PathBuf {
    let parts: Vec<&str> = glob.split('/').collect();
    let dirs = &parts[..parts.len().saturating_sub(1)];
    dirs.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect()
}

/// Whether a glob could mean something in the directory of this name.
fn leads_into(glob: &str, name: &str) -> bool {
    match glob.split_once('/') {
        Some((first, _)) => first == name || first.contains(['*', '?', '[', '{', '\\']),
        None => glob.contains("**"),
    }
}

/// Patterns of what is frozen, with the state that froze it.
pub(crate) fn frozen_patterns(frozen: &Frozen, but: Option<&StateName>) -> Vec<(String, String)> {
    let own = frozen.iter().filter(|(state, _)| Some(*state) != but);
    own.flat_map(|(state, freeze)| freeze.globs.iter().map(move |glob| (glob.as_str().to_owned(), state.to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| Glob::parse(text).unwrap()).collect()
    }

    #[test]
    fn globs_become_the_narrowest_directories() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path();
        for name in ["src", "tests", ".git"] {
            std::fs::create_dir(tree.join(name)).unwrap();
        }
        std::fs::write(tree.join("hello.txt"), "").unwrap();
        let files = |write: &[&str]| role_files(tree, &globs(write), &["target".to_owned()], Vec::new());
        let narrow = files(&["tests/**", "src/deep/*.rs"]);
        assert_eq!(narrow.writable, ["src/deep", "target", "tests"].map(|name| tree.join(name)));
        assert!(narrow.kept.is_empty());
        let mut wide = files(&["hello.txt"]);
        wide.kept.sort();
        wide.kept.dedup();
        assert_eq!(wide.kept, [".git", "src", "tests"].map(|name| tree.join(name)));
        assert!(files(&["*.md"]).kept.contains(&tree.join("src")));
    }
}
