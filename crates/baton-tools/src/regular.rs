//! Regular files: reads what can be read to its end, and nothing that would wait for somebody or tell Baton's secrets.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use baton_guard::path::Found;
use rustix::fs::{PROC_SUPER_MAGIC, fstatfs};
use tokio_util::sync::CancellationToken;

/// A regular file that is read until its end or until the call is cancelled.
pub(crate) struct Regular {
    file: File,
    metadata: Metadata,
    cancel: CancellationToken,
}

/// Opens a file for reading. Devices, pipes and sockets are refused without being touched.
pub(crate) fn open(found: &Found, cancel: &CancellationToken) -> io::Result<Regular> {
    let file = found.open()?;
    let metadata = file.metadata()?;
    of(file, metadata, found.path(), cancel)
}

/// A file that lies at this path and is open already.
pub(crate) fn of(file: File, metadata: Metadata, path: &Path, cancel: &CancellationToken) -> io::Result<Regular> {
    if is_environment(&file, path) {
        return Err(io::Error::other("the environment of a process may hold secrets"));
    }
    Ok(Regular { file, metadata, cancel: cancel.clone() })
}

/// All of a file that is no larger than `max`.
pub(crate) fn read(found: &Found, max: u64, cancel: &CancellationToken) -> io::Result<Vec<u8>> {
    let file = open(found, cancel)?;
    // One more than it says that it has, so that its end is found by the same call.
    let expected = file.metadata.len().min(max) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::other(format!("it has more than {max} bytes")));
    }
    Ok(bytes)
}

impl Regular {
    /// Of the file that is open.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Read for Regular {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::other("it has no end: it hands out what happens, and one would have to wait for more")
            }
            _ => error,
        })
    }
}

/// Whether this is `/proc/PID/environ`, wherever that is mounted: the tools run in Baton, whose own is full of keys.
fn is_environment(file: &File, path: &Path) -> bool {
    path.ends_with("environ") && fstatfs(file).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use baton_guard::{Grant, PathGuard, Reach, Rules, Scope};

    use super::*;

    /// Any file, by its path.
    pub(crate) fn held(path: &Path) -> Found {
        PathGuard::new(Scope::default(), Rules::none(), Reach::Anywhere).find(path, &Grant::none()).unwrap()
    }

    fn attempt(path: &Path) -> Result<usize, String> {
        let guard = PathGuard::new(Scope::default(), Rules::none(), Reach::Anywhere);
        let found = guard.find(path, &Grant::none()).map_err(|refusal| refusal.to_string())?;
        read(&found, 1 << 20, &CancellationToken::new()).map(|bytes| bytes.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_of_the_kernel_can_be_read_if_they_end() {
        for path in ["/proc/cpuinfo", "/proc/meminfo", "/proc/self/status", "/proc/sys/kernel/ostype"] {
            assert!(attempt(Path::new(path)).unwrap() > 0, "{path}");
        }
        // Refused by the kernel, or because it would wait; what matters is that this returns.
        for path in ["/proc/kmsg", "/sys/kernel/tracing/trace_pipe", "/sys/kernel/debug/tracing/trace_pipe"] {
            assert!(attempt(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink("/proc/self/environ", &link).unwrap();
        for path in [Path::new("/proc/self/environ"), Path::new("/proc/thread-self/environ"), &link] {
            assert!(attempt(path).unwrap_err().contains("secrets"), "{}", path.display());
        }
        assert!(attempt(Path::new("/dev/null")).unwrap_err().contains("device"));
        assert!(attempt(dir.path()).unwrap_err().contains("directory"));
        assert!(attempt(Path::new("/proc/self/maps")).is_ok());
        std::fs::write(dir.path().join("environ"), "mine").unwrap();
        assert_eq!(attempt(&dir.path().join("environ")), Ok(4));
    }

    #[test]
    fn reading_stops_when_cancelled_and_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let cancel = CancellationToken::new();
        assert_eq!(read(&held(&path), 5, &cancel).unwrap(), b"12345");
        assert_eq!(read(&held(&path), 4, &cancel).unwrap_err().to_string(), "it has more than 4 bytes");
        let mut opened = open(&held(&path), &cancel).unwrap();
        cancel.cancel();
        assert_eq!(opened.read(&mut [0; 1]).unwrap_err().to_string(), "cancelled");
    }
}
