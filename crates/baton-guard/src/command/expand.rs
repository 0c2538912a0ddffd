//! Expansion: from words to the arguments that a program would get, as far as they can be known.
//!
//! Where a value cannot be known, the likeliest harmful one is taken (an unset variable is empty), so that what must be
//! denied is found; and the argument is marked, so that nothing is allowed on a guess.

use std::borrow::Cow;

use super::syntax::{Part, Variable, Word};
use super::walk::{Value, Walker};

/// How well an argument is known. The order is from better to worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// It is what bash will pass.
    Exactly,
    /// It is not known, but can neither be an option nor a secret.
    Harmless,
    /// A guess.
    Guess,
}

/// One argument.
#[derive(Debug, Clone)]
pub(super) struct Arg {
    pub(super) text: String,
    pub(super) known: Known,
    /// Whether it holds wildcards that bash replaces.
    pub(super) glob: bool,
    /// Whether some of it is the output of a command.
    pub(super) is_output: bool,
}

impl Arg {
    pub(super) fn exact(text: impl Into<String>) -> Self {
        Self { text: text.into(), known: Known::Exactly, glob: false, is_output: false }
    }

    fn empty() -> Self {
        Self::exact("")
    }

    pub(super) fn with_text(&self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self.clone() }
    }
}

/// What stands in place of `<(...)`.
pub(super) const PROCESS: &str = "/dev/fd/63";

/// The most words that braces may make of one.
const WORDS_MAX: usize = 512;

/// Variables whose values are no secrets, no options and no paths.
const HARMLESS: [&str; 22] = [
    "?",
    "#",
    "$",
    "!",
    "-",
    "_",
    "RANDOM",
    "SECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "USER",
    "LOGNAME",
    "HOSTNAME",
    "LANG",
    "TERM",
    "SHLVL",
    "BASH_VERSION",
    "OSTYPE",
    "EPOCHSECONDS",
    "COLUMNS",
];

