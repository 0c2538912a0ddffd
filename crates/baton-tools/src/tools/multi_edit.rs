//! `multi_edit`: several edits, in one file or in several, all of them or none.

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use super::edit;
use crate::transaction::Transaction;
use crate::{CallContext, Outcome, TypedTool};

/// Edits files together.
pub(crate) struct MultiEdit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "file_path")]
    path: Option<String>,
    edits: Vec<One>,
    /// Only return the diff.
    dry_run: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    #[serde(alias = "file_path")]
    path: Option<String>,
    #[serde(alias = "old_string")]
    old: String,
    #[serde(alias = "new_string")]
    new: String,
    #[serde(alias = "replace_all")]
    all: Option<bool>,
}

impl TypedTool for MultiEdit {
    type Input = Input;
    const NAME: &'static str = "multi_edit";
    const DESCRIPTION: &'static str = include_str!("multi_edit.md");
    const ACCESS: Access = Access::Write;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || multi_edit(&input, &cx)).await
    }
}

fn multi_edit(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    if input.edits.is_empty() {
        return Err("`edits` is empty: there is nothing to change".to_owned());
    }
    let mut transaction = Transaction::new(&cx.workspace, &cx.grant, &cx.cancel);
    let mut said = Vec::new();
    for (at, one) in input.edits.iter().enumerate() {
        let done = one.apply(input.path.as_deref(), &mut transaction);
        let done = done.map_err(|why| format!("edit {}: {why}\nNone of the edits was made", at + 1))?;
        said.push(format!("edit {}: {done}", at + 1));
    }
    transaction.finish(&said.join("\n"), input.dry_run == Some(true))
}

impl One {
    fn apply(&self, path: Option<&str>, transaction: &mut Transaction) -> Result<String, String> {
        let path = self.path.as_deref().or(path);
        let path = path.ok_or("which file? Give `path`, in the edit or for all of them")?;
        let draft = transaction.open(path)?;
        let edited = edit::apply(draft, &self.old, &self.new, self.all)?;
        let done = format!("{} edited{}", draft.shown, edit::remark(&edited));
        draft.new = Some(edited.contents);
        Ok(done)
    }
}
