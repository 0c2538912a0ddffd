//! How a request reaches a server and how its bytes come back: over the network, or from a cassette.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_core::{AgentRole, CallId, Clock, Fault, IdSource, Tier, Timestamp};
use baton_net::root_cause;
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::endpoint::{Auth, Endpoint};
use crate::error::LlmError;
use crate::http::{NetworkSettings, ROLE_HEADER};
use crate::request::Request;
use crate::wire::Wire;

/// The headers of a reply that mean something to us. No other is looked at, or kept.
const HEADERS: [&str; 5] = ["content-type", "location", "retry-after", "retry-after-ms", "x-should-retry"];

/// A way to a server. It bounds no wait but that for a connection: whoever uses it does.
#[async_trait]
pub(crate) trait Transport: Send + Sync {
    /// Sends a request; returns when the reply begins.
    async fn send(&self, request: &Request) -> Result<Reply, Unsent>;

    /// Whether a real server answers, which may change its mind when it is given time.
    fn is_live(&self) -> bool {
        true
    }
}

/// The beginning of a reply.
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Those of [`HEADERS`] that are there, by their names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    /// When it began.
    pub(crate) at: Timestamp,
    /// Names calls where the wire format has no ids of its own.
    pub(crate) call_ids: CallIds,
    /// The rest of it.
    pub(crate) body: Box<dyn Body>,
}

/// A source of ids for calls.
pub(crate) type CallIds = Box<dyn FnMut() -> CallId + Send>;

/// The bytes of a reply, as they come.
#[async_trait]
pub(crate) trait Body: Send {
    /// The next bytes; `None` at the end; in words why there are no more before it.
    async fn next(&mut self) -> Result<Option<Bytes>, String>;
}

/// Why there is no reply.
pub(crate) enum Unsent {
    /// There is no way to the server, for this reason.
    Unreachable(String),
    /// It was not even tried.
    Failed(Box<LlmError>),
}

impl From<LlmError> for Unsent {
    fn from(error: LlmError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl Reply {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// The network.
pub(crate) struct Network {
    endpoint: Endpoint,
    client: reqwest::Client,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl Network {
    /// Prepares the connection; nothing is sent yet.
    pub(crate) fn new(
        endpoint: Endpoint,
        limits: &NetworkSettings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, LlmError> {
        let client = client(&endpoint, limits)?;
        Ok(Self { endpoint, client, clock, ids })
    }
}

#[async_trait]
impl Transport for Network {
    async fn send(&self, request: &Request) -> Result<Reply, Unsent> {
        let url = format!("{}{}", self.endpoint.base_url, self.endpoint.wire.path(&request.model));
        let written = self.endpoint.wire.write(request);
        let body = written
            .map_err(|error| LlmError::provider(Tier::Permanent, format!("cannot encode the request: {error}")))?;
        let mut sending = self.client.post(&url).body(body);
        if request.role != AgentRole::default() {
            sending = sending.header(ROLE_HEADER, request.role.as_str());
        }
        let response = sending.send().await.map_err(|error| Unsent::Unreachable(root_cause(&error)))?;
        let known = |name: &str| Some((name.to_owned(), response.headers().get(name)?.to_str().ok()?.to_owned()));
        let ids = Arc::clone(&self.ids);
        Ok(Reply {
            status: response.status().as_u16(),
            headers: HEADERS.into_iter().filter_map(known).collect(),
            at: self.clock.now(),
            call_ids: Box::new(move || CallId::fresh(&*ids)),
            body: Box::new(response),
        })
    }
}

#[async_trait]
impl Body for reqwest::Response {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        self.chunk().await.map_err(|error| root_cause(&error))
    }
}

pub(crate) fn client(endpoint: &Endpoint, limits: &NetworkSettings) -> Result<reqwest::Client, LlmError> {
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
        // It is this machine by definition (RFC 6761), also where no /etc/hosts says so: in an empty container.
        .resolve_to_addrs("localhost", &[(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()])
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(
            baton_net::tls_config(&endpoint.base_url, limits.ca_file.as_deref()).map_err(unusable_tls)?,
        )
        .build()
        .map_err(|error| LlmError::input(format!("cannot call {}: {}", endpoint.provider, root_cause(&error))))
}

fn unusable_tls(fault: Fault) -> LlmError {
    let error = LlmError::input(fault.message);
    match fault.hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
