//! Indentation: finds lines that differ from the given ones by one shift only, and shifts the replacement alike.

use std::ops::Range;

/// What turns the indentation of the given text into that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shift<'a> {
    /// The file has this much more.
    Add(&'a str),
    /// The file has this much less.
    Remove(&'a str),
    /// The file has tabs for so many spaces.
    ToTabs(usize),
    /// The file has so many spaces for a tab.
    ToSpaces(usize),
}

/// A search that compared more lines is given up: where all lines are alike, there is nothing to be found by them.
const COMPARED_MAX: usize = 5_000_000;

/// Every run of whole lines that is `old` but for a shift, each with the replacement shifted alike.
pub(super) fn find_all(contents: &[u8], old: &str, new: &str) -> Vec<(Range<usize>, String)> {
    let wanted: Vec<&str> = old.trim_end_matches('\n').lines().collect();
    let Some(anchor) = wanted.iter().position(|line| !line.trim().is_empty()) else { return Vec::new() };
    let lines: Vec<Range<usize>> = line_ranges(contents).collect();
    let mut compared = 0;
    let found = lines
        .windows(wanted.len())
        .filter_map(|window| {
            // Lines are decoded one by one: most windows are given up at the first comparison.
            let line = |at: usize| str::from_utf8(&contents[window[at].clone()]).ok();
            if line(anchor)?.trim() != wanted[anchor].trim() {
                return None;
            }
            compared += wanted.len();
            if compared > COMPARED_MAX {
                return None;
            }
            let found: Vec<&str> = (0..wanted.len()).map(line).collect::<Option<_>>()?;
            let shift = shift_between(&wanted, &found)?;
            let mut end = window.last()?.end;
            let mut new = shift.apply(new)?;
            if old.ends_with('\n') && contents.get(end) == Some(&b'\n') {
                end += 1;
            } else if old.ends_with('\n') {
                new.truncate(new.trim_end_matches('\n').len());
            }
            Some((window[0].start..end, new))
        })
        .collect();
    // Some places may have been missed, so that a single one need not be the only one.
    if compared > COMPARED_MAX { Vec::new() } else { found }
}

/// The text with the indentation that the file has where other lines were given with another; none if no one shift
/// explains that.
pub(crate) fn shifted(wanted: &[&str], found: &[&str], text: &str) -> Option<String> {
    shift_between(wanted, found)?.apply(text)
}

/// The lines without their line breaks.
pub(super) fn line_ranges(contents: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    contents.split(|byte| *byte == b'\n').map(move |line| {
        let range = start..start + line.len();
        start += line.len() + 1;
        range
    })
}

/// The one shift that explains all lines.
fn shift_between<'a>(wanted: &[&'a str], found: &[&'a str]) -> Option<Shift<'a>> {
    if !wanted.iter().zip(found).all(|(wanted, found)| wanted.trim() == found.trim()) {
        return None;
    }
    let pairs: Vec<_> = wanted
        .iter()
        .zip(found)
        .filter(|(wanted, _)| !wanted.trim().is_empty())
        .map(|(wanted, found)| (indent(wanted), indent(found)))
        .collect();
    let (wanted, found) = pairs.iter().find(|(wanted, found)| wanted != found)?;
    let mut candidates: Vec<Shift> =
        [2, 4, 8, 3].iter().flat_map(|w| [Shift::ToTabs(*w), Shift::ToSpaces(*w)]).collect();
    candidates.extend(found.strip_suffix(wanted).map(Shift::Add));
    candidates.extend(wanted.strip_suffix(found).map(Shift::Remove));
    candidates
        .into_iter()
        .rev()
        .find(|shift| pairs.iter().all(|(wanted, found)| shift.indent(wanted).is_some_and(|shifted| shifted == *found)))
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

impl Shift<'_> {
    fn indent(&self, indent: &str) -> Option<String> {
        match self {
            Self::Add(more) => Some(format!("{more}{indent}")),
            Self::Remove(less) => indent.strip_prefix(less).map(str::to_owned),
            Self::ToTabs(width) => Some(indent.replace(&" ".repeat(*width), "\t")),
            Self::ToSpaces(width) => Some(indent.replace('\t', &" ".repeat(*width))),
        }
    }

    /// The text with every line shifted; none if a line has not enough indentation for it.
    fn apply(&self, text: &str) -> Option<String> {
        text.split_inclusive('\n')
            .map(|line| {
                if line.trim().is_empty() {
                    return Some(line.to_owned());
                }
                let indent = indent(line);
                Some(self.indent(indent)? + &line[indent.len()..])
            })
            .collect()
    }
}