impl Walker<'_> {
    /// The arguments that words become.
    pub(super) fn expand_all(&mut self, words: &[Word]) -> Vec<Arg> {
        words.iter().flat_map(|word| self.expand(word)).collect()
    }

    /// The arguments that one word becomes: braces, then `~`, variables and substitutions, then fields.
    pub(super) fn expand(&mut self, word: &Word) -> Vec<Arg> {
        let has_braces = word.parts.iter().any(|part| matches!(part, Part::Bare(text) if text.contains('{')));
        if !has_braces {
            return self.fields(&word.parts, true);
        }
        let mut words = Vec::new();
        if !braces(&word.parts, &mut words) {
            self.too_complex();
        }
        words.iter().flat_map(|parts| self.fields(parts, true)).collect()
    }

    /// The one text that a word becomes where no fields are made: a value, a target, a line of a document.
    pub(super) fn expand_text(&mut self, word: &Word) -> Arg {
        let mut fields = self.fields(&word.parts, false);
        if fields.len() == 1 { fields.remove(0) } else { Arg::empty() }
    }

    fn fields(&mut self, parts: &[Part], splits: bool) -> Vec<Arg> {
        let mut done = Vec::new();
        let mut open: Option<Arg> = None;
        for (n, part) in parts.iter().enumerate() {
            match part {
                Part::Bare(text) => {
                    let arg = open.get_or_insert_with(Arg::empty);
                    let text =
                        if n == 0 { self.tilde(text, parts.len() == 1, arg) } else { Cow::Borrowed(text.as_str()) };
                    arg.glob |= is_wild(&text);
                    arg.text.push_str(&text);
                }
                Part::Quoted(text) => open.get_or_insert_with(Arg::empty).text.push_str(text),
                Part::Variable(variable) => {
                    let value = self.variable(variable);
                    add(&value, variable.quoted || !splits, &mut open, &mut done);
                }
                Part::Substitution { script, quoted } => {
                    let value = self.substitution(script);
                    add(&value, *quoted || !splits, &mut open, &mut done);
                }
                Part::Process(script) => {
                    self.process_substitution(script);
                    let arg = open.get_or_insert_with(Arg::empty);
                    arg.text.push_str(PROCESS);
                    arg.known = Known::Guess;
                    arg.is_output = true;
                }
                Part::Arithmetic(word) => {
                    self.arithmetic(word);
                    let arg = open.get_or_insert_with(Arg::empty);
                    arg.text.push('0');
                    arg.known = arg.known.max(Known::Harmless);
                }
            }
        }
        done.extend(open);
        done
    }

    fn tilde<'t>(&self, text: &'t str, is_whole: bool, arg: &mut Arg) -> Cow<'t, str> {
        let Some(rest) = text.strip_prefix('~') else { return Cow::Borrowed(text) };
        let end = rest.find('/');
        // A quote or expansion after the name makes it no name.
        if end.is_none() && !is_whole {
            arg.known = Known::Guess;
        }
        let (user, below) = rest.split_at(end.unwrap_or(rest.len()));
        let dir = match user {
            "" => self.scope.home.to_string_lossy().into_owned(),
            "+" => self.cwd.to_string_lossy().into_owned(),
            user => {
                arg.known = Known::Guess;
                format!("/home/{user}")
            }
        };
        Cow::Owned(format!("{dir}{below}"))
    }

    fn variable(&mut self, variable: &Variable) -> Arg {
        let Variable { name, operator, words, .. } = variable;
        let arguments: Vec<Arg> = words.iter().map(|word| self.expand_text(word)).collect();
        let argument = arguments.last().cloned().unwrap_or_else(Arg::empty);
        if operator.starts_with('!') {
            self.ask("shell.indirect", "it uses the value of a variable as the name of another");
            return Arg { known: Known::Guess, ..Arg::empty() };
        }
        if operator == "@P" || operator == "@E" {
            self.deny(
                "shell.prompt-expansion",
                "it expands the value of a variable as a prompt, which runs what stands in it",
            );
        }
        let mut value = self.value_of(name);
        match operator.as_str() {
            "" => {}
            // The default counts where nothing is known to be set.
            ":-" | "-" | ":=" | "=" => {
                if value.text.is_empty() {
                    value = Arg { known: argument.known.max(Known::Guess), ..argument };
                    if operator.contains('=') {
                        self.set(name, Value { text: value.text.clone(), known: Known::Guess });
                    }
                }
            }
            ":+" | "+" => value = Arg { known: Known::Guess, ..argument },
            // It fails rather than being empty.
            ":?" | "?" => {
                if value.text.is_empty() {
                    value.text.push('\u{fffd}');
                }
            }
            "#" if argument.text.is_empty() => value = Arg { known: Known::Harmless, ..Arg::exact("0") },
            _ => value.known = Known::Guess,
        }
        value
    }

    fn value_of(&self, name: &str) -> Arg {
        let known = match name {
            "HOME" => Some(Value { text: self.scope.home.to_string_lossy().into_owned(), known: Known::Exactly }),
            "PWD" if self.cwd_known => {
                Some(Value { text: self.cwd.to_string_lossy().into_owned(), known: Known::Exactly })
            }
            _ => None,
        };
        if let Some(value) = self.vars.get(name).cloned().or(known) {
            return Arg { known: value.known, ..Arg::exact(value.text) };
        }
        if name == "IFS" {
            return Arg { known: Known::Guess, ..Arg::exact(" ") };
        }
        let known = if HARMLESS.contains(&name) { Known::Harmless } else { Known::Guess };
        Arg { known, ..Arg::empty() }
    }
}

/// Whether bash would look for files that match.
fn is_wild(text: &str) -> bool {
    text.contains(['*', '?']) || text.contains('[') && text.contains(']')
}

/// Adds a value to the word that is being made; one that is not quoted falls apart at blanks.
fn add(value: &Arg, whole: bool, open: &mut Option<Arg>, done: &mut Vec<Arg>) {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n');
    let mut first = true;
    let pieces: Vec<&str> = if whole { vec![&value.text] } else { value.text.split(blank).collect() };
    for piece in pieces {
        if !first {
            done.extend(open.take().filter(|arg| !arg.text.is_empty()));
        }
        first = false;
        let arg = open.get_or_insert_with(Arg::empty);
        arg.text.push_str(piece);
        arg.known = arg.known.max(value.known);
        arg.is_output |= value.is_output;
        arg.glob |= !whole && is_wild(piece);
    }
}

/// Writes `{a,b}` and `{1..3}` out. False if that is too much.
fn braces(parts: &[Part], out: &mut Vec<Vec<Part>>) -> bool {
    let mut open = vec![parts.to_vec()];
    while let Some(parts) = open.pop() {
        if out.len() + open.len() > WORDS_MAX {
            return false;
        }
        match alternatives(&parts) {
            Some(alternatives) => open.extend(alternatives.into_iter().rev()),
            None => out.push(parts),
        }
    }
    true
}

