//! Scanning: the pieces of a session file, whole entries and damage, from its beginning or from its end.
//!
//! Lines are split at LF bytes and nothing else. Memory is bounded by the longest line that is looked at.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::entry::Span;
use crate::line::{is_whole, salvage};

/// How much is read at once.
const CHUNK: usize = 256 * 1024;
/// A longer line is no entry: it is passed over without being held.
const LINE_MAX: usize = 64 * 1024 * 1024;

/// What a file holds at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole entry: where it begins, and its bytes without the line break.
    Whole(u64, Vec<u8>),
    /// Bytes that are no entry.
    Damage(Damage),
}

/// Bytes that are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where they are.
    pub span: Span,
    /// What seems to have happened.
    pub cause: Cause,
}

/// What seems to have happened to bytes that are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// Whoever wrote it was stopped.
    #[error("the last entry was cut off while it was written")]
    Torn,
    /// Somebody has changed it.
    #[error("not an entry as Baton writes it")]
    Foreign,
    /// The same entry was there before.
    #[error("an entry that the file already has")]
    Twice,
    /// A line without an end in sight.
    #[error("a line that is too long for an entry")]
    TooLong,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Span { from, bytes } = self.span;
        write!(f, "bytes {from} to {}: {}", from + bytes, self.cause)
    }
}

/// The pieces of a line that begins at `at`, in order. `is_last` if the file ends with it, without a line break.
fn pieces(at: u64, line: &[u8], is_last: bool) -> Vec<Piece> {
    // Tools for text change the ends of lines; the entry is whole all the same.
    let plain = line.strip_suffix(b"\r").unwrap_or(line);
    if plain.is_empty() {
        return Vec::new();
    }
    if line.len() > LINE_MAX {
        return vec![too_long(at, line.len() as u64 + u64::from(!is_last))];
    }
    if is_whole(plain) {
        return vec![Piece::Whole(at, plain.to_vec())];
    }
    let damage = |range: Range<usize>, cause| {
        Piece::Damage(Damage { span: Span { from: at + range.start as u64, bytes: range.len() as u64 }, cause })
    };
    let mut found = Vec::new();
    let mut end = 0;
    for range in salvage(line) {
        if range.start > end {
            found.push(damage(end..range.start, Cause::Foreign));
        }
        end = range.end;
        found.push(Piece::Whole(at + range.start as u64, line[range].to_vec()));
    }
    if end < line.len() {
        found.push(damage(end..line.len(), if is_last { Cause::Torn } else { Cause::Foreign }));
    }
    found
}

/// A line that nobody looks into, with its break.
fn too_long(from: u64, bytes: u64) -> Piece {
    Piece::Damage(Damage { span: Span { from, bytes }, cause: Cause::TooLong })
}

/// Reads a file from some place to its end.
pub struct Forward<R> {
    reader: R,
    /// What was read and not yet given out, from `start`; `at` is where that stands in the file.
    buffer: Vec<u8>,
    start: usize,
    at: u64,
    is_at_end: bool,
    ready: std::collections::VecDeque<Piece>,
    /// The entry that was given out last, if it could not be looked at in its place.
    held: Vec<u8>,
}

impl<R: Read> Forward<R> {
    /// Reads from here; the first byte stands at `at` in the file.
    pub fn new(reader: R, at: u64) -> Self {
        let (buffer, held, ready) = (Vec::new(), Vec::new(), std::collections::VecDeque::new());
        Self { reader, buffer, start: 0, at, is_at_end: false, ready, held }
    }

