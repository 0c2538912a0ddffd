//! `write`: a whole file, new or in place of another.

use std::io;

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ledger::{CONTENTS_BYTES_MAX, Stamp};
use crate::regular;
use crate::save::{change, diff, save};
use crate::snapshot::Old;
use crate::workspace::told;
use crate::{CallContext, Outcome, TypedTool};

/// Writes files.
pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

impl TypedTool for Write {
    type Input = Input;
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("write.md");
    const ACCESS: Access = Access::Write;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || write(&input, &cx)).await
    }
}

fn write(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let (workspace, cancel) = (&*cx.workspace, &cx.cancel);
    let shown = workspace.show(&workspace.resolve(&input.path));
    let spot = workspace.spot(&input.path, &cx.grant).map_err(|refusal| told("write", &shown, &refusal))?;
    let target = spot.path();
    let failed = |error: io::Error| format!("cannot write {shown}: {error}");
    let new = input.content.as_bytes();
    if new.len() as u64 > CONTENTS_BYTES_MAX {
        return Err(format!("the content is larger than {CONTENTS_BYTES_MAX} bytes: make the file with `bash`"));
    }
    let (done, old) = match spot.found() {
        Some(found) if found.metadata().is_dir() => return Err(format!("{shown} is a directory")),
        Some(found) if found.metadata().len() > CONTENTS_BYTES_MAX => {
            workspace.ledger().check(target, &Stamp::large(found.metadata()))?;
            workspace.snapshot().keep_not(target, "it was too large to keep");
            ("overwritten", None)
        }
        Some(found) => {
            let old = regular::read(found, CONTENTS_BYTES_MAX, cancel).map_err(failed)?;
            workspace.ledger().check(target, &Stamp::of(&old))?;
            workspace.snapshot().keep(workspace.temp(), target, &Old::File(&old, found.metadata()));
            ("overwritten", Some(old))
        }
        None => {
            workspace.snapshot().keep(workspace.temp(), target, &Old::Absent);
            ("created", Some(Vec::new()))
        }
    };
    // Who was told that this was given up must not find it done later.
    if cancel.is_cancelled() {
        return Err("cancelled; nothing was written".to_owned());
    }
    workspace.keep_files("write", std::iter::once(target))?;
    let saved = save(&spot, new);
    workspace.kept_files();
    saved.map_err(failed)?;
    workspace.ledger().note(target, Stamp::of(new));
    workspace.snapshot().changed(target, Some(Stamp::of(new)));
    let lines = input.content.lines().count();
    let outcome = Outcome::ok(format!("{shown} {done}: {lines} lines, {} bytes", new.len()))
        .with("path", target.display().to_string())
        .with("changes", vec![change(target, if done == "created" { "add" } else { "update" })]);
    Ok(match old {
        Some(old) => outcome.with("diff", diff(&shown, &old, new)),
        None => outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reach, Workspace};

    #[test]
    fn what_was_given_up_is_not_done_later() {
        let dir = tempfile::tempdir().unwrap();
        let cx = CallContext::alone(Workspace::new(dir.path(), dir.path(), Reach::Inside).unwrap());
        cx.cancel.cancel();
        let input = Input { path: "new".to_owned(), content: "x".to_owned() };
        assert_eq!(write(&input, &cx), Err("cancelled; nothing was written".to_owned()));
        assert!(!dir.path().join("new").exists());
    }
}
