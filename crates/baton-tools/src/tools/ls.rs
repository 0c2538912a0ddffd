//! `ls`: what is in a directory.

use std::fs;
use std::io;

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::shape::Head;
use crate::{CallContext, Outcome, TypedTool, Workspace};

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
        let workspace = cx.workspace.clone();
        crate::blocking(move || ls(&input, &workspace)).await
    }
}

fn ls(input: &Input, workspace: &Workspace) -> Result<Outcome, String> {
    let dir = workspace.resolve(input.path.as_deref().unwrap_or("."));
    let failed = |error: io::Error| format!("cannot list {}: {error}", workspace.show(&dir));
    let mut entries = Vec::new();
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        entries.push((entry.file_name(), entry));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));

    let mut head = Head::default();
    let shown = entries.iter().take(SHOWN_MAX).take_while(|(_, entry)| head.push(&describe(entry))).count();
    let note = match entries.len() {
        0 => "(empty)".to_owned(),
        all if shown < all => format!("[the first {shown} of {all} entries]"),
        _ => String::new(),
    };
    Ok(Outcome::ok(head.finish(&note)).with("entries", entries.len()).with("truncated", shown < entries.len()))
}

fn describe(entry: &fs::DirEntry) -> String {
    let name = entry.file_name().to_string_lossy().into_owned();
    // An entry that went away while it was listed is shown by its name.
    let Ok(metadata) = entry.metadata() else { return name };
    if metadata.is_dir() {
        format!("{name}/")
    } else if metadata.is_symlink() {
        let target = fs::read_link(entry.path()).map_or("?".to_owned(), |target| target.display().to_string());
        format!("{name} -> {target}")
    } else {
        format!("{name}  {}", size(metadata.len()))
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}
