//! Frozen files: which state froze what, until when, and which change breaks it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::{FileHash, StateName, TreeHash};
use crate::scope::{Glob, RelPath};

/// What one state froze when its gate was passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// Which files.
    pub globs: Vec<Glob>,
    /// The tree whose content counts.
    pub tree: TreeHash,
}

impl Freeze {
    /// Files that are not what they were in the frozen tree, each hashed by whoever can read them.
    pub fn broken(&self, then: &BTreeMap<RelPath, FileHash>, now: &BTreeMap<RelPath, FileHash>) -> Vec<RelPath> {
        let mut paths: Vec<&RelPath> = then.keys().chain(now.keys()).collect();
        paths.sort();
        paths.dedup();
        paths.into_iter().filter(|path| self.covers(path) && then.get(*path) != now.get(*path)).cloned().collect()
    }

    /// Whether the file is one of the frozen ones.
    pub fn covers(&self, path: &RelPath) -> bool {
        self.globs.iter().any(|glob| glob.matches(path))
    }
}

/// Everything that is frozen in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frozen(BTreeMap<StateName, Freeze>);

impl Frozen {
    /// The state's gate was passed on this tree.
    pub(crate) fn freeze(&mut self, state: &StateName, globs: &[Glob], tree: &TreeHash) {
        if !globs.is_empty() {
            self.0.insert(state.clone(), Freeze { globs: globs.to_vec(), tree: tree.clone() });
        }
    }

    /// The state is entered again: what it froze may be changed.
    pub(crate) fn thaw(&mut self, state: &StateName) {
        self.0.remove(state);
    }

    /// The state that froze this file.
    pub fn by(&self, path: &RelPath) -> Option<&StateName> {
        self.0.iter().find(|(_, freeze)| freeze.covers(path)).map(|(state, _)| state)
    }

    /// What each state froze.
    pub fn iter(&self) -> impl Iterator<Item = (&StateName, &Freeze)> {
        self.0.iter()
    }
}
