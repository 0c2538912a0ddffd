//! Applying: finds the places that hunks mean in a file, and makes the change. Pure.
//!
//! A place counts only if it is the only one that is meant. What a hunk keeps is kept as it is in the file, by the byte.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Hunk, Line};
use crate::edit_match::{explain, line_break, plain, shifted};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// How alike the lines of a hunk and of the file are. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alike {
    Exactly,
    ButTrailingWhitespace,
    ButWhitespace,
    ButPunctuation,
}

impl Alike {
    const IN_ORDER: [Self; 4] = [Self::Exactly, Self::ButTrailingWhitespace, Self::ButWhitespace, Self::ButPunctuation];

    /// How they differ, as the model is told.
    fn name(self) -> &'static str {
        match self {
            Self::Exactly => "nothing",
            Self::ButTrailingWhitespace => "trailing whitespace",
            Self::ButWhitespace => "indentation or trailing whitespace",
            Self::ButPunctuation => "whitespace or typographic quotes, dashes or spaces",
        }
    }

    fn are(self, found: &[u8], wanted: &str) -> bool {
        match self {
            Self::Exactly => found == wanted.as_bytes(),
            Self::ButTrailingWhitespace => found.trim_ascii_end() == wanted.as_bytes().trim_ascii_end(),
            Self::ButWhitespace => found.trim_ascii() == wanted.as_bytes().trim_ascii(),
            Self::ButPunctuation => str::from_utf8(found)
                .is_ok_and(|found| found.trim().chars().map(plain).eq(wanted.trim().chars().map(plain))),
        }
    }
}

/// A file after a patch.
#[derive(Debug, PartialEq, Eq)]
pub struct Applied {
    /// All of it.
    pub contents: Vec<u8>,
    /// What the model should know: which hunks were not found as given.
    pub remarks: Vec<String>,
}

/// Applies the hunks, which come in the order of the file. The error is for the model.
pub fn apply(contents: &[u8], hunks: &[Hunk]) -> Result<Applied, String> {
    let body = contents.strip_prefix(BOM).unwrap_or(contents);
    let lines: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
    let mut search = Search { contents, lines: lines.iter().map(|line| without_break(line)).collect(), compared: 0 };
    let line_break = line_break(contents).as_bytes();
    let mut new: Vec<Cow<[u8]>> = Vec::with_capacity(lines.len());
    let mut remarks = Vec::new();
    let mut at = 0;
    for hunk in hunks {
        let (start, alike) =
            search.place(hunk, at).map_err(|why| format!("the hunk at line {} of the patch: {why}", hunk.line))?;
        if alike != Alike::Exactly {
            remarks.push(format!(
                "the hunk at line {} of the patch differs from the file in {}",
                hunk.line,
                alike.name()
            ));
        }
        new.extend(lines[at..start].iter().map(|line| Cow::Borrowed(*line)));
        at = start;
        let added = added_lines(hunk, &search.lines[start..], alike);
        let mut added = added.split('\n');
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    new.push(Cow::Borrowed(lines[at]));
                    at += 1;
                }
                Line::Remove(_) => at += 1,
                Line::Add(_) => {
                    let text = added.next().unwrap_or_default();
                    // It ends like the line of the file that it replaces or follows.
                    let before = at.checked_sub(1).map(|before| lines[before]);
                    let ending = before.map_or(line_break, |line| match &line[without_break(line).len()..] {
                        b"" => line_break,
                        ending => ending,
                    });
                    new.push(Cow::Owned([text.as_bytes(), ending].concat()));
                }
            }
        }
    }
    new.extend(lines[at..].iter().map(|line| Cow::Borrowed(*line)));
    let bom = &contents[..contents.len() - body.len()];
    let ends_with_break = body.is_empty() || body.ends_with(b"\n");
    Ok(Applied { contents: [bom, &joined(&new, line_break, ends_with_break)].concat(), remarks })
}

/// The lines as one text: each but the last ends with a line break, and the last as the file's last did.
fn joined(lines: &[Cow<[u8]>], line_break: &[u8], ends_with_break: bool) -> Vec<u8> {
    let mut joined = Vec::with_capacity(lines.iter().map(|line| line.len() + line_break.len()).sum());
    for (at, line) in lines.iter().enumerate() {
        if at + 1 == lines.len() && !ends_with_break {
            joined.extend_from_slice(without_break(line));
        } else if line.ends_with(b"\n") {
            joined.extend_from_slice(line);
        } else {
            joined.extend_from_slice(line);
            joined.extend_from_slice(line_break);
        }
    }
    joined
}

fn without_break(line: &[u8]) -> &[u8] {
    let Some(line) = line.strip_suffix(b"\n") else { return line };
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What must be in the file.
fn old_lines<'a>(hunk: &Hunk<'a>) -> Vec<&'a str> {
    let old = |line: &Line<'a>| match line {
        Line::Keep(text) | Line::Remove(text) => Some(*text),
        Line::Add(_) => None,
    };
    hunk.lines.iter().filter_map(old).collect()
}

/// What comes into the file, as one text; with the file's indentation if the hunk has another.
fn added_lines(hunk: &Hunk, found: &[&[u8]], alike: Alike) -> String {
    let added = |line: &Line<'_>| if let Line::Add(text) = line { Some((*text).to_owned()) } else { None };
    let added = hunk.lines.iter().filter_map(added).collect::<Vec<_>>().join("\n");
    if alike < Alike::ButWhitespace {
        return added;
    }
    let wanted = old_lines(hunk);
    let found: Vec<_> = found[..wanted.len()].iter().map(|line| String::from_utf8_lossy(line)).collect();
    let found: Vec<_> = found.iter().map(AsRef::as_ref).collect();
    shifted(&wanted, &found, &added).unwrap_or(added)
}

