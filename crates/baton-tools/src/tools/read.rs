//! `read`: a part of a file with line numbers, or a picture.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_core::{Access, Image};
use baton_guard::{Refusal, Verdict, path};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::image::{IMAGE_BYTES_MAX, check_image, check_size, image_type};
use crate::ledger::Stamping;
use crate::regular;
use crate::shape::Head;
use crate::workspace::told;
use crate::{CallContext, Outcome, TypedTool};

const LINE_BYTES_MAX: usize = 2_000;
const BUFFER_BYTES: usize = 64 * 1024;
/// What decides whether a file is binary.
const SAMPLE_BYTES: u64 = 8 * 1024;

/// Reads files.
pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "file_path")]
    path: String,
    /// First line, from 1.
    offset: Option<usize>,
    /// Number of lines.
    limit: Option<usize>,
}

impl TypedTool for Read {
    type Input = Input;
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = include_str!("read.md");
    const ACCESS: Access = Access::Read;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cx = cx.clone();
        crate::blocking(move || read(&input, &cx)).await
    }
}

fn read(input: &Input, cx: &CallContext) -> Result<Outcome, String> {
    let (workspace, cancel) = (&*cx.workspace, &cx.cancel);
    let shown = workspace.show(&workspace.resolve(&input.path));
    let failed = |error: io::Error| format!("cannot read {shown}: {error}");
    let found = match workspace.find(&input.path, &cx.grant) {
        Ok(found) => found,
        Err(Refusal::Missing(path)) => return Err(missing(&path, &shown, cx)),
        Err(refusal) => return Err(told("read", &shown, &refusal)),
    };
    if found.metadata().is_dir() {
        return Err(format!("{shown} is a directory: use `ls` to list it"));
    }
    if !found.metadata().is_file() {
        return Err(format!("{shown} is a device, pipe or socket, not a file: it cannot be read"));
    }
    let file = regular::open(&found, cancel).map_err(failed)?;
    let size = file.metadata().len();
    let mut file = Stamping::new(file);
    let mut sample = Vec::new();
    file.by_ref().take(SAMPLE_BYTES).read_to_end(&mut sample).map_err(failed)?;
    if image_type(&sample).is_some() {
        return image(sample, file, size, &shown);
    }
    if is_binary(&sample) {
        return Err(format!(
            "{shown} is binary ({size} bytes): it cannot be shown as text; use `bash` with file, strings or xxd"
        ));
    }
    let text = BufReader::with_capacity(BUFFER_BYTES, sample.chain(file.by_ref()));
    let outcome = number(text, input).map_err(failed)?;
    let stamp = file.finish().map_err(failed)?;
    workspace.ledger().note(found.path(), stamp);
    Ok(outcome)
}

/// Numbers the lines that were asked for. Holds no more of any line than is shown.
fn number(mut text: impl BufRead, input: &Input) -> io::Result<Outcome> {
    let first = input.offset.unwrap_or(1).max(1);
    let limit = input.limit.unwrap_or(usize::MAX).max(1);
    let mut head = Head::default();
    let (mut line_number, mut lossy) = (0, false);
    let mut line = Vec::new();
    let more = loop {
        line.clear();
        let wanted = line_number + 1 >= first;
        let Some(length) = next_line(&mut text, if wanted { LINE_BYTES_MAX } else { 0 }, &mut line)? else {
            break false;
        };
        if !wanted {
            line_number += 1;
            continue;
        }
        let cut = length - line.len();
        // A character that was cut in two is not an invalid one.
        if cut > 0
            && let Err(error) = str::from_utf8(&line)
            && error.error_len().is_none()
        {
            line.truncate(error.valid_up_to());
        }
        let decoded = String::from_utf8_lossy(&line);
        lossy |= matches!(decoded, Cow::Owned(_));
        let note = if cut > 0 { format!("... [{cut} bytes cut]") } else { String::new() };
        let numbered = format!("{:>6}\t{}{note}", line_number + 1, decoded.trim_end_matches('\r'));
        if head.lines() == limit || !head.push(&numbered) {
            break true;
        }
        line_number += 1;
    };
    if head.lines() == 0 && line_number > 0 {
        return Ok(Outcome::error(format!("the file has only {line_number} lines")));
    }
    let mut notes = Vec::new();
    if line_number == 0 {
        notes.push("(the file is empty)".to_owned());
    }
    if lossy {
        notes.push("[some bytes are not valid UTF-8 and are shown as U+FFFD]".to_owned());
    }
    if more {
        notes.push(format!("[more lines follow: continue with offset={}]", line_number + 1));
    }
    Ok(Outcome::ok(head.finish(&notes.join("\n"))).with("truncated", more))
}

