//! What can go wrong with a model call, classified once: by status and by the provider's words.

use std::time::Duration;

use baton_core::{Area, Fault, Message, Tier, Usage};
use serde_json::Value;

use crate::wire::{WireFailure, WireFailureKind};

/// Why a model call gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct LlmError {
    /// What kind of trouble.
    pub kind: LlmErrorKind,
    /// What may be done about it.
    pub tier: Tier,
    /// What happened, in the provider's words where it had any.
    pub message: String,
    /// What the person can do.
    pub hint: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// What had arrived before it broke.
    pub partial: Option<Message>,
    /// What it cost nevertheless; nothing if the provider never began to answer.
    pub usage: Usage,
    /// How many attempts at this answer have failed, this one included.
    pub failures: u32,
}

/// What kind of trouble a failed call is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LlmErrorKind {
    /// The provider, or the way to it.
    Provider,
    /// The history does not fit into the model's context.
    Overflow,
    /// What the person gave: a script, a model's name.
    Input,
    /// The model had nothing to say.
    Empty,
    /// A cap that the person set.
    Budget,
    /// It was cancelled.
    Cancelled,
}

impl LlmError {
    /// Trouble with the provider.
    pub fn provider(tier: Tier, message: impl Into<String>) -> Self {
        Self {
            kind: LlmErrorKind::Provider,
            tier,
            message: message.into(),
            hint: None,
            retry_after: None,
            partial: None,
            usage: Usage::default(),
            failures: 0,
        }
    }

    /// Trouble with what the person gave.
    pub fn input(message: impl Into<String>) -> Self {
        Self { kind: LlmErrorKind::Input, ..Self::provider(Tier::UserFixable, message) }
    }

    /// The person or a limit ended the call.
    pub(crate) fn cancelled() -> Self {
        Self { kind: LlmErrorKind::Cancelled, ..Self::provider(Tier::Permanent, "the call was cancelled") }
    }

    /// Says what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Keeps what had arrived, if anything had, and what it cost.
    #[must_use]
    pub(crate) fn with_partial(mut self, partial: Message, usage: Usage) -> Self {
        self.partial = (!partial.content.is_empty()).then_some(partial);
        self.usage = usage;
        self
    }

    /// The form in which it crosses the boundary.
    pub fn fault(&self) -> Fault {
        let area = match self.kind {
            LlmErrorKind::Provider | LlmErrorKind::Empty | LlmErrorKind::Cancelled => Area::Provider,
            LlmErrorKind::Overflow | LlmErrorKind::Input => Area::Input,
            LlmErrorKind::Budget => Area::Cap,
        };
        Fault { tier: self.tier, area, message: self.message.clone(), hint: self.hint.clone() }
    }

    /// What a failure inside a stream means.
    pub fn from_stream(provider: &str, failure: WireFailure) -> Self {
        let error = match failure.kind {
            WireFailureKind::Reported { status } => classify(provider, status, &failure.message, None),
            WireFailureKind::Cut => {
                Self::provider(Tier::Transient, format!("{provider}: the answer broke off: {}", failure.message))
            }
            WireFailureKind::Empty => Self {
                kind: LlmErrorKind::Empty,
                ..Self::provider(Tier::Transient, format!("{provider}: the answer was empty"))
            },
            WireFailureKind::Malformed => Self::provider(
                Tier::Transient,
                format!("{provider}: the answer is not in the expected format: {}", failure.message),
            ),
        };
        error.with_partial(failure.partial, failure.usage)
    }
}

/// Classifies an error by its HTTP status, the provider's words, and how long it asks to wait.
pub(crate) fn classify(provider: &str, status: u16, words: &str, wait: Option<Duration>) -> LlmError {
    let said = format!("{provider} answered {status}: {words}");
    let lower = words.to_lowercase();
    let mentions = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    let wait = wait.or_else(|| wait_in_words(&lower));
    let error = match status {
        // An account that can be called again in a moment is not used up, whatever it is called.
        429 if wait.is_none() && mentions(&QUOTA) => no_credit(provider, said),
        400 | 402 | 403 if mentions(&QUOTA) => no_credit(provider, said),
        400 | 413 | 422 if mentions(&OVERFLOW) => LlmError {
            kind: LlmErrorKind::Overflow,
            ..LlmError::provider(Tier::Permanent, said)
                .hint("the conversation is too long for this model: start a new one, or take one with more context")
        },
        400 if mentions(&BAD_KEY) => bad_key(provider, said),
        401 | 403 => bad_key(provider, said),
        402 => LlmError::provider(Tier::UserFixable, said).hint(format!("pay at {provider}, or choose another model")),
        404 => LlmError::provider(Tier::Permanent, said)
            .hint("check the model's name (`baton models` lists known ones) and the base URL"),
        408 | 409 | 425 => LlmError::provider(Tier::Transient, said),
        429 => LlmError::provider(Tier::RateLimited, said)
            .hint("the rate limit did not clear in time: try again later, or choose another model with -m"),
        500..=599 => LlmError::provider(Tier::Degraded, said)
            .hint(format!("{provider} is in trouble: try again later, or choose another model with -m")),
        _ => LlmError::provider(Tier::Permanent, said),
    };
    LlmError { retry_after: wait, ..error }
}

