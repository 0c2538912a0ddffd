//! `glob`: files by name, newest first.

use std::cmp::Reverse;
use std::path::PathBuf;
use std::time::SystemTime;

use baton_core::Access;
use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::walk::{self, Hidden};
use crate::shape::Head;
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
        let (workspace, cancel) = (cx.workspace.clone(), cx.cancel.clone());
        crate::blocking(move || glob(&input, &workspace, &cancel)).await
    }
}

fn glob(input: &Input, workspace: &Workspace, cancel: &CancellationToken) -> Result<Outcome, String> {
    let root = workspace.resolve(input.path.as_deref().unwrap_or("."));
    if !root.is_dir() {
        return Err(format!("{} is not a directory", workspace.show(&root)));
    }
    let pattern = input.pattern.trim_start_matches("./");
    // What a person means by `*.rs` or by an absolute pattern.
    let absolute = pattern.starts_with('/');
    let pattern = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let matcher = GlobBuilder::new(&pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| format!("invalid pattern: {error}"))?
        .compile_matcher();
    let names_hidden = pattern.split('/').any(|part| part.starts_with('.') && part != "." && part != "..");
    let hidden = if names_hidden { Hidden::Wanted } else { Hidden::Skipped };
    let base = if absolute { fixed_part(&pattern) } else { root.clone() };

    let found = walk::files(&base, hidden, cancel, |path| {
        matcher.is_match(if absolute { path } else { path.strip_prefix(&root).unwrap_or(path) })
    });
    if cancel.is_cancelled() {
        return Err("cancelled".to_owned());
    }
    let mut newest: Vec<(Reverse<SystemTime>, PathBuf)> = found
        .into_iter()
        .map(|path| {
            let modified = path.metadata().and_then(|metadata| metadata.modified());
            (Reverse(modified.unwrap_or(SystemTime::UNIX_EPOCH)), path)
        })
        .collect();
    newest.sort_unstable();

    let mut head = Head::default();
    let shown = newest.iter().take(SHOWN_MAX).take_while(|(_, path)| head.push(&workspace.show(path))).count();
    let note = match newest.len() {
        0 => "no files match".to_owned(),
        all if shown < all => format!("[the newest {shown} of {all} files]"),
        _ => String::new(),
    };
    Ok(Outcome::ok(head.finish(&note)).with("files", newest.len()).with("truncated", shown < newest.len()))
}

/// The directory of an absolute pattern in which everything that it can match lies.
fn fixed_part(pattern: &str) -> PathBuf {
    let fixed = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    let path: PathBuf = std::iter::once("/").chain(fixed.filter(|part| !part.is_empty())).collect();
    if path.is_dir() { path } else { path.parent().map(PathBuf::from).unwrap_or(path) }
}
