//! Options: which of a program's words are options that change what it does, and which are operands.

use super::expand::Arg;
use super::table::Entry;

/// What an option does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Deny,
    Ask,
    Write,
}

/// An option of the table that was found.
#[derive(Debug)]
pub(super) struct Hit<'t> {
    pub(super) effect: Effect,
    pub(super) option: &'t str,
    pub(super) does: &'t str,
    pub(super) value: Option<Arg>,
}

/// The words of a program, sorted.
#[derive(Debug, Default)]
pub(super) struct Words<'t> {
    pub(super) hits: Vec<Hit<'t>>,
    pub(super) operands: Vec<Arg>,
    /// Values of options, and the part behind `=`.
    pub(super) values: Vec<Arg>,
    /// The options as they were written.
    pub(super) options: Vec<String>,
}

/// Sorts the words behind the program's name.
pub(super) fn sort<'t>(entry: &'t Entry, program: &str, sub: &str, args: &[Arg]) -> Words<'t> {
    let mut words = Words::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.text.as_str();
        if text == "--" {
            words.operands.extend(rest.cloned());
            break;
        }
        if !text.starts_with('-') || text == "-" {
            words.operands.push(arg.clone());
            continue;
        }
        words.options.push(text.to_owned());
        let keys = || {
            let of = |effect, map: &'t std::collections::BTreeMap<String, String>| {
                map.iter().map(move |(key, does)| (effect, key.as_str(), does.as_str()))
            };
            of(Effect::Deny, &entry.deny)
                .chain(of(Effect::Ask, &entry.ask))
                .chain(of(Effect::Write, &entry.writes))
                .filter(|(_, key, _)| !entry.is_safe(program, sub, key))
        };
        let takes_value = |name: &str| {
            entry.values.iter().any(|value| value == name)
                || entry.writes.contains_key(name) && !entry.is_safe(program, sub, name)
        };
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(arg.with_text(value))),
            None => (text, None),
        };
        if text.starts_with("--") {
            // Long options may be shortened, unless that is the name of another.
            let found: Vec<_> = keys().filter(|(_, key, _)| *key == name).collect();
            let found = if found.is_empty() && name.len() > 2 && !entry.values.iter().any(|value| value == name) {
                keys().filter(|(_, key, _)| key.starts_with(name)).collect()
            } else {
                found
            };
            let wants = found.iter().any(|(effect, ..)| *effect == Effect::Write) || takes_value(name);
            let value = match attached {
                Some(value) => Some(value),
                None if wants => rest.next().cloned(),
                None => None,
            };
            words.values.extend(value.clone());
            for (effect, option, does) in found {
                words.hits.push(Hit { effect, option, does, value: value.clone() });
            }
            continue;
        }
        let long: Vec<_> =
            keys().filter(|(_, key, _)| key.len() > 2 && !key.starts_with("--") && text.starts_with(key)).collect();
        if !long.is_empty() {
            let value = attached.or_else(|| rest.clone().next().cloned());
            for (effect, option, does) in long {
                words.hits.push(Hit { effect, option, does, value: value.clone() });
            }
            continue;
        }
        for (at, letter) in text.char_indices().skip(1) {
            if !entry.bundles && at > 1 {
                break;
            }
            let short = format!("-{letter}");
            let behind = &text[at + letter.len_utf8()..];
            let mut value = None;
            let wants = takes_value(&short);
            if wants {
                value = if behind.is_empty() {
                    rest.next().cloned()
                } else {
                    Some(arg.with_text(behind.trim_start_matches('=')))
                };
                words.values.extend(value.clone());
            }
            for (effect, option, does) in keys().filter(|(_, key, _)| *key == short) {
                words.hits.push(Hit { effect, option, does, value: value.clone() });
            }
            if wants {
                break;
            }
        }
        if let Some(value) = attached {
            words.values.push(value);
        }
    }
    words
}
