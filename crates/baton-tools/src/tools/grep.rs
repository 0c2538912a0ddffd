//! `grep`: searches the contents of files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_core::Access;
use baton_guard::path::normalise;
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::walk::{self, Hidden, Walk, Wanted};
use crate::regular::{self, Regular};
use crate::shape::{Head, cut_line};
use crate::workspace::told;
use crate::{CallContext, Outcome, TypedTool};

const LIMIT_DEFAULT: usize = 200;
const LIMIT_MAX: usize = 1_000;
const CONTEXT_MAX: usize = 20;
const LINE_BYTES_MAX: usize = 300;
/// A file that is larger is searched while it is read.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// How many files are searched before all the others are looked for.
const FIRST_FILES: usize = 512;
/// A file is searched up to a line that is longer: it would have to be in memory.
const LINE_SEARCHED_MAX: usize = 8 * 1024 * 1024;

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
        let cx = cx.clone();
        crate::blocking(move || grep(&input, &cx)).await
    }
}

fn grep(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let (workspace, cancel) = (&*cx.workspace, &cx.cancel);
    let search = Search::new(input)?;
    let path = input.path.as_deref().unwrap_or(".");
    let root = normalise(&workspace.resolve(path));
    let name_filter = input.glob.as_deref().map(name_filter).transpose()?;
    let found = workspace.find(path, &cx.grant).map_err(|refusal| told("search", &workspace.show(&root), &refusal))?;
    let (files, hits, note) = if found.metadata().is_dir() {
        let base = found.into_dir().map_err(|error| format!("cannot search {}: {error}", workspace.show(&root)))?;
        let sight = workspace.guard().sight(base.path(), &cx.grant);
        let keep = |path: &Path| name_filter.as_ref().is_none_or(|glob| glob.is_match(path));
        let (hidden, wanted) = (Hidden::Skipped, Wanted::Contents);
        let walk = Walk { base: &base, hidden, wanted, sight: &sight, cancel, keep };
        let opener = || {
            let mut near = base.near();
            move |path: &Path| {
                let (file, metadata) = near.open_file(path)?;
                regular::of(file, metadata, path, cancel)
            }
        };
        // A common word is found often enough in a few files, so that the others need not even be found.
        let (mut files, mut walked) = walk.first(FIRST_FILES);
        let mut hits = search.run(&files, opener, cancel);
        if walked.stopped && !search.has_enough(hits.values()) {
            let all = Mutex::new(Vec::new());
            walked = walk.all(walk::FILES_MAX, |_, path| {
                all.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                true
            });
            let mut rest = all.into_inner().unwrap_or_else(PoisonError::into_inner);
            rest.retain(|path| files.last().is_none_or(|last| path > last));
            rest.sort_unstable();
            let more = search.run(&rest, opener, cancel);
            hits.extend(more.into_iter().map(|(at, hits)| (files.len() + at, hits)));
            files.append(&mut rest);
        } else {
            walked.stopped = false;
        }
        (files, hits, walked.note())
    } else {
        // A file that was asked for is not passed over in silence.
        let opener = || |_: &Path| regular::open(&found, cancel);
        opener()(&root).map_err(|error| format!("cannot search {}: {error}", workspace.show(&root)))?;
        let files = vec![PathBuf::new()];
        let hits = search.run(&files, opener, cancel);
        (files, hits, None)
    };
    if cancel.is_cancelled() {
        return Err("cancelled".to_owned());
    }
    Ok(search.show(&files, &hits, note, |path| workspace.show(&root.join(path))))
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
    /// Whether it was not searched to its end, for a reason that others would not expect.
    unfinished: bool,
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
            .heap_limit(Some(LINE_SEARCHED_MAX))
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .build()
    }

    /// Searches the files in their order, several at a time. No further file is begun once there are enough matches: those
    /// before it have been searched by then, so that the first matches are the same every time.
    fn run<O: FnMut(&Path) -> io::Result<Regular>>(
        &self,
        files: &[PathBuf],
        opener: impl Fn() -> O + Sync,
        cancel: &CancellationToken,
    ) -> BTreeMap<usize, Hits> {
        let (next, found) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..walk::threads().min(files.len()) {
                scope.spawn(|| {
                    let (mut searcher, mut open, mut buffer) = (self.searcher(), opener(), Vec::new());
                    while found.load(Ordering::Relaxed) <= self.limit && !cancel.is_cancelled() {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(file) = files.get(at) else { break };
                        let hits = self.search(&mut searcher, &mut buffer, open(file));
                        if hits.matches > 0 || hits.unfinished {
                            found.fetch_add(self.count(&hits), Ordering::Relaxed);
                            all.lock().unwrap_or_else(PoisonError::into_inner).insert(at, hits);
                        }
                    }
                });
            }
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are of what is limited.
    fn count(&self, hits: &Hits) -> usize {
        if self.files_only { hits.matches.min(1) } else { hits.matches }
    }

    /// Whether there are more than are shown.
    fn has_enough<'a>(&self, all: impl Iterator<Item = &'a Hits>) -> bool {
        all.map(|hits| self.count(hits)).sum::<usize>() > self.limit
    }

    fn search(&self, searcher: &mut Searcher, buffer: &mut Vec<u8>, file: io::Result<Regular>) -> Hits {
        let matches_max = if self.files_only { 1 } else { self.limit + 1 };
        let mut collect = Collect { hits: Hits::default(), matches_max };
        // The reader ends when the call is cancelled: a huge file without a match never comes to the sink.
        // What cannot be opened or read is passed over, as everywhere in such searches.
        if let Ok(mut file) = file
            && let Err(error) = match at_once(&mut file, buffer) {
                Ok(true) => searcher.search_slice(&self.matcher, buffer, &mut collect),
                Ok(false) => searcher.search_reader(&self.matcher, (&buffer[..]).chain(file), &mut collect),
                Err(error) => Err(error),
            }
        {
            collect.hits.unfinished = error.kind() == io::ErrorKind::Other;
        }
        collect.hits
    }

    fn show(
        &self,
        files: &[PathBuf],
        hits: &BTreeMap<usize, Hits>,
        stopped: Option<String>,
        shown_as: impl Fn(&Path) -> String,
    ) -> Outcome {
        let mut head = Head::default();
        let (mut shown, mut more) = (0, false);
        'all: for (at, hits) in hits {
            let path = shown_as(&files[*at]);
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
        let mut notes = Vec::new();
        if shown == 0 {
            notes.push("no matches".to_owned());
        } else if more {
            notes.push(format!("[the first {shown} {what}; there are more: narrow the pattern or the path]"));
        }
        let unfinished = hits.values().filter(|hits| hits.unfinished).count();
        if unfinished > 0 {
            let limit = LINE_SEARCHED_MAX >> 20;
            notes.push(format!(
                "[not searched to the end: {unfinished} files, for lines longer than {limit} MiB or because they never end]"
            ));
        }
        let truncated = more || unfinished > 0 || stopped.is_some();
        notes.extend(stopped);
        Outcome::ok(head.finish(&notes.join("\n"))).with(what, shown).with("truncated", truncated)
    }
}

