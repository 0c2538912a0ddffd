//! Handles: files and directories that are opened by a path without links, and from then on used by nothing but the handle.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, unlinkat};
use rustix::io::Errno;

/// How often a lookup that was disturbed by a rename is tried again.
const TRIES_MAX: usize = 16;

/// What the kernel appends to the path of a file that has none any more.
const DELETED: &str = " (deleted)";

/// Opens a path that has no links in it, from a directory or, if it is absolute, from the root. A link that is there
/// all the same is an error (`ELOOP`).
pub(super) fn open_without_links(from: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC;
    let beneath = if path.is_absolute() { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
    for _ in 0..TRIES_MAX {
        match openat2(from, path, flags, Mode::empty(), beneath | ResolveFlags::NO_SYMLINKS) {
            Ok(file) => return Ok(File::from(file)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a filter that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return open_step_by_step(from, path, flags),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("its directories are being renamed all the time"))
}

/// The same where the kernel cannot do it at once.
fn open_step_by_step(from: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<File> {
    let mut at: Option<OwnedFd> = None;
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::RootDir => at = Some(rustix::fs::open("/", DIRECTORY, Mode::empty())?),
            Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::other("it leads out of its directory"));
            }
        }
    }
    let last = names.pop().unwrap_or(OsStr::new("."));
    for name in names {
        let next = openat(at.as_ref().map_or(from, AsFd::as_fd), name, DIRECTORY, Mode::empty())?;
        at = Some(next);
    }
    let file = openat(at.as_ref().map_or(from, AsFd::as_fd), last, flags | OFlags::NOFOLLOW, Mode::empty())?;
    let file = File::from(file);
    // A link itself can be held, but is not what was asked for.
    if file.metadata()?.is_symlink() { Err(Errno::LOOP.into()) } else { Ok(file) }
}

/// A directory that is held and nothing more.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Nothing is waited for: neither at a pipe, nor at a file of the kernel that hands out what happens.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Where the file of a handle really lies.
pub fn real_path(file: &impl AsRawFd) -> io::Result<PathBuf> {
    std::fs::read_link(own(file))
}

/// The name by which this process reaches a file that it holds.
fn own(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Where the file of a handle lies, unless it is gone by now.
pub(super) fn standing(file: &File) -> io::Result<PathBuf> {
    let path = real_path(file)?;
    if path.as_os_str().as_encoded_bytes().ends_with(DELETED.as_bytes()) {
        let (held, named) = (file.metadata()?, path.symlink_metadata());
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(path);
        }
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    Ok(path)
}

/// A file or a directory that was found, judged and is held. Nothing of it has been read.
#[derive(Debug)]
pub struct Found {
    pub(super) handle: File,
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
}

impl Found {
    /// Holds what lies at a path without links. Nothing is opened but a handle without any rights.
    pub(super) fn hold(path: &Path) -> io::Result<Self> {
        let handle = open_without_links(CWD, path, OFlags::PATH)?;
        let (path, metadata) = (standing(&handle)?, handle.metadata()?);
        Ok(Self { handle, path, metadata })
    }

    /// Where it really lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Opens it for reading if it is a file. Devices, pipes and sockets are not touched.
    pub fn open(&self) -> io::Result<File> {
        self.check_file()?;
        Ok(File::from(rustix::fs::open(own(&self.handle), READ, Mode::empty())?))
    }

    /// Opens it for writing in place if it is a file.
    pub fn open_to_write(&self) -> io::Result<File> {
        self.check_file()?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::open(own(&self.handle), flags, Mode::empty())?))
    }

    fn check_file(&self) -> io::Result<()> {
        check_file(&self.metadata)
    }

    /// It as a directory.
    pub fn into_dir(self) -> io::Result<Dir> {
        if self.metadata.is_dir() {
            Ok(Dir { handle: self.handle, path: self.path })
        } else {
            Err(io::Error::from(io::ErrorKind::NotADirectory))
        }
    }
}

pub(super) fn check_file(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(io::Error::other(if metadata.is_dir() {
        "it is a directory"
    } else {
        "it is a device, pipe or socket, not a file"
    }))
}

/// A directory that was found, judged and is held.
#[derive(Debug)]
pub struct Dir {
    pub(super) handle: File,
    path: PathBuf,
}

