//! `edit`: replaces a text in a file.

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::edit_match::{self, Edited, Places, line_number};
use crate::shape::cut_line;
use crate::transaction::{Draft, Transaction};
use crate::{CallContext, Outcome, TypedTool};

/// Edits files.
pub(crate) struct Edit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "file_path")]
    path: String,
    #[serde(alias = "old_string")]
    old: String,
    #[serde(alias = "new_string")]
    new: String,
    /// Replace every occurrence.
    #[serde(alias = "replace_all")]
    all: Option<bool>,
    /// Only return the diff.
    dry_run: Option<bool>,
}

impl TypedTool for Edit {
    type Input = Input;
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = include_str!("edit.md");
    const ACCESS: Access = Access::Write;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || edit(&input, &cx)).await
    }
}

fn edit(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let mut transaction = Transaction::new(&cx.workspace, &cx.grant, &cx.cancel);
    let draft = transaction.open(&input.path)?;
    let edited = apply(draft, &input.old, &input.new, input.all)?;
    let is_dry = input.dry_run == Some(true);
    let shown = if is_dry { String::new() } else { format!("\n{}", region(&edited)) };
    let said = format!("{} edited{}{shown}", draft.shown, remark(&edited));
    let path = draft.target().display().to_string();
    draft.new = Some(edited.contents);
    Ok(transaction.finish(&said, is_dry)?.with("path", path))
}

/// The file as it is so far with the text replaced.
pub(super) fn apply(draft: &Draft, old: &str, new: &str, all: Option<bool>) -> Result<Edited, String> {
    let shown = &draft.shown;
    let contents = draft.new.as_ref().ok_or_else(|| format!("{shown} does not exist: use `write` to create it"))?;
    let places = if all == Some(true) { Places::All } else { Places::One };
    edit_match::edit(contents, old, new, places).map_err(|why| format!("{shown}: {why}"))
}

/// What the model should know about how the text was found, if anything.
pub(super) fn remark(edited: &Edited) -> String {
    let places = if edited.count == 1 { String::new() } else { format!(" in {} places", edited.count) };
    let forgiven: Vec<_> = edited.forgiven.iter().map(|forgiven| forgiven.name()).collect();
    if forgiven.is_empty() {
        return places;
    }
    format!("{places}; `old` was not found as given, but one place differs only in {}", forgiven.join(" and "))
}

/// The first changed place with a little of what is around it.
fn region(edited: &Edited) -> String {
    const AROUND: usize = 2;
    const LINES_MAX: usize = 40;
    const LINE_BYTES_MAX: usize = 300;
    let first = line_number(&edited.contents, edited.first.start).saturating_sub(AROUND).max(1);
    let last = line_number(&edited.contents, edited.first.end) + AROUND;
    let text = String::from_utf8_lossy(&edited.contents);
    let lines = text.lines().enumerate().skip(first - 1).take((last - first + 1).min(LINES_MAX));
    let numbered: Vec<_> =
        lines.map(|(at, line)| format!("{:>6}\t{}", at + 1, cut_line(line, LINE_BYTES_MAX))).collect();
    numbered.join("\n")
}
