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

/// Renders events.
pub struct Output(Renderer);

enum Renderer {
    Text(text::Text),
    Json,
}

impl Output {
    /// Renders in this format to the process's own streams.
    pub fn new(format: Format) -> Self {
        Self(match format {
            Format::Text => Renderer::Text(text::Text::new()),
            Format::Json => Renderer::Json,
        })
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        match &mut self.0 {
            Renderer::Text(text) => text.show(&event.body),
            Renderer::Json => json::show(event),
        }
    }

    /// A second has passed: countdowns go on.
    pub fn tick(&mut self) {
        if let Renderer::Text(text) = &mut self.0 {
            text.tick();
        }
    }

    /// The person asked to stop.
    pub fn stopping(&mut self) {
        if let Renderer::Text(text) = &mut self.0 {
            text.stopping();
        }
    }
}
