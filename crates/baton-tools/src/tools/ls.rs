//! `ls`: what is in a directory.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use baton_core::Access;
use baton_guard::Verdict;
use baton_guard::path::{self, Dir};
use schemars::JsonSchema;
use serde::Deserialize;

use super::walk;
use crate::shape::Head;
use crate::workspace::told;
use crate::{CallContext, Outcome, TypedTool};

const SHOWN_MAX: usize = 500;

/// Lists directories.
pub(crate) struct Ls;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    path: Option<String>,
}

impl TypedTool for Ls {
    type Input = Input;
    const NAME: &'static str = "ls";
    const DESCRIPTION: &'static str = include_str!("ls.md");
    const ACCESS: Access = Access::Read;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || ls(&input, &cx)).await
    }
}

fn ls(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let (workspace, path) = (&cx.workspace, input.path.as_deref().unwrap_or("."));
    let shown = workspace.show(&workspace.resolve(path));
    let failed = |error: io::Error| format!("cannot list {shown}: {error}");
    let found = workspace.find(path, &cx.grant).map_err(|refusal| told("list", &shown, &refusal))?;
    let dir = found.into_dir().map_err(failed)?;
    let mut names = dir.names().map_err(failed)?;
    let all = names.len();
    let sight = workspace.guard().sight(dir.path(), &cx.grant);
    names.retain(|name| sight.of(Path::new(name)) != Verdict::Deny);
    let hidden = all - names.len();
    names.sort();

    let mut head = Head::default();
    let shown = names.iter().take(SHOWN_MAX).take_while(|name| head.push(&describe(&dir, name))).count();
    let mut notes = Vec::new();
    match names.len() {
        0 if hidden == 0 => notes.push("(empty)".to_owned()),
        all if shown < all => notes.push(format!("[the first {shown} of {all} entries]")),
        _ => {}
    }
    notes.extend(walk::hidden_note(hidden));
    let outcome = Outcome::ok(head.finish(&notes.join("\n")));
    Ok(outcome.with("entries", names.len()).with("truncated", shown < names.len()))
}

fn describe(dir: &Dir, name: &OsStr) -> String {
    let shown = path::shown(Path::new(name));
    // An entry that went away while it was listed is shown by its name.
    let Ok(metadata) = dir.metadata(Path::new(name)) else { return shown };
    if metadata.is_dir() {
        format!("{shown}/")
    } else if metadata.is_symlink() {
        let target = dir.read_link(name).map_or("?".to_owned(), |target| path::shown(&target));
        format!("{shown} -> {target}")
    } else {
        format!("{shown}  {}", size(metadata.len()))
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}
