//! Sources: where the output of a command is read from.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

const READ_BYTES: usize = 64 * 1024;
/// How often a file is looked at that somebody else writes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The bytes that a command prints.
pub(super) struct Source {
    from: From,
    buffer: Vec<u8>,
    open: bool,
}

enum From {
    Pipe(Receiver),
    File(File),
}

impl Source {
    /// What comes out of a pipe.
    pub(super) fn pipe(pipe: PipeReader) -> io::Result<Self> {
        Ok(Self::new(From::Pipe(Receiver::from_owned_fd(OwnedFd::from(pipe))?)))
    }

    /// What is in a file and what is added to it; it never ends by itself.
    pub(super) fn file(file: std::fs::File) -> Self {
        Self::new(From::File(File::from_std(file)))
    }

    fn new(from: From) -> Self {
        Self { from, buffer: Vec::with_capacity(READ_BYTES), open: true }
    }

    /// Whether more can come.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Waits for bytes. Nothing is lost if this is dropped half-way; [`Self::clear`] must follow when they are used.
    pub(super) async fn read(&mut self) {
        // What cannot be read any more has ended.
        self.open = match &mut self.from {
            From::Pipe(pipe) => pipe.read_buf(&mut self.buffer).await.is_ok_and(|count| count > 0),
            From::File(file) => loop {
                match file.read_buf(&mut self.buffer).await {
                    Ok(0) => tokio::time::sleep(LOOK_EVERY).await,
                    read => break read.is_ok(),
                }
            },
        };
    }

    /// What was read.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Makes room for more.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
    }
}

/// What takes in the output of a command.
pub(super) trait Sink {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> impl Future<Output = ()> + Send;
}
