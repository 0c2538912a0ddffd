//! Keeping for undo: what the tools are about to change is kept before, and what they changed is written down after.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::Access;
use baton_guard::undo::{Ignored, Named, Summary, Undo, bytes_in_words, path_text, what_cannot_be_restored};
use baton_guard::{Analysis, Scope, analyse};

use crate::{CallContext, Outcome, Workspace};

/// How many files an outcome names.
const NAMED_MAX: usize = 20;

impl Workspace {
    /// Keeps in `dir`, for this session, what its tools are about to change. Comes after all directories are added; what
    /// lies in `own` is Baton's.
    #[must_use]
    pub fn with_undo(mut self, dir: &Path, session: &str, own: Vec<PathBuf>) -> Self {
        let extra = self.dirs().filter(|dir| !dir.starts_with(self.root())).cloned();
        let roots = [self.root().to_owned()].into_iter().chain(extra).collect();
        let own = [own, vec![self.temp().to_owned()]].concat();
        self.set_undo(Arc::new(Undo::new(dir, session, roots, own)));
        self
    }

    /// From now on, what is changed belongs to another turn.
    pub fn begin_turn(&self) {
        self.forget_snapshot();
        if let Some(undo) = self.undo() {
            undo.begin_turn();
        }
    }

    /// What a command could destroy beyond what an undo brings back, in words for the person who is asked about it.
    pub async fn cannot_be_restored(&self, command: &str) -> Vec<String> {
        let scope = self.scope();
        let (analysis, named) = looked_at(command, &scope);
        let Some(undo) = self.undo().filter(|_| !named.is_read_only).cloned() else { return Vec::new() };
        let looked = {
            let named = named.clone();
            crate::blocking(move || undo.foresee(&named)).await
        };
        what_cannot_be_restored(&analysis, &named, &scope, &looked)
    }

    /// The ignored files that a command is about to destroy although they are more than an undo keeps.
    pub async fn beyond_undo(&self, command: &str) -> Option<String> {
        let (_, named) = looked_at(command, &self.scope());
        if named.ignored == Ignored::None && !named.targets.iter().any(|target| target.is_deleted) {
            return None;
        }
        let undo = Arc::clone(self.undo()?);
        let looked = crate::blocking(move || undo.foresee(&named)).await;
        let (first, bytes) = looked.ignored.first()?;
        let more = looked.ignored.len() - 1;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        Some(format!("{} ({}){more}", path_text::of(first), bytes_in_words(*bytes)))
    }

    /// Whether a command is known to write nothing.
    pub(crate) fn only_reads(&self, command: &str) -> bool {
        looked_at(command, &self.scope()).1.is_read_only
    }

    /// Whether running a command twice does no more than running it once: it only reads, or it builds and tests.
    pub fn may_run_again(&self, command: &str) -> bool {
        let (analysis, named) = looked_at(command, &self.scope());
        let writes = analysis.paths.iter().any(|used| used.access == Access::Write);
        let is_routine = !analysis.parts.is_empty() && analysis.parts.iter().all(|part| repeats_well(&part.words));
        named.is_read_only || (is_routine && !writes)
    }

    /// Keeps files that are about to be changed. What cannot be kept must not be changed.
    pub(crate) fn keep_files<'a>(&self, tool: &str, targets: impl Iterator<Item = &'a Path>) -> Result<(), String> {
        let Some(undo) = self.undo() else { return Ok(()) };
        let targets: Vec<&Path> = targets.filter(|target| !target.starts_with(self.temp())).collect();
        let Some(first) = targets.first() else { return Ok(()) };
        let what = format!("{tool} {}", path_text::of(first));
        undo.before_files(&what, &targets)
            .map_err(|error| format!("nothing was changed: what is there could not be kept for undo: {error}"))
    }

    /// The files that were kept are as the tool leaves them. What cannot be written down now is found out later.
    pub(crate) fn kept_files(&self) {
        if let Some(undo) = self.undo() {
            drop(undo.after());
        }
    }

    fn scope(&self) -> Scope {
        Scope { cwd: self.cwd(), ..self.guard().scope().clone() }
    }
}