impl Dir {
    /// Where it really lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStringExt;
        let listed = openat(&self.handle, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(listed)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// What lies at a path below, no link followed.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW)?.metadata()
    }

    /// Where a link in it leads, as it is written there.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        read_link(self.handle.as_fd(), name)
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        open_without_links(self.handle.as_fd(), path, flags)
    }
}

fn read_link(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// A place for a file: the directory that is held, and a name in it. Directories between may have to be made first.
#[derive(Debug)]
pub struct Spot {
    pub(super) dir: File,
    /// Where that directory was when the place was judged.
    pub(super) dir_path: PathBuf,
    /// The directories that are not there yet, from the held one on.
    pub(super) missing: Vec<OsString>,
    pub(super) name: OsString,
    pub(super) path: PathBuf,
    pub(super) old: Option<Found>,
}

impl Spot {
    /// Holds the place at a path without links, of which the last `missing` parts are not there.
    pub(super) fn hold(path: PathBuf, missing: usize) -> io::Result<Self> {
        let name =
            path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))?.to_owned();
        let mut dirs: Vec<&Path> = path.ancestors().skip(1).take(missing.max(1)).collect();
        let dir_path = dirs.pop().unwrap_or(Path::new("/")).to_owned();
        let missing_dirs = dirs.iter().rev().filter_map(|dir| dir.file_name().map(OsStr::to_owned)).collect();
        let dir = open_without_links(CWD, &dir_path, OFlags::PATH | OFlags::DIRECTORY)?;
        if standing(&dir)? != dir_path {
            return Err(moved());
        }
        let old = if missing == 0 { Some(Self::old(&dir, &name, &path)?) } else { None };
        Ok(Self { dir, dir_path, missing: missing_dirs, name, path, old })
    }

    fn old(dir: &File, name: &OsStr, path: &Path) -> io::Result<Found> {
        let handle = File::from(openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
        let metadata = handle.metadata()?;
        Ok(Found { handle, path: path.to_owned(), metadata })
    }

    /// Where the file is or will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in its directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What is there.
    pub fn found(&self) -> Option<&Found> {
        self.old.as_ref()
    }

    /// Where the link that is there leads, if one is.
    pub fn link(&self) -> io::Result<Option<PathBuf>> {
        match &self.old {
            Some(old) if old.metadata.is_symlink() => read_link(self.dir.as_fd(), &self.name).map(Some),
            _ => Ok(None),
        }
    }

    /// The directory of the file; those that are missing are made.
    pub fn parent(&self) -> io::Result<Parent> {
        if standing(&self.dir)? != self.dir_path {
            return Err(moved());
        }
        let mut made = Vec::new();
        let mut at = self.dir.try_clone()?;
        for name in &self.missing {
            match mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => made.push((at.try_clone()?, name.clone())),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(unmake(made, error)),
            }
            at = match openat(&at, name, DIRECTORY, Mode::empty()) {
                Ok(next) => File::from(next),
                Err(error) => return Err(unmake(made, error)),
            };
        }
        Ok(Parent { handle: at, made })
    }

    /// Takes the file away; a link, and not what it leads to.
    pub fn remove(&self) -> io::Result<()> {
        let (dir, made) = self.parent()?.split();
        unlinkat(&dir, &self.name, AtFlags::empty()).map_err(|error| {
            made.unmake();
            error.into()
        })
    }
}

fn moved() -> io::Error {
    io::Error::other("its directory was moved or replaced meanwhile")
}

fn unmake(made: Vec<(File, OsString)>, error: Errno) -> io::Error {
    Made(made).unmake();
    error.into()
}

/// The directory of a file.
#[derive(Debug)]
pub struct Parent {
    handle: File,
    made: Vec<(File, OsString)>,
}

impl Parent {
    /// The directory, for calls that take one.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// The directory, and the directories that were made for it.
    pub fn split(self) -> (File, Made) {
        (self.handle, Made(self.made))
    }
}

/// Directories that were made, the outermost first.
#[derive(Debug, Default)]
#[must_use]
pub struct Made(Vec<(File, OsString)>);

impl Made {
    /// Adds those that were made after these.
    pub fn extend(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Takes them away again. Those that others use by now are not empty, and stay.
    pub fn unmake(self) {
        for (dir, name) in self.0.into_iter().rev() {
            let _ = unlinkat(&dir, &name, AtFlags::REMOVEDIR);
        }
    }
}
