//! Providers over HTTP: sends an encoded request, feeds the decoder, and bounds every wait.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use baton_config::Section;
use baton_core::Tier;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::error::{LlmError, classify, shorten, words_of};
use crate::provider::Provider;
use crate::request::{Answer, Delta, Request};
use crate::retry::parse_retry_after;
use crate::transport::{Body, Reply, Transport, Unsent};
use crate::wire::{Decode, Wire, WireEvent};

/// The most that is read of an error's body.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// How long an answer that is complete is kept open for what may follow it, such as usage.
const GOODBYE_MS: u64 = 2_000;

/// Tells a scripted model server which role asks; not sent by the main agent.
pub const ROLE_HEADER: &str = "x-baton-role";

/// The setting `network`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetworkSettings {
    /// How long a connection may take.
    pub connect_timeout_ms: u64,
    /// How long until the first byte of an answer.
    pub first_byte_timeout_ms: u64,
    /// How long an answer may be silent once it has begun.
    pub silence_timeout_ms: u64,
    /// How long an answer may take in all: a server that only shows signs of life never ends by itself.
    pub answer_timeout_ms: u64,
    /// A file of further certificate authorities (PEM).
    pub ca_file: Option<PathBuf>,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 15_000,
            first_byte_timeout_ms: 300_000,
            silence_timeout_ms: 300_000,
            answer_timeout_ms: 1_800_000,
            ca_file: None,
        }
    }
}

impl Section for NetworkSettings {
    const KEY: &'static str = "network";

    /// Who may vouch for a server decides who can read keys.
    fn allowed_when_trusted(_value: &Value) -> bool {
        false
    }
}

/// A server that speaks a wire format over HTTP.
pub struct HttpProvider {
    name: String,
    host: String,
    wire: Wire,
    limits: NetworkSettings,
    transport: Box<dyn Transport>,
}

impl HttpProvider {
    /// Answers for the provider `name`, which messages say is at `host`.
    pub(crate) fn new(
        (name, host): (String, String),
        wire: Wire,
        limits: NetworkSettings,
        transport: Box<dyn Transport>,
    ) -> Self {
        Self { name, host, wire, limits, transport }
    }

    async fn send(&self, request: &Request) -> Result<Reply, LlmError> {
        let sending = self.transport.send(request);
        match tokio::time::timeout(Duration::from_millis(self.limits.first_byte_timeout_ms), sending).await {
            Err(_) => Err(self.silent("gave no answer", self.limits.first_byte_timeout_ms)),
            Ok(Err(Unsent::Unreachable(cause))) => Err(unreachable(&self.name, &self.host, &cause)),
            Ok(Err(Unsent::Failed(error))) => Err(*error),
            Ok(Ok(reply)) if (200..300).contains(&reply.status) => Ok(reply),
            Ok(Ok(reply)) => Err(self.refused(reply).await),
        }
    }

    /// The next bytes of a body, within the limit for silence; `None` at its end.
    async fn next_bytes(&self, body: &mut dyn Body, is_complete: bool) -> Result<Option<Bytes>, LlmError> {
        let limit = self.limits.silence_timeout_ms;
        let limit = if is_complete { limit.min(GOODBYE_MS) } else { limit };
        match tokio::time::timeout(Duration::from_millis(limit), body.next()).await {
            Err(_) => Err(self.silent("went silent", limit)),
            Ok(Err(cause)) => {
                Err(LlmError::provider(Tier::Transient, format!("{}: the answer broke off: {cause}", self.name)))
            }
            Ok(Ok(bytes)) => Ok(bytes),
        }
    }

    async fn refused(&self, mut reply: Reply) -> LlmError {
        let mut body = Vec::new();
        while body.len() < ERROR_BODY_MAX {
            match self.next_bytes(&mut *reply.body, false).await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) | Err(_) => break,
            }
        }
        let wait = retry_after(&reply, &body);
        let words = match reply.header("location") {
            Some(place) if (300..400).contains(&reply.status) => format!("it points to {}", shorten(place, 200)),
            _ => words_of(&body),
        };
        let mut error = classify(&self.name, reply.status, &words, wait);
        // Providers that know better than their status say so in this header.
        if reply.header("x-should-retry") == Some("false") && error.tier != Tier::UserFixable {
            error.tier = Tier::Permanent;
        }
        error
    }

    fn silent(&self, what: &str, limit_ms: u64) -> LlmError {
        let limit = Duration::from_millis(limit_ms);
        LlmError::provider(Tier::Transient, format!("{} {what} for {limit:?}", self.name))
            .hint("the limits are the settings network.first_byte_timeout_ms, silence_timeout_ms and answer_timeout_ms")
    }
}

