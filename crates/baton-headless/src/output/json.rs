//! `--json`: the events themselves, one a line.

use std::io::{self, Write};

use baton_core::Event;

/// Writes the whole line at once, so that whoever reads never sees half an event for long.
pub(super) fn show(event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    io::stdout().lock().write_all(&line)
}
