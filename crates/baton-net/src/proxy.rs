//! A proxy that leads to listed hosts and nowhere else, for commands that have no network of their own.
//!
//! It takes CONNECT and plain requests with whole addresses. The name is judged, resolved here, and the address that was
//! judged is the one that is connected to. What goes through a tunnel is not looked into: a server that serves an allowed
//! name can be asked for any other that it serves.

mod dial;
mod head;
mod relay;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::HostPattern;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use dial::{Dialled, Way, dial, reach};
pub use head::{Head, Kind, Plain, Refusal, read_head};

/// More at the same time are sent away.
const CONNECTIONS_MAX: usize = 64;
/// For the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// To find a server and to connect to it.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);
/// For a client to take an answer of the proxy itself.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// How many refused hosts are remembered.
const REFUSED_MAX: usize = 64;

/// A running proxy. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    refused: Arc<Mutex<Refused>>,
    task: AbortHandle,
}

/// Which hosts were refused, the last ones, and how many there were in all.
#[derive(Debug, Default)]
struct Refused {
    count: u64,
    last: VecDeque<String>,
}

impl Proxy {
    /// Serves whoever connects to this listener. To be called in a runtime.
    pub fn start(listener: std::net::TcpListener, hosts: Vec<HostPattern>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let refused = Arc::<Mutex<Refused>>::default();
        let shared = Arc::new(Shared { hosts, outer: Matcher::from_env(), refused: Arc::clone(&refused) });
        let task = tokio::spawn(accept(listener, shared)).abort_handle();
        Ok(Self { address, refused, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests were refused so far because of their host.
    pub fn refusals(&self) -> u64 {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// The hosts that were refused after the first `before` ones, each once. Of very many, the last.
    pub fn refused_since(&self, before: u64) -> Vec<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let new = usize::try_from(refused.count.saturating_sub(before)).unwrap_or(usize::MAX);
        let mut hosts: Vec<String> = Vec::new();
        for host in refused.last.iter().skip(refused.last.len().saturating_sub(new)) {
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
        hosts
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What all connections have in common.
struct Shared {
    hosts: Vec<HostPattern>,
    /// The proxy that Baton itself has to use, if any.
    outer: Matcher,
    refused: Arc<Mutex<Refused>>,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // They end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if connections.len() < CONNECTIONS_MAX => {
                    connections.spawn(serve(client, Arc::clone(&shared)));
                }
                Ok((client, _)) => {
                    let refusal = Refusal::new(503, format!("there are {CONNECTIONS_MAX} connections already"));
                    // Whoever cannot take it at once finds the connection closed.
                    let _ = client.try_write(refusal.answer().as_bytes());
                }
                // Too many files are open, or the like: it passes.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    let mut bytes = Vec::new();
    match admit(&mut client, &mut bytes, &shared).await {
        // A connection that breaks off has nobody to be told.
        Ok(Some((head, dialled))) => drop(carry(client, head, dialled, bytes).await),
        Ok(None) => {}
        Err(refusal) => drop(timeout(ANSWER_TIME_MAX, send_away(client, &refusal)).await),
    }
}

/// Reads a request and connects to its server; nothing if the client left.
async fn admit(
    client: &mut TcpStream,
    bytes: &mut Vec<u8>,
    shared: &Shared,
) -> Result<Option<(Head, Dialled)>, Refusal> {
    let reading = async {
        loop {
            if let Some(head) = read_head(bytes)? {
                return Ok(Some(head));
            }
            if !matches!(client.read_buf(bytes).await, Ok(1..)) {
                return Ok(None);
            }
        }
    };
    let late = |_| Err(Refusal::new(408, format!("no request within {HEAD_TIME_MAX:?}")));
    let Some(head) = timeout(HEAD_TIME_MAX, reading).await.unwrap_or_else(late)? else { return Ok(None) };
    let refused = |refusal: Refusal| {
        if refusal.status == 403 {
            shared.remember(head.asked.to_string());
        }
        refusal
    };
    let reach = reach(&head.asked, &shared.hosts).map_err(refused)?;
    let late = |_| Err(Refusal::new(504, format!("{} cannot be reached within {CONNECT_TIME_MAX:?}", head.asked)));
    let dialling = timeout(CONNECT_TIME_MAX, dial(&head, reach, &shared.outer));
    let dialled = dialling.await.unwrap_or_else(late).map_err(refused)?;
    bytes.drain(..head.length);
    Ok(Some((head, dialled)))
}

impl Shared {
    fn remember(&self, host: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.count += 1;
        refused.last.push_back(host);
        if refused.last.len() > REFUSED_MAX {
            refused.last.pop_front();
        }
    }
}

/// Carries a request out. `rest` is what the client has already said beyond its head.
async fn carry(mut client: TcpStream, head: Head, dialled: Dialled, rest: Vec<u8>) -> io::Result<()> {
    let Dialled { stream: mut server, early, way } = dialled;
    match head.kind {
        Kind::Tunnel => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            client.write_all(&early).await?;
            server.write_all(&rest).await?;
            relay::tunnel(client, server).await
        }
        Kind::Plain(plain) => {
            let head = match way {
                Way::Direct => plain.for_server(),
                Way::Proxy { key } => plain.for_proxy(key.as_deref()),
            };
            server.write_all(&head).await?;
            let here = usize::try_from(plain.body).unwrap_or(usize::MAX).min(rest.len());
            server.write_all(&rest[..here]).await?;
            relay::exchange(client, server, plain.body - here as u64).await
        }
    }
}

/// Says why not. What the client still sends is taken in, since closing on it would take the answer away again.
async fn send_away(mut client: TcpStream, refusal: &Refusal) -> io::Result<()> {
    client.write_all(refusal.answer().as_bytes()).await?;
    client.shutdown().await?;
    let mut ignored = [0; 1024];
    while client.read(&mut ignored).await? > 0 {}
    Ok(())
}
