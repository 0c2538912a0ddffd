//! Output formats of `exec`: each renders the one stream of events.

use std::io;

use baton_core::Event;

mod json;
mod text;

pub use text::show_fault;

/// How events are rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The answer on stdout, talk on stderr.
    Text,
    /// One event a line on stdout.
    Json,
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

/// Renders events.
pub(crate) struct Output(Renderer);

enum Renderer {
    Text(text::Text),
    Json,
}

impl Output {
    /// Renders in this format to the process's own streams.
    pub(crate) fn new(format: Format) -> Self {
        Self(match format {
            Format::Text => Renderer::Text(text::Text::new()),
            Format::Json => Renderer::Json,
        })
    }

    /// Shows one thing.
    pub(crate) fn show(&mut self, shown: &Shown) -> io::Result<()> {
        match (&mut self.0, shown) {
            (Renderer::Text(text), Shown::Event(event)) => text.show(&event.body),
            (Renderer::Text(text), Shown::Tick) => {
                text.tick();
                Ok(())
            }
            (Renderer::Text(text), Shown::Stopping) => {
                text.stopping();
                Ok(())
            }
            (Renderer::Json, Shown::Event(event)) => json::show(event),
            (Renderer::Json, Shown::Tick | Shown::Stopping) => Ok(()),
        }
    }
}
