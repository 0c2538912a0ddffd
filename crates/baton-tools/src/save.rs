//! Saving: a file's contents are replaced as a whole or not at all, and the change is shown as a diff.

use std::ffi::OsStr;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::time::Duration;

use baton_guard::path::{Found, Made, Spot};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;
use serde_json::{Value, json};
use similar::TextDiff;

const DIFF_MAX: usize = 64 * 1024;
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);

/// Puts `contents` in a place, through a temporary file beside it. Keeps the mode of a file that was there, and its owner
/// and group where that is allowed.
pub(crate) fn save(spot: &Spot, contents: &[u8]) -> io::Result<()> {
    let mut made = Made::default();
    let put = prepare(spot, contents, None, &mut made).and_then(Prepared::put);
    if put.is_err() {
        made.unmake();
    }
    put
}

/// Contents that lie ready to become a file's.
pub(crate) enum Prepared<'a> {
    /// All written: a new name is all that is missing.
    Beside { temp: Temp, name: &'a OsStr },
    /// To be written into the file that is there.
    Within { found: &'a Found, contents: &'a [u8] },
}

/// A file without a name for people, which goes unless it is given one.
pub(crate) struct Temp {
    dir: File,
    name: Option<String>,
}

impl Temp {
    /// An empty file in a directory.
    fn new(dir: File) -> io::Result<(Self, File)> {
        const TRIES_MAX: usize = 64;
        // 0o666 is narrowed by the umask, as for any new file.
        let mode = Mode::from_raw_mode(0o666);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TRIES_MAX {
            let name = format!(".baton-{:012x}", fastrand::u64(..) >> 16);
            match openat(&dir, &name, flags, mode) {
                Ok(file) => return Ok((Self { dir, name: Some(name) }, File::from(file))),
                Err(Errno::EXIST | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Gives it its name, in place of whatever has it.
    fn put(mut self, name: &OsStr) -> io::Result<()> {
        if let Some(temp) = &self.name {
            renameat(&self.dir, temp, &self.dir, name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.dir, name, AtFlags::empty());
        }
    }
}

/// Does all of [`save`] that can be done without a change to the file. A new file gets the mode and, where that is allowed,
/// the owner and group of `like`. Notes the directories that it makes.
pub(crate) fn prepare<'a>(
    spot: &'a Spot,
    contents: &'a [u8],
    like: Option<&Metadata>,
    made: &mut Made,
) -> io::Result<Prepared<'a>> {
    let Some(found) = spot.found() else { return beside(spot, contents, like, made) };
    if !found.metadata().is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // A new name would cut the other names of a hard-linked file off from the change.
    if found.metadata().nlink() > 1 {
        return Ok(Prepared::Within { found, contents });
    }
    match beside(spot, contents, Some(found.metadata()), made) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Prepared::Within { found, contents }),
        prepared => prepared,
    }
}

/// The same for a file that is not there, or is there no more.
pub(crate) fn beside<'a>(
    spot: &'a Spot,
    contents: &[u8],
    like: Option<&Metadata>,
    made: &mut Made,
) -> io::Result<Prepared<'a>> {
    let (dir, new) = spot.parent()?.split();
    made.extend(new);
    let (temp, mut file) = Temp::new(dir)?;
    file.write_all(contents)?;
    if let Some(like) = like {
        become_like(&file, like)?;
    }
    Ok(Prepared::Beside { temp, name: spot.name() })
}

impl Prepared<'_> {
    /// Whether the contents are still to be written, so that the disk can turn out to be full.
    pub(crate) fn is_unwritten(&self) -> bool {
        matches!(self, Self::Within { .. })
    }

    /// Makes them the file's.
    pub(crate) fn put(self) -> io::Result<()> {
        match self {
            Self::Beside { temp, name } => temp.put(name),
            Self::Within { found, contents } => overwrite(found, contents),
        }
    }
}

/// Puts a link in a place where there is nothing.
pub(crate) fn put_link(spot: &Spot, to: &Path) -> io::Result<()> {
    Ok(symlinkat(to, spot.parent()?.handle(), spot.name())?)
}

/// Writes into a file that must stay the same file. If the disk fills up, the old contents are put back: their room is
/// still there, since nothing is cut off before all is written.
fn overwrite(found: &Found, contents: &[u8]) -> io::Result<()> {
    let mut file = found.open_to_write()?;
    let mut old = Vec::new();
    file.read_to_end(&mut old)?;
    let put = |bytes: &[u8]| file.write_all_at(bytes, 0).and_then(|()| file.set_len(bytes.len() as u64));
    put(contents).map_err(|error| match put(&old) {
        Ok(()) => error,
        Err(worse) => io::Error::other(format!("{error}; and the old contents could not be put back: {worse}")),
    })
}

