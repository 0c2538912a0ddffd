//! One cheap request that tells whether a provider takes a key: the list of its models.

use std::time::Duration;

use baton_core::Tier;
use baton_net::root_cause;

use crate::endpoint::Endpoint;
use crate::error::{LlmError, classify, words_of};
use crate::http::{NetworkSettings, unreachable};
use crate::transport::client;
use crate::wire::Wire;

/// How long the answer may take; a person waits for it.
const LIMIT: Duration = Duration::from_secs(15);
/// The most that is read of an error's body.
const BODY_MAX: usize = 64 * 1024;

/// What a provider says to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyVerdict {
    /// It takes it.
    Accepted,
    /// It has no list of models, so it was not asked.
    Unknown,
}

/// Asks the provider whether it takes the key of this endpoint. A key that is wrong is an error that a person can mend; a
/// provider that cannot be reached is another one.
pub async fn probe_key(endpoint: &Endpoint, network: &NetworkSettings) -> Result<KeyVerdict, LlmError> {
    let path = match endpoint.wire {
        Wire::Anthropic => "/v1/models",
        Wire::Gemini => "/v1beta/models",
        Wire::Responses | Wire::Chat => "/models",
    };
    let name = &endpoint.provider;
    let client = client(endpoint, network)?;
    let sending = client.get(format!("{}{path}", endpoint.base_url)).send();
    let mut response = match tokio::time::timeout(LIMIT, sending).await {
        Err(_) => return Err(LlmError::provider(Tier::Transient, format!("{name} gave no answer for {LIMIT:?}"))),
        Ok(Err(error)) => return Err(unreachable(name, &endpoint.host(), &root_cause(&error))),
        Ok(Ok(response)) => response,
    };
    let status = response.status().as_u16();
    match status {
        200..=299 => return Ok(KeyVerdict::Accepted),
        404 | 405 | 501 => return Ok(KeyVerdict::Unknown),
        _ => {}
    }
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = tokio::time::timeout(LIMIT, response.chunk()).await {
        body.extend_from_slice(&bytes);
        if body.len() >= BODY_MAX {
            break;
        }
    }
    Err(classify(name, status, &words_of(&body), None))
}
