//! Reading small files that may be hostile: a pipe does not hang us, a huge one does not fill memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most that is read of any settings file.
const BYTES_MAX: u64 = 1024 * 1024;

/// The text of a regular file of reasonable size.
pub(crate) fn read(file: &Path) -> io::Result<String> {
    // Asked before it is opened: opening a pipe waits for somebody to write to it.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = String::new();
    File::open(file)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is larger than {BYTES_MAX} bytes")));
    }
    Ok(text)
}