/// Gives a new file the owner, group and mode of the old one. Only root can give files away, and others not to any group:
/// what cannot be kept is let go, and with it the bits that lend the owner's or the group's rights to whoever runs it.
fn become_like(new: &File, old: &Metadata) -> io::Result<()> {
    const LENT: u32 = 0o6000;
    let now = new.metadata()?;
    let owner_kept = now.uid() == old.uid() || fchown(new, Some(old.uid()), None).is_ok();
    let group_kept = now.gid() == old.gid() || fchown(new, None, Some(old.gid())).is_ok();
    let mode = if owner_kept && group_kept { old.mode() } else { old.mode() & !LENT };
    // After the owner, since a change of that takes those bits away.
    new.set_permissions(Permissions::from_mode(mode))
}

/// What becomes of a file, for surfaces: `add`, `update` or `delete`.
pub(crate) fn change(target: &Path, kind: &str) -> Value {
    json!({ "path": target.to_string_lossy(), "kind": kind })
}

/// The change as a unified diff for surfaces, cut where it gets long.
pub(crate) fn diff(path: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let changes = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(&*old, &*new);
    let mut text = changes.unified_diff().context_radius(3).header(path, path).to_string();
    if text.len() > DIFF_MAX {
        text.truncate(text.floor_char_boundary(DIFF_MAX));
        text.push_str("\n(the rest of the diff is left out)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use baton_guard::{Grant, PathGuard, Reach, Rules, Scope};

    use super::*;
    use crate::Workspace;

    fn save(path: &Path, contents: &[u8]) -> io::Result<()> {
        let guard = PathGuard::new(Scope::default(), Rules::none(), Reach::Anywhere);
        super::save(&guard.spot(path, &Grant::none()).unwrap(), contents)
    }

    #[test]
    fn keeps_the_mode_and_hard_links() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("run.sh");
        save(&script, b"one").unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        save(&script, b"two").unwrap();
        assert_eq!(script.metadata().unwrap().mode() & 0o777, 0o755);

        let twin = dir.path().join("twin");
        fs::hard_link(&script, &twin).unwrap();
        save(&script, b"three").unwrap();
        assert_eq!(fs::read(&twin).unwrap(), b"three");
        save(&script, b"4").unwrap();
        assert_eq!(fs::read(&twin).unwrap(), b"4");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn keeps_the_owner_and_the_group() {
        const OWNER: u32 = 12_345;
        const GROUP: u32 = 54_321;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("theirs");
        save(&file, b"one").unwrap();
        // Only root can make such a file.
        if std::os::unix::fs::chown(&file, Some(OWNER), Some(GROUP)).is_err() {
            return;
        }
        fs::set_permissions(&file, Permissions::from_mode(0o4750)).unwrap();
        save(&file, b"two").unwrap();
        let saved = file.metadata().unwrap();
        assert_eq!((saved.uid(), saved.gid(), saved.mode() & 0o7777), (OWNER, GROUP, 0o4750));
        assert_eq!(fs::read(&file).unwrap(), b"two");
    }

    #[test]
    fn makes_directories_and_refuses_what_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        save(&dir.path().join("a/b/c"), b"x").unwrap();
        assert!(save(&dir.path().join("a"), b"x").is_err());
    }

    #[test]
    fn nothing_outside_or_protected_is_written_while_links_are_swapped() {
        const ROUNDS: usize = 100_000;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("proj");
        fs::create_dir_all(root.join("dir")).unwrap();
        let others = [root.join("../evil"), root.join(".git/hooks")];
        for (other, link) in others.iter().zip(["out", "hooks"]) {
            fs::create_dir_all(other).unwrap();
            fs::write(other.join("f"), "theirs").unwrap();
            std::os::unix::fs::symlink(other, root.join(link)).unwrap();
        }
        let workspace = Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap();
        let done = AtomicBool::new(false);
        let (mut written, mut refused) = (0, 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut pause = 0;
                while !done.load(Ordering::Relaxed) {
                    for link in ["out", "out", "hooks", "hooks"] {
                        renameat_with(CWD, root.join("dir"), CWD, root.join(link), RenameFlags::EXCHANGE).unwrap();
                        // At all distances; whoever only renames keeps the kernel from everything else.
                        pause = (pause + 97) % 1_000;
                        (0..pause).for_each(|_| std::hint::spin_loop());
                    }
                }
            });
            for number in 0..ROUNDS {
                // Every other round makes a file, and at first a directory on the way to it.
                let path = if number % 2 == 0 { "dir/f".to_owned() } else { format!("dir/new{}/f", number % 100) };
                let Ok(spot) = workspace.spot(&path, &Grant::none()) else {
                    refused += 1;
                    continue;
                };
                written += usize::from(super::save(&spot, b"mine").is_ok());
            }
            done.store(true, Ordering::Relaxed);
        });
        for other in others {
            let names: Vec<_> = fs::read_dir(&other).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!((names, fs::read(other.join("f")).unwrap()), (vec!["f".into()], b"theirs".to_vec()));
        }
        assert!(written > 100 && refused > 100, "{written} written, {refused} refused");
    }
}
