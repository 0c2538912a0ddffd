//! Blocks of key material: where they begin, and line by line where they end, whatever their size.

use super::scan::{AHEAD, Around};

/// Where a block may begin.
pub(super) const ANCHORS: [&str; 2] = ["-----BEGIN ", "Private-Lines: "];

/// The shortest run of base64 that counts as key material.
const MATERIAL: usize = 16;

/// How many lines such as `Proc-Type: 4,ENCRYPTED` may stand before the material.
const HEADERS_MAX: usize = 8;

/// A line inside of a block, with its length.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It belongs to the block.
    Body(usize),
    /// It ends the block; the length goes to the end of the end mark.
    Last(usize),
    /// It does not belong to the block.
    Foreign,
    /// More text is needed to know.
    NeedsMore,
}

/// Whether private key material begins here: a header of that kind, and material behind it. Code that only speaks of the
/// header is none. Returns where the material begins.
pub(super) fn begins(around: Around<'_>) -> Option<usize> {
    let text = around.ahead;
    let mut at = if text.starts_with(b"-----BEGIN ") {
        let rest = &text[11..text.len().min(100)];
        let name = &rest[..memchr::memmem::find(rest, b"-----")?];
        let is_private = [&b"PRIVATE KEY"[..], b"SEED", b"SECRET KEY", b"SHARES", b"OpenVPN Static key"]
            .iter()
            .any(|word| memchr::memmem::find(name, word).is_some());
        if !is_private {
            return None;
        }
        11 + name.len() + 5
    } else if text.starts_with(b"Private-Lines: ") {
        15 + text[15..].iter().take_while(|byte| byte.is_ascii_digit()).count()
    } else {
        return None;
    };
    for _ in 0..HEADERS_MAX {
        let (length, is_whole) = line_length(&text[at..]);
        let line = &text[at..at + length];
        match class_of(line) {
            Class::Material => return Some(at),
            Class::Empty | Class::Header if is_whole => at += length,
            _ => return None,
        }
    }
    None
}

/// What the next line of a block is.
pub(super) fn line(text: &[u8], is_end: bool) -> Line {
    let (length, is_whole) = line_length(text);
    if !is_whole && !is_end && text.len() < AHEAD {
        return Line::NeedsMore;
    }
    let line = &text[..length];
    if let Some(end) = memchr::memmem::find(line, b"-----END ") {
        let mark = memchr::memmem::find(&line[end + 9..], b"-----").map_or(length, |close| end + 9 + close + 5);
        let more = line[mark..].iter().take_while(|byte| **byte == b'-').count();
        return Line::Last(mark + more);
    }
    match class_of(line) {
        Class::Material | Class::Tail | Class::Empty if length > 0 => Line::Body(length),
        _ => Line::Foreign,
    }
}

/// The length of the first line with its end, which may also be a written `\n`; and whether the end is there.
fn line_length(text: &[u8]) -> (usize, bool) {
    let text = &text[..text.len().min(AHEAD)];
    let real = memchr::memchr(b'\n', text).map(|at| at + 1);
    let upto = real.unwrap_or(text.len());
    let written = memchr::memmem::find(&text[..upto], b"\\n").map(|at| at + 2);
    match written.or(real) {
        Some(length) => (length, true),
        // A token that is cut here goes on in the next line.
        None => (text.len(), text.len() == AHEAD),
    }
}

enum Class {
    /// Base64 long enough to be nothing else.
    Material,
    /// The short end of it.
    Tail,
    Header,
    Empty,
    Foreign,
}

/// Looks past what editors, diffs, logs and source code put around lines.
fn class_of(line: &[u8]) -> Class {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let is_around = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`\\,;+>#*|".contains(byte);
    let mut line = line.strip_suffix(b"\n").unwrap_or(line);
    line = line.strip_suffix(b"\\n").unwrap_or(line);
    line = line.strip_suffix(b"\\r").unwrap_or(line);
    line = unnumbered(line);
    while let [first, rest @ ..] = line
        && (is_around(first) || *first == b'-')
    {
        line = rest;
    }
    while let [rest @ .., last] = line
        && is_around(last)
    {
        line = rest;
    }
    if line.is_empty() {
        return Class::Empty;
    }
    let run = line.iter().rev().take_while(|byte| is_base64(byte)).count();
    if run == line.len() {
        return if run >= MATERIAL { Class::Material } else { Class::Tail };
    }
    // Behind the number of a line, the name of a file or the head of a log line.
    if run >= 40 {
        return Class::Material;
    }
    let name = line.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'-').count();
    if name > 2 && line[name..].starts_with(b": ") && line.len() < 120 { Class::Header } else { Class::Foreign }
}

/// The line without its number and the name of its file, as viewers and searches print them.
fn unnumbered(line: &[u8]) -> &[u8] {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let trimmed = line.trim_ascii_start();
    let number = trimmed.iter().take_while(is_digit).count();
    if number > 0 {
        let rest = &trimmed[number..];
        let mark = [&b"\t"[..], b": ", b":", b" | ", b"| ", b"\xe2\x86\x92", b" "]
            .into_iter()
            .find_map(|mark| rest.strip_prefix(mark));
        return mark.unwrap_or(line);
    }
    let name = trimmed.iter().take(200).take_while(|byte| byte.is_ascii_graphic() && **byte != b':').count();
    if name > 0 && trimmed[name..].starts_with(b":") {
        let number = trimmed[name + 1..].iter().take_while(is_digit).count();
        let rest = &trimmed[name + 1 + number..];
        if number > 0 && rest.starts_with(b":") {
            return &rest[1..];
        }
    }
    line
}