/// Reads a file that is small, as most are, by one call; whether that was all of it.
fn at_once(file: &mut Regular, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    let size = usize::try_from(file.metadata().len()).unwrap_or(usize::MAX);
    // What says that it is empty may be a file of the kernel that is not.
    if size == 0 || size > SMALL_BYTES_MAX {
        return Ok(false);
    }
    // With room for one more, less than asked for means that this is the end.
    buffer.resize(size + 1, 0);
    let count = file.read(buffer)?;
    buffer.truncate(count);
    Ok(count == size)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regular::tests::held;

    #[test]
    fn small_and_large_files_are_searched_alike() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let search = Search::new(&serde_json::from_value(serde_json::json!({"pattern": "^né"})).unwrap()).unwrap();
        let cancel = CancellationToken::new();
        let (mut searcher, mut buffer) = (search.searcher(), Vec::new());
        let mut count = |contents: &[u8]| {
            std::fs::write(&file, contents).unwrap();
            search.search(&mut searcher, &mut buffer, regular::open(&held(&file), &cancel)).matches
        };
        let utf16 =
            |text: &str| [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        for size in [8, SMALL_BYTES_MAX - 1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, 3 * SMALL_BYTES_MAX] {
            let text = format!("né\n{}\nné", "x".repeat(size.saturating_sub(8)));
            assert_eq!(count(text.as_bytes()), 2, "{size}");
            let wide: Vec<u8> = utf16(&text);
            assert_eq!(count(&wide), 2, "{size}");
            assert_eq!(count(format!("{text}\0").as_bytes()), 0, "{size}");
        }
        assert_eq!(count(b""), 0);
        // It says that it is empty.
        let search = Search::new(&serde_json::from_value(serde_json::json!({"pattern": "^Name:"})).unwrap()).unwrap();
        let status = regular::open(&held(Path::new("/proc/self/status")), &cancel);
        assert_eq!(search.search(&mut search.searcher(), &mut Vec::new(), status).matches, 1);
    }

    #[test]
    fn the_search_of_a_file_ends_when_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "line\n").unwrap();
        let input = serde_json::json!({"pattern": "line"});
        let search = Search::new(&serde_json::from_value(input).unwrap()).unwrap();
        let cancel = CancellationToken::new();
        let search =
            || search.search(&mut search.searcher(), &mut Vec::new(), regular::open(&held(&file), &cancel)).matches;
        assert_eq!(search(), 1);
        cancel.cancel();
        assert_eq!(search(), 0);
    }
}
