//! JSON lines on stdout.

use std::io::{self, Write};

use serde::Serialize;

/// Writes the whole line at once, so that whoever reads never sees half of it for long.
pub(super) fn write_line(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    io::stdout().lock().write_all(&line)
}
