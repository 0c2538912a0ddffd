//! The closest place: where a text was probably meant that is not in the file, and how it differs there.

use super::{indent::line_ranges, line_at};

/// Files with more lines are not compared.
const LINES_MAX: usize = 50_000;

/// What the model is told about a text that was not found.
pub(super) fn explain(contents: &[u8], old: &str) -> String {
    let Some((line, hint)) = closest(contents, old) else {
        return "`old` is not in the file, nor anything like it: read the file again".to_owned();
    };
    format!("`old` is not in the file. The closest place begins at line {line}: {hint}")
}

fn closest(contents: &[u8], old: &str) -> Option<(usize, String)> {
    let lines: Vec<_> = line_ranges(contents).take(LINES_MAX).collect();
    let text = |at: usize| String::from_utf8_lossy(&contents[lines[at].clone()]);
    let wanted: Vec<&str> = old.trim_matches('\n').lines().collect();
    let equal = |at: usize, line: &str| at < lines.len() && !line.trim().is_empty() && text(at).trim() == line.trim();

    // Most equal lines wins; the first of them where there are several.
    let score = |start: usize| wanted.iter().enumerate().filter(|(at, line)| equal(start + at, line)).count();
    let best = (0..lines.len()).rev().max_by_key(|start| score(*start)).filter(|start| score(*start) > 0);
    if let Some(start) = best {
        let differs =
            (0..wanted.len()).find(|at| start + at >= lines.len() || text(start + at).trim() != wanted[*at].trim());
        let hint = match differs {
            Some(at) if start + at < lines.len() => format!(
                "line {} is `{}`, `old` has `{}`",
                start + at + 1,
                line_at(contents, lines[start + at].start).trim(),
                line_at(wanted[at].as_bytes(), 0).trim()
            ),
            Some(_) => "the file ends before `old` does".to_owned(),
            None => "its indentation or spacing differs in more than one way".to_owned(),
        };
        return Some((start + 1, hint));
    }
    let first = wanted.iter().map(|line| line.trim()).find(|line| !line.is_empty())?;
    let at = (0..lines.len()).rev().max_by_key(|at| likeness(text(*at).trim(), first))?;
    (likeness(text(at).trim(), first) >= 60)
        .then(|| (at + 1, format!("it is `{}`", line_at(contents, lines[at].start).trim())))
}

/// How much of two lines is the same at their beginnings and ends, in percent of the longer.
fn likeness(one: &str, other: &str) -> usize {
    let start = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let end = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let longer = one.len().max(other.len()).max(1);
    (start + end).min(one.len().min(other.len())) * 100 / longer
}
