//! `edit`: replaces a text in a file.

use std::io;

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::edit_match::{self, Edited, Places, line_number};
use crate::ledger::{CONTENTS_BYTES_MAX, Stamp};
use crate::regular;
use crate::save::{diff, save};
use crate::shape::cut_line;
use crate::{CallContext, Outcome, TypedTool, Workspace};

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
}

impl TypedTool for Edit {
    type Input = Input;
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = include_str!("edit.md");
    const ACCESS: Access = Access::Write;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let (workspace, cancel) = (cx.workspace.clone(), cx.cancel.clone());
        crate::blocking(move || edit(&input, &workspace, &cancel)).await
    }
}

fn edit(input: &Input, workspace: &Workspace, cancel: &CancellationToken) -> Result<Outcome, String> {
    let path = workspace.resolve(&input.path);
    let target = workspace.check_write(&path)?;
    let shown = workspace.show(&path);
    let failed = |error: io::Error| format!("cannot edit {shown}: {error}");
    let metadata = match target.metadata() {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => return Err(format!("{shown} is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{shown} does not exist: use `write` to create it"));
        }
        Err(error) => return Err(failed(error)),
    };
    if metadata.len() > CONTENTS_BYTES_MAX {
        return Err(format!(
            "{shown} has {} bytes, more than the {CONTENTS_BYTES_MAX} that `edit` takes",
            metadata.len()
        ));
    }
    let old = regular::read(&target, CONTENTS_BYTES_MAX, cancel).map_err(failed)?;
    workspace.ledger().check(&target, &Stamp::of(&old))?;

    let places = if input.all == Some(true) { Places::All } else { Places::One };
    let edited = edit_match::edit(&old, &input.old, &input.new, places).map_err(|why| format!("{shown}: {why}"))?;
    // Who was told that this was given up must not find it done later.
    if cancel.is_cancelled() {
        return Err("cancelled; nothing was written".to_owned());
    }
    save(&target, &edited.contents).map_err(failed)?;
    workspace.ledger().note(&target, Stamp::of(&edited.contents));

    let places = if edited.count == 1 { String::new() } else { format!(" in {} places", edited.count) };
    let forgiven = edited.forgiven.map_or(String::new(), |forgiven| {
        format!("; `old` was not found as given, but one place differs only in {}", forgiven.name())
    });
    Ok(Outcome::ok(format!("{shown} edited{places}{forgiven}\n{}", region(&edited)))
        .with("path", target.display().to_string())
        .with("diff", diff(&shown, &old, &edited.contents)))
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
