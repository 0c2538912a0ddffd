//! The log file of a project, and `--verbose`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use baton_guard::secrets::Redactor;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

/// A log that has grown to this size is put aside once; together they are all that is kept.
const BYTES_MAX: u64 = 5 * 1024 * 1024;

/// Starts logging. A log that cannot be written is no reason not to work, so failure is silent
/// except with `verbose`.
pub fn start(state_dir: &Path, verbose: bool, redactor: Redactor) {
    let file = open(&state_dir.join("log"));
    if let (Err(error), true) = (&file, verbose) {
        anstream::eprintln!("the log cannot be written: {error}");
    }
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_target(false);
    // Only the first start counts, so the outcome says nothing.
    let _ = match (file, verbose) {
        (Ok(file), false) => {
            let file = Mutex::new(Clean { inner: file, redactor });
            tracing::subscriber::set_global_default(builder.with_writer(file).finish())
        }
        (Ok(file), true) => {
            let stderr = Mutex::new(Clean { inner: io::stderr(), redactor: redactor.clone() });
            let both = Mutex::new(Clean { inner: file, redactor }).and(stderr);
            tracing::subscriber::set_global_default(builder.with_writer(both).finish())
        }
        (Err(_), true) => {
            let stderr = Mutex::new(Clean { inner: io::stderr(), redactor });
            tracing::subscriber::set_global_default(builder.with_writer(stderr).finish())
        }
        (Err(_), false) => Ok(()),
    };
}

/// Writes lines without their secrets. A line comes in one piece.
struct Clean<W> {
    inner: W,
    redactor: Redactor,
}

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.inner.write_all(&self.redactor.redact(line)).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn open(dir: &Path) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    let path = dir.join("baton.log");
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > BYTES_MAX) {
        fs::rename(&path, dir.join("baton.log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