#[async_trait]
impl Provider for HttpProvider {
    async fn answer(&self, request: &Request, deltas: &mpsc::Sender<Delta>) -> Result<Answer, LlmError> {
        let mut reply = self.send(request).await?;
        self.check_streams(&mut reply).await?;
        let mut body = reply.body;
        let mut decoder = self.wire.decoder(reply.call_ids);
        let limit = Duration::from_millis(self.limits.answer_timeout_ms);
        let reading = self.read_answer(&mut *body, &mut *decoder, deltas);
        let outcome = tokio::time::timeout(limit, reading).await;
        match outcome {
            Ok(Ok(answer)) => Ok(answer),
            // What a stream reports about itself comes with what had arrived.
            Ok(Err(error)) if error.partial.is_some() => Err(error),
            Ok(Err(error)) => Err(error.with_partial(decoder.partial(), decoder.usage())),
            Err(_) => {
                let error = self.silent("did not finish its answer", self.limits.answer_timeout_ms);
                Err(error.with_partial(decoder.partial(), decoder.usage()))
            }
        }
    }

    fn is_live(&self) -> bool {
        self.transport.is_live()
    }
}

impl HttpProvider {
    async fn read_answer(
        &self,
        body: &mut dyn Body,
        decoder: &mut dyn Decode,
        deltas: &mpsc::Sender<Delta>,
    ) -> Result<Answer, LlmError> {
        let mut events = Vec::new();
        loop {
            match self.next_bytes(body, decoder.is_complete()).await {
                Ok(Some(bytes)) => decoder.push(&bytes, &mut events),
                Ok(None) => decoder.finish(&mut events),
                // Some servers say that they are done and forget to hang up.
                Err(_) if decoder.is_complete() => decoder.finish(&mut events),
                Err(error) => return Err(error),
            }
            for event in events.drain(..) {
                match event {
                    // Nobody listening is no reason to lose the answer.
                    WireEvent::Delta(delta) => drop(deltas.send(delta).await),
                    WireEvent::Ended(answer) => return Ok(answer),
                    WireEvent::Failed(failure) => return Err(LlmError::from_stream(&self.name, failure)),
                }
            }
        }
    }

    /// A success that is no event stream is a proxy's page or a server that does not stream.
    async fn check_streams(&self, reply: &mut Reply) -> Result<(), LlmError> {
        let content_type = reply.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if content_type.is_empty() || content_type.starts_with("text/event-stream") {
            return Ok(());
        }
        let start = self.next_bytes(&mut *reply.body, false).await.ok().flatten().unwrap_or_default();
        let start = shorten(String::from_utf8_lossy(&start).trim(), 200);
        Err(LlmError::provider(
            Tier::Permanent,
            format!("{} at {} answered with {content_type}, not with a stream: {start}", self.name, self.host),
        )
        .hint("check the base URL, and whether a proxy stands in between"))
    }
}

fn retry_after(reply: &Reply, body: &[u8]) -> Option<Duration> {
    if let Some(ms) = reply.header("retry-after-ms").and_then(|ms| ms.parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    if let Some(value) = reply.header("retry-after") {
        return parse_retry_after(value, reply.at);
    }
    // Gemini says it in the body: "retryDelay": "34s".
    let body = String::from_utf8_lossy(body);
    let (_, rest) = body.split_once("\"retryDelay\"")?;
    let seconds = rest.trim_start_matches([':', ' ', '"']).split('s').next()?;
    parse_retry_after(seconds, reply.at)
}

/// The server could not be talked to.
pub(crate) fn unreachable(provider: &str, host: &str, cause: &str) -> LlmError {
    LlmError::provider(Tier::Transient, format!("cannot reach {provider} at {host}: {cause}"))
        .hint("check the network, the proxy (HTTPS_PROXY) and the base URL; `baton doctor` shows what is in use")
}
