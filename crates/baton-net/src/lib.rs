//! The network for Baton: certificate authorities, the public web without what is private, a proxy to listed hosts.
//!
//! May use `baton-core`. Knows neither models nor tools: both send their own requests, over the same TLS settings.

mod address;
pub mod proxy;
mod tls;
mod web;

pub use address::AllowedHost;
pub use proxy::Proxy;
pub use tls::config as tls_config;
pub use web::{Body, Fetched, Page, Web, WebError, WebLimits};

/// The innermost cause of a failed request: what the person can act on.
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    if text.is_empty() { "the connection failed".to_owned() } else { text }
}