/// Reads the next line up to its break and keeps at most `keep` bytes of it; how long it is, or none at the end.
fn next_line(text: &mut impl BufRead, keep: usize, line: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut length = 0;
    let mut any = false;
    loop {
        let available = text.fill_buf()?;
        if available.is_empty() {
            return Ok(any.then_some(length));
        }
        any = true;
        let found = memchr::memchr(b'\n', available);
        let part = &available[..found.unwrap_or(available.len())];
        line.extend_from_slice(&part[..part.len().min(keep.saturating_sub(line.len()))]);
        length += part.len();
        let used = part.len() + usize::from(found.is_some());
        text.consume(used);
        if found.is_some() {
            return Ok(Some(length));
        }
    }
}

fn image(start: Vec<u8>, rest: impl io::Read, size: u64, shown: &str) -> Result<Outcome, String> {
    let unfit = |why: String| format!("{shown} cannot be shown: {why}");
    check_size(size).map_err(unfit)?;
    let mut bytes = start;
    rest.take(IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let media_type = check_image(&bytes).map_err(unfit)?;
    let image = Image { media_type: media_type.to_owned(), data: STANDARD.encode(&bytes) };
    Ok(Outcome { images: vec![image], ..Outcome::ok(format!("{shown}: {media_type}, {} bytes", bytes.len())) })
}

/// NUL is in no text; and text in any 8-bit encoding has few control characters. UTF-16 counts as binary.
fn is_binary(sample: &[u8]) -> bool {
    let control = |byte: &&u8| **byte < 0x20 && !matches!(**byte, b'\n' | b'\r' | b'\t' | 0x0c | 0x1b | 0x08);
    sample.contains(&0)
        || sample.starts_with(&[0xff, 0xfe])
        || sample.starts_with(&[0xfe, 0xff])
        || sample.iter().filter(control).count() * 10 > sample.len()
}

/// A missing file, with the names it may have been mistaken for. `path` has its links resolved.
fn missing(path: &Path, shown: &str, cx: &CallContext) -> String {
    const SHOWN_MAX: usize = 3;
    let wanted = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let guard = cx.workspace.guard();
    let dir = path.parent().and_then(|dir| guard.find(dir, &cx.grant).ok()?.into_dir().ok());
    let Some(dir) = dir else { return format!("{shown} does not exist, nor does its directory") };
    let sight = guard.sight(dir.path(), &cx.grant);
    let mut near: Vec<(usize, String)> = dir
        .names()
        .unwrap_or_default()
        .into_iter()
        .filter(|name| sight.of(Path::new(name)) != Verdict::Deny)
        .filter_map(|name| {
            let name = path::shown(Path::new(&name));
            let unlike = distance(&wanted, &name.to_lowercase());
            (unlike <= wanted.len() / 3 + 1).then_some((unlike, name))
        })
        .collect();
    near.sort();
    let names: Vec<_> = near.into_iter().take(SHOWN_MAX).map(|(_, name)| name).collect();
    match names.as_slice() {
        [] => format!("{shown} does not exist; use `glob` to find it"),
        names => format!("{shown} does not exist; beside it there is {}", names.join(", ")),
    }
}

/// How many characters have to be changed, added or taken away to make one name the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (above, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], above + 1);
        for (at, b) in other.chars().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