/// The words that the first braces of a word make of it; none if it has none.
fn alternatives(parts: &[Part]) -> Option<Vec<Vec<Part>>> {
    let mut from = (0, 0);
    loop {
        let start = find(parts, from, |c| c == '{')?;
        from = (start.0, start.1 + 1);
        let (mut depth, mut commas, mut end, mut at) = (1, Vec::new(), None, from);
        while let Some(found) = find(parts, at, |c| matches!(c, '{' | ',' | '}')) {
            at = (found.0, found.1 + 1);
            match char_at(parts, found) {
                Some('{') => depth += 1,
                Some(',') if depth == 1 => commas.push(found),
                Some('}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                end = Some(found);
                break;
            }
        }
        let Some(end) = end else { continue };
        let inner: Vec<Vec<Part>> = if commas.is_empty() {
            match sequence(&slice(parts, from, end)) {
                Some(items) => items.into_iter().map(|item| vec![Part::Bare(item)]).collect(),
                None => continue,
            }
        } else {
            let mut starts = vec![from];
            starts.extend(commas.iter().map(|comma| (comma.0, comma.1 + 1)));
            let ends = commas.iter().copied().chain([end]);
            starts.into_iter().zip(ends).map(|(start, end)| slice(parts, start, end)).collect()
        };
        let before = slice(parts, (0, 0), start);
        let after = slice(parts, (end.0, end.1 + 1), (parts.len(), 0));
        return Some(inner.into_iter().map(|item| joined([&before, &item, &after])).collect());
    }
}

type Place = (usize, usize);

fn find(parts: &[Part], from: Place, wanted: impl Fn(char) -> bool) -> Option<Place> {
    parts.iter().enumerate().skip(from.0).find_map(|(n, part)| {
        let Part::Bare(text) = part else { return None };
        let start = if n == from.0 { from.1 } else { 0 };
        text.get(start..)?.find(&wanted).map(|at| (n, start + at))
    })
}

fn char_at(parts: &[Part], place: Place) -> Option<char> {
    match parts.get(place.0)? {
        Part::Bare(text) => text.get(place.1..)?.chars().next(),
        _ => None,
    }
}

fn slice(parts: &[Part], from: Place, to: Place) -> Vec<Part> {
    let mut out = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        if n < from.0 || n > to.0 || n == to.0 && to.1 == 0 {
            continue;
        }
        match part {
            Part::Bare(text) => {
                let start = if n == from.0 { from.1 } else { 0 };
                let end = if n == to.0 { to.1 } else { text.len() };
                if let Some(text) = text.get(start..end).filter(|text| !text.is_empty()) {
                    out.push(Part::Bare(text.to_owned()));
                }
            }
            // A part that is no text is whole, and lies before the end or behind the start.
            other if n > from.0 || from.1 == 0 => out.push(other.clone()),
            _ => {}
        }
    }
    out
}

fn joined(pieces: [&Vec<Part>; 3]) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    for part in pieces.into_iter().flatten() {
        match (out.last_mut(), part) {
            (Some(Part::Bare(last)), Part::Bare(text)) => last.push_str(text),
            // Braces are written out before names are read: `$HOM{E,X}` is `$HOME $HOMX`.
            (Some(Part::Variable(variable)), Part::Bare(text)) if is_open_name(variable) => {
                let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
                variable.name.push_str(&text[..length]);
                if length < text.len() {
                    out.push(Part::Bare(text[length..].to_owned()));
                }
            }
            (_, part) => out.push(part.clone()),
        }
    }
    out
}

/// Whether letters that come behind it belong to the name.
fn is_open_name(variable: &Variable) -> bool {
    variable.words.is_empty()
        && !variable.quoted
        && variable.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The members of `1..3` or `a..e`.
fn sequence(parts: &[Part]) -> Option<Vec<String>> {
    let [Part::Bare(text)] = parts else { return None };
    let (from, to) = text.split_once("..")?;
    let (to, step) = to.split_once("..").map_or((to, 1), |(to, step)| (to, step.parse::<i64>().unwrap_or(1)));
    let step = usize::try_from(step.unsigned_abs().max(1)).ok()?;
    let walk = |from: i64, to: i64| -> Vec<i64> {
        let range: Vec<i64> = if from <= to {
            (from..=to).take(WORDS_MAX * 2).collect()
        } else {
            (to..=from).rev().take(WORDS_MAX * 2).collect()
        };
        range.into_iter().step_by(step).collect()
    };
    if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
        return Some(walk(from, to).into_iter().map(|n| n.to_string()).collect());
    }
    let letter = |text: &str| match text.as_bytes() {
        [byte] if byte.is_ascii_alphabetic() => Some(i64::from(*byte)),
        _ => None,
    };
    let numbers = walk(letter(from)?, letter(to)?);
    Some(numbers.into_iter().filter_map(|n| u8::try_from(n).ok()).map(|byte| char::from(byte).to_string()).collect())
}
