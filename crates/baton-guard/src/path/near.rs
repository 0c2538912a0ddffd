//! Files below a directory, one after the other: what lies beside the one before is reached by the directory of both.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};

use super::handle::{Dir, READ, check_file, open_without_links};

/// Reaches files below a directory, no link followed. A search takes files in the order of their directories, so that most
/// of them take one lookup of a name, however deep they lie.
#[derive(Debug)]
pub struct Near<'a> {
    base: &'a Dir,
    /// The directory of the last file, by its path from the base.
    last: Option<(PathBuf, File)>,
}

impl Dir {
    /// Begins to reach files below.
    pub fn near(&self) -> Near<'_> {
        Near { base: self, last: None }
    }
}

impl Near<'_> {
    /// When what lies at a path was changed last.
    pub fn modified(&mut self, path: &Path) -> io::Result<SystemTime> {
        let (dir, name) = self.beside(path)?;
        let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let nanos = u32::try_from(found.st_mtime_nsec).unwrap_or_default();
        // Before 1970 is as good as then.
        Ok(SystemTime::UNIX_EPOCH + Duration::new(found.st_mtime.max(0).cast_unsigned(), nanos))
    }

    /// Opens a file for reading.
    pub fn open_file(&mut self, path: &Path) -> io::Result<(File, Metadata)> {
        let (dir, name) = self.beside(path)?;
        let file = File::from(openat(dir, name, READ | OFlags::NOFOLLOW, Mode::empty())?);
        let metadata = file.metadata()?;
        check_file(&metadata)?;
        Ok((file, metadata))
    }

    fn beside<'a>(&'a mut self, path: &'a Path) -> io::Result<(BorrowedFd<'a>, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        if dir.as_os_str().is_empty() {
            return Ok((self.base.handle.as_fd(), name));
        }
        let handle = match self.last.take() {
            Some((at, handle)) if at.as_os_str() == dir.as_os_str() => (at, handle),
            _ => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                (dir.to_owned(), open_without_links(self.base.handle.as_fd(), dir, flags)?)
            }
        };
        Ok((self.last.insert(handle).1.as_fd(), name))
    }
}
