//! Assignments: a name that tells a secret, and a value that looks like one.

use super::plausible::{is_common_word, is_random, is_reference, is_stand_in, is_wordy};
use super::scan::{Around, Found};

/// A word that names of secrets end with.
pub(super) struct Word {
    /// The word; the text is searched for it.
    pub text: &'static str,
    class: Class,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Password,
    /// A password only as part of a longer name, or where no other meaning is left: `PASS: test`, `PWD=/tmp`.
    Short,
    Token,
    /// Whether it is a secret is said by the word before it: an API key, but not a primary key.
    Key,
    /// Base64 of a user and a password.
    Auth,
}

const fn word(text: &'static str, class: Class) -> Word {
    Word { text, class }
}

/// All words.
pub(super) static WORDS: [Word; 17] = [
    word("password", Class::Password),
    word("passwd", Class::Password),
    word("passphrase", Class::Password),
    word("passcode", Class::Password),
    word("psk", Class::Short),
    word("pwd", Class::Short),
    word("pass", Class::Short),
    word("secret", Class::Token),
    word("token", Class::Token),
    word("apikey", Class::Token),
    word("credential", Class::Token),
    word("credentials", Class::Token),
    word("sessionid", Class::Token),
    word("sessid", Class::Token),
    word("_pat", Class::Token),
    word("key", Class::Key),
    word("auth", Class::Auth),
];

/// Words that make a key a secret.
const SECRET_KEYS: [&str; 36] = [
    "api",
    "access",
    "secret",
    "private",
    "account",
    "shared",
    "sharedaccess",
    "signing",
    "sign",
    "encryption",
    "encrypt",
    "decryption",
    "master",
    "license",
    "auth",
    "ssh",
    "deploy",
    "service",
    "client",
    "subscription",
    "storage",
    "admin",
    "write",
    "webhook",
    "integration",
    "consumer",
    "session",
    "hmac",
    "jwt",
    "aes",
    "preshared",
    "app",
    "root",
    "security",
    "functions",
    "data",
];
/// Words that make it none, whatever its value.
const OTHER_KEYS: [&str; 19] = [
    "public",
    "pub",
    "primary",
    "foreign",
    "cache",
    "sort",
    "partition",
    "object",
    "idempotency",
    "registry",
    "item",
    "row",
    "hash",
    "map",
    "group",
    "routing",
    "range",
    "unique",
    "host",
];
/// Ends of names that say nothing about what is named.
const SUFFIXES: [&str; 20] = [
    "prod",
    "production",
    "dev",
    "staging",
    "test",
    "live",
    "old",
    "new",
    "value",
    "plain",
    "raw",
    "b64",
    "base64",
    "default",
    "primary",
    "secondary",
    "main",
    "data",
    "string",
    "base",
];
/// Values with letters and digits that name an algorithm or a protocol.
const ALGORITHMS: [&str; 12] = [
    "sha256", "sha512", "sha-256", "base64", "argon2", "argon2id", "pbkdf2", "oauth2", "bcrypt2", "utf8", "hs256",
    "rs256",
];

