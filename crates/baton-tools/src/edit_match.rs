//! Edit matching: finds the one place in a file that an edit means, and replaces it. Pure.
//!
//! The text is searched exactly as given. Where it is not found, it is searched with ever more differences forgiven, in
//! the order of [`Forgiven`]; such a place counts only if it is the only one and cuts no word. What lies outside of the
//! place is never changed by a byte, whatever its encoding, nor are lines within it that the edit leaves as they are.

mod closest;
mod indent;
mod merge;
mod numbers;

use std::ops::Range;

use memchr::memmem;

pub(crate) use closest::explain;
pub(crate) use indent::shifted;

/// Which places are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// The only one.
    One,
    /// All of them.
    All,
}

/// A difference between the given text and the file that was forgiven. Each but the last two includes those before it,
/// except that whitespace runs replace indentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forgiven {
    /// `\r\n` against `\n`.
    LineEndings,
    /// Whitespace at the ends of lines.
    TrailingWhitespace,
    /// Typographic quotes, dashes and spaces against plain ones.
    Punctuation,
    /// All lines shifted by the same indentation, or tabs against spaces; the replacement is shifted alike.
    Indentation,
    /// The length of whitespace within lines.
    WhitespaceRuns,
    /// A line break at the end of the text against a file that ends without one.
    FinalBreak,
    /// Line numbers, as `read` shows them.
    LineNumbers,
}

impl Forgiven {
    const IN_ORDER: [Self; 5] =
        [Self::LineEndings, Self::TrailingWhitespace, Self::Punctuation, Self::Indentation, Self::WhitespaceRuns];

    /// As the model is told.
    pub fn name(self) -> &'static str {
        match self {
            Self::LineEndings => "line endings",
            Self::TrailingWhitespace => "trailing whitespace",
            Self::Punctuation => "typographic quotes, dashes or spaces",
            Self::Indentation => "indentation (the replacement was shifted alike)",
            Self::WhitespaceRuns => "whitespace within lines",
            Self::FinalBreak => "the line break at the end of the file",
            Self::LineNumbers => "line numbers (not a part of the file)",
        }
    }
}

/// A file after an edit.
#[derive(Debug, PartialEq, Eq)]
pub struct Edited {
    /// All of it.
    pub contents: Vec<u8>,
    /// How many places were replaced.
    pub count: usize,
    /// Where the first replacement is in the new contents.
    pub first: Range<usize>,
    /// What had to be forgiven to find it, together.
    pub forgiven: Vec<Forgiven>,
}

/// Replaces `old` by `new`. The error is for the model: what is wrong and what to do.
pub fn edit(contents: &[u8], old: &str, new: &str, places: Places) -> Result<Edited, String> {
    if old == new {
        return Err("`old` and `new` are the same: there is nothing to change".to_owned());
    }
    if old.is_empty() {
        return Err("`old` is empty: give the text to replace, or use `write` for a new or empty file".to_owned());
    }
    if let Some(done) = attempt(contents, old, new, places).or_else(|| without_final_break(contents, old, new, places))
    {
        return done;
    }
    let Some((old, new)) = numbers::taken_away(old, new) else { return Err(explain(contents, old, "`old`")) };
    let done = attempt(contents, &old, &new, places).unwrap_or_else(|| Err(explain(contents, &old, "`old`")));
    done.map(|edited| edited.after(Forgiven::LineNumbers))
}

/// The edit in the first way in which the text is found; none if it is not.
fn attempt(contents: &[u8], old: &str, new: &str, places: Places) -> Option<Result<Edited, String>> {
    let found = find_all(contents, old.as_bytes());
    if !found.is_empty() {
        let replacement = Replacement { old, new, shifted: new, forgiven: None };
        return Some(settle(contents, &found, old, places).map(|ranges| replacement.put(contents, &ranges)));
    }
    let (old, new) = (&*old.replace("\r\n", "\n"), &*new.replace("\r\n", "\n"));
    for forgiven in Forgiven::IN_ORDER {
        let mut found = if forgiven == Forgiven::Indentation {
            indent::find_all(contents, old, new)
        } else {
            let ranges = find_folded(contents, old, forgiven);
            ranges.into_iter().map(|range| (range, new.to_owned())).collect()
        };
        // Other line endings are the same text: it may be replaced everywhere. Anything else may only look alike.
        let is_same = forgiven == Forgiven::LineEndings;
        found.retain(|(range, _)| is_same || !cuts_word(contents, range));
        let Some((_, shifted)) = found.first() else { continue };
        let ranges: Vec<_> = found.iter().map(|(range, _)| range.clone()).collect();
        let replacement = Replacement { old, new, shifted, forgiven: Some(forgiven) };
        let ranges = settle(contents, &ranges, old, if is_same { places } else { Places::One });
        return Some(ranges.map(|ranges| replacement.put(contents, &ranges)));
    }
    None
}

