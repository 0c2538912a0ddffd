//! The forms of tokens: a table of literals they begin with, and of what has to follow.

use std::sync::{LazyLock, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::bytes::{Regex, RegexBuilder};

use super::plausible::{is_common_word, is_random, is_reference, is_stand_in};
use super::scan::{Around, Found, REACH, is_left_edge};

mod clouds;
mod commands;
mod forges;
mod general;
mod models;
mod services;

/// One form.
pub(super) struct Form {
    /// What is written in its place.
    pub kind: &'static str,
    /// Literals that it contains, in this case of letters; the text is searched for them.
    pub anchors: &'static [&'static str],
    /// What stands at the anchor. The first group is the secret; without one it is the whole.
    pub ahead: &'static str,
    /// What stands directly before the anchor and belongs to the secret; empty if it begins at the anchor.
    pub behind: &'static str,
    /// What tells it from what it is not.
    pub check: Check,
    #[cfg_attr(not(test), expect(dead_code, reason = "what is shown is tested, and tells readers what is meant"))]
    /// Texts in which exactly the part in `« »` is redacted.
    pub like: &'static [&'static str],
    #[cfg_attr(not(test), expect(dead_code, reason = "as above"))]
    /// Texts that stay as they are.
    pub unlike: &'static [&'static str],
}

/// What tells a token from what only looks like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// It is not a stand-in such as `sk-xxxx`.
    Real,
    /// It also looks made by chance; for forms that words can have.
    Random,
    /// It is not a word that people write where a password would stand.
    Password,
    /// It is base64 of a user and a password.
    Basic,
    /// One of its values looks made by chance.
    Cookie,
    /// Nothing: the form says it all.
    None,
}

/// All forms.
pub(super) fn all() -> impl Iterator<Item = &'static Form> {
    [clouds::FORMS, forges::FORMS, models::FORMS, services::FORMS, general::FORMS, commands::FORMS]
        .into_iter()
        .flatten()
}

/// A form with its expressions, which are compiled when they are first needed.
pub(super) struct Matcher {
    form: &'static Form,
    ahead: OnceLock<Regex>,
    behind: OnceLock<Regex>,
}

/// A matcher for each form.
pub(super) static MATCHERS: LazyLock<Vec<Matcher>> =
    LazyLock::new(|| all().map(|form| Matcher { form, ahead: OnceLock::new(), behind: OnceLock::new() }).collect());

fn compile(expression: &str) -> Regex {
    let built = RegexBuilder::new(expression).unicode(false).build();
    // The expressions are constants, and a test compiles them all.
    built.unwrap_or_else(|error| unreachable!("{error}"))
}

impl Matcher {
    /// The literals that the text is searched for.
    pub fn anchors(&self) -> &'static [&'static str] {
        self.form.anchors
    }

    /// Whether the secret begins before its anchor.
    pub fn begins_before(&self) -> bool {
        !self.form.behind.is_empty()
    }

    /// Whether one of its literals stands here. Forms that ignore case have been found ignoring it.
    pub fn has_anchor(&self, text: &[u8]) -> bool {
        self.form.ahead.starts_with("(?i)")
            || self.form.anchors.iter().any(|anchor| text.starts_with(anchor.as_bytes()))
    }

    pub fn judge(&self, around: Around<'_>) -> Option<Found> {
        let captures =
            self.ahead.get_or_init(|| compile(&format!("^(?:{})", self.form.ahead))).captures(around.ahead)?;
        let secret = captures.get(1).or(captures.get(0))?;
        let mut found = Found::at(self.form.kind, secret.start(), secret.end());
        if self.begins_before() {
            let before = &around.before[around.before.len().saturating_sub(REACH)..];
            let part = self.behind.get_or_init(|| compile(&format!("(?:{})$", self.form.behind))).find(before)?;
            let edge = &before[..part.start()];
            // Telegram writes it directly behind a word in its URLs.
            if !is_left_edge(edge) && !edge.ends_with(b"/bot") {
                return None;
            }
            found.before = part.len();
        }
        let token = secret.as_bytes();
        let is_secret = match self.form.check {
            Check::Real => !is_stand_in(token),
            Check::Random => is_random(token),
            Check::Password => {
                !is_reference(token) && !is_stand_in(token) && !is_common_word(token) && !is_shouted(token)
            }
            Check::Basic => STANDARD_NO_PAD
                .decode(token.split(|byte| *byte == b'=').next().unwrap_or_default())
                .is_ok_and(|text| text.contains(&b':')),
            Check::Cookie => {
                token.split(|byte| b"=; ".contains(byte)).any(|value| value.len() >= 16 && is_random(value))
            }
            Check::None => true,
        };
        is_secret.then_some(found)
    }
}

/// What long tokens consist of.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-.~%".contains(&byte)
}

/// `USER:PASS` in capitals only names what belongs there.
fn is_shouted(token: &[u8]) -> bool {
    token.len() < 16 && token.iter().all(|byte| byte.is_ascii_uppercase() || b"_-".contains(byte))
}
