//! Patches: reads the freeform patch format (`*** Begin Patch` ... `*** End Patch`). Pure, as is [`apply`].

mod apply;

pub use apply::{Applied, apply};

/// One file's part of a patch.
#[derive(Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The line of the patch that it begins at, from 1.
    pub line: usize,
    /// Which file.
    pub path: &'a str,
    /// What happens to it.
    pub action: Action<'a>,
}

/// What happens to the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// It is made, with these lines.
    Add(Vec<&'a str>),
    /// It is removed.
    Delete,
    /// It is changed.
    Update {
        /// Its new path.
        to: Option<&'a str>,
        /// The changes, in the order of the file.
        hunks: Vec<Hunk<'a>>,
    },
}

/// A place in a file and what happens there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// The line of the patch that it begins at, from 1.
    pub line: usize,
    /// Lines that come somewhere before the place, one after the other: a class, then its method.
    pub anchors: Vec<&'a str>,
    /// What stands there, and what shall.
    pub lines: Vec<Line<'a>>,
    /// Whether it is at the end of the file.
    pub at_end: bool,
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// It is in the file and stays.
    Keep(&'a str),
    /// It is in the file and goes.
    Remove(&'a str),
    /// It is new.
    Add(&'a str),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch. The error is for the model: which line is wrong, and how.
pub fn parse(patch: &str) -> Result<Vec<Section<'_>>, String> {
    let lines: Vec<&str> = patch.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let begin = lines.iter().position(|line| line.trim() == BEGIN).ok_or(format!("the patch has no line `{BEGIN}`"))?;
    if let Some(at) = lines[..begin].iter().position(|line| !is_opening(line)) {
        return Err(wrong(at, &format!("`{}` comes before `{BEGIN}`", cut(lines[at]))));
    }
    let word = lines[..begin].iter().find_map(|line| heredoc_word(line));
    let mut reader = Reader { lines: &lines, gaps: gaps(&lines), at: begin + 1 };
    let mut sections = Vec::new();
    loop {
        match reader.peek() {
            None => return Err(format!("the patch does not end with `{END}`: it may have been cut off")),
            Some(line) if line.trim() == END => break,
            Some(line) if line.trim().is_empty() => reader.at += 1,
            Some(_) => sections.push(reader.section()?),
        }
    }
    let rest = reader.at + 1;
    if let Some(at) = lines[rest..].iter().position(|line| !is_closing(line, word)) {
        return Err(wrong(rest + at, &format!("`{}` comes after `{END}`", cut(lines[rest + at]))));
    }
    if sections.is_empty() {
        return Err(format!("nothing is between `{BEGIN}` and `{END}`"));
    }
    Ok(sections)
}

/// Models wrap patches as they would be in a message or in a shell.
fn is_opening(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("```") || line.contains("<<")
}

/// What ends a here document that begins in this line.
fn heredoc_word(line: &str) -> Option<&str> {
    let (_, word) = line.split_once("<<")?;
    Some(word.trim_start_matches('-').split_whitespace().next()?.trim_matches(['\'', '"']))
}

fn is_closing(line: &str, word: Option<&str>) -> bool {
    let line = line.trim();
    line.is_empty() || line == "```" || word.is_some_and(|word| line.trim_end_matches(['\'', '"', ')']) == word)
}

/// Which lines are empty with nothing but empty ones up to the next header: they stand between parts, not in one.
fn gaps(lines: &[&str]) -> Vec<bool> {
    let mut gaps = vec![false; lines.len()];
    let mut header = true;
    for (gap, line) in gaps.iter_mut().zip(lines).rev() {
        *gap = line.is_empty() && header;
        header = *gap || line.starts_with("@@") || (line.starts_with("***") && line.trim_end() != END_OF_FILE);
    }
    gaps
}

fn wrong(at: usize, problem: &str) -> String {
    format!("line {} of the patch: {problem}", at + 1)
}

fn cut(line: &str) -> std::borrow::Cow<'_, str> {
    const SHOWN_MAX: usize = 160;
    crate::shape::cut_line(line, SHOWN_MAX)
}

struct Reader<'l, 'a> {
    lines: &'l [&'a str],
    gaps: Vec<bool>,
    at: usize,
}