/// The edit of a file whose last line has no break, by a text that gives it one.
fn without_final_break(contents: &[u8], old: &str, new: &str, places: Places) -> Option<Result<Edited, String>> {
    let given = old.strip_suffix('\n')?;
    if contents.is_empty() || contents.ends_with(b"\n") {
        return None;
    }
    let line_break = line_break(contents);
    let old = format!("{}{line_break}", given.strip_suffix('\r').unwrap_or(given));
    let done = attempt(&[contents, line_break.as_bytes()].concat(), &old, new, places)?;
    Some(done.map(|mut edited| {
        let end = edited
            .contents
            .strip_suffix(b"\n")
            .map_or(edited.contents.len(), |whole| whole.strip_suffix(b"\r").map_or(whole.len(), <[u8]>::len));
        edited.contents.truncate(end);
        edited.first = edited.first.start.min(end)..edited.first.end.min(end);
        edited.after(Forgiven::FinalBreak)
    }))
}

/// Whether a place begins or ends in the middle of a word: then it is not what was given, but a part of something longer.
fn cuts_word(contents: &[u8], range: &Range<usize>) -> bool {
    let is_word = |at: usize| contents.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let cut = |at: usize| at > 0 && is_word(at - 1) && is_word(at);
    cut(range.start) || cut(range.end)
}

/// Decides which of the places that were found are meant.
fn settle(contents: &[u8], found: &[Range<usize>], old: &str, places: Places) -> Result<Vec<Range<usize>>, String> {
    const SHOWN_MAX: usize = 5;
    if places == Places::All {
        let mut apart: Vec<Range<usize>> = Vec::new();
        for range in found {
            if apart.last().is_none_or(|last| last.end <= range.start) {
                apart.push(range.clone());
            }
        }
        return Ok(apart);
    }
    if let [only] = found {
        return Ok(vec![only.clone()]);
    }
    let line = |range: &Range<usize>| {
        format!("  line {}: {}", line_number(contents, range.start), line_at(contents, range.start))
    };
    let shown: Vec<_> = found.iter().take(SHOWN_MAX).map(line).collect();
    let more = if found.len() > SHOWN_MAX { "\n  ..." } else { "" };
    let what = if old.lines().count() > 1 { "these lines are" } else { "`old` is" };
    Err(format!(
        "{what} in the file {} times:\n{}{more}\nAdd lines around it to `old` to mean one of them, or set all=true",
        found.len(),
        shown.join("\n")
    ))
}

/// What comes into the places that were found.
struct Replacement<'a> {
    old: &'a str,
    new: &'a str,
    /// `new` with the indentation of the file.
    shifted: &'a str,
    forgiven: Option<Forgiven>,
}

impl Replacement<'_> {
    fn put(&self, contents: &[u8], ranges: &[Range<usize>]) -> Edited {
        // What is found as given needs no care where there is but one kind of line break.
        let as_given = self.forgiven.is_none() && memchr::memchr(b'\r', contents).is_none();
        let line_break = line_break(contents);
        let mut out = Vec::with_capacity(contents.len() + self.new.len() * ranges.len());
        let (mut from, mut first) = (0, 0..0);
        for range in ranges {
            out.extend_from_slice(&contents[from..range.start]);
            let start = out.len();
            if as_given {
                out.extend_from_slice(self.new.as_bytes());
            } else {
                out.extend(merge::merged(&contents[range.clone()], self.old, self.new, self.shifted, line_break));
            }
            if from == 0 {
                first = start..out.len();
            }
            from = range.end;
        }
        out.extend_from_slice(&contents[from..]);
        Edited { contents: out, count: ranges.len(), first, forgiven: self.forgiven.into_iter().collect() }
    }
}

