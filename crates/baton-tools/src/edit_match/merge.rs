//! Merging: lines that an edit leaves as they are stay as they are in the file, also where the edit writes them otherwise.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

const DIFF_TIME_MAX: Duration = Duration::from_millis(200);

/// What comes into `place`, where `old` was found: the lines that `old` and `new` share as they are there, all others as
/// they are in `shifted`, which is `new` line by line. Such a line ends like the one that it replaces or follows.
pub(super) fn merged(place: &[u8], old: &str, new: &str, shifted: &str, line_break: &'static str) -> Vec<u8> {
    let [old_text, new_text, shifted_text] = [old, new, shifted].map(|text| text.replace("\r\n", "\n"));
    if old_text == new_text {
        // Only line breaks are meant.
        return new.as_bytes().to_vec();
    }
    let [old, new, shifted] = [&old_text, &new_text, &shifted_text].map(|text| lines(text));
    let place: Vec<&[u8]> = place.split_inclusive(|byte| *byte == b'\n').collect();
    let mut out = Vec::with_capacity(new_text.len());
    if place.len() != old.len() {
        for line in shifted {
            push(&mut out, line, line_break);
        }
        return out;
    }
    let break_at = |at: usize| {
        let ended = place[..(at + 1).min(place.len())].iter().rev().find(|line| line.ends_with(b"\n"));
        ended.map_or(line_break, |line| if line.ends_with(b"\r\n") { "\r\n" } else { "\n" })
    };
    let deadline = Instant::now() + DIFF_TIME_MAX;
    for op in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline)) {
        match op {
            DiffOp::Equal { old_index, len, .. } => out.extend(place[old_index..old_index + len].concat()),
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { old_index, new_index, new_len } => {
                let end = break_at(old_index.saturating_sub(1));
                for line in &shifted[new_index..new_index + new_len] {
                    push(&mut out, line, end);
                }
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                for (at, line) in shifted[new_index..new_index + new_len].iter().enumerate() {
                    let twin = old_index + at.min(old_len - 1);
                    // As deep as the line that it replaces: then it is so in the file as well.
                    let indent = indent(line.as_bytes());
                    let is_as_deep = indent == self::indent(old[twin].as_bytes());
                    out.extend_from_slice(if is_as_deep { self::indent(place[twin]) } else { indent });
                    push(&mut out, &line[indent.len()..], break_at(twin));
                }
            }
        }
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn indent(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    &line[..end]
}

fn push(out: &mut Vec<u8>, line: &str, line_break: &str) {
    match line.strip_suffix('\n') {
        Some(text) => out.extend([text.as_bytes(), line_break.as_bytes()].concat()),
        None => out.extend_from_slice(line.as_bytes()),
    }
}
