//! Providers over HTTP: sends an encoded request, feeds the decoder, and bounds every wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_config::Section;
use baton_core::{AgentRole, CallId, Clock, IdSource, Tier};
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::endpoint::{Auth, Endpoint};
use crate::error::{LlmError, classify, shorten, words_of};
use crate::provider::Provider;
use crate::request::{Answer, Delta, Request};
use crate::retry::parse_retry_after;
use crate::wire::{Decode, Wire, WireEvent};

/// The most that is read of an error's body.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// How long an answer that is complete is kept open for what may follow it, such as usage.
const GOODBYE_MS: u64 = 2_000;

/// Tells a scripted model server which role asks; not sent by the main agent.
pub const ROLE_HEADER: &str = "x-baton-role";

/// The setting `network`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// A server that is called over HTTP.
pub struct HttpProvider {
    endpoint: Endpoint,
    client: reqwest::Client,
    limits: NetworkSettings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl HttpProvider {
    /// Prepares the connection; nothing is sent yet.
    pub fn new(
        endpoint: Endpoint,
        limits: NetworkSettings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, LlmError> {
        let client = client(&endpoint, &limits)?;
        Ok(Self { endpoint, client, limits, clock, ids })
    }

    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    async fn send(&self, request: &Request) -> Result<reqwest::Response, LlmError> {
        let url = format!("{}{}", self.endpoint.base_url, self.endpoint.wire.path(&request.model));
        let body = serde_json::to_vec(&self.endpoint.wire.encode(request))
            .map_err(|error| LlmError::provider(Tier::Permanent, format!("cannot encode the request: {error}")))?;
        let mut sending = self.client.post(&url).body(body);
        if request.role != AgentRole::default() {
            sending = sending.header(ROLE_HEADER, request.role.as_str());
        }
        let sending = sending.send();
        match tokio::time::timeout(Duration::from_millis(self.limits.first_byte_timeout_ms), sending).await {
            Err(_) => Err(self.silent("gave no answer", self.limits.first_byte_timeout_ms)),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Ok(Ok(response)) if response.status().is_success() => Ok(response),
            Ok(Ok(response)) => Err(self.refused(response).await),
        }
    }

    /// The next bytes of a body, within the limit for silence; `None` at its end.
    async fn next_bytes(&self, response: &mut reqwest::Response, is_complete: bool) -> Result<Option<Bytes>, LlmError> {
        let limit = self.limits.silence_timeout_ms;
        let limit = if is_complete { limit.min(GOODBYE_MS) } else { limit };
        match tokio::time::timeout(Duration::from_millis(limit), response.chunk()).await {
            Err(_) => Err(self.silent("went silent", limit)),
            Ok(Err(error)) => Err(LlmError::provider(
                Tier::Transient,
                format!("{}: the answer broke off: {}", self.name(), root_cause(&error)),
            )),
            Ok(Ok(bytes)) => Ok(bytes),
        }
    }

    async fn refused(&self, mut response: reqwest::Response) -> LlmError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        while body.len() < ERROR_BODY_MAX {
            match self.next_bytes(&mut response, false).await {
                Ok(Some(bytes)) => body.extend_from_slice(&bytes),
                Ok(None) | Err(_) => break,
            }
        }
        let wait = retry_after(&headers, &body, self.clock.as_ref());
        let words = match header(&headers, "location") {
            Some(place) if (300..400).contains(&status) => format!("it points to {}", shorten(place, 200)),
            _ => words_of(&body),
        };
        let mut error = classify(self.name(), status, &words, wait);
        // Providers that know better than their status say so in this header.
        if header(&headers, "x-should-retry") == Some("false") && error.tier != Tier::UserFixable {
            error.tier = Tier::Permanent;
        }
        error
    }

    fn silent(&self, what: &str, limit_ms: u64) -> LlmError {
        let limit = Duration::from_millis(limit_ms);
        LlmError::provider(Tier::Transient, format!("{} {what} for {limit:?}", self.name()))
            .hint("the limits are the settings network.first_byte_timeout_ms, silence_timeout_ms and answer_timeout_ms")
    }

    fn unreachable(&self, error: &reqwest::Error) -> LlmError {
        let cause = root_cause(error);
        LlmError::provider(
            Tier::Transient,
            format!("cannot reach {} at {}: {cause}", self.name(), self.endpoint.host()),
        )
        .hint("check the network, the proxy (HTTPS_PROXY) and the base URL; `baton doctor` shows what is in use")
    }
}

#[async_trait]
impl Provider for HttpProvider {
    async fn answer(&self, request: &Request, deltas: &mpsc::Sender<Delta>) -> Result<Answer, LlmError> {
        let mut response = self.send(request).await?;
        self.check_streams(&mut response).await?;
        let ids = Arc::clone(&self.ids);
        let mut decoder = self.endpoint.wire.decoder(Box::new(move || CallId::fresh(&*ids)));
        let limit = Duration::from_millis(self.limits.answer_timeout_ms);
        let reading = self.read_answer(&mut response, &mut *decoder, deltas);
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
}

impl HttpProvider {
    async fn read_answer(
        &self,
        response: &mut reqwest::Response,
        decoder: &mut dyn Decode,
        deltas: &mpsc::Sender<Delta>,
    ) -> Result<Answer, LlmError> {
        let mut events = Vec::new();
        loop {
            match self.next_bytes(response, decoder.is_complete()).await {
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
                    WireEvent::Failed(failure) => return Err(LlmError::from_stream(self.name(), failure)),
                }
            }
        }
    }

