//! The closest place: where a text was probably meant that is not in the file, and how it differs there.

use std::collections::HashMap;

use crate::shape::cut_line;

/// So many lines of a file are compared, and so many of the text that was not found in it. All lines may be alike, so this
/// bounds the time: their product is how many pairs are counted at most.
const LINES_MAX: usize = 50_000;
const WANTED_MAX: usize = 200;

/// What the model is told about a text that was not found. `name` is what it knows the text by.
pub(crate) fn explain(contents: &[u8], old: &str, name: &str) -> String {
    let Some((line, hint)) = closest(&String::from_utf8_lossy(contents), old, name) else {
        return format!("{name} is not in the file, nor anything like it: read the file again");
    };
    format!("{name} is not in the file. The closest place begins at line {line}: {hint}")
}

fn closest(contents: &str, old: &str, name: &str) -> Option<(usize, String)> {
    let lines: Vec<&str> = contents.split('\n').take(LINES_MAX).map(str::trim).collect();
    let wanted: Vec<&str> = old.trim_matches('\n').lines().take(WANTED_MAX).map(str::trim).collect();
    if let Some(start) = most_equal(&lines, &wanted) {
        let differs = (0..wanted.len()).find(|at| lines.get(start + at) != Some(&wanted[*at]));
        let hint = match differs {
            Some(at) if start + at < lines.len() => {
                let (line, wanted) = (lines[start + at], wanted[at]);
                let hidden = hidden_difference(line, wanted, name);
                format!("line {} is `{}`, {name} has `{}`{hidden}", start + at + 1, shown(line), shown(wanted))
            }
            Some(_) if lines.len() < LINES_MAX => format!("the file ends before {name} does"),
            _ => "its indentation or spacing differs in more than one way".to_owned(),
        };
        return Some((start + 1, hint));
    }
    let first = wanted.iter().find(|line| !line.is_empty())?;
    let (at, line) = lines.iter().enumerate().rev().max_by_key(|(_, line)| likeness(line, first))?;
    (likeness(line, first) >= 60).then(|| (at + 1, format!("it is `{}`", shown(line))))
}

/// Where the most of the wanted lines are, each in its place; the first of them where there are several.
fn most_equal(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in wanted.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        places.entry(line).or_default().push(at);
    }
    let mut scores = vec![0_u32; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        for start in places.get(line).into_iter().flatten().filter_map(|place| at.checked_sub(*place)) {
            scores[start] += 1;
        }
    }
    let (start, score) = scores.iter().enumerate().rev().max_by_key(|(_, score)| **score)?;
    (*score > 0).then_some(start)
}

/// The first characters that differ, by their numbers, where they may look the same.
fn hidden_difference(line: &str, wanted: &str, name: &str) -> String {
    let ends = |text: &str| text.chars().map(Some).chain([None]).collect::<Vec<_>>();
    let (line, wanted) = (ends(line), ends(wanted));
    let differs = line.iter().zip(&wanted).find(|(line, wanted)| line != wanted);
    let number = |c: &Option<char>| c.map_or("nothing more".to_owned(), |c| format!("U+{:04X}", u32::from(c)));
    let is_plain = |c: &Option<char>| c.is_none_or(|c| c.is_ascii());
    match differs {
        Some((line, wanted)) if !is_plain(line) || !is_plain(wanted) => {
            format!(" ({} where {name} has {})", number(line), number(wanted))
        }
        _ => String::new(),
    }
}

fn shown(line: &str) -> String {
    const SHOWN_MAX: usize = 160;
    cut_line(line, SHOWN_MAX).into_owned()
}

/// How much of two lines is the same at their beginnings and ends, in percent of the longer.
fn likeness(one: &str, other: &str) -> usize {
    let start = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let end = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let longer = one.len().max(other.len()).max(1);
    (start + end).min(one.len().min(other.len())) * 100 / longer
}
