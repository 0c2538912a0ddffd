//! The file system that a command sees: everything read-only, a few places writable, a few empty, a small `/dev`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount, move_mount,
    open_tree,
};

use super::landlock::DEVICES;
use super::plan::{self, Mode};
use super::policy::{Network, Policy};

/// What a mount that a command sees never is.
const TAME: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// Parts of `/run` that hold programs, not services.
const RUN: [&str; 5] = ["current-system", "booted-system", "opengl-driver", "opengl-driver-32", "wrappers"];

/// A part of the file system that can be put in another place.
struct Tree {
    handle: OwnedFd,
    is_dir: bool,
}

/// What the world looks like before it is rearranged.
pub(super) struct Before {
    points: Vec<(PathBuf, String)>,
    sockets: Vec<PathBuf>,
}

impl Before {
    /// Must be called outside of the new namespaces: sockets are listed by network.
    pub(super) fn look() -> io::Result<Self> {
        let points = plan::mount_points(&fs::read_to_string("/proc/self/mountinfo")?);
        let unix = fs::read("/proc/net/unix").unwrap_or_default();
        let sockets = plan::sockets(&String::from_utf8_lossy(&unix));
        let is_socket = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        Ok(Self { points, sockets: sockets.into_iter().filter(is_socket).collect() })
    }
}

/// Rearranges the mounts of this namespace.
pub(super) fn arrange(policy: &Policy, before: Before) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(named("make mounts private"))?;

    // Everything that will be covered and is needed is taken hold of first.
    let devices: Vec<_> =
        DEVICES.iter().filter_map(|name| Some((*name, take(&Path::new("/dev").join(name)).ok()?))).collect();
    let null = Path::new("/dev/null");
    let run: Vec<_> = run_paths(policy).into_iter().filter_map(|path| Some((take(&path).ok()?, path))).collect();
    let temps = [take(&policy.temp)?, take(&policy.temp)?];
    let mut trees = Vec::new();
    for (path, mode) in plan::mounts(policy, before.sockets) {
        // Hidden is what a path leads to. Most are not there, which one call tells, and resolving them takes many.
        if mode == Mode::Hide && fs::metadata(&path).is_err() {
            continue;
        }
        let path = if mode == Mode::Hide { path.canonicalize().unwrap_or(path) } else { path };
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_symlink() {
            continue;
        }
        let tree = match mode {
            Mode::Hide if meta.is_dir() => None,
            Mode::Hide => Some(take(null)?),
            Mode::Write | Mode::ReadOnly => Some(take(&path).map_err(named_path("take", &path))?),
        };
        trees.push((path, mode, tree));
    }

    lock_down(&before.points)?;

    let mut covers = Vec::new();
    make_dev(devices)?;
    covers.push(PathBuf::from("/dev"));
    for (place, tree) in ["/tmp", "/var/tmp"].map(Path::new).into_iter().zip(temps.iter()) {
        if place.is_dir() {
            put(tree, place)?;
            soften(place, MountFlags::empty())?;
        }
    }
    if Path::new("/run").is_dir() {
        cover(Path::new("/run"))?;
        covers.push(PathBuf::from("/run"));
    }
    for (tree, path) in run {
        put(&tree, &path)?;
        soften(&path, MountFlags::RDONLY)?;
    }

    let mut done = HashSet::new();
    for (path, mode, tree) in trees {
        match tree {
            // Two names may lead to the same hidden place, and a socket may lie in one that is hidden as a whole.
            _ if mode == Mode::Hide && (!path.exists() || !done.insert(path.clone())) => {}
            None => {
                cover(&path)?;
                covers.push(path);
            }
            Some(tree) => {
                put(&tree, &path)?;
                match mode {
                    Mode::Hide => {}
                    Mode::Write => soften(&path, MountFlags::empty())?,
                    Mode::ReadOnly => soften(&path, MountFlags::RDONLY)?,
                }
            }
        }
    }
    // Only now, since places for other mounts were made in them.
    covers.iter().filter(|path| path.is_dir()).try_for_each(|path| soften(path, MountFlags::RDONLY))
}

