//! Indentation: finds lines that differ from the given ones by one shift only, and shifts the replacement alike.

use std::ops::Range;

use super::plain;

/// What turns the indentation of the given text into that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shift<'a> {
    /// The file has this much more.
    Add(&'a str),
    /// The file has this much less.
    Remove(&'a str),
    /// The file has another unit for each of these.
    Units(&'static str, &'static str),
    /// The file has for each of these indentations another, and they are nested alike.
    Table(Vec<(&'a str, &'a str)>),
}

const UNITS: [&str; 5] = ["\t", "    ", "  ", "        ", "   "];

/// A search that compared more lines is given up: where all lines are alike, there is nothing to be found by them.
const COMPARED_MAX: usize = 5_000_000;

/// Every run of whole lines that is `old` but for a shift, each with the replacement shifted alike.
pub(super) fn find_all(contents: &[u8], old: &str, new: &str) -> Vec<(Range<usize>, String)> {
    let body = old.strip_suffix('\n');
    let wanted: Vec<&str> = body.unwrap_or(old).split('\n').collect();
    let Some(anchor) = wanted.iter().position(|line| !line.trim().is_empty()) else { return Vec::new() };
    let lines: Vec<Range<usize>> = line_ranges(contents).collect();
    let mut compared = 0;
    let found = lines
        .windows(wanted.len())
        .filter_map(|window| {
            // Lines are decoded one by one: most windows are given up at the first comparison.
            let line = |at: usize| str::from_utf8(&contents[window[at].clone()]).ok();
            if !are_alike(line(anchor)?, wanted[anchor]) {
                return None;
            }
            compared += wanted.len();
            if compared > COMPARED_MAX {
                return None;
            }
            let found: Vec<&str> = (0..wanted.len()).map(line).collect::<Option<_>>()?;
            let new = shift_between(&wanted, &found)?.apply(new)?;
            let last = window.last()?;
            let end = match body {
                // With its break, which must be there.
                Some(_) => (contents.get(last.end) == Some(&b'\n')).then_some(last.end + 1)?,
                None => last.start + contents[last.clone()].trim_ascii_end().len(),
            };
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
fn line_ranges(contents: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    contents.split(|byte| *byte == b'\n').map(move |line| {
        let range = start..start + line.len();
        start += line.len() + 1;
        range
    })
}

/// Whether lines are the same but for whitespace around them and typographic characters.
fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim(), other.trim());
    one == other || (!(one.is_ascii() && other.is_ascii()) && one.chars().map(plain).eq(other.chars().map(plain)))
}

/// The one shift that explains all lines.
fn shift_between<'a>(wanted: &[&'a str], found: &[&'a str]) -> Option<Shift<'a>> {
    if !wanted.iter().zip(found).all(|(wanted, found)| are_alike(wanted, found)) {
        return None;
    }
    let mut pairs: Vec<_> = wanted
        .iter()
        .zip(found)
        .filter(|(wanted, _)| !wanted.trim().is_empty())
        .map(|(wanted, found)| (indent(wanted), indent(found)))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let (wanted, found) = *pairs.iter().find(|(wanted, found)| wanted != found)?;
    let removed = wanted.strip_suffix(found).map(Shift::Remove);
    let added = found.strip_suffix(wanted).map(Shift::Add);
    let units = UNITS.iter().flat_map(|from| UNITS.iter().map(|to| Shift::Units(from, to)));
    let explains = |shift: &Shift| {
        pairs.iter().all(|(wanted, found)| shift.indent(wanted).is_some_and(|shifted| shifted == *found))
    };
    let simple = removed.into_iter().chain(added).chain(units).find(explains);
    simple.or_else(|| are_nested_alike(&pairs).then_some(Shift::Table(pairs)))
}

/// Whether lines that are deeper than others are so in the file as well, and those that are not are not.
fn are_nested_alike(pairs: &[(&str, &str)]) -> bool {
    pairs.iter().enumerate().all(|(at, (wanted, found))| {
        pairs[..at].iter().all(|(outer, outer_found)| {
            wanted != outer && wanted.starts_with(outer) && found != outer_found && found.starts_with(outer_found)
        })
    })
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

impl Shift<'_> {
    fn indent(&self, indent: &str) -> Option<String> {
        match self {
            Self::Add(more) => Some(format!("{more}{indent}")),
            Self::Remove(less) => indent.strip_prefix(less).map(str::to_owned),
            Self::Units(from, to) => Some(indent.replace(from, to)),
            Self::Table(pairs) => {
                pairs.iter().find(|(wanted, _)| *wanted == indent).map(|(_, found)| (*found).to_owned())
            }
        }
    }

    /// The text with every line shifted; none if that cannot be done to a line.
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