impl Edited {
    fn after(mut self, forgiven: Forgiven) -> Self {
        self.forgiven.insert(0, forgiven);
        self
    }
}

/// The line break of the most lines.
pub(crate) fn line_break(contents: &[u8]) -> &'static str {
    if is_windows(contents) { "\r\n" } else { "\n" }
}

/// Whether most lines end with `\r\n`.
fn is_windows(contents: &[u8]) -> bool {
    let breaks = memchr::memchr_iter(b'\n', contents).count();
    let windows = memmem::find_iter(contents, b"\r\n").count();
    windows * 2 > breaks
}

/// All places, those that overlap included.
fn find_all(text: &[u8], needle: &[u8]) -> Vec<Range<usize>> {
    let finder = memmem::Finder::new(needle);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(&text[from..]) {
        found.push(from + at..from + at + needle.len());
        from += at + 1;
    }
    found
}

fn find_folded(contents: &[u8], old: &str, forgiven: Forgiven) -> Vec<Range<usize>> {
    let needle = Folded::new(old.as_bytes(), forgiven).bytes;
    if needle.iter().all(u8::is_ascii_whitespace) {
        return Vec::new();
    }
    let text = Folded::new(contents, forgiven);
    find_all(&text.bytes, &needle)
        .into_iter()
        .map(|range| text.origins[range.start].start..text.origins[range.end - 1].end)
        .collect()
}

/// A text without the differences that are forgiven, and where each of its bytes came from.
struct Folded {
    bytes: Vec<u8>,
    origins: Vec<Range<usize>>,
}

impl Folded {
    fn new(text: &[u8], forgiven: Forgiven) -> Self {
        let mut folded = Self { bytes: Vec::with_capacity(text.len()), origins: Vec::with_capacity(text.len()) };
        let mut at = 0;
        for chunk in text.utf8_chunks() {
            for c in chunk.valid().chars() {
                folded.push(c, at..at + c.len_utf8(), forgiven);
                at += c.len_utf8();
            }
            for byte in chunk.invalid() {
                folded.bytes.push(*byte);
                folded.origins.push(at..at + 1);
                at += 1;
            }
        }
        if forgiven >= Forgiven::TrailingWhitespace {
            folded.trim_end();
        }
        folded
    }

    fn push(&mut self, c: char, origin: Range<usize>, forgiven: Forgiven) {
        let c = if forgiven >= Forgiven::Punctuation { plain(c) } else { c };
        let mut start = origin.start;
        if c == '\n' {
            if forgiven >= Forgiven::TrailingWhitespace {
                self.trim_end();
            } else if self.bytes.last() == Some(&b'\r') {
                start = self.pop().map_or(start, |range| range.start);
            }
        } else if forgiven >= Forgiven::WhitespaceRuns
            && matches!(c, ' ' | '\t')
            && self.bytes.last() == Some(&b' ')
            && let Some(run) = self.origins.last_mut()
        {
            run.end = origin.end;
            return;
        }
        let c = if forgiven >= Forgiven::WhitespaceRuns && c == '\t' { ' ' } else { c };
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            self.bytes.push(byte);
            self.origins.push(start..origin.end);
        }
    }

    fn trim_end(&mut self) {
        while self.bytes.last().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Range<usize>> {
        self.bytes.pop();
        self.origins.pop()
    }
}

/// The plain character that people type for a typographic one.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        c => c,
    }
}

/// The number of the line that this byte is in, from 1.
pub(crate) fn line_number(contents: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &contents[..at]).count() + 1
}

/// The line that this byte is in, as shown to the model.
fn line_at(contents: &[u8], at: usize) -> String {
    const SHOWN_MAX: usize = 160;
    let start = memchr::memrchr(b'\n', &contents[..at]).map_or(0, |found| found + 1);
    let end = memchr::memchr(b'\n', &contents[at..]).map_or(contents.len(), |found| at + found);
    let line = String::from_utf8_lossy(&contents[start..end]);
    crate::shape::cut_line(line.trim_end(), SHOWN_MAX).into_owned()
}

#[cfg(test)]
mod tests;
