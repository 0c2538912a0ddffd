//! `glob`: files by name, newest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use baton_core::Access;
use baton_guard::Refusal;
use baton_guard::path::normalise;
use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::walk::{self, Hidden, Walk, Wanted};
use crate::shape::Head;
use crate::workspace::told;
use crate::{CallContext, Outcome, TypedTool, Workspace};

const SHOWN_MAX: usize = 200;

/// Finds files by name.
pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pattern: String,
    /// Directory to search in.
    path: Option<String>,
}

impl TypedTool for Glob {
    type Input = Input;
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = include_str!("glob.md");
    const ACCESS: Access = Access::Read;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || glob(&input, &cx)).await
    }
}

fn glob(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let (workspace, cancel) = (&*cx.workspace, &cx.cancel);
    let path = input.path.as_deref().unwrap_or(".");
    let root = normalise(&workspace.resolve(path));
    let refused = |refusal: Refusal| told("search", &workspace.show(&root), &refusal);
    let found = workspace.find(path, &cx.grant).map_err(refused)?;
    if !found.metadata().is_dir() {
        return Err(format!("{} is not a directory", workspace.show(&root)));
    }
    let pattern = resolved(input.pattern.trim_start_matches("./"), &root, workspace);
    // What a person means by `*.rs` or by an absolute pattern.
    let absolute = pattern.starts_with('/');
    let pattern = if pattern.contains('/') { pattern } else { format!("**/{pattern}") };
    let matcher = GlobBuilder::new(&pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("invalid pattern: {error}"))?
        .compile_matcher();
    let names_hidden = pattern.split('/').any(|part| part.starts_with('.') && part != "." && part != "..");
    let hidden = if names_hidden { Hidden::Wanted } else { Hidden::Skipped };
    let from = fixed_part(if absolute { Path::new("/") } else { &root }, &pattern);
    let base = workspace.guard().find(&from, &cx.grant).map_err(refused)?;
    let base = base.into_dir().map_err(|error| format!("cannot search {}: {error}", workspace.show(&from)))?;

    // Only what is shown is kept, however much there is: the oldest is on top and goes when something newer comes.
    let newest: Mutex<BinaryHeap<(Reverse<SystemTime>, PathBuf)>> = Mutex::default();
    // What a path from there is put behind to be matched: mostly nothing.
    let prefix = if absolute { &from } else { from.strip_prefix(&root).unwrap_or(&from) };
    let keep = |path: &Path| {
        if prefix.as_os_str().is_empty() { matcher.is_match(path) } else { matcher.is_match(prefix.join(path)) }
    };
    let sight = workspace.guard().sight(base.path(), &cx.grant);
    let walk = Walk { base: &base, hidden, wanted: Wanted::Names, sight: &sight, cancel, keep };
    let walked = walk.all(walk::FILES_MAX, |near, path| {
        let Ok(modified) = near.modified(&path) else { return false };
        let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = newest.len() == SHOWN_MAX;
        let found = (Reverse(modified), path);
        if !is_full {
            newest.push(found);
        } else if let Some(mut oldest) = newest.peek_mut()
            && found < *oldest
        {
            *oldest = found;
        }
        true
    });
    if cancel.is_cancelled() {
        return Err("cancelled".to_owned());
    }
    let newest = newest.into_inner().unwrap_or_else(PoisonError::into_inner).into_sorted_vec();

    let mut head = Head::default();
    let shown = newest.iter().take_while(|(_, path)| head.push(&workspace.show(&from.join(path)))).count();
    let mut notes = Vec::new();
    if walked.files == 0 {
        notes.push("no files match".to_owned());
    } else if shown < walked.files {
        notes.push(format!("[the newest {shown} of {} files]", walked.files));
    }
    notes.extend(walked.note());
    Ok(Outcome::ok(head.finish(&notes.join("\n"))).with("files", walked.files).with("truncated", shown < walked.files))
}

/// The pattern with `~` and `..` at its beginning taken away, as they are in paths.
fn resolved(pattern: &str, root: &Path, workspace: &Workspace) -> String {
    let parts: Vec<&str> = pattern.split('/').collect();
    let fixed = parts.iter().take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).count().min(parts.len() - 1);
    if parts[0] != "~" && !parts[..fixed].contains(&"..") {
        return pattern.to_owned();
    }
    let start = parts[..fixed].join("/");
    let start = if parts[0] == "~" { start } else { root.join(start).display().to_string() };
    let base = normalise(&workspace.resolve(&start)).display().to_string();
    format!("{}/{}", globset::escape(base.trim_end_matches('/')), parts[fixed..].join("/"))
}

/// The directory in which everything lies that a pattern can match: nothing else is looked at.
fn fixed_part(from: &Path, pattern: &str) -> PathBuf {
    let fixed = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    let path = fixed.filter(|part| !part.is_empty()).fold(from.to_owned(), |path, part| path.join(part));
    path.ancestors().find(|path| path.is_dir()).unwrap_or(from).to_owned()
}
