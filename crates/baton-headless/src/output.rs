//! Output formats of `exec`: each renders the one stream of events.

use std::io;

use baton_core::{Block, Event};

mod claude;
mod codex;
mod json;
mod text;

pub use text::show_fault;

/// How events are rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The answer on stdout, talk on stderr.
    Text,
    /// Baton's own events, one a line.
    Events,
    /// The result as one JSON object, in Claude Code's form.
    Result,
    /// Claude Code's stream.
    StreamJson,
    /// Codex's stream.
    CodexJson,
}

/// Shows events that happened before, as text: prompts and answers on stdout, talk on stderr.
pub struct Replay(text::Text);

impl Default for Replay {
    fn default() -> Self {
        Self(text::Text::replaying())
    }
}

impl Replay {
    /// Shows one event.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        self.0.show(&event.body)
    }

    /// Shows what the person said to a running turn.
    pub fn said(&mut self, content: &[Block]) -> io::Result<()> {
        text::Text::said(content)
    }
}

/// What can be shown.
pub(crate) enum Shown {
    /// Something happened.
    Event(Box<Event>),
    /// A second has passed: countdowns go on.
    Tick,
    /// The person asked to stop.
    Stopping,
}

/// Renders events to the process's own streams.
pub(crate) enum Output {
    Text(text::Text),
    Events,
    Result(claude::Claude),
    StreamJson(claude::Claude),
    CodexJson(codex::Codex),
}

impl Output {
    /// Renders in this format.
    pub(crate) fn new(format: Format) -> Self {
        match format {
            Format::Text => Self::Text(text::Text::new()),
            Format::Events => Self::Events,
            Format::Result => Self::Result(claude::Claude::default()),
            Format::StreamJson => Self::StreamJson(claude::Claude::default()),
            Format::CodexJson => Self::CodexJson(codex::Codex::default()),
        }
    }

    /// Shows one thing.
    pub(crate) fn show(&mut self, shown: &Shown) -> io::Result<()> {
        let event = match (&mut *self, shown) {
            (_, Shown::Event(event)) => event,
            (Self::Text(text), Shown::Tick) => {
                text.tick();
                return Ok(());
            }
            (Self::Text(text), Shown::Stopping) => {
                text.stopping();
                return Ok(());
            }
            (_, Shown::Tick | Shown::Stopping) => return Ok(()),
        };
        let lines = match self {
            Self::Text(text) => return text.show(&event.body),
            Self::Events => return json::write_line(event),
            // The last line of the stream is the result.
            Self::Result(claude) => {
                let mut lines = claude.lines(event);
                lines.retain(|line| line["type"] == "result");
                lines
            }
            Self::StreamJson(claude) => claude.lines(event),
            Self::CodexJson(codex) => codex.lines(event),
        };
        lines.iter().try_for_each(json::write_line)
    }
}
