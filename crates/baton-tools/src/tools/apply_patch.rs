//! `apply_patch`: adds, changes, moves and deletes files by a patch, all of it or nothing.

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::patch::{self, Action, Hunk, Section};
use crate::transaction::{Draft, Transaction};
use crate::{CallContext, Outcome, TypedTool, Workspace};

/// Applies patches.
pub(crate) struct ApplyPatch;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "input")]
    patch: String,
    /// Only return the diff.
    dry_run: Option<bool>,
}

impl TypedTool for ApplyPatch {
    type Input = Input;
    const NAME: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = include_str!("apply_patch.md");
    const ACCESS: Access = Access::Write;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || apply_patch(&input, &cx)).await
    }
}

fn apply_patch(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let refused = |why: String| format!("{why}\nNothing was changed");
    let sections = patch::parse(&input.patch).map_err(refused)?;
    let mut transaction = Transaction::new(&cx.workspace, &cx.grant, &cx.cancel);
    let mut remarks = Vec::new();
    for section in &sections {
        remarks.extend(apply(section, &cx.workspace, &mut transaction).map_err(refused)?);
    }
    let mut said: Vec<_> =
        transaction.changed().map(|draft| format!("{} {}", draft.letter(), draft.shown)).chain(remarks).collect();
    if transaction.changed().next().is_none() {
        said.insert(0, "the patch changes nothing".to_owned());
    }
    transaction.finish(&said.join("\n"), input.dry_run == Some(true))
}

/// Drafts what a section says; returns what the model should know about it.
fn apply(section: &Section, workspace: &Workspace, transaction: &mut Transaction) -> Result<Vec<String>, String> {
    let Section { line, path, action } = section;
    match action {
        Action::Add(lines) => {
            let draft = transaction.open(path)?;
            create(draft, lines.iter().flat_map(|line| [line, "\n"]).collect::<String>().into_bytes(), *line)?;
            Ok(Vec::new())
        }
        Action::Delete => {
            remove(transaction.open_to_remove(path)?, *line)?;
            Ok(Vec::new())
        }
        Action::Update { to: None, hunks } => {
            let draft = transaction.open(path)?;
            let (contents, remarks) = updated(draft, hunks, *line)?;
            draft.new = Some(contents);
            Ok(remarks)
        }
        Action::Update { to: Some(to), hunks } => {
            let draft = transaction.open(path)?;
            // The draft is of the file that the link leads to, and that is not what would be meant.
            if workspace.resolve(path).is_symlink() {
                return Err(format!("line {line} of the patch: {path} is a symbolic link: move it with `bash`"));
            }
            let (contents, remarks) = updated(draft, hunks, *line)?;
            let like = draft.metadata().or(draft.like.as_ref()).cloned();
            // Before the old one goes, so that a file cannot be moved to where it is.
            let target = transaction.open(to)?;
            create(target, contents, *line)?;
            target.like = like;
            remove(transaction.open(path)?, *line)?;
            Ok(remarks)
        }
    }
}

fn create(draft: &mut Draft, contents: Vec<u8>, line: usize) -> Result<(), String> {
    if draft.new.is_some() {
        let shown = &draft.shown;
        return Err(format!("line {line} of the patch: {shown} exists already: use `*** Update File: {shown}`"));
    }
    draft.new = Some(contents);
    Ok(())
}

fn remove(draft: &mut Draft, line: usize) -> Result<(), String> {
    let shown = &draft.shown;
    draft.new.take().map(|_| ()).ok_or_else(|| format!("line {line} of the patch: {shown} does not exist"))
}

fn updated(draft: &Draft, hunks: &[Hunk], line: usize) -> Result<(Vec<u8>, Vec<String>), String> {
    let shown = &draft.shown;
    let missing =
        || format!("line {line} of the patch: {shown} does not exist: use `*** Add File: {shown}` to create it");
    let old = draft.new.as_ref().ok_or_else(missing)?;
    let applied = patch::apply(old, hunks).map_err(|why| format!("{shown}: {why}"))?;
    Ok((applied.contents, applied.remarks.into_iter().map(|remark| format!("{shown}: {remark}")).collect()))
}
