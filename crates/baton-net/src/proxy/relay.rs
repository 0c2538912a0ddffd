//! Bytes between a client and a server, until either has no more to say or both are silent for too long.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep};

/// How long both sides may be silent.
const IDLE_TIME_MAX: Duration = Duration::from_mins(5);
const CHUNK_BYTES: usize = 16 * 1024;

/// When something was last said.
struct Silence {
    begin: Instant,
    last_ms: AtomicU64,
}

impl Silence {
    fn new() -> Self {
        Self { begin: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn broken(&self) {
        let elapsed = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Ends when it has lasted for too long.
    async fn too_long(&self) {
        loop {
            let last = self.begin + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let left = (last + IDLE_TIME_MAX).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// Everything both ways. An end of one is handed on, and the other goes on.
pub(super) async fn tunnel(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    let silence = Silence::new();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let both = async {
        tokio::try_join!(
            pump(&mut from_client, &mut to_server, u64::MAX, &silence),
            pump(&mut from_server, &mut to_client, u64::MAX, &silence),
        )
    };
    tokio::select! {
        ended = both => ended.map(drop),
        () = silence.too_long() => Ok(()),
    }
}

/// So much of the client's bytes to the server, and everything that it answers.
pub(super) async fn exchange(mut client: TcpStream, mut server: TcpStream, body: u64) -> io::Result<()> {
    let silence = Silence::new();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let asking = async {
        let missing = pump(&mut from_client, &mut to_server, body, &silence).await?;
        if missing > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        // What more there is belongs to no request that was checked.
        let mut ignored = [0; 256];
        while from_client.read(&mut ignored).await? > 0 {}
        // The client may have ended its half only.
        pending::<io::Result<()>>().await
    };
    tokio::select! {
        ended = asking => ended,
        ended = pump(&mut from_server, &mut to_client, u64::MAX, &silence) => ended.map(drop),
        () = silence.too_long() => Ok(()),
    }
}

/// Hands on so many bytes; how many were missing at the end. That end is handed on as well.
async fn pump(from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>, bytes_max: u64, silence: &Silence) -> io::Result<u64> {
    let mut left = bytes_max;
    let mut chunk = vec![0; CHUNK_BYTES];
    while left > 0 {
        let room = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let count = from.read(&mut chunk[..room]).await?;
        if count == 0 {
            to.shutdown().await?;
            return Ok(left);
        }
        silence.broken();
        to.write_all(&chunk[..count]).await?;
        silence.broken();
        left -= count as u64;
    }
    Ok(0)
}
