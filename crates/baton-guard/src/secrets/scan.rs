//! The scanner: walks over text once, gathers what is judged a secret, and writes the rest.
//!
//! It is given all text from some point on and told whether more may come. Whatever it decides depends on bounded
//! pieces of the text alone and never on where the text ends for now: it stops before the first place where more text
//! could change its mind.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};

use super::assign::{self, WORDS, Word};
use super::block::{self, Line};
use super::forms::{self, Matcher};
use super::known::{Known, Walk};

/// How far a judgement may look ahead of its anchor.
pub(super) const AHEAD: usize = 4096;
/// How far it may look back.
pub(super) const BEHIND: usize = 160;
/// How far before its anchor a secret may begin.
pub(super) const REACH: usize = 64;

/// What a judgement found: where the secret lies, counted from the anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// How many bytes before the anchor it begins.
    pub before: usize,
    /// Where it begins behind the anchor, if it does not begin before it.
    pub start: usize,
    /// Where it ends behind the anchor.
    pub end: usize,
    /// What it is.
    pub kind: &'static str,
    /// Whether the kind only follows from a name: a form that tells more wins.
    pub is_guess: bool,
}

impl Found {
    pub(super) fn at(kind: &'static str, start: usize, end: usize) -> Self {
        Self { before: 0, start, end, kind, is_guess: false }
    }
}

/// The text around an anchor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// At most [`BEHIND`] bytes before it.
    pub before: &'a [u8],
    /// From it on: to the end of the line (or of the second one), at most [`AHEAD`] bytes.
    pub ahead: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: usize,
    end: usize,
    is_guess: bool,
    kind: &'static str,
}

/// What the scanner is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Text,
    /// Lines of key material, already replaced.
    Block,
    /// A token that is longer than any judgement can see, already replaced.
    Token,
}

/// Which judge belongs to an anchor.
#[derive(Clone, Copy)]
enum Judge {
    Form(&'static Matcher),
    Word(&'static Word),
    Block,
}

struct Anchors {
    search: AhoCorasick,
    judges: Vec<Judge>,
    longest: usize,
}

/// Ready soon, which counts at the start, and quick enough for what is short.
static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let (literals, judges): (Vec<&str>, Vec<Judge>) = anchors().unzip();
    let longest = literals.iter().map(|literal| literal.len()).max().unwrap_or_default();
    Anchors { search: search(AhoCorasickKind::ContiguousNFA, &literals), judges, longest }
});

/// Finds the same in long texts some times as fast. Most runs have none, and making it takes milliseconds.
static FOR_LONG: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let literals: Vec<&str> = anchors().map(|(literal, _)| literal).collect();
    search(AhoCorasickKind::DFA, &literals)
});

/// A slice of this many bytes is worth it.
const LONG: usize = 16 * 1024;

fn anchors() -> impl Iterator<Item = (&'static str, Judge)> {
    let forms =
        forms::MATCHERS.iter().flat_map(|form| form.anchors().iter().map(move |anchor| (*anchor, Judge::Form(form))));
    let words = WORDS.iter().map(|word| (word.text, Judge::Word(word)));
    let blocks = block::ANCHORS.iter().map(|anchor| (*anchor, Judge::Block));
    forms.chain(words).chain(blocks)
}

fn search(kind: AhoCorasickKind, literals: &[&str]) -> AhoCorasick {
    let search = AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(kind))
        .build(literals);
    // The literals are constants, and a test builds this; without a search nothing may pass as clean.
    search.unwrap_or_else(|error| unreachable!("the anchors are few and short: {error}"))
}

/// A walk over one text. Positions are those of the text it is given, which starts `BEHIND` bytes before what is not yet
/// written.
#[derive(Debug)]
pub(super) struct Scan {
    /// How many secrets were taken out.
    pub found: usize,
    mode: Mode,
    /// Anchors before this are judged.
    judged: usize,
    /// Text before this is written.
    written: usize,
    /// What was found and is not yet written.
    spans: Vec<Span>,
    /// How much is searched in one go: little where much of it turned out to be inside of a block.
    slice: usize,
}

const SLICE_MIN: usize = 1024;
const SLICE_MAX: usize = 64 * 1024;

