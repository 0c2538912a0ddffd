//! Paths on the disk: where they really lead, and files opened by handle beneath a directory.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use baton_core::{Access, PermissionMode};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::{normalise, shown};
use crate::decision::Decision;
use crate::evaluate::{Call, Context, evaluate};
use crate::rule::Rules;

/// The longest path that is looked at; the system takes no longer one.
const LENGTH_MAX: usize = 4096;
const LINKS_MAX: usize = 40;
/// How often a lookup that was disturbed by a rename is tried again.
const TRIES_MAX: usize = 16;

/// A directory, held open: files are opened beneath it and nowhere else, whatever is renamed meanwhile.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
}

impl Root {
    /// Opens a directory.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { handle: rustix::fs::open(dir, flags, Mode::empty())? })
    }

    /// Opens a file by its path from here. Links are followed as long as they stay beneath; none that the kernel makes up
    /// (`/proc/self/fd`) is.
    pub fn open_file(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..TRIES_MAX {
            match openat2(&self.handle, path, flags, mode, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS) {
                Ok(file) => return Ok(File::from(file)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // An old kernel, or a filter that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => return self.open_step_by_step(path, flags, mode),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("its directories are being renamed all the time"))
    }

    /// The same where the kernel cannot do it at once: no link is followed at all.
    fn open_step_by_step(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        let mut parts = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                Component::CurDir => {}
                _ => return Err(io::Error::other("it leads out of its directory")),
            }
        }
        let Some((last, dirs)) = parts.split_last() else { return Err(io::Error::other("it names no file")) };
        let mut at: Option<OwnedFd> = None;
        for dir in dirs {
            let from = at.as_ref().map_or(self.handle.as_fd(), AsFd::as_fd);
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            at = Some(openat(from, *dir, flags, Mode::empty())?);
        }
        let from = at.as_ref().map_or(self.handle.as_fd(), AsFd::as_fd);
        Ok(File::from(openat(from, *last, flags | OFlags::NOFOLLOW, mode)?))
    }
}

/// Where the file that is open really lies.
pub fn real_path(file: &File) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Where a path leads.
#[derive(Debug)]
pub struct Located {
    /// The path with every link resolved; the last parts may not exist.
    pub path: PathBuf,
    /// What is there, if anything.
    pub metadata: Option<Metadata>,
}

/// Follows the links of a path, also of one whose last parts do not exist yet and of a link that leads nowhere.
pub fn locate(path: &Path) -> io::Result<Located> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let mut missing = Vec::new();
        let mut at = path.as_path();
        loop {
            match at.canonicalize() {
                Ok(real) => {
                    let path = missing.iter().rev().fold(real, |dir, name| dir.join(name));
                    let metadata = if missing.is_empty() { Some(path.symlink_metadata()?) } else { None };
                    return Ok(Located { path: normalise(&path), metadata });
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(error) => {
                    if at.is_symlink() {
                        break;
                    }
                    let (Some(parent), Some(name)) = (at.parent(), at.components().next_back()) else {
                        return Err(error);
                    };
                    missing.push(name.as_os_str().to_owned());
                    at = parent;
                }
            }
        }
        let link = at.parent().unwrap_or(at).canonicalize()?.join(at.read_link()?);
        path = missing.iter().rev().fold(link, |dir, name| dir.join(name));
    }
    Err(io::Error::other("it has too many links"))
}

/// Decides about a path as a tool was given it: by how it is written, and by where it leads now.
pub fn decide(text: &str, access: Access, mode: PermissionMode, rules: &Rules, context: &Context) -> Decision {
    if text.is_empty() || text.contains('\0') {
        return Decision::deny("path.malformed", "it is no path");
    }
    if text.len() > LENGTH_MAX {
        return Decision::deny("path.malformed", "the path is longer than the system takes");
    }
    if text.contains("://") {
        return Decision::deny("path.malformed", "it is an address, not a path");
    }
    let written = context.scope.cwd.join(text);
    let question = |path: PathBuf| if access == Access::Read { Call::Read(path) } else { Call::Write(path) };
    let judge = |path: PathBuf| evaluate(&question(path), mode, rules, context);
    // As it is written counts, too: a link in place of a protected directory protects what it leads to.
    let decision = judge(written.clone()).join(judge(normalise(&written)));
    let located = match locate(&written) {
        Ok(located) => located,
        Err(error) => {
            let reason = format!("{} cannot be followed: {error}", shown(&written));
            return decision.join(Decision::deny("path.unresolvable", reason));
        }
    };
    let decision = decision.join(judge(located.path.clone()));
    decision.join(by_kind(&located, access))
}

fn by_kind(located: &Located, access: Access) -> Decision {
    let shown = shown(&located.path);
    let fine = Decision::allow("path.kind", "it is a file or a directory");
    match &located.metadata {
        None if access == Access::Read => {
            Decision::deny("path.missing", format!("{shown} does not exist, so there is nothing to read"))
        }
        None => fine,
        Some(found) => {
            let kind = found.file_type();
            if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket() {
                Decision::deny("path.device", format!("{shown} is a device, pipe or socket"))
            } else if access != Access::Read && kind.is_file() && found.nlink() > 1 {
                Decision::ask(
                    "path.hard-link",
                    format!("{shown} has another name elsewhere, which would change with it"),
                )
            } else {
                fine
            }
        }
    }
}
