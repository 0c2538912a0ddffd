//! Values that were registered: found exactly, with any of their characters escaped, and inside of base64 or hex.

use std::collections::HashSet;
use std::fmt;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::scan::{Found, REACH};

/// Shorter values are ordinary words too often: `test`, `admin1`.
pub(super) const SHORTEST: usize = 8;
/// Longer values are looked for by pieces of this length, so that little has to be held back.
const PIECE: usize = 1024;
/// How much of a value the search looks for.
const ANCHOR: usize = 6;

/// What is looked for.
#[derive(Default)]
pub(super) struct Known {
    shapes: Vec<Shape>,
    search: Option<AhoCorasick>,
    /// The shape of each literal of the search.
    owners: Vec<usize>,
    longest_anchor: usize,
}

/// A value in one of the ways to write it.
enum Shape {
    /// As it is, or with characters escaped.
    Plain(Vec<u8>),
    /// Its middle in an encoding, of which the ends depend on what stands beside it.
    Encoded(Vec<u8>),
}

/// What became of looking at one place.
pub(super) enum Walk {
    Found(Found),
    Nothing,
    NeedsMore,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} shapes)", self.shapes.len())
    }
}

impl Known {
    pub fn new<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut pieces = HashSet::new();
        for value in values {
            let value = value.as_ref().trim();
            if value.len() >= SHORTEST {
                let pieces_of = value.as_bytes().chunks(PIECE).filter(|piece| piece.len() >= SHORTEST);
                pieces.extend(pieces_of.map(<[u8]>::to_vec));
            }
        }
        let mut shapes: Vec<Shape> = pieces.iter().flat_map(|piece| encodings(piece)).map(Shape::Encoded).collect();
        shapes.extend(pieces.into_iter().map(Shape::Plain));
        let (mut literals, mut owners) = (Vec::new(), Vec::new());
        for (owner, shape) in shapes.iter().enumerate() {
            let anchors = match shape {
                Shape::Plain(value) => anchors(value),
                Shape::Encoded(text) => vec![text[..ANCHOR].to_vec()],
            };
            owners.extend(anchors.iter().map(|_| owner));
            literals.extend(anchors);
        }
        let longest_anchor = literals.iter().map(Vec::len).max().unwrap_or_default();
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(&literals)
            .unwrap_or_else(|error| unreachable!("the literals are short: {error}"));
        Self { search: (!shapes.is_empty()).then_some(search), shapes, owners, longest_anchor }
    }

    pub fn longest_anchor(&self) -> usize {
        self.longest_anchor
    }

    /// Calls with each place where a value may begin, and with the number of its shape.
    pub fn anchors(&self, text: &[u8], mut each: impl FnMut(usize, usize)) {
        for hit in self.search.iter().flat_map(|search| search.find_overlapping_iter(text)) {
            each(hit.start(), self.owners[hit.pattern().as_usize()]);
        }
    }

    /// Whether the shape stands at this place of the text.
    pub fn walk(&self, shape: usize, text: &[u8], at: usize, is_end: bool) -> Walk {
        let ahead = &text[at..];
        let ended = || if is_end { Walk::Nothing } else { Walk::NeedsMore };
        match &self.shapes[shape] {
            Shape::Plain(value) => {
                let mut end = 0;
                for byte in value {
                    match unescape(&ahead[end..], *byte, is_end) {
                        Step::Took(length) => end += length,
                        Step::Other => return Walk::Nothing,
                        Step::Ended => return ended(),
                    }
                }
                Walk::Found(Found::at("known", 0, end))
            }
            Shape::Encoded(part) => {
                let common = part.iter().zip(ahead).take_while(|(a, b)| a == b).count();
                if common < part.len() {
                    return if common == ahead.len() { ended() } else { Walk::Nothing };
                }
                let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte);
                let before = text[..at].iter().rev().take(REACH).take_while(is_part).count();
                let rest = ahead[part.len()..].iter().take(REACH).take_while(is_part).count();
                if rest < REACH && part.len() + rest == ahead.len() && !is_end {
                    return Walk::NeedsMore;
                }
                Walk::Found(Found { before, ..Found::at("known", 0, part.len() + rest) })
            }
        }
    }
}

/// What the search looks for: the beginning of the value up to the first character that may be written otherwise, and
/// that character in its forms.
fn anchors(value: &[u8]) -> Vec<Vec<u8>> {
    let plain = value.iter().take(ANCHOR).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let first = forms_of(value[0]).into_iter().skip(1);
    let mut anchors: Vec<Vec<u8>> = first.collect();
    if plain >= 3 {
        anchors.push(value[..plain].to_vec());
    } else {
        let head = &value[..plain];
        let next = forms_of(value[plain]).into_iter().filter(|form| !form.contains(&b'\n'));
        anchors.extend(next.map(|form| [head, &form].concat()));
    }
    anchors
}

/// The ways to write a byte, the plain one first.
fn forms_of(byte: u8) -> Vec<Vec<u8>> {
    let mut forms = vec![vec![byte], format!("%{byte:02x}").into_bytes(), format!("\\x{byte:02x}").into_bytes()];
    forms.push(format!("\\u00{byte:02x}").into_bytes());
    match byte {
        b'\n' => forms.push(b"\\n".to_vec()),
        b'\t' => forms.push(b"\\t".to_vec()),
        b' ' => forms.push(b"+".to_vec()),
        b'&' => forms.push(b"&amp;".to_vec()),
        b'<' => forms.push(b"&lt;".to_vec()),
        b'>' => forms.push(b"&gt;".to_vec()),
        b'"' => forms.push(b"&quot;".to_vec()),
        _ => {}
    }
    if !byte.is_ascii_alphanumeric() {
        forms.push(vec![b'\\', byte]);
        forms.push(format!("&#{byte};").into_bytes());
    }
    forms
}

enum Step {
    Took(usize),
    Other,
    Ended,
}

/// Whether the text goes on with this byte, in any of its forms.
fn unescape(text: &[u8], byte: u8, is_end: bool) -> Step {
    match text.first() {
        None => return Step::Ended,
        Some(first) if *first == byte && !b"\\&%".contains(&byte) => return Step::Took(1),
        Some(first) if first.is_ascii_alphanumeric() => return Step::Other,
        Some(_) => {}
    }
    let mut is_begun = false;
    // The longest form first, so that a backslash that is itself escaped is taken whole.
    let mut forms = forms_of(byte);
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    for form in &forms {
        let common = form.iter().zip(text).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        // Only the digits of an escape may differ in case.
        if common == form.len() && (form.len() > 1 || text[0] == form[0]) {
            return if is_begun { Step::Ended } else { Step::Took(common) };
        }
        is_begun |= common == text.len() && !is_end;
    }
    if is_begun { Step::Ended } else { Step::Other }
}

/// The middle of the value in base64 (at each of three offsets, in both alphabets) and in hex.
fn encodings(value: &[u8]) -> HashSet<Vec<u8>> {
    let hex = value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let mut found = HashSet::from([hex.to_uppercase().into_bytes(), hex.into_bytes()]);
    for offset in 0..3 {
        let shifted = [&[0; 3][..offset], value].concat();
        for alphabet in [&STANDARD, &URL_SAFE] {
            let text = alphabet.encode(&shifted).into_bytes();
            // Characters that also hold bits of what stands before or behind the value.
            let start = [0, 2, 3][offset];
            let end = shifted.len() / 3 * 4 + [0, 1, 2][shifted.len() % 3];
            let middle = &text[start..end.min(text.len())];
            if middle.len() >= SHORTEST {
                found.insert(middle.to_vec());
            }
        }
    }
    found
}
