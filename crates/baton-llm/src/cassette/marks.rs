//! Marks: what stands in a cassette for keys and for places that differ from machine to machine.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::LazyLock;

use baton_core::{Message, ToolSpec};
use regex::Regex;
use serde_json::Value;

/// A shorter value is a word that people write and no key: replacing it would garble what is said.
const KEY_BYTES_MIN: usize = 8;

/// The file of a full output gets a number when there is one of that name already.
static OUTPUT_NUMBER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(\{baton:state\}/outputs/[A-Za-z0-9_-]*?)-[0-9]+\.txt").ok());

/// What is replaced, the longest first. A mark is a word that shells leave as it is.
#[derive(Clone, Default)]
pub struct Marks(Vec<Mark>);

#[derive(Clone)]
struct Mark {
    needle: String,
    name: String,
    is_place: bool,
}

impl std::fmt::Debug for Marks {
    /// The needles are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|mark| &mark.name)).finish()
    }
}

impl Marks {
    /// Marks keys by the names of their variables, and places by short names.
    pub fn new(
        keys: impl IntoIterator<Item = (String, String)>,
        places: impl IntoIterator<Item = (&'static str, PathBuf)>,
    ) -> Self {
        let mut marks = Vec::new();
        for (name, value) in keys.into_iter().filter(|(_, value)| value.len() >= KEY_BYTES_MIN) {
            // As it is, inside JSON, and inside JSON that is itself a text of JSON.
            let escaped = escape(&value);
            for needle in [escape(&escaped), escaped, value] {
                marks.push(Mark { needle, name: Self::of_key(&name), is_place: false });
            }
        }
        for (name, place) in places {
            let needle = place.to_string_lossy().trim_end_matches('/').to_owned();
            // A place that JSON would have to escape cannot be put back into the middle of a stream.
            if !needle.is_empty() && escape(&needle) == needle {
                marks.push(Mark { needle, name: format!("{{baton:{name}}}"), is_place: true });
            }
        }
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.needle.len()));
        Self(marks)
    }

    /// What stands in a cassette for the key in the variable of this name.
    pub fn of_key(variable: &str) -> String {
        format!("{{baton:key:{variable}}}")
    }

    /// Whether a key can be read in a text.
    pub fn has_key(&self, text: &str) -> bool {
        self.0.iter().any(|mark| !mark.is_place && text.contains(&mark.needle))
    }

    /// What has to be replaced in a text, in order, and by what. The first to begin wins, then the longest.
    fn found(&self, text: &str) -> Vec<(Range<usize>, &str)> {
        let next = |mark: &Mark, from: usize| text[from..].find(&mark.needle).map(|at| from + at);
        let mut ahead: Vec<Option<usize>> = self.0.iter().map(|mark| next(mark, 0)).collect();
        let mut found = Vec::new();
        let first = |ahead: &[Option<usize>]| {
            let starts = ahead.iter().enumerate().filter_map(|(which, start)| Some(((*start)?, which)));
            starts.min()
        };
        while let Some((start, which)) = first(&ahead) {
            let mark = &self.0[which];
            let range = start..start + mark.needle.len();
            if mark.is_place && !stands_alone(text, &range) {
                ahead[which] = next(mark, range.end);
                continue;
            }
            for (mark, ahead) in self.0.iter().zip(&mut ahead) {
                if ahead.is_some_and(|at| at < range.end) {
                    *ahead = next(mark, range.end);
                }
            }
            found.push((range, mark.name.as_str()));
        }
        found
    }

    /// A text with its marks.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.found(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut marked = vec![String::new()];
        put_marks(&[text], &found, &mut marked);
        let marked = marked.concat();
        match &*OUTPUT_NUMBER {
            Some(number) => Cow::Owned(number.replace_all(&marked, "$1.txt").into_owned()),
            None => Cow::Owned(marked),
        }
    }

    /// A message with its marks.
    pub(super) fn message(&self, message: &Message) -> Message {
        self.inside(message)
    }

    /// A tool with its marks.
    pub(super) fn tool(&self, tool: &ToolSpec) -> ToolSpec {
        self.inside(tool)
    }

    fn inside<T: Clone + serde::Serialize + serde::de::DeserializeOwned>(&self, whole: &T) -> T {
        let marked = serde_json::to_value(whole).and_then(|mut value| {
            self.value(&mut value);
            serde_json::from_value(value)
        });
        // Only texts change, so it is still what it was.
        marked.unwrap_or_else(|_| whole.clone())
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(marked) = self.text(text) {
                    *text = marked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                for (key, mut value) in std::mem::take(map) {
                    self.value(&mut value);
                    map.insert(self.text(&key).into_owned(), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The body of a reply with its marks. What a model says comes in pieces, so a key may be spread
    /// over many events: the texts that stand at the same place of consecutive events are read as one.
    pub fn stream(&self, body: &str) -> String {
        let mut lines: Vec<Line> = body.split_inclusive('\n').map(Line::new).collect();
        let mut texts = Texts::new();
        for (number, line) in lines.iter().enumerate() {
            if let Some(event) = &line.event {
                collect(event, &mut String::new(), "", number, &mut texts);
            }
        }
        for pieces_at in texts.into_values() {
            let pieces: Vec<&str> = pieces_at.iter().map(|piece| piece.text.as_str()).collect();
            let found = self.found(&pieces.concat());
            if found.is_empty() {
                continue;
            }
            let mut marked = vec![String::new(); pieces.len()];
            put_marks(&pieces, &found, &mut marked);
            for (piece, new) in pieces_at.iter().zip(marked).filter(|(piece, new)| piece.text != *new) {
                let line = &mut lines[piece.line];
                if let Some(text) = line.event.as_mut().and_then(|event| event.pointer_mut(&piece.pointer)) {
                    *text = Value::String(new);
                    line.is_changed = true;
                }
            }
        }
        // What is no event, and what stands in names of fields.
        lines.iter().map(|line| self.text(&line.text()).into_owned()).collect()
    }

    /// Puts this machine's places where their marks stand.
    pub fn expand(&self, body: &str) -> String {
        let mut expanded = body.to_owned();
        for mark in self.0.iter().filter(|mark| mark.is_place) {
            expanded = expanded.replace(&mark.name, &mark.needle);
        }
        expanded
    }
}

/// A line of a stream.
struct Line<'a> {
    raw: &'a str,
    event: Option<Value>,
    is_changed: bool,
}

impl<'a> Line<'a> {
    fn new(raw: &'a str) -> Self {
        let event = raw.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
        Self { raw, event, is_changed: false }
    }

    fn text(&self) -> Cow<'a, str> {
        match &self.event {
            Some(event) if self.is_changed => {
                let end = &self.raw[self.raw.trim_end_matches(['\r', '\n']).len()..];
                Cow::Owned(format!("data: {event}{end}"))
            }
            _ => Cow::Borrowed(self.raw),
        }
    }
}

/// The texts of all events, by the field they stand in and the thing they belong to.
type Texts = HashMap<String, Vec<Piece>>;

/// A text in an event.
struct Piece {
    line: usize,
    pointer: String,
    text: String,
}

/// Fields that tell which of several things an event belongs to.
const WHICH: [&str; 5] = ["index", "output_index", "content_index", "summary_index", "item_id"];

fn collect(value: &Value, pointer: &mut String, which: &str, line: usize, texts: &mut Texts) {
    let length = pointer.len();
    let mut below = |key: &str, value: &Value, which: &str| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        collect(value, pointer, which, line, texts);
        pointer.truncate(length);
    };
    match value {
        Value::Object(map) => {
            let mut which = which.to_owned();
            for name in WHICH {
                which.extend(map.get(name).map(|value| format!("{name}={value} ")));
            }
            for (key, value) in map {
                below(key, value, &which);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                below(&at.to_string(), value, which);
            }
        }
        Value::String(text) => {
            let piece = Piece { line, pointer: pointer.clone(), text: text.clone() };
            texts.entry(format!("{which}{pointer}")).or_default().push(piece);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Copies pieces of one text, with marks where something was found: a mark goes to the piece in which
/// it begins, and the rest of what it replaces is left out of the pieces that follow.
fn put_marks(pieces: &[&str], found: &[(Range<usize>, &str)], marked: &mut [String]) {
    let mut start = 0;
    for (piece, marked) in pieces.iter().zip(marked) {
        let end = start + piece.len();
        let mut at = start;
        for (range, mark) in found.iter().filter(|(range, _)| range.start < end && start < range.end) {
            marked.push_str(&piece[at - start..range.start.max(at) - start]);
            if range.start >= start {
                marked.push_str(mark);
            }
            at = range.end.min(end);
        }
        marked.push_str(&piece[at - start..]);
        start = end;
    }
}

/// Whether a place is meant, and not a part of a longer name (`/home/me` in `/home/me2`).
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let (before, after) = (&text[..range.start], &text[range.end..]);
    let mut back = before.chars().rev();
    let joined = back.next().is_some_and(in_name) && back.next() != Some('\\');
    // A full stop after a place may end a sentence.
    let mut ahead = after.trim_start_matches('.').chars();
    !joined && !ahead.next().is_some_and(in_name)
}

/// A text as it stands in JSON, without the quotes.
fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