impl Default for Scan {
    fn default() -> Self {
        Self { found: 0, mode: Mode::Text, judged: 0, written: 0, spans: Vec::new(), slice: SLICE_MAX }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hit {
    Anchor(usize),
    Known(usize),
}

impl Scan {
    /// Walks on as far as is certain and returns how long the text must be for more to become so.
    pub fn advance(&mut self, known: &Known, text: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
        loop {
            let before = (self.mode, self.judged, self.written);
            let wait = match self.mode {
                Mode::Text => self.text(known, text, is_end, out),
                Mode::Block => self.block(text, is_end),
                Mode::Token => self.token(text),
            };
            if before == (self.mode, self.judged, self.written) || self.written == text.len() {
                return wait;
            }
        }
    }

    /// Gives up what is written and no longer needed as context; returns how many bytes that are.
    pub fn forget(&mut self) -> usize {
        let drop = self.written.min(self.judged).saturating_sub(BEHIND);
        self.judged -= drop;
        self.written -= drop;
        for span in &mut self.spans {
            span.start -= drop;
            span.end -= drop;
        }
        drop
    }

    fn text(&mut self, known: &Known, text: &[u8], is_end: bool, out: &mut Vec<u8>) -> usize {
        let anchors = &*ANCHORS;
        let from = self.judged;
        let upto = text.len().min(from + self.slice);
        let slice = &text[from..upto];
        // Beyond this an anchor could begin whose end is not there yet. None contains the end of a line.
        let longest = anchors.longest.max(known.longest_anchor());
        let line = memchr::memrchr(b'\n', slice).map_or(from, |at| from + at + 1);
        let mut safe = if is_end && upto == text.len() { upto } else { (upto + 1).saturating_sub(longest).max(line) };
        let mut wait = text.len() + 1;

        let search = if slice.len() < LONG { &anchors.search } else { &*FOR_LONG };
        let mut hits: Vec<(usize, Hit)> = search
            .find_overlapping_iter(slice)
            .map(|hit| (from + hit.start(), Hit::Anchor(hit.pattern().as_usize())))
            .collect();
        known.anchors(slice, |at, value| hits.push((from + at, Hit::Known(value))));
        hits.sort_unstable();
        for (at, hit) in hits {
            if at >= safe {
                break;
            }
            let found = match hit {
                Hit::Known(value) => {
                    match known.walk(value, &text[at.saturating_sub(REACH)..], at.min(REACH), is_end) {
                        Walk::Found(found) => Some(found),
                        Walk::Nothing => None,
                        Walk::NeedsMore => {
                            safe = at;
                            break;
                        }
                    }
                }
                Hit::Anchor(anchor) => {
                    let judge = anchors.judges[anchor];
                    if !could_be(judge, text, at) {
                        continue;
                    }
                    let Some(end) = window(judge, text, at, is_end) else {
                        (safe, wait) = (at, at + AHEAD);
                        break;
                    };
                    let around = Around { before: &text[at.saturating_sub(BEHIND)..at], ahead: &text[at..end] };
                    if matches!(judge, Judge::Block) {
                        if let Some(body) = block::begins(around) {
                            self.replace(text, at, "private-key", out);
                            (self.mode, self.judged, self.written) = (Mode::Block, at + body, at + body);
                            self.slice = SLICE_MIN;
                            return self.judged + 1;
                        }
                        continue;
                    }
                    judge_anchor(judge, around)
                }
            };
            let Some(found) = found else { continue };
            let span = Span {
                start: if found.before > 0 { at.saturating_sub(found.before) } else { at + found.start },
                end: at + found.end,
                is_guess: found.is_guess,
                kind: found.kind,
            };
            if matches!(hit, Hit::Anchor(_)) && found.end >= AHEAD {
                self.replace(text, span.start, span.kind, out);
                (self.mode, self.judged, self.written) = (Mode::Token, span.end, span.end);
                self.slice = SLICE_MIN;
                return span.end + 1;
            }
            self.spans.push(span);
        }
        self.judged = safe;
        self.slice = (self.slice * 2).min(SLICE_MAX);
        let line = memchr::memrchr(b'\n', &text[self.written.min(safe)..safe]).map_or(0, |at| self.written + at + 1);
        let certain = if is_end && safe == text.len() { safe } else { safe.saturating_sub(REACH).max(line) };
        self.write(text, certain.max(self.written), out);
        wait
    }

    /// Writes the text up to `upto`, as far as no span crosses it.
    fn write(&mut self, text: &[u8], upto: usize, out: &mut Vec<u8>) {
        self.spans.sort_unstable();
        let mut spans = std::mem::take(&mut self.spans).into_iter().peekable();
        let mut upto = upto;
        while let Some(mut group) = spans.next_if(|span| span.start < upto) {
            let mut members = vec![group];
            while let Some(next) = spans.next_if(|span| span.start < group.end) {
                members.push(next);
                group.end = group.end.max(next.end);
                if group.is_guess && !next.is_guess {
                    (group.is_guess, group.kind) = (next.is_guess, next.kind);
                }
            }
            if group.end > upto {
                upto = group.start.max(self.written);
                self.spans = members;
                break;
            }
            let start = group.start.max(self.written);
            if group.end > start {
                out.extend_from_slice(&text[self.written..start]);
                self.put(group.kind, out);
                self.written = group.end;
            }
        }
        self.spans.extend(spans);
        if upto > self.written {
            out.extend_from_slice(&text[self.written..upto]);
            self.written = upto;
        }
    }

    /// Writes everything before `at`, and then a replacement for what begins there.
    fn replace(&mut self, text: &[u8], at: usize, kind: &'static str, out: &mut Vec<u8>) {
        self.spans.retain(|span| span.start < at);
        for span in &mut self.spans {
            span.end = span.end.min(at);
        }
        self.write(text, at, out);
        self.put(kind, out);
    }

    fn put(&mut self, kind: &str, out: &mut Vec<u8>) {
        self.found += 1;
        out.extend_from_slice(b"[redacted:");
        out.extend_from_slice(kind.as_bytes());
        out.push(b']');
    }

    fn block(&mut self, text: &[u8], is_end: bool) -> usize {
        loop {
            match block::line(&text[self.written..], is_end) {
                Line::Body(length) => self.written += length,
                Line::Last(length) => {
                    self.written += length;
                    self.mode = Mode::Text;
                }
                Line::Foreign => self.mode = Mode::Text,
                Line::NeedsMore => {
                    self.judged = self.written;
                    return self.written + AHEAD;
                }
            }
            if self.mode == Mode::Text || self.written == text.len() {
                self.judged = self.written;
                return self.written + 1;
            }
        }
    }

    fn token(&mut self, text: &[u8]) -> usize {
        let rest = &text[self.written..];
        let length = rest.iter().position(|byte| !forms::is_token_byte(*byte)).unwrap_or(rest.len());
        if length < rest.len() {
            self.mode = Mode::Text;
        }
        self.written += length;
        self.judged = self.written;
        self.written + 1
    }
}

/// A cheap look that rules most anchors out.
fn could_be(judge: Judge, text: &[u8], at: usize) -> bool {
    match judge {
        Judge::Form(form) => {
            form.has_anchor(&text[at..])
                && (form.begins_before()
                    || !text[at].is_ascii_alphanumeric()
                    || is_left_edge(&text[at.saturating_sub(BEHIND)..at]))
        }
        Judge::Word(_) | Judge::Block => true,
    }
}

/// Where the text ends that a judge may see, or nothing if more is needed to know.
fn window(judge: Judge, text: &[u8], at: usize, is_end: bool) -> Option<usize> {
    let far = at + AHEAD;
    let seen = &text[at..far.min(text.len())];
    let lines = match judge {
        Judge::Block => usize::MAX,
        Judge::Word(_) => 2,
        Judge::Form(_) => 1,
    };
    let mut ends = memchr::memchr_iter(b'\n', seen);
    let end = if lines == usize::MAX { None } else { ends.nth(lines - 1) };
    match end {
        Some(end) => Some(at + end),
        None if is_end || far <= text.len() => Some(at + seen.len()),
        None => None,
    }
}

fn judge_anchor(judge: Judge, around: Around<'_>) -> Option<Found> {
    match judge {
        Judge::Form(form) => form.judge(around),
        Judge::Word(word) => assign::judge(word, around),
        Judge::Block => None,
    }
}

/// Whether a token may begin here: not in the middle of a word, but behind a colour code, an escape like `\n` and a
/// percent-encoded character.
pub(super) fn is_left_edge(before: &[u8]) -> bool {
    match before {
        [] | [.., b'\\', b'n' | b't' | b'r' | b'"'] => true,
        [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
        [.., b'm'] => {
            let tail = &before[before.len().saturating_sub(16)..];
            memchr::memrchr(0x1b, tail).is_some_and(|esc| {
                tail[esc + 1] == b'['
                    && tail[esc + 2..tail.len() - 1].iter().all(|byte| byte.is_ascii_digit() || *byte == b';')
            })
        }
        [.., last] => !(last.is_ascii_alphanumeric() || *last == b'_' || *last >= 0x80),
    }
}