    /// A success that is no event stream is a proxy's page or a server that does not stream.
    async fn check_streams(&self, response: &mut reqwest::Response) -> Result<(), LlmError> {
        let content_type = header(response.headers(), "content-type").unwrap_or_default().to_ascii_lowercase();
        if content_type.is_empty() || content_type.starts_with("text/event-stream") {
            return Ok(());
        }
        let start = self.next_bytes(response, false).await.ok().flatten().unwrap_or_default();
        let start = shorten(String::from_utf8_lossy(&start).trim(), 200);
        Err(LlmError::provider(
            Tier::Permanent,
            format!(
                "{} at {} answered with {content_type}, not with a stream: {start}",
                self.name(),
                self.endpoint.host()
            ),
        )
        .hint("check the base URL, and whether a proxy stands in between"))
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn retry_after(headers: &HeaderMap, body: &[u8], clock: &dyn Clock) -> Option<Duration> {
    if let Some(ms) = header(headers, "retry-after-ms").and_then(|ms| ms.parse().ok()) {
        return Some(Duration::from_millis(ms));
    }
    if let Some(value) = header(headers, "retry-after") {
        return parse_retry_after(value, clock.now());
    }
    // Gemini says it in the body: "retryDelay": "34s".
    let body = String::from_utf8_lossy(body);
    let (_, rest) = body.split_once("\"retryDelay\"")?;
    let seconds = rest.trim_start_matches([':', ' ', '"']).split('s').next()?;
    parse_retry_after(seconds, clock.now())
}

/// The innermost cause: what the person can act on.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    if text.is_empty() { "the connection failed".to_owned() } else { text }
}

fn client(endpoint: &Endpoint, limits: &NetworkSettings) -> Result<reqwest::Client, LlmError> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    if endpoint.wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    let unusable = |what: &str| LlmError::input(format!("{what} for {} cannot be sent in a header", endpoint.provider));
    let mut secret = |name: &'static str, text: String| {
        let mut value = HeaderValue::try_from(text).map_err(|_| unusable("the key"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok::<_, LlmError>(())
    };
    match &endpoint.auth {
        Auth::None => {}
        Auth::Header(name, key) => secret(name, key.reveal().to_owned())?,
        Auth::Bearer(key) => secret("authorization", format!("Bearer {}", key.reveal()))?,
    }
    for (name, value) in &endpoint.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(|_| unusable(&format!("the header `{name}`")))?;
        headers.insert(name, HeaderValue::try_from(value.as_str()).map_err(|_| unusable("a header's value"))?);
    }
    reqwest::Client::builder()
        .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(Duration::from_millis(limits.connect_timeout_ms))
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(crate::tls::config(&endpoint.base_url, limits.ca_file.as_deref())?)
        .build()
        .map_err(|error| LlmError::input(format!("cannot call {}: {}", endpoint.provider, root_cause(&error))))
}
