//! Mutation: cases made from samples by changes of bytes, lines, numbers and JSON.

use fastrand::Rng;
use serde_json::Value;

/// Longer cases are cut: they are slow and find nothing that shorter ones do not.
const CASE_BYTES_MAX: usize = 8 * 1024;

/// Bytes that parsers look for.
const BYTES: &[u8] = b"\0\n\r\t \"\\{}[]:,+-*@#/0a\x7f\x80\xc3\xe2\xed\xff";

/// Numbers at the edges of types.
const NUMBERS: [&str; 10] =
    ["0", "-1", "1", "255", "65536", "4294967295", "18446744073709551615", "-9223372036854775808", "1e308", "0.1"];

/// Makes cases from samples. The same seed makes the same cases.
pub struct Mutator {
    samples: Vec<Vec<u8>>,
    words: &'static [&'static str],
    dice: Rng,
}

impl Mutator {
    /// Mutates these samples; `words` mean something to the parser.
    pub fn new(mut samples: Vec<Vec<u8>>, words: &'static [&'static str], seed: u64) -> Self {
        samples.push(Vec::new());
        Self { samples, words, dice: Rng::with_seed(seed) }
    }

    /// The next case.
    pub fn next(&mut self, case: &mut Vec<u8>) {
        case.clear();
        case.extend_from_slice(&self.samples[self.dice.usize(..self.samples.len())]);
        // Mostly few changes, so that what is left still makes sense to the parser.
        let changes = 1 + self.dice.u32(..).trailing_zeros().min(7);
        for _ in 0..changes {
            self.change(case);
        }
        case.truncate(CASE_BYTES_MAX);
    }

    fn change(&mut self, case: &mut Vec<u8>) {
        match self.dice.u8(..16) {
            0 | 1 => self.overwrite(case),
            2 => {
                let range = self.range(case.len(), 64);
                case.drain(range);
            }
            3 => {
                let piece = case[self.range(case.len(), 256)].to_vec();
                self.insert(case, &piece);
            }
            4 => case.truncate(self.dice.usize(..=case.len())),
            5 | 6 if !self.words.is_empty() => {
                let word = self.words[self.dice.usize(..self.words.len())];
                self.insert(case, word.as_bytes());
            }
            7 => self.splice(case),
            8 | 9 => self.lines(case),
            10 => self.number(case),
            11 => {
                let byte = [BYTES[self.dice.usize(..BYTES.len())]];
                let times = 1 << self.dice.u32(..12);
                self.insert(case, &byte.repeat(times));
            }
            _ => self.json(case),
        }
    }

    fn range(&mut self, length: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.dice.usize(..=length);
        start..(start + self.dice.usize(..=most)).min(length)
    }

    fn insert(&mut self, case: &mut Vec<u8>, piece: &[u8]) {
        let at = self.dice.usize(..=case.len());
        case.splice(at..at, piece.iter().copied());
    }

    fn overwrite(&mut self, case: &mut [u8]) {
        if !case.is_empty() {
            let at = self.dice.usize(..case.len());
            case[at] = if self.dice.bool() { self.dice.u8(..) } else { BYTES[self.dice.usize(..BYTES.len())] };
        }
    }

    /// The beginning of this case and the end of another, cut at lines.
    fn splice(&mut self, case: &mut Vec<u8>) {
        let other = self.samples[self.dice.usize(..self.samples.len())].clone();
        let (end, start) = (self.line_start(case), self.line_start(&other));
        case.truncate(end);
        case.extend_from_slice(&other[start..]);
    }

    fn line_start(&mut self, text: &[u8]) -> usize {
        let from = self.dice.usize(..=text.len());
        text[from..].iter().position(|byte| *byte == b'\n').map_or(from, |at| from + at + 1)
    }

    /// Lines swapped, repeated or left out.
    fn lines(&mut self, case: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = case.split_inclusive(|byte| *byte == b'\n').collect();
        if lines.is_empty() {
            return;
        }
        let (one, two) = (self.dice.usize(..lines.len()), self.dice.usize(..lines.len()));
        match self.dice.u8(..3) {
            0 => lines.swap(one, two),
            1 => lines.insert(two, lines[one]),
            _ => drop(lines.remove(one)),
        }
        *case = lines.concat();
    }

    fn number(&mut self, case: &mut Vec<u8>) {
        let from = self.dice.usize(..=case.len());
        let Some(start) = case[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else { return };
        let end = case[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(case.len(), |at| start + at);
        case.splice(start..end, NUMBERS[self.dice.usize(..NUMBERS.len())].bytes());
    }

    /// One value of one line of JSON replaced, moved, doubled or left out.
    fn json(&mut self, case: &mut Vec<u8>) {
        let start = self.line_start(case);
        let length = case[start..].iter().position(|byte| *byte == b'\n').unwrap_or(case.len() - start);
        let line = &case[start..start + length];
        let Some(open) = line.iter().position(|byte| *byte == b'{') else { return };
        let Ok(mut value) = serde_json::from_slice::<Value>(&line[open..]) else { return };
        let other = value.clone();
        self.value(&mut value, &other, 0);
        case.splice(start + open..start + length, value.to_string().into_bytes());
    }

    fn value(&mut self, value: &mut Value, other: &Value, depth: u32) {
        let goes_deeper = depth < 12 && self.dice.u8(..5) > 0;
        match value {
            Value::Object(map) if goes_deeper && !map.is_empty() => {
                let key = map.keys().nth(self.dice.usize(..map.len())).cloned().unwrap_or_default();
                if self.dice.u8(..8) == 0 {
                    map.remove(&key);
                } else if let Some(below) = map.get_mut(&key) {
                    self.value(below, other, depth + 1);
                }
            }
            Value::Array(items) if goes_deeper && !items.is_empty() => {
                let at = self.dice.usize(..items.len());
                match self.dice.u8(..6) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.value(&mut items[at], other, depth + 1),
                }
            }
            _ => *value = self.fresh(other),
        }
    }

    fn fresh(&mut self, other: &Value) -> Value {
        match self.dice.u8(..8) {
            0 => Value::Null,
            1 => Value::Bool(self.dice.bool()),
            2 => serde_json::from_str(NUMBERS[self.dice.usize(..NUMBERS.len())]).unwrap_or_default(),
            3 => Value::String(String::new()),
            4 if !self.words.is_empty() => Value::from(self.words[self.dice.usize(..self.words.len())]),
            5 => Value::Array(vec![other.clone()]),
            6 => Value::Object(serde_json::Map::new()),
            _ => {
                // A value from elsewhere in the line: of the right kind, in the wrong place.
                let mut at = other;
                while let Some(below) = self.below(at) {
                    at = below;
                    if self.dice.u8(..3) == 0 {
                        break;
                    }
                }
                at.clone()
            }
        }
    }

    fn below<'a>(&mut self, value: &'a Value) -> Option<&'a Value> {
        match value {
            Value::Object(map) if !map.is_empty() => map.values().nth(self.dice.usize(..map.len())),
            Value::Array(items) if !items.is_empty() => items.get(self.dice.usize(..items.len())),
            _ => None,
        }
    }
}