    /// Where the next piece begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The bytes of the next whole entry; what is none is passed over. A line is looked at where it was read.
    pub(crate) fn next_whole(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let rest = &self.buffer[self.start..];
            if self.ready.is_empty()
                && let Some(length) = memchr::memchr(b'\n', rest)
                && length <= LINE_MAX
                && is_whole(&rest[..length])
            {
                let line = self.start..self.start + length;
                self.start = line.end + 1;
                self.at += length as u64 + 1;
                return Ok(Some(&self.buffer[line]));
            }
            match self.next()? {
                None => return Ok(None),
                Some(Piece::Damage(_)) => {}
                Some(Piece::Whole(_, line)) => {
                    self.held = line;
                    return Ok(Some(&self.held));
                }
            }
        }
    }

    /// The next piece.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut searched = 0;
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            let rest = &self.buffer[self.start..];
            if let Some(length) = memchr::memchr(b'\n', &rest[searched..]).map(|found| found + searched) {
                // The common case: nothing is moved but the entry itself.
                self.ready.extend(pieces(self.at, &rest[..length], false));
                self.start += length + 1;
                self.at += length as u64 + 1;
                searched = 0;
            } else if self.is_at_end {
                if rest.is_empty() {
                    return Ok(None);
                }
                self.ready.extend(pieces(self.at, rest, true));
                self.at += rest.len() as u64;
                self.start = self.buffer.len();
            } else if rest.len() > LINE_MAX {
                self.pass_over()?;
                searched = 0;
            } else {
                searched = rest.len();
                self.fill()?;
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.reserve(CHUNK);
        let read = self.reader.by_ref().take(CHUNK as u64).read_to_end(&mut self.buffer)?;
        self.is_at_end = read < CHUNK;
        Ok(())
    }

    /// Reads on to the end of a line that is too long.
    fn pass_over(&mut self) -> io::Result<()> {
        let from = self.at;
        loop {
            let rest = &self.buffer[self.start..];
            let (length, has_ended) = match memchr::memchr(b'\n', rest) {
                Some(length) => (length + 1, true),
                None => (rest.len(), self.is_at_end),
            };
            self.start += length;
            self.at += length as u64;
            if has_ended {
                self.ready.push_back(too_long(from, self.at - from));
                return Ok(());
            }
            self.fill()?;
        }
    }
}

/// Reads a file from its end to its beginning.
pub struct Backward<'a> {
    file: &'a File,
    /// Everything before this byte is still to be read.
    unread: u64,
    /// What was read and not yet given out: the bytes that begin at `unread`.
    buffer: Vec<u8>,
    is_last: bool,
    ready: Vec<Piece>,
}

impl<'a> Backward<'a> {
    /// Reads what stands before `end`.
    pub fn new(file: &'a File, end: u64) -> Self {
        Self { file, unread: end, buffer: Vec::new(), is_last: true, ready: Vec::new() }
    }

    /// The piece before the last one.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.ready.pop() {
                return Ok(Some(piece));
            }
            let is_last = self.is_last;
            let body = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
            if let Some(before) = memchr::memrchr(b'\n', body) {
                let start = before + 1;
                let ends_torn = is_last && body.len() == self.buffer.len();
                self.ready = pieces(self.unread + start as u64, &body[start..], ends_torn);
                self.buffer.truncate(start);
            } else if self.unread == 0 {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                let ends_torn = is_last && body.len() == self.buffer.len();
                self.ready = pieces(0, body, ends_torn);
                self.buffer.clear();
            } else if body.len() > LINE_MAX {
                self.pass_over()?;
            } else {
                self.fill()?;
                continue;
            }
            self.is_last = false;
        }
    }

    /// Takes what stands before into the buffer.
    fn fill(&mut self) -> io::Result<()> {
        // Grows with the line, so that a long one is not copied again and again.
        let length = CHUNK.max(self.buffer.len()).min((LINE_MAX + CHUNK).saturating_sub(self.buffer.len()));
        let mut chunk = self.read_before(length)?;
        chunk.extend_from_slice(&self.buffer);
        self.buffer = chunk;
        Ok(())
    }

    /// Reads on to the beginning of a line that is too long.
    fn pass_over(&mut self) -> io::Result<()> {
        let end = self.unread + self.buffer.len() as u64;
        let from = loop {
            self.buffer = self.read_before(CHUNK)?;
            if let Some(before) = memchr::memrchr(b'\n', &self.buffer) {
                self.buffer.truncate(before + 1);
                break self.unread + before as u64 + 1;
            }
            if self.unread == 0 {
                self.buffer.clear();
                break 0;
            }
        };
        self.ready.push(too_long(from, end - from));
        Ok(())
    }

    /// The bytes before those that were read, no more than so many.
    fn read_before(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let length = self.unread.min(most as u64);
        let mut chunk = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.unread -= length;
        self.file.read_exact_at(&mut chunk, self.unread)?;
        Ok(chunk)
    }
}
