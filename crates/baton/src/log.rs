//! The log file of a project, and `--verbose`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

/// A log that has grown to this size is put aside once; together they are all that is kept.
const BYTES_MAX: u64 = 5 * 1024 * 1024;

/// Starts logging. A log that cannot be written is no reason not to work, so failure is silent
/// except with `verbose`.
pub fn start(state_dir: &Path, verbose: bool) {
    let file = open(&state_dir.join("log"));
    if let (Err(error), true) = (&file, verbose) {
        anstream::eprintln!("the log cannot be written: {error}");
    }
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_target(false);
    // Only the first start counts, so the outcome says nothing.
    let _ = match (file, verbose) {
        (Ok(file), false) => tracing::subscriber::set_global_default(builder.with_writer(Mutex::new(file)).finish()),
        (Ok(file), true) => {
            tracing::subscriber::set_global_default(builder.with_writer(Mutex::new(file).and(io::stderr)).finish())
        }
        (Err(_), true) => tracing::subscriber::set_global_default(builder.with_writer(io::stderr).finish()),
        (Err(_), false) => Ok(()),
    };
}

fn open(dir: &Path) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    let path = dir.join("baton.log");
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > BYTES_MAX) {
        fs::rename(&path, dir.join("baton.log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
