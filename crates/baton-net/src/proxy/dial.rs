//! Connections to allowed hosts: which addresses may be meant, and the way to them.

use std::net::SocketAddr;
use std::time::Duration;

use baton_core::{Host, HostPattern, HostPort};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::head::{HEAD_BYTES_MAX, Head, Kind, PROXY_KEY, Refusal};
use crate::address::{Reach, is_local};
use crate::web::resolver::{check_name, only_public};

/// For one of several addresses.
const ONE_TIME_MAX: Duration = Duration::from_secs(5);

/// How far a host may lead, if it is allowed at all. A name never leads to a private address, since whoever owns it decides
/// what it means; unless it is one of this machine or its network, and listed by itself.
pub(super) fn reach(asked: &HostPort, hosts: &[HostPattern]) -> Result<Reach, Refusal> {
    let mut covering = hosts.iter().filter(|pattern| pattern.covers(asked)).peekable();
    if covering.peek().is_none() {
        return Err(Refusal::new(403, format!("{asked} is not among sandbox.hosts")));
    }
    Ok(match &asked.host {
        Host::Address(_) => Reach::Allowed,
        Host::Name(name) if is_local(name) && covering.any(HostPattern::is_exact) => Reach::Allowed,
        Host::Name(_) => Reach::Public,
    })
}

/// A connection over which the server of a request was reached.
pub(super) struct Dialled {
    pub(super) stream: TcpStream,
    /// What the server said before it was asked.
    pub(super) early: Vec<u8>,
    /// Who is at the other end of it.
    pub(super) way: Way,
}

/// Who is at the other end of a connection.
pub(super) enum Way {
    /// The server.
    Direct,
    /// Another proxy, which needs whole addresses and may want to know who asks.
    Proxy {
        /// The value of the field that says so.
        key: Option<Vec<u8>>,
    },
}

/// Connects to the server of a request: to an address that was checked, or by the proxy that Baton itself has to use.
pub(super) async fn dial(head: &Head, reach: Reach, outer: &Matcher) -> Result<Dialled, Refusal> {
    let asked = &head.asked;
    let scheme = if head.kind == Kind::Tunnel { "https" } else { "http" };
    let outer = format!("{scheme}://{asked}/").parse().ok().and_then(|uri| outer.intercept(&uri));
    if let (Reach::Public, Some(outer)) = (reach, outer) {
        return by_proxy(head, &outer).await;
    }
    let unknown = |error: std::io::Error| Refusal::new(502, format!("{asked} cannot be found: {error}"));
    let found = match &asked.host {
        Host::Address(address) => vec![SocketAddr::new(*address, asked.port)],
        Host::Name(name) => lookup_host((name.as_str(), asked.port)).await.map_err(unknown)?.collect(),
    };
    let found = match (reach, &asked.host) {
        (Reach::Public, Host::Name(name)) => {
            only_public(name, found).map_err(|refused| Refusal::new(403, refused.to_string()))?
        }
        _ => found,
    };
    Ok(Dialled { stream: first(asked, &found).await?, early: Vec::new(), way: Way::Direct })
}

async fn first(asked: &HostPort, addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
    let mut why = Refusal::new(502, format!("{asked} has no address"));
    for address in addresses {
        why = match timeout(ONE_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => Refusal::new(502, format!("{asked} cannot be reached: {error}")),
            Err(_) => Refusal::new(504, format!("{asked} cannot be reached: no answer within {ONE_TIME_MAX:?}")),
        };
    }
    Err(why)
}

/// By the proxy of Baton's own environment, which resolves the name. It is resolved here as well, as far as that goes.
async fn by_proxy(head: &Head, outer: &Intercept) -> Result<Dialled, Refusal> {
    let asked = &head.asked;
    if let Host::Name(name) = &asked.host {
        check_name(name).await.map_err(|why| Refusal::new(403, why))?;
    }
    let uri = outer.uri();
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(Refusal::new(502, "Baton's own proxy is not one of http, so commands cannot be led through it"));
    };
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    let failed = |error: std::io::Error| Refusal::new(502, format!("Baton's own proxy cannot be reached: {error}"));
    let mut stream = TcpStream::connect(address).await.map_err(failed)?;
    let key = outer.basic_auth().map(|key| key.as_bytes().to_vec());
    if head.kind != Kind::Tunnel {
        return Ok(Dialled { stream, early: Vec::new(), way: Way::Proxy { key } });
    }
    let mut request = format!("CONNECT {asked} HTTP/1.1\r\nHost: {asked}\r\n").into_bytes();
    if let Some(key) = &key {
        request.extend_from_slice(format!("{PROXY_KEY}: ").as_bytes());
        request.extend_from_slice(key);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await.map_err(failed)?;
    let mut answer = Vec::new();
    loop {
        if let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
            let is_open = answer.starts_with(b"HTTP/1.1 2") || answer.starts_with(b"HTTP/1.0 2");
            if !is_open {
                let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let line = String::from_utf8_lossy(line).escape_debug().to_string();
                return Err(Refusal::new(502, format!("Baton's own proxy does not lead to {asked}: {line}")));
            }
            return Ok(Dialled { stream, early: answer.split_off(end + 4), way: Way::Proxy { key } });
        }
        let is_cut = answer.len() > HEAD_BYTES_MAX || stream.read_buf(&mut answer).await.map_err(failed)? == 0;
        if is_cut {
            return Err(Refusal::new(502, "Baton's own proxy gave no answer that can be read"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_address_must_be_listed_as_such() {
        let reach = |asked: &str, hosts: &[&str]| {
            let hosts: Vec<HostPattern> = hosts.iter().map(|host| host.parse().unwrap()).collect();
            reach(&HostPort::parse(asked, None).unwrap(), &hosts).map_err(|refusal| refusal.status)
        };
        assert_eq!(reach("example.com:443", &["example.com"]), Ok(Reach::Public));
        assert_eq!(reach("a.corp.internal:443", &["*.corp.internal"]), Ok(Reach::Public));
        assert_eq!(reach("a.corp.internal:443", &["*.corp.internal", "a.corp.internal"]), Ok(Reach::Allowed));
        assert_eq!(reach("localhost:3000", &["localhost:3000"]), Ok(Reach::Allowed));
        assert_eq!(reach("10.0.0.7:80", &["10.0.0.7"]), Ok(Reach::Allowed));
        assert_eq!(reach("10.0.0.7:80", &["example.com"]), Err(403));
        assert_eq!(reach("example.com:22", &["example.com"]), Err(403));
    }
    #[tokio::test]
    async fn a_name_that_turns_out_to_be_private_is_refused_in_every_way() {
        let head = |text: &str| super::super::read_head(text.as_bytes()).unwrap().unwrap();
        let outer = Matcher::builder().all("http://127.0.0.1:9").build();
        for outer in [Matcher::builder().build(), outer] {
            for text in ["CONNECT localhost:443 HTTP/1.1\r\n\r\n", "GET http://localhost/ HTTP/1.1\r\n\r\n"] {
                let refusal = dial(&head(text), Reach::Public, &outer).await.err().unwrap();
                assert_eq!(refusal.status, 403, "{refusal:?}");
                assert!(refusal.why.starts_with("localhost leads to a private address: "), "{refusal:?}");
            }
        }
    }
}
