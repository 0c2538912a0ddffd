//! Fetching from the web: every hop is checked, only public addresses are connected to, every wait has a limit.
//!
//! An address is checked where it is used: the resolver of the connection itself gives out public addresses only, so a
//! name that changes its meaning between a check and the connection gains nothing. Behind a proxy the name is resolved
//! by the proxy: it is resolved here as well and refused if that gives anything private, but a name that only the proxy
//! can resolve is its decision.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Client;
use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION};
use rustls::ClientConfig;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};
use url::{Host, Url};

use crate::address::{AllowedHost, Reach, check, is_same_site};
use crate::root_cause;

pub(crate) mod resolver;

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 5;

/// Markdown is what a model reads best; some sites offer it.
const ACCEPTED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.8, */*;q=0.5";

/// How long the parts of a fetch may take.
#[derive(Debug, Clone, Copy)]
pub struct WebLimits {
    /// To connect, for each hop.
    pub connect: Duration,
    /// Without a byte.
    pub silence: Duration,
    /// In all, redirects and body included.
    pub total: Duration,
}

impl Default for WebLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), silence: seconds(15), total: seconds(30) }
    }
}

/// Why nothing was fetched, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebError(String);

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WebError {}

/// What an address led to.
pub enum Fetched {
    /// A page, whose body has not been read yet.
    Page(Page),
    /// A redirect to another site, which was not followed.
    Elsewhere {
        /// The page that redirects.
        from: Url,
        /// Where it points.
        to: Url,
    },
}

/// A client for the public web.
pub struct Web {
    allowed: Vec<AllowedHost>,
    ca_file: Option<PathBuf>,
    limits: WebLimits,
    proxies: Matcher,
    /// Reading the authorities takes milliseconds: only when something is fetched, and once.
    tls: OnceCell<ClientConfig>,
    public: OnceCell<Client>,
    proxied: OnceCell<Client>,
    near: OnceCell<Client>,
}

impl Web {
    /// Reaches the public web and these hosts. Nothing is read or sent yet.
    pub fn new(allowed: Vec<AllowedHost>, ca_file: Option<PathBuf>) -> Self {
        Self {
            allowed,
            ca_file,
            limits: WebLimits::default(),
            proxies: Matcher::from_env(),
            tls: OnceCell::new(),
            public: OnceCell::new(),
            proxied: OnceCell::new(),
            near: OnceCell::new(),
        }
    }

    /// Waits no longer than this.
    #[must_use]
    pub fn with_limits(mut self, limits: WebLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Fetches a page. Redirects are followed as long as they stay on its site: another site is another decision.
    pub async fn get(&self, address: &str) -> Result<Fetched, WebError> {
        let deadline = Instant::now() + self.limits.total;
        let mut url = parse(address)?;
        self.upgrade(&mut url);
        for _ in 0..=REDIRECTS_MAX {
            let response = timeout_at(deadline, self.hop(&url))
                .await
                .map_err(|_| WebError(format!("{url} gave no answer within {:?}", self.limits.total)))??;
            let Some(to) = redirect(&url, &response)? else {
                return Ok(Fetched::Page(Page { url, response, silence: self.limits.silence, deadline }));
            };
            let mut next = to;
            self.upgrade(&mut next);
            if !is_same_site(&url, &next) {
                return Ok(Fetched::Elsewhere { from: url, to: next });
            }
            url = next;
        }
        Err(WebError(format!("{address} redirects more than {REDIRECTS_MAX} times; the last was to {url}")))
    }

    /// Plain HTTP becomes HTTPS where that has its usual port; what is allowed by name is taken as it was given.
    fn upgrade(&self, url: &mut Url) {
        let is_allowed = matches!(check(url, &self.allowed), Ok(Reach::Allowed));
        if url.scheme() == "http" && url.port().is_none() && !is_allowed {
            // Cannot fail between two schemes of one kind.
            let _ = url.set_scheme("https");
        }
        url.set_fragment(None);
    }

    async fn hop(&self, url: &Url) -> Result<reqwest::Response, WebError> {
        let refused = |why: String| {
            let hint = "private hosts can be allowed by the person only, with the setting web.allow_private";
            WebError(format!("refused to fetch {url}: {why} ({hint})"))
        };
        let reach = check(url, &self.allowed).map_err(refused)?;
        let is_proxied = url.as_str().parse().is_ok_and(|uri| self.proxies.intercept(&uri).is_some());
        let client = match reach {
            Reach::Allowed => self.near.get_or_try_init(|| self.client(reqwest::ClientBuilder::no_proxy)).await?,
            Reach::Public if is_proxied => {
                if let Some(Host::Domain(name)) = url.host() {
                    resolver::check_name(name).await.map_err(refused)?;
                }
                self.proxied.get_or_try_init(|| self.client(|builder| builder)).await?
            }
            Reach::Public => {
                let guarded =
                    |builder: reqwest::ClientBuilder| builder.no_proxy().dns_resolver(Arc::new(resolver::PublicOnly));
                self.public.get_or_try_init(|| self.client(guarded)).await?
            }
        };
        let sending = client.get(url.clone()).header(ACCEPT, ACCEPTED).send();
        match timeout(self.limits.silence + self.limits.connect, sending).await {
            Err(_) => Err(WebError(format!("{url} gave no answer for {:?}", self.limits.silence))),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => match resolver::refusal(&error) {
                Some(why) => Err(refused(why)),
                None => Err(WebError(format!("cannot reach {url}: {}", root_cause(&error)))),
            },
        }
    }

    async fn client(
        &self,
        finish: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<Client, WebError> {
        let tls = self.tls.get_or_try_init(|| async {
            let ca_file = self.ca_file.clone();
            let reading = tokio::task::spawn_blocking(move || crate::tls_config("https://", ca_file.as_deref()));
            match reading.await {
                Ok(config) => config.map_err(|fault| WebError(fault.message)),
                Err(failed) => std::panic::resume_unwind(failed.into_panic()),
            }
        });
        let builder = Client::builder()
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION"), " (web_fetch)"))
            .connect_timeout(self.limits.connect)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tls_backend_preconfigured(tls.await?.clone());
        finish(builder).build().map_err(|error| WebError(format!("cannot fetch at all: {}", root_cause(&error))))
    }
}

fn parse(address: &str) -> Result<Url, WebError> {
    Url::parse(address.trim())
        .map_err(|error| WebError(format!("`{address}` is not a URL: {error}; it begins with https:// and a host")))
}

/// Where a response redirects, if it does.
fn redirect(url: &Url, response: &reqwest::Response) -> Result<Option<Url>, WebError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    let to = location.to_str().ok().and_then(|location| url.join(location).ok());
    to.map(Some).ok_or_else(|| WebError(format!("{url} redirects to something that is not a URL")))
}

/// A page that has begun to answer.
pub struct Page {
    url: Url,
    response: reqwest::Response,
    silence: Duration,
    deadline: Instant,
}

/// What was read of a body.
pub struct Body {
    /// The bytes, decompressed.
    pub bytes: Vec<u8>,
    /// Why it is not all, if it is not.
    pub cut: Option<String>,
}

impl Page {
    /// Where it is in the end.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The media type with its parameters, as the server says it.
    pub fn content_type(&self) -> Option<&str> {
        self.header(&CONTENT_TYPE)
    }

    /// A compression that was not asked for and is not understood.
    pub fn foreign_encoding(&self) -> Option<&str> {
        self.header(&CONTENT_ENCODING).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
    }

    /// How large the server says the body is.
    pub fn announced_bytes(&self) -> Option<u64> {
        self.header(&CONTENT_LENGTH)?.parse().ok()
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Reads at most so many bytes of the body. What breaks off or takes too long is kept as far as it came.
    pub async fn body(mut self, bytes_max: usize) -> Body {
        let mut bytes = Vec::new();
        let cut = loop {
            let until = self.deadline.min(Instant::now() + self.silence);
            match timeout_at(until, self.response.chunk()).await {
                Err(_) => break Some("it took too long".to_owned()),
                Ok(Err(error)) => break Some(format!("it broke off: {}", root_cause(&error))),
                Ok(Ok(None)) => break None,
                Ok(Ok(Some(chunk))) => {
                    let room = bytes_max - bytes.len();
                    bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    if chunk.len() > room {
                        break Some(format!("it is larger than {bytes_max} bytes"));
                    }
                }
            }
        };
        Body { bytes, cut }
    }
}