fn no_credit(provider: &str, said: String) -> LlmError {
    LlmError::provider(Tier::UserFixable, said)
        .hint(format!("the account at {provider} has no credit left: add some, or choose another model with -m"))
}

fn bad_key(provider: &str, said: String) -> LlmError {
    LlmError::provider(Tier::UserFixable, said)
        .hint(format!("the key for {provider} was not accepted: check it, or run `baton doctor`"))
}

/// Words of providers for an account that is used up: waiting does not help.
const QUOTA: [&str; 6] = [
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance is too low",
    "billing",
    "insufficient balance",
    "insufficient credits",
];

/// Words of providers that answer 400 to a wrong key.
const BAD_KEY: [&str; 3] = ["api key not valid", "api_key_invalid", "invalid api key"];

/// Words of providers for a history that does not fit.
const OVERFLOW: [&str; 8] = [
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "prompt is too long",
    "input is too long",
    "input token count",
    "too many tokens",
    "request_too_large",
];

/// How long a provider asks to wait in so many words: `retryDelay: 15s`, `Please try again in 1m2.5s`.
fn wait_in_words(lower: &str) -> Option<Duration> {
    let after = ["retrydelay", "retry in", "try again in"].iter().find_map(|words| lower.split_once(words))?.1;
    let mut rest = after.trim_start_matches([':', '"', ' ', '=']);
    let mut wait = None;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..end].trim_end_matches('.').parse::<f64>() else { return wait };
        rest = rest[end..].trim_start();
        let (unit, seconds) = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        wait = Some(wait.unwrap_or_default() + Duration::try_from_secs_f64(number * seconds).ok()?);
    }
}

/// The provider's own words in an error body, shortened.
pub(crate) fn words_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let found = serde_json::from_str::<Value>(&text).ok().and_then(|json| {
        // Gemini and some compatible servers wrap the object in a list.
        let json = json.get(0).cloned().unwrap_or(json);
        let error = json.get("error").unwrap_or(&json);
        let message = error.get("message").or_else(|| json.get("message")).or_else(|| json.get("detail"));
        let message = message.unwrap_or(error).as_str()?.to_owned();
        let code = ["code", "type", "status"].iter().find_map(|key| error.get(key).and_then(Value::as_str));
        Some(match code {
            Some(code) if !message.contains(code) => format!("{code}: {message}"),
            _ => message,
        })
    });
    let words = found.unwrap_or_else(|| text.trim().to_owned());
    if words.is_empty() { "no explanation".to_owned() } else { shorten(&words, 600) }
}

/// Cuts a text at a character boundary and shows that it was cut.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_tier() {
        let tier = |status, words| classify("p", status, words, None).tier;
        assert_eq!(tier(401, "no"), Tier::UserFixable);
        assert_eq!(tier(404, "model: nope"), Tier::Permanent);
        assert_eq!(tier(429, "slow down"), Tier::RateLimited);
        assert_eq!(tier(429, "insufficient_quota: You exceeded your current quota"), Tier::UserFixable);
        assert_eq!(tier(400, "Your credit balance is too low"), Tier::UserFixable);
        assert_eq!(tier(503, ""), Tier::Degraded);
        assert_eq!(tier(529, "Overloaded"), Tier::Degraded);
        assert_eq!(tier(408, ""), Tier::Transient);
        assert_eq!(tier(418, ""), Tier::Permanent);
        assert_eq!(tier(400, "API key not valid. Please pass a valid API key."), Tier::UserFixable);
        assert_eq!(classify("p", 400, "prompt is too long: 210000 tokens", None).kind, LlmErrorKind::Overflow);
    }

    #[test]
    fn a_quota_that_clears_in_a_moment_is_a_rate_limit() {
        // Gemini's words for its limit per minute.
        let words =
            "You exceeded your current quota, please check your plan and billing details. Please retry in 15.3s.";
        let error = classify("gemini", 429, words, None);
        assert_eq!((error.tier, error.retry_after), (Tier::RateLimited, Some(Duration::from_millis(15_300))));
        assert_eq!(classify("gemini", 429, "billing", Some(Duration::from_secs(3))).tier, Tier::RateLimited);
    }

    #[test]
    fn waits_are_found_in_words() {
        let wait = |words: &str| wait_in_words(&words.to_lowercase()).map(|wait| wait.as_millis());
        assert_eq!(wait("Rate limit reached. Please try again in 11s. Visit"), Some(11_000));
        assert_eq!(wait("try again in 1m2.5s."), Some(62_500));
        assert_eq!(wait("try again in 250ms"), Some(250));
        assert_eq!(wait("retryDelay: 34s"), Some(34_000));
        assert_eq!(wait("try again in a moment"), None);
        assert_eq!(wait("try again in 5 apples"), None);
        assert_eq!(wait("slow down"), None);
    }

    #[test]
    fn the_providers_words_are_found() {
        let words = |body: &str| words_of(body.as_bytes());
        assert_eq!(
            words(r#"{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}"#),
            "invalid_request_error: bad"
        );
        assert_eq!(words(r#"{"error":"model not found"}"#), "model not found");
        assert_eq!(
            words(r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"wait"}}]"#),
            "RESOURCE_EXHAUSTED: wait"
        );
        assert_eq!(words("<html>"), "<html>");
        assert_eq!(words(""), "no explanation");
        assert_eq!(words(r#"{"detail":"Not Found"}"#), "Not Found");
    }
}
