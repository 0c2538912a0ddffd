//! A settings file that is being changed: by one at a time, as a whole or not at all.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::small_file;

/// How long others are waited for, and how often they are looked at.
const WAIT_MAX: Duration = Duration::from_secs(30);
const WAIT_STEP: Duration = Duration::from_millis(5);

/// A settings file that nobody else changes meanwhile.
pub struct Held {
    file: PathBuf,
    /// The directory is locked instead of the file, which is replaced by another one with each change.
    dir: File,
}

impl Held {
    /// Waits for others and takes hold of the file, which need not be there; its directory is made.
    pub fn take(file: &Path) -> io::Result<Self> {
        // Whoever keeps settings elsewhere has a link here, which stays one.
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent)?;
        let dir = File::open(parent)?;
        let begun = Instant::now();
        loop {
            match dir.try_lock() {
                Ok(()) => return Ok(Self { file, dir }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < WAIT_MAX => thread::sleep(WAIT_STEP),
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another process has been changing it for {} seconds", WAIT_MAX.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// The file, links resolved.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What stands in it; nothing if it is not there.
    pub fn text(&self) -> io::Result<String> {
        match small_file::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read,
        }
    }

    /// Replaces the file as a whole, with the rights that it had.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let dir = self.file.parent().unwrap_or(&self.file);
        let mode = fs::metadata(&self.file).map_or(0o600, |meta| meta.permissions().mode() & 0o777);
        let mut new = tempfile::Builder::new().permissions(fs::Permissions::from_mode(mode)).tempfile_in(dir)?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(&self.file)?;
        self.dir.sync_all()
    }
}