impl<'a> Reader<'_, 'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The path of a header of this kind, if the next line is one.
    fn header(&mut self, kind: &str) -> Option<Result<&'a str, String>> {
        let path = self.peek()?.strip_prefix(kind)?.trim();
        self.at += 1;
        Some(if path.is_empty() { Err(wrong(self.at - 1, "the path is missing")) } else { Ok(path) })
    }

    fn section(&mut self) -> Result<Section<'a>, String> {
        let line = self.at + 1;
        if let Some(path) = self.header("*** Add File:") {
            return Ok(Section { line, path: path?, action: Action::Add(self.added()?) });
        }
        if let Some(path) = self.header("*** Delete File:") {
            return Ok(Section { line, path: path?, action: Action::Delete });
        }
        if let Some(path) = self.header("*** Update File:") {
            let path = path?;
            let to = self.header("*** Move to:").transpose()?;
            let hunks = self.hunks()?;
            if hunks.is_empty() && to.is_none() {
                return Err(wrong(line - 1, &format!("nothing says how to update {path}")));
            }
            return Ok(Section { line, path, action: Action::Update { to, hunks } });
        }
        let found = cut(self.peek().unwrap_or_default());
        let problem = format!(
            "`{found}`, where `*** Add File: `, `*** Delete File: `, `*** Update File: ` or `{END}` was expected"
        );
        Err(wrong(self.at, &problem))
    }

    fn added(&mut self) -> Result<Vec<&'a str>, String> {
        let mut added = Vec::new();
        while let Some(line) = self.peek() {
            if let Some(line) = line.strip_prefix('+') {
                added.push(line);
            } else if line.starts_with("***") || self.is_gap() {
                break;
            } else {
                return Err(wrong(self.at, &format!("`{}`: each line of a new file begins with `+`", cut(line))));
            }
            self.at += 1;
        }
        Ok(added)
    }

    fn is_gap(&self) -> bool {
        self.gaps.get(self.at) == Some(&true)
    }

    fn hunks(&mut self) -> Result<Vec<Hunk<'a>>, String> {
        let mut hunks = Vec::new();
        while let Some(line) = self.peek() {
            if self.is_gap() {
                self.at += 1;
                continue;
            }
            if line.starts_with("***") && line.trim_end() != END_OF_FILE {
                break;
            }
            hunks.push(self.hunk()?);
        }
        Ok(hunks)
    }

    fn hunk(&mut self) -> Result<Hunk<'a>, String> {
        let mut hunk = Hunk { line: self.at + 1, ..Hunk::default() };
        while let Some(anchor) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            let anchor = anchor.strip_prefix(' ').unwrap_or(anchor).trim_end();
            if !anchor.is_empty() && !is_position(anchor) {
                hunk.anchors.push(anchor);
            }
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            let line = match line.split_at_checked(1) {
                _ if self.is_gap() => break,
                // An editor or a model may have taken the only space of an empty line away.
                None => Line::Keep(""),
                Some((" ", text)) => Line::Keep(text),
                Some(("-", text)) => Line::Remove(text),
                Some(("+", text)) => Line::Add(text),
                _ if line.trim_end() == END_OF_FILE => {
                    hunk.at_end = true;
                    self.at += 1;
                    break;
                }
                _ if line.starts_with("@@") || line.starts_with("***") => break,
                _ => {
                    let problem = format!("`{}`: each line of a hunk begins with ` `, `-` or `+`", cut(line));
                    return Err(wrong(self.at, &problem));
                }
            };
            hunk.lines.push(line);
            self.at += 1;
        }
        if hunk.lines.is_empty() {
            return Err(wrong(hunk.line - 1, "the hunk has no lines"));
        }
        Ok(hunk)
    }
}

/// Whether this is what stands after `@@` in a unified diff (`-1,2 +1,3 @@ ...`). Such numbers are guesses, and ignored.
fn is_position(anchor: &str) -> bool {
    let is_range = |part: Option<&str>, sign| {
        part.and_then(|part| part.strip_prefix(sign))
            .is_some_and(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit() || c == ','))
    };
    let mut parts = anchor.split(' ');
    is_range(parts.next(), '-') && is_range(parts.next(), '+') && parts.next() == Some("@@")
}

#[cfg(test)]
mod tests;