/// Judges the assignment whose name contains the word at the anchor.
pub(super) fn judge(word: &Word, around: Around<'_>) -> Option<Found> {
    let left = around.before.iter().rev().take(64).take_while(|byte| is_name_byte(**byte)).count();
    let left = &around.before[around.before.len() - left..];
    let right = around.ahead.iter().take(word.text.len() + 40).take_while(|byte| is_name_byte(**byte)).count();
    let name = [left, &around.ahead[..right.max(word.text.len())]].concat();
    let class = class_of(&name, left.len(), word)?;
    let name_end = right.max(word.text.len());
    let before_name = &around.before[..around.before.len() - left.len()];
    // The user of a URL; its password is another form.
    if before_name.ends_with(b"//") {
        return None;
    }
    let is_flag = name.starts_with(b"-");
    let place = value_place(&around.ahead[name_end..], is_flag || is_blank_line_start(before_name))?;
    let is_env = place.sep == Sep::Equals && !is_flag && name.iter().all(|byte| !byte.is_ascii_lowercase());
    let (start, length) = value_in(&around.ahead[name_end + place.at..], &place, is_env);
    let value = &around.ahead[name_end + place.at + start..][..length];
    let is_quoted = start > 0;
    is_secret(class, value, is_quoted, is_env, place.sep).then(|| {
        let start = name_end + place.at + start;
        let kind = match class {
            Class::Password | Class::Short => "password",
            Class::Token => "secret",
            Class::Key => "key",
            Class::Auth => "authorization",
        };
        Found { is_guess: true, ..Found::at(kind, start, start + length) }
    })
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn is_blank_line_start(before: &[u8]) -> bool {
    let line = memchr::memrchr(b'\n', before).map_or(before, |at| &before[at + 1..]);
    line.iter().all(u8::is_ascii_whitespace)
}

/// The words of a name, in lower case: `dbPassword`, `DB_PASSWORD` and `db-password` are `db`, `password`.
fn words_of(name: &[u8]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = b'_';
    for byte in name {
        if !byte.is_ascii_alphanumeric() {
            last = b'_';
            continue;
        }
        let is_new = last == b'_' || (last.is_ascii_lowercase() && byte.is_ascii_uppercase());
        if is_new {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(byte.to_ascii_lowercase().into());
        }
        last = *byte;
    }
    words
}

/// What the name promises, if it ends with the word.
fn class_of(name: &[u8], at: usize, word: &Word) -> Option<Class> {
    let text = word.text.trim_start_matches('_');
    let mut words = words_of(name);
    while words.len() > 1
        && words
            .last()
            .is_some_and(|last| SUFFIXES.contains(&last.as_str()) || last.bytes().all(|b| b.is_ascii_digit()))
        && !words.last().is_some_and(|last| last.ends_with(text))
    {
        words.pop();
    }
    let last = words.last()?.trim_end_matches(|c: char| c.is_ascii_digit());
    if !last.ends_with(text) {
        return None;
    }
    let head = &last[..last.len() - text.len()];
    let is_alone = words.len() == 1 && head.is_empty();
    let before = if head.is_empty() { words.iter().rev().nth(1).map_or("", String::as_str) } else { head };
    match word.class {
        Class::Password | Class::Token => Some(word.class),
        Class::Short if is_alone => (name[at..].starts_with(b"p")).then_some(Class::Short),
        Class::Short => (!["by", "com", "sur", "old", "en"].contains(&before)).then_some(Class::Password),
        Class::Key if SECRET_KEYS.iter().any(|secret| before.ends_with(secret)) => Some(Class::Token),
        Class::Key => (!before.is_empty() && !OTHER_KEYS.contains(&before)).then_some(Class::Key),
        Class::Auth => (head.is_empty() && words.len() <= 2).then_some(Class::Auth),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sep {
    Equals,
    Colon,
    /// Something else that needs quotes or strong evidence.
    Weak,
    Markup,
}

struct Place {
    at: usize,
    sep: Sep,
    needs_quote: bool,
}

/// Where the value begins behind a name.
fn value_place(text: &[u8], may_follow_blank: bool) -> Option<Place> {
    let closers = text.iter().take(4).take_while(|byte| b"\"'`\\])".contains(byte)).count();
    let is_closed = closers > 0;
    let mut at = closers;
    let blanks = |at: usize| text[at..].iter().take_while(|byte| **byte == b' ' || **byte == b'\t').count();
    // `key="Password" value="…"` and a list of names with values.
    for middle in ["value=", "Value=", "</key>"] {
        let gap = blanks(at);
        if text[at + gap..].starts_with(middle.as_bytes()) && (gap > 0 || middle == "</key>") {
            return Some(Place { at: at + gap + middle.len(), sep: Sep::Markup, needs_quote: false });
        }
    }
    if let Some(end) = text[at..].iter().position(|byte| !b" \t\r".contains(byte))
        && text[at + end] == b'\n'
    {
        let next = at + end + 1;
        let indent = blanks(next);
        let rest = &text[next + indent..];
        let value = ["value:", "\"value\":", "<string>"].iter().find(|value| rest.starts_with(value.as_bytes()))?;
        let start = next + indent + value.len();
        return Some(Place { at: start + blanks(start), sep: Sep::Colon, needs_quote: false });
    }
    if text[at..].starts_with(b">") {
        return Some(Place { at: at + 1, sep: Sep::Markup, needs_quote: false });
    }
    let gap = blanks(at);
    at += gap;
    let rest = &text[at..];
    let (length, sep, needs_quote) = match rest {
        [b'=', b'=', b'=', ..] => (3, Sep::Weak, true),
        [b'=' | b'!', b'=', ..] => (2, Sep::Weak, true),
        [b'=', b'>', ..] | [b':', b'=' | b'-', ..] => (2, Sep::Colon, false),
        [b'=', ..] => (1, if gap == 0 { Sep::Equals } else { Sep::Colon }, false),
        [b':', b':', ..] => return None,
        [b':', ..] => (1, Sep::Colon, false),
        [b',', ..] if is_closed => (1, Sep::Weak, true),
        [b'(', ..] => (1, Sep::Weak, true),
        [b'i', b's', b' ' | b':', ..] if gap > 0 => (3, Sep::Weak, false),
        [b'"' | b'\'', ..] if gap > 0 && !is_closed => (0, Sep::Weak, true),
        _ if gap > 0 && may_follow_blank && !is_closed => (0, Sep::Weak, false),
        _ => return None,
    };
    at += length;
    at += blanks(at);
    // A type between name and value: `password: &str = "…"`.
    if sep == Sep::Colon && rest[0] == b':' {
        let kind = text[at..]
            .iter()
            .take(40)
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"&<>_'[]?".contains(byte))
            .count();
        let gap = blanks(at + kind);
        if kind > 0 && gap > 0 && text[at + kind + gap..].starts_with(b"= ") {
            at += kind + gap + 2;
            return Some(Place { at, sep: Sep::Weak, needs_quote: true });
        }
    }
    Some(Place { at, sep, needs_quote })
}

/// Where the value lies: how far its quote reaches, and its length; no length if it does not count.
fn value_in(text: &[u8], place: &Place, is_env: bool) -> (usize, usize) {
    let line = memchr::memchr(b'\n', text).map_or(text, |end| &text[..end]);
    let escapes = line.iter().take(3).take_while(|byte| **byte == b'\\').count();
    let prefix = usize::from(
        line.first().is_some_and(|byte| b"brf@".contains(byte)) && matches!(line.get(1), Some(b'"' | b'\'')),
    );
    let open = escapes.max(prefix);
    match line.get(open) {
        Some(quote @ (b'"' | b'\'' | b'`')) => {
            let start = open + 1;
            let body = &line[start..];
            let mut end = 0;
            while end < body.len() && body[end] != *quote {
                end += if body[end] == b'\\' && escapes == 0 { 2 } else { 1 };
            }
            let end = end.min(body.len());
            (start, if escapes > 0 { body[..end].iter().position(|byte| *byte == b'\\').unwrap_or(end) } else { end })
        }
        _ if place.needs_quote => (0, 0),
        _ if place.sep == Sep::Markup => (0, memchr::memchr2(b'<', b'"', line).unwrap_or(line.len())),
        _ => {
            let is_outside = |byte: &u8| {
                byte.is_ascii_whitespace() || b"\"'`\\".contains(byte) || (!is_env && b",;&)]}<>|".contains(byte))
            };
            let length = line.iter().position(is_outside).unwrap_or(line.len());
            let query = if is_env { memchr::memchr(b'&', &line[..length]) } else { None };
            (0, query.unwrap_or(length))
        }
    }
}

/// Whether the value is what the name promises.
fn is_secret(class: Class, value: &[u8], is_quoted: bool, is_env: bool, sep: Sep) -> bool {
    let value = value.trim_ascii();
    let has = |test: fn(&u8) -> bool| value.iter().any(test);
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    if value.len() < 5
        || value.starts_with(b"-----BEGIN")
        || is_reference(value)
        || is_stand_in(value)
        || is_common_word(value)
    {
        return false;
    }
    // A call, an index or a list is code.
    if !is_quoted && sep != Sep::Markup && !is_env && has(|byte| b"()[]{}<>".contains(byte)) {
        return false;
    }
    let is_random = (is_quoted || !value.contains(&b' ')) && is_random(value);
    let is_sentence = value.split(|byte| *byte == b' ').count() > 2 && digits == 0;
    match class {
        Class::Password | Class::Short => {
            if ALGORITHMS.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes())) || value.starts_with(b"/") {
                return is_random && value.len() >= 16;
            }
            let has_letter = has(u8::is_ascii_alphabetic);
            let is_name = value.iter().all(|byte| is_name_byte(*byte) || *byte == b'/') && is_wordy(value);
            let is_joined = value.iter().any(|byte| b"_.".contains(byte));
            let is_marked = has(|byte| b"!@#$%^&*?~+=".contains(byte)) && has_letter && (is_quoted || is_env);
            let least = if class == Class::Short { 8 } else { 6 };
            value.len() >= least
                && !is_sentence
                && match sep {
                    Sep::Weak => is_random && value.len() >= 8,
                    _ if is_random => value.len() >= 8 || is_quoted || is_env || digits > 0,
                    _ if !has_letter => digits >= 6 && digits == value.len() && (is_quoted || is_env),
                    _ if digits > 0 => !is_name || (!is_joined && value.len() >= 7),
                    _ => is_marked || (is_env && value.len() >= 8),
                }
        }
        Class::Token => {
            is_random && value.len() >= if is_env || is_quoted { 8 } else { 10 } && (digits > 0 || value.len() >= 16)
        }
        Class::Key => is_random && value.len() >= 20 && digits > 0 && (is_env || is_quoted),
        Class::Auth => {
            let is_written = is_quoted || is_env || sep == Sep::Equals;
            is_random && value.len() >= 16 && is_written && !value.contains(&b' ')
        }
    }
}