struct Search<'a> {
    contents: &'a [u8],
    lines: Vec<&'a [u8]>,
    compared: usize,
}

impl Search<'_> {
    /// Where a hunk is: at or after the line `from`.
    fn place(&mut self, hunk: &Hunk, from: usize) -> Result<(usize, Alike), String> {
        let anchors = self.anchors(&hunk.anchors)?;
        let wanted = old_lines(hunk);
        let end = self.lines.len();
        if wanted.is_empty() {
            let places: BTreeSet<_> = anchors.iter().map(|anchor| anchor + 1).filter(|at| *at >= from).collect();
            return match (&anchors[..], places.first()) {
                _ if hunk.at_end => Ok((end, Alike::Exactly)),
                ([], _) => Ok((end, Alike::Exactly)),
                (_, Some(place)) if places.len() == 1 => Ok((*place, Alike::Exactly)),
                (_, None) => Err("its `@@` line comes before the hunk that precedes it".to_owned()),
                _ => Err(self.ambiguous(&places, "its `@@` line is")),
            };
        }
        for alike in Alike::IN_ORDER {
            let found = self.find(&wanted, from, alike)?;
            let mut places: BTreeSet<usize> = if hunk.anchors.is_empty() {
                found.into_iter().collect()
            } else {
                // The first place after the `@@` line is meant; some give the line itself once more as the first of the hunk.
                let after = |anchor: usize| found.get(found.partition_point(|place| *place <= anchor)).copied();
                let itself = |anchor: usize| found.binary_search(&anchor).is_ok().then_some(anchor);
                anchors.iter().flat_map(|anchor| [after(*anchor), itself(*anchor)]).flatten().collect()
            };
            if hunk.at_end {
                places.retain(|place| place + wanted.len() == end);
            }
            match places.first() {
                Some(place) if places.len() == 1 => return Ok((*place, alike)),
                Some(_) => return Err(self.ambiguous(&places, "its lines are")),
                None => {}
            }
        }
        Err(self.missing(hunk, &wanted, from))
    }

    /// The lines that the last of the anchors can be. It may stand before the previous hunk: two hunks can be in the same
    /// function.
    fn anchors(&mut self, anchors: &[&str]) -> Result<Vec<usize>, String> {
        let Some((first, inner)) = anchors.split_first() else { return Ok(Vec::new()) };
        let mut found = self.find_any(first)?;
        if found.is_empty() {
            return Err(explain(self.contents, first, "its `@@` line"));
        }
        for anchor in inner {
            let all = self.find_any(anchor)?;
            found = found
                .iter()
                .filter_map(|outer| all.get(all.partition_point(|place| place <= outer)).copied())
                .collect();
            found.dedup();
            if found.is_empty() {
                return Err(explain(self.contents, anchor, "its `@@` line"));
            }
        }
        Ok(found)
    }

    fn find_any(&mut self, line: &str) -> Result<Vec<usize>, String> {
        for alike in Alike::IN_ORDER {
            let found = self.find(&[line], 0, alike)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    /// All places of these lines at or after the line `from`, in order.
    fn find(&mut self, wanted: &[&str], from: usize, alike: Alike) -> Result<Vec<usize>, String> {
        /// A search that compared more lines is given up: where all lines are alike, no place is meant by them.
        const COMPARED_MAX: usize = 50_000_000;
        let mut found = Vec::new();
        for (at, window) in self.lines[from..].windows(wanted.len()).enumerate() {
            let same = window.iter().zip(wanted).take_while(|(found, wanted)| alike.are(found, wanted)).count();
            self.compared += same + 1;
            if self.compared > COMPARED_MAX {
                return Err("too many lines of the file are alike to find the place".to_owned());
            }
            if same == wanted.len() {
                found.push(from + at);
            }
        }
        Ok(found)
    }

    fn ambiguous(&self, places: &BTreeSet<usize>, what: &str) -> String {
        const SHOWN_MAX: usize = 5;
        let shown: Vec<_> = places
            .iter()
            .take(SHOWN_MAX)
            .map(|place| format!("\n  line {}: {}", place + 1, self.shown(*place)))
            .collect();
        let more = if places.len() > SHOWN_MAX { "\n  ..." } else { "" };
        format!(
            "{what} in the file {} times:{}{more}\nAdd lines around it, or an `@@` line before it, to mean one of them",
            places.len(),
            shown.concat()
        )
    }

    fn shown(&self, at: usize) -> String {
        let line = String::from_utf8_lossy(self.lines.get(at).copied().unwrap_or_default());
        super::cut(line.trim_end()).into_owned()
    }

    fn missing(&mut self, hunk: &Hunk, wanted: &[&str], from: usize) -> String {
        let anywhere = Alike::IN_ORDER.into_iter().find_map(|alike| self.find(wanted, 0, alike).ok()?.first().copied());
        match anywhere {
            Some(place) if place < from => format!(
                "its lines are at line {} of the file, before the end of the hunk that precedes it; hunks come in the order of \
                 the file and do not overlap",
                place + 1
            ),
            Some(place) if hunk.at_end => {
                format!(
                    "its lines are at line {} of the file, not at its end as `{}` says",
                    place + 1,
                    super::END_OF_FILE
                )
            }
            Some(place) => format!("its lines are at line {} of the file, not after its `@@` line", place + 1),
            None => explain(self.contents, &wanted.join("\n"), "it"),
        }
    }
}
