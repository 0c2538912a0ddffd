//! `grep`: searches the contents of files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_core::Access;
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::walk::{self, Hidden};
use crate::shape::{Head, cut_line};
use crate::{CallContext, Outcome, TypedTool, Workspace};

const LIMIT_DEFAULT: usize = 200;
const LIMIT_MAX: usize = 1_000;
const CONTEXT_MAX: usize = 20;
const LINE_BYTES_MAX: usize = 300;

/// Searches file contents.
pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pattern: String,
    /// File or directory to search in.
    path: Option<String>,
    /// Only files whose name matches, e.g. `*.rs`.
    glob: Option<String>,
    #[serde(alias = "-i")]
    ignore_case: Option<bool>,
    /// Lines shown around each match.
    #[serde(alias = "-C")]
    context: Option<usize>,
    /// Only the paths of files that match.
    files_only: Option<bool>,
    /// Matches shown at most; 200 unless set.
    #[serde(alias = "head_limit")]
    limit: Option<usize>,
}

impl TypedTool for Grep {
    type Input = Input;
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = include_str!("grep.md");
    const ACCESS: Access = Access::Read;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let (workspace, cancel) = (cx.workspace.clone(), cx.cancel.clone());
        crate::blocking(move || grep(&input, &workspace, &cancel)).await
    }
}

fn grep(input: &Input, workspace: &Workspace, cancel: &CancellationToken) -> Result<Outcome, String> {
    let search = Search::new(input)?;
    let root = workspace.resolve(input.path.as_deref().unwrap_or("."));
    let name_filter = input.glob.as_deref().map(name_filter).transpose()?;
    let mut files = if root.is_file() {
        vec![root]
    } else if root.is_dir() {
        walk::files(&root, Hidden::Skipped, cancel, |path| {
            name_filter.as_ref().is_none_or(|glob| glob.is_match(path.strip_prefix(&root).unwrap_or(path)))
        })
    } else {
        return Err(format!("{} does not exist or is not a file or directory", workspace.show(&root)));
    };
    files.sort_unstable();
    let hits = search.run(&files, cancel);
    if cancel.is_cancelled() {
        return Err("cancelled".to_owned());
    }
    Ok(search.show(&files, &hits, workspace))
}

fn name_filter(pattern: &str) -> Result<GlobMatcher, String> {
    let anywhere = if pattern.contains('/') { pattern.to_owned() } else { format!("**/{pattern}") };
    let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
    Ok(glob.map_err(|error| format!("invalid glob: {error}"))?.compile_matcher())
}

struct Search {
    matcher: RegexMatcher,
    context: usize,
    files_only: bool,
    /// Matches at most; files at most where only those are shown.
    limit: usize,
}

/// The lines of one file that are shown, and how many of them match.
#[derive(Default)]
struct Hits {
    lines: Vec<Line>,
    matches: usize,
}

enum Line {
    Match(u64, String),
    Context(u64, String),
    Gap,
}

impl Search {
    fn new(input: &Input) -> Result<Self, String> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(input.ignore_case == Some(true))
            .line_terminator(Some(b'\n'))
            .build(&input.pattern)
            .map_err(|error| {
                format!(
                    "invalid regular expression: {error}\nTo search for it literally, escape special characters with \\"
                )
            })?;
        let files_only = input.files_only == Some(true);
        let context = if files_only { 0 } else { input.context.unwrap_or(0).min(CONTEXT_MAX) };
        let limit = input.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
        Ok(Self { matcher, context, files_only, limit })
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .build()
    }

    /// Searches the files in their order, several at a time. No further file is begun once there are enough matches: those
    /// before it have been searched by then, so that the first matches are the same every time.
    fn run(&self, files: &[PathBuf], cancel: &CancellationToken) -> BTreeMap<usize, Hits> {
        let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..walk::threads().min(files.len()) {
                scope.spawn(|| {
                    let mut searcher = self.searcher();
                    while found.load(Ordering::Relaxed) <= self.limit && !cancel.is_cancelled() {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(file) = files.get(at) else { break };
                        let hits = self.search(&mut searcher, file);
                        if hits.matches > 0 {
                            found.fetch_add(if self.files_only { 1 } else { hits.matches }, Ordering::Relaxed);
                            all.lock().unwrap_or_else(PoisonError::into_inner).insert(at, hits);
                        }
                    }
                });
            }
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn search(&self, searcher: &mut Searcher, file: &Path) -> Hits {
        let matches_max = if self.files_only { 1 } else { self.limit + 1 };
        let mut collect = Collect { hits: Hits::default(), matches_max };
        match searcher.search_path(&self.matcher, file, &mut collect) {
            Ok(()) => collect.hits,
            // What cannot be read is passed over, as everywhere in such searches.
            Err(_) => Hits::default(),
        }
    }

    fn show(&self, files: &[PathBuf], hits: &BTreeMap<usize, Hits>, workspace: &Workspace) -> Outcome {
        let mut head = Head::default();
        let (mut shown, mut more) = (0, false);
        'all: for (at, hits) in hits {
            let path = workspace.show(&files[*at]);
            for line in &hits.lines {
                let (is_match, text) = match line {
                    Line::Match(_, _) if self.files_only => (true, path.clone()),
                    Line::Match(number, text) => (true, format!("{path}:{number}:{text}")),
                    Line::Context(number, text) => (false, format!("{path}-{number}-{text}")),
                    // Another match follows, and there is no room for it.
                    Line::Gap if shown == self.limit => {
                        more = true;
                        break 'all;
                    }
                    Line::Gap => (false, "--".to_owned()),
                };
                if (is_match && shown == self.limit) || !head.push(&text) {
                    more = true;
                    break 'all;
                }
                shown += usize::from(is_match);
            }
        }
        let what = if self.files_only { "files" } else { "matches" };
        let note = match shown {
            0 => "no matches".to_owned(),
            _ if more => format!("[the first {shown} {what}; there are more: narrow the pattern or the path]"),
            _ => String::new(),
        };
        Outcome::ok(head.finish(&note)).with(what, shown).with("truncated", more)
    }
}

struct Collect {
    hits: Hits,
    matches_max: usize,
}

impl Sink for Collect {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.hits.lines.push(Line::Match(found.line_number().unwrap_or(0), text(found.bytes())));
        self.hits.matches += 1;
        Ok(self.hits.matches < self.matches_max)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        self.hits.lines.push(Line::Context(found.line_number().unwrap_or(0), text(found.bytes())));
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.hits.lines.push(Line::Gap);
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.hits = Hits::default();
        Ok(false)
    }
}

fn text(line: &[u8]) -> String {
    cut_line(String::from_utf8_lossy(line).trim_end(), LINE_BYTES_MAX).into_owned()
}