fn run_paths(policy: &Policy) -> Vec<PathBuf> {
    let mut paths: Vec<_> = RUN.iter().map(|name| Path::new("/run").join(name)).collect();
    let resolver = Path::new("/etc/resolv.conf").canonicalize().unwrap_or_default();
    if policy.network == Network::Host && resolver.starts_with("/run") {
        paths.push(resolver);
    }
    paths
}

fn take(path: &Path) -> io::Result<Tree> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let handle = open_tree(CWD, path, flags).map_err(named_path("take", path))?;
    Ok(Tree { handle, is_dir: path.is_dir() })
}

/// Mounts a tree at a path, which is made if it was covered.
fn put(tree: &Tree, path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_err() {
        if tree.is_dir {
            fs::create_dir_all(path).map_err(named_path("make a place for", path))?;
        } else {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            File::create(path).map_err(named_path("make a place for", path))?;
        }
    }
    move_mount(&tree.handle, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(named_path("mount", path))
}

/// An empty directory over another.
fn cover(path: &Path) -> io::Result<()> {
    mount("baton", path, "tmpfs", TAME | MountFlags::NOEXEC, Some(c"mode=755,size=1m"))
        .map_err(named_path("cover", path))
}

/// Takes rights from a mount that has just been put somewhere.
fn soften(path: &Path, flags: MountFlags) -> io::Result<()> {
    let now = statvfs(path).map_err(named_path("look at", path))?.f_flag;
    let keep = [(StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC), (StatVfsMountFlags::RDONLY, MountFlags::RDONLY)];
    let kept = keep.into_iter().filter(|(old, _)| now.contains(*old)).fold(flags, |all, (_, new)| all | new);
    mount_remount(path, MountFlags::BIND | TAME | kept, c"").map_err(named_path("restrict", path))
}

/// Makes all mounts that are there read-only.
fn lock_down(points: &[(PathBuf, String)]) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied};
    for (path, options) in points {
        let noexec =
            if options.split(',').any(|option| option == "noexec") { MountFlags::NOEXEC } else { MountFlags::empty() };
        let flags = MountFlags::BIND | MountFlags::RDONLY | TAME | noexec;
        match mount_remount(path.as_path(), flags, c"").map_err(io::Error::from) {
            Ok(()) => {}
            // Under another mount, or where we may not go: nobody inside gets there either.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidInput) => {}
            Err(error) if error.kind() == PermissionDenied && error.raw_os_error() == Some(libc::EACCES) => {}
            Err(error) => return Err(named_path("make read-only", path)(error)),
        }
    }
    Ok(())
}

fn make_dev(devices: Vec<(&str, Tree)>) -> io::Result<()> {
    let dev = Path::new("/dev");
    mount("baton", dev, "tmpfs", MountFlags::NOSUID | MountFlags::NOEXEC, Some(c"mode=755,size=1m"))
        .map_err(named("cover /dev"))?;
    for (name, tree) in devices {
        put(&tree, &dev.join(name))?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), dev.join(name))?;
    }
    fs::create_dir(dev.join("shm"))?;
    mount("baton", dev.join("shm"), "tmpfs", TAME | MountFlags::NOEXEC, Some(c"mode=1777"))
        .map_err(named("make /dev/shm"))?;
    fs::create_dir(dev.join("pts"))?;
    let options = Some(c"newinstance,ptmxmode=0666,mode=620");
    // Without it there are no new terminals, which few commands need.
    if mount("baton", dev.join("pts"), "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options).is_ok() {
        symlink("pts/ptmx", dev.join("ptmx"))?;
    }
    Ok(())
}

fn named<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("cannot {what}: {error}"))
    }
}

fn named_path<E: Into<io::Error>>(what: &str, path: &Path) -> impl FnOnce(E) -> io::Error {
    let what = format!("{what} {}", path.display());
    move |error| named(&what)(error)
}
