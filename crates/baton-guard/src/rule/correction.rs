//! Corrections in plain words ("never run migrations"), as rules that say the same: a table, and no model.
//!
//! What is said must fit as a whole. A text that is understood in part gives no rule: a rule that is wider or narrower than
//! what the person meant is worse than none, and they are told how to write one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};

use super::Rule;
use crate::command::is_program;
use crate::decision::Verdict;
use crate::shipped;

const SHIPPED: &str = include_str!("correction.jsonc");
/// A correction is a sentence; whatever is longer is something else.
const LENGTH_MAX: usize = 300;
/// Names of programs that are everyday words as well: they count only when they are quoted.
const EVERYDAY: [&str; 26] = [
    "test", "time", "watch", "file", "yes", "true", "false", "at", "more", "less", "set", "read", "who", "find",
    "sort", "split", "join", "look", "write", "type", "install", "link", "script", "code", "touch", "open",
];

/// Rules that say what a person said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// What was said, without what marks it as a correction.
    pub said: String,
    /// What the guard would do, in the order in which it was said.
    pub rules: Vec<Proposed>,
}

/// One rule, and the list that it goes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proposed {
    /// Deny, or ask.
    pub verdict: Verdict,
    /// As it is written in the settings.
    pub rule: String,
}

/// The rules that say what a person said; none if the table does not know how.
pub fn correction(text: &str) -> Option<Proposal> {
    TABLE.as_ref()?.read(text).map(|(proposal, _)| proposal)
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    deny: Vec<String>,
    ask: Vec<String>,
    fillers: Vec<String>,
    unless: Vec<String>,
    words: BTreeMap<String, String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[cfg_attr(test, serde(deny_unknown_fields))]
struct Row {
    #[cfg_attr(not(test), expect(dead_code, reason = "names the row in tests"))]
    id: String,
    says: Vec<String>,
    rules: Vec<String>,
    /// Also a correction when no prohibition stands in front of it: "stay out of vendor".
    #[serde(default)]
    plain: bool,
    /// Whether a path may be a word that does not look like one.
    #[serde(default)]
    bare: bool,
    /// Names that mean more than one program.
    #[serde(default)]
    also: BTreeMap<String, Vec<String>>,
    #[cfg(test)]
    #[serde(rename = "match")]
    matches: Vec<String>,
    #[cfg(test)]
    other: Vec<String>,
    #[cfg(test)]
    stops: Vec<String>,
    #[cfg(test)]
    leaves: Vec<String>,
}

struct Table {
    deny: Regex,
    ask: Regex,
    tail: Regex,
    unless: Regex,
    instead: Regex,
    rather: Regex,
    between: Regex,
    rows: Vec<(Row, Vec<Regex>)>,
}

/// A test reads it, so it is always there.
static TABLE: LazyLock<Option<Table>> = LazyLock::new(|| Table::new(shipped::read(SHIPPED)).ok());

impl Table {
    fn new(data: Data) -> Result<Self, regex::Error> {
        let any = |list: &[String]| {
            let mut words: Vec<String> = list.iter().map(|text| regex::escape(text)).collect();
            // The longest first: "no more" is not "no".
            words.sort_by_key(|word| std::cmp::Reverse(word.len()));
            words.join("|")
        };
        let politely = "(?:(?:please|and|but|also|ok|okay|hey|remember|note|important|rule|from now on)[,:]? )*";
        let compiled = |row: &Row| row.says.iter().map(|says| Regex::new(&full(says, &data.words))).collect();
        let patterns = data.rows.iter().map(compiled).collect::<Result<Vec<Vec<Regex>>, _>>()?;
        Ok(Self {
            deny: Regex::new(&format!("(?i)^{politely}(?:{})(?: ever| again| to)? (?P<what>.+)$", any(&data.deny)))?,
            ask: Regex::new(&format!("(?i)^{politely}(?:{})(?: you)?(?: ever)? (?P<what>.+)$", any(&data.ask)))?,
            tail: Regex::new(&format!("(?i)[,;]? (?:{})$", any(&data.fillers)))?,
            unless: Regex::new(&format!("(?i)[,;]? (?:{})$", any(&data.unless)))?,
            instead: Regex::new(
                r"(?i)^(?:please )?(?:always )?(?:use|run|prefer|take) \S+?(?:,? instead of|,? rather than|,? and not|,? not|,? never|[,;] (?:don't|do not|never) use) (?P<what>.+)$",
            )?,
            rather: Regex::new(
                r"(?i)(?:[,;:.]| -+) ?(?:please )?(?:always )?(?:we )?(?:use|prefer|run) \S+(?: instead)?$",
            )?,
            between: Regex::new(r"(?i),? (?:or|and|nor) (?:never |don't |do not )?|, ")?,
            rows: data.rows.into_iter().zip(patterns).collect(),
        })
    }

    fn read(&self, text: &str) -> Option<(Proposal, usize)> {
        if text.len() > LENGTH_MAX || text.trim().contains('\n') {
            return None;
        }
        let said = text.trim().trim_start_matches('#').replace(['\u{2018}', '\u{2019}'], "'");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = said.trim_end_matches(['.', '!', ' ']).to_owned();
        let mut what = said.clone();
        let mut verdict = Verdict::Deny;
        loop {
            let shorter = self.tail.replace(&what, "").trim_end_matches(['.', '!', ',', ' ']).to_owned();
            let shorter = match self.unless.find(&shorter) {
                Some(found) => {
                    verdict = Verdict::Ask;
                    shorter[..found.start()].to_owned()
                }
                None => shorter,
            };
            if shorter == what {
                break;
            }
            what = shorter;
        }
        if let Some(found) = self.rather.find(&what).filter(|found| found.start() > 0) {
            what.truncate(found.start());
        }
        let inner = |pattern: &Regex, text: &str| {
            pattern.captures(text).and_then(|found| found.name("what").map(|what| what.as_str().to_owned()))
        };
        let (what, is_plain) = if let Some(inner) = inner(&self.ask, &what) {
            verdict = Verdict::Ask;
            (inner, false)
        } else if let Some(inner) = inner(&self.deny, &what) {
            (inner, false)
        } else if let Some(tool) = inner(&self.instead, &what) {
            (format!("use {tool}"), false)
        } else {
            (what, true)
        };
        // As a whole first: a command may have an "and" in it.
        let (found, row) = self.piece(&what, is_plain).or_else(|| self.pieces(&what, is_plain))?;
        let mut rules: Vec<Proposed> = Vec::new();
        for rule in found {
            if !rules.iter().any(|known| known.rule == rule) {
                rules.push(Proposed { verdict, rule });
            }
        }
        Some((Proposal { said, rules }, row))
    }

    /// Several things in one sentence; a part without a verb has that of the part before it.
    fn pieces(&self, what: &str, is_plain: bool) -> Option<(Vec<String>, usize)> {
        let pieces: Vec<&str> = self.between.split(what).collect();
        if pieces.len() < 2 {
            return None;
        }
        let (mut rules, mut first, mut verb) = (Vec::new(), None, "");
        for piece in pieces {
            let with_verb = format!("{verb} {piece}");
            let as_before = if verb.is_empty() { None } else { self.piece(&with_verb, is_plain) };
            let (found, row) = as_before.or_else(|| self.piece(piece, is_plain))?;
            rules.extend(found);
            first.get_or_insert(row);
            if piece.contains(' ') {
                verb = piece.split(' ').next().unwrap_or_default();
            }
        }
        Some((rules, first?))
    }

    /// The rules of the first row that one thing fits, and which row that is.
    fn piece(&self, what: &str, is_plain: bool) -> Option<(Vec<String>, usize)> {
        let rows = self.rows.iter().enumerate().filter(|(_, (row, _))| !is_plain || row.plain);
        rows.flat_map(|(n, (row, patterns))| patterns.iter().map(move |pattern| (n, row, pattern))).find_map(
            |(n, row, pattern)| {
                let rules = row.made(&pattern.captures(what)?)?;
                // What would not be a rule is none.
                rules.iter().all(|rule| Rule::parse(rule).is_ok()).then_some((rules, n))
            },
        )
    }
}

/// A pattern of the table with its groups of words and its names filled in.
fn full(says: &str, words: &BTreeMap<String, String>) -> String {
    let mut text = says.to_owned();
    for (name, meaning) in words {
        text = text.replace(&format!("<{name}>"), meaning);
    }
    // Groups of words use each other's place, never each other.
    text = text.replace("{path}", r#"(?P<quote>[`"'])?(?P<path>[~A-Za-z0-9_@.*/+-]+)[`"']?"#);
    let quoted = r#"[`"'](?P<quoted>[^`"']+)[`"']"#;
    let program = "[A-Za-z0-9_./][A-Za-z0-9_./:@+-]*";
    text = text.replace("{command}", &format!("(?:{quoted}|(?P<command>{program}(?: [A-Za-z0-9_./:@=-]+)*))"));
    text = text.replace("{tool}", &format!("(?:{quoted}|(?P<command>{program}))"));
    format!("(?i)^(?:{text})$")
}

impl Row {
    /// Its rules with what was named put in; none if that cannot be what it is taken for.
    fn made(&self, found: &Captures<'_>) -> Option<Vec<String>> {
        let named = |name: &str| found.name(name).map(|found| found.as_str());
        let mut values: Vec<(&str, Vec<String>)> = Vec::new();
        if let Some(path) = named("path") {
            let looks_like_one = path.contains(['/', '.', '*']) || named("quote").is_some() || self.bare;
            values.push(("{path}", vec![path_of(path).filter(|_| looks_like_one)?]));
        }
        if let Some(command) = named("quoted") {
            values.push(("{command}", vec![command.trim().to_owned()]));
        } else if let Some(command) = named("command") {
            let program = command.split(' ').next().unwrap_or_default();
            let is_one = program.contains('/') || is_program(program) && !EVERYDAY.contains(&program);
            values.push(("{command}", vec![Some(command.to_owned()).filter(|_| is_one)?]));
        }
        for (place, name) in [("{branch}", "branch"), ("{verb}", "verb"), ("{manager}", "manager")] {
            if let Some(value) = named(name) {
                let value = if name == "branch" { value.to_owned() } else { value.to_lowercase() };
                let also = self.also.get(&value).cloned().unwrap_or_default();
                values.push((place, [vec![value], also].concat()));
            }
        }
        let fill = |rules: Vec<String>, (place, values): &(&str, Vec<String>)| {
            rules.iter().flat_map(|rule| values.iter().map(|value| rule.replace(place, value))).collect::<Vec<_>>()
        };
        let mut rules = values.iter().fold(self.rules.clone(), fill);
        rules.dedup();
        Some(rules)
    }
}

/// A path as rules write it: from the workspace on, or from the root with two slashes.
fn path_of(path: &str) -> Option<String> {
    let path = path.trim_end_matches(['/', '.', ',']);
    let path = path.strip_prefix("./").unwrap_or(path);
    if path.is_empty() || path.split('/').any(|part| part == "..") {
        return None;
    }
    Some(if path.starts_with('/') { format!("/{path}") } else { path.to_owned() })
}

#[cfg(test)]
mod tests;
