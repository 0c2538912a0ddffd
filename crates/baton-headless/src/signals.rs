//! Signals that ask a process to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// What the process was asked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C, or a terminal that went away.
    Interrupt,
    /// A polite `kill`.
    Terminate,
}

/// Listens from its creation on, so that no phase of the work can be killed half-done.
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to listen; needs a runtime.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.hang_up.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}