/// Programs that are run again and again while one works, with the first word that makes them so.
const REPEATING: [(&str, &[&str]); 15] = [
    ("cargo", &["test", "nextest", "build", "check", "clippy", "fmt", "doc", "bench"]),
    ("npm", &["test", "t"]),
    ("yarn", &["test", "lint"]),
    ("pnpm", &["test", "lint"]),
    ("go", &["test", "build", "vet", "fmt"]),
    ("make", &["test", "check"]),
    ("pytest", &[]),
    ("tox", &[]),
    ("ruff", &[]),
    ("mypy", &[]),
    ("tsc", &[]),
    ("eslint", &[]),
    ("jest", &[]),
    ("vitest", &[]),
    ("cd", &[]),
];

fn repeats_well(words: &[String]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let first = rest.iter().find(|word| !word.starts_with(['-', '+']));
    REPEATING.iter().any(|(name, verbs)| {
        name == program && (verbs.is_empty() || first.is_some_and(|first| verbs.contains(&first.as_str())))
    })
}

fn looked_at(command: &str, scope: &Scope) -> (Analysis, Named) {
    let analysis = analyse(command, scope);
    let named = Named::of(&analysis, scope);
    (analysis, named)
}

/// What was kept for a command.
pub(crate) enum Kept {
    /// Nothing: it only reads, or there is no undo.
    Nothing,
    /// All but this.
    Files(Summary),
    /// Nothing, for this reason.
    Failed(String),
}

/// Keeps what a command could change.
pub(crate) async fn before(command: &str, cx: &CallContext) -> Kept {
    let Some(undo) = cx.workspace.undo().cloned() else { return Kept::Nothing };
    // Reading a command takes less than a hop to another thread.
    let (_, named) = looked_at(command, &cx.workspace.scope());
    if named.is_read_only {
        return Kept::Nothing;
    }
    let command = command.to_owned();
    crate::blocking(move || match undo.before_command(&command, &named) {
        Ok(summary) => Kept::Files(summary),
        Err(error) => Kept::Failed(error.to_string()),
    })
    .await
}

/// Writes down what the command has changed.
pub(crate) async fn after(kept: Kept, cx: &CallContext) -> Kept {
    let Some(undo) = cx.workspace.undo().cloned() else { return kept };
    if !matches!(kept, Kept::Files(_)) {
        return kept;
    }
    crate::blocking(move || match undo.after() {
        Ok(_) => kept,
        Err(error) => Kept::Failed(error.to_string()),
    })
    .await
}

impl Kept {
    /// Tells surfaces what an undo would not bring back.
    pub(crate) fn tell(&self, outcome: &mut Outcome) {
        let not_kept: Vec<String> = match self {
            Self::Nothing => Vec::new(),
            Self::Failed(why) => vec![format!("all that it changed: {why}")],
            Self::Files(summary) => {
                let files = summary.ignored.iter().chain(&summary.large);
                let shown = files.map(|(path, bytes)| format!("{} ({})", path_text::of(path), bytes_in_words(*bytes)));
                shown.take(NAMED_MAX).collect()
            }
        };
        if !not_kept.is_empty() {
            outcome.meta.insert("not_kept".to_owned(), not_kept.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_run_again_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(dir.path(), dir.path().join("outputs"), crate::Reach::Inside).unwrap();
        for command in
            ["git status", "cargo test", "cd crates && cargo +nightly clippy --workspace", "pytest -q tests/a.py"]
        {
            assert!(workspace.may_run_again(command), "{command}");
        }
        for command in
            ["cargo publish", "cargo test >> log", "./deploy.sh", "cargo test && git push", "npm run release"]
        {
            assert!(!workspace.may_run_again(command), "{command}");
        }
    }
}
