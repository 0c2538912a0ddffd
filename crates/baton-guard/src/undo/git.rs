//! What git keeps: where that is, what its index means, and its objects, held by a second name so that none is lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::state::Hash;

/// Git's own pointers are a line.
const POINTER_MAX: u64 = 4096;

/// Where git keeps what it knows about a working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    /// All of it; shared by working directories that are linked.
    pub(super) dir: PathBuf,
    pub(super) index: PathBuf,
    pub(super) work_dir: PathBuf,
}

/// The repository of a working directory. A file `.git` that points to where nobody knows of it does not count: anybody
/// could write one.
pub(super) fn repository(work_dir: &Path) -> Option<Repository> {
    let dot_git = work_dir.join(".git");
    let metadata = dot_git.symlink_metadata().ok()?;
    let (dir, own) = if metadata.is_dir() {
        (dot_git.clone(), dot_git)
    } else {
        let own = work_dir.join(pointer(&dot_git, "gitdir:")?).canonicalize().ok()?;
        let back = pointer(&own.join("gitdir"), "")?.canonicalize().ok()?;
        if back != dot_git.canonicalize().ok()? {
            return None;
        }
        let common = pointer(&own.join("commondir"), "").and_then(|common| own.join(common).canonicalize().ok());
        (common.unwrap_or_else(|| own.clone()), own)
    };
    Some(Repository { dir, index: own.join("index"), work_dir: work_dir.to_owned() })
}

fn pointer(file: &Path, mark: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(POINTER_MAX).read_to_end(&mut bytes).ok()?;
    let text = bytes.strip_prefix(mark.as_bytes())?.trim_ascii();
    (!text.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(text)))
}

/// Whether this is where a repository has its objects.
pub(super) fn is_objects(dir: &Path) -> bool {
    dir.file_name() == Some(OsStr::new("objects")) && dir.with_file_name("HEAD").is_file()
}

/// Whether this is an object, loose or packed, of which a second name is kept.
pub(super) fn is_mirrored(path: &Path) -> bool {
    let above = path.parent().and_then(Path::parent);
    let is_loose = |name: &OsStr| name.len() == 2 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
    let holds = |dir: &Path| dir.file_name().is_some_and(|name| name == "pack" || is_loose(name));
    path.parent().is_some_and(holds) && above.is_some_and(is_objects)
        || path.file_name().is_some_and(is_loose) && path.parent().is_some_and(is_objects)
}

/// Names that come and go while git works.
pub(super) fn is_passing(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".lock") || name == b"gc.pid" || name.starts_with(b"fsmonitor--daemon") || name == b"lfs"
}

/// What an index says: its entries, without what git only remembers about files to be quick. None if it is no index that
/// we can read.
pub(super) fn index(bytes: &[u8]) -> Option<Index> {
    const FIXED: usize = 62;
    const HASH: usize = 20;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let version = number(4).filter(|version| bytes.starts_with(b"DIRC") && (2..=4).contains(version))?;
    let count = number(8)?;
    let (mut at, mut sense, mut name) = (12, Sha256::new(), Vec::new());
    let mut names = Vec::new();
    for _ in 0..count {
        let entry = bytes.get(at..at + FIXED)?;
        sense.update(&entry[24..28]);
        sense.update(&entry[40..62]);
        let is_extended = entry[60] & 0x40 != 0;
        let mut end = at + FIXED;
        if is_extended {
            sense.update(bytes.get(end..end + 2)?);
            end += 2;
        }
        if version == 4 {
            let (strip, used) = varint(bytes.get(end..)?)?;
            name.truncate(name.len().checked_sub(strip)?);
            end += used;
        } else {
            name.clear();
        }
        let length = memchr::memchr(0, bytes.get(end..)?)?;
        name.extend_from_slice(&bytes[end..end + length]);
        end += length + 1;
        // Filled up with zeros to a multiple of eight.
        at = if version == 4 { end } else { at + (end - at).next_multiple_of(8) };
        sense.update(&name);
        sense.update([0]);
        names.push(PathBuf::from(OsStr::from_bytes(&name)));
    }
    // What follows must be extensions up to the checksum, else this was not what we took it for.
    while at + HASH < bytes.len() {
        at += 8 + usize::try_from(number(at + 4)?).ok()?;
    }
    (at + HASH == bytes.len()).then(|| Index { sense: Hash::finish(sense), names })
}

/// What an index says.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) sense: Hash,
    /// The files that git knows, from its working directory.
    pub(super) names: Vec<PathBuf>,
}

/// Git's number of variable length; and how many bytes it took.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let (mut value, mut used) = (0_usize, 0);
    loop {
        let byte = *bytes.get(used)?;
        used += 1;
        value = value.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, used));
        }
        value = value.checked_add(1)?.checked_mul(128)?;
    }
}

/// The objects of repositories, each held by a second name (a hard link; a copy where that cannot be) in a place of ours:
/// they never change, so this costs nothing until git would delete one.
#[derive(Debug)]
pub(super) struct Mirror {
    dir: PathBuf,
    known: HashMap<PathBuf, Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The names below each directory of objects, and when it had them.
    dirs: BTreeMap<OsString, (Option<SystemTime>, BTreeSet<OsString>)>,
}

impl Mirror {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, known: HashMap::new() }
    }

    fn place(&self, objects: &Path) -> PathBuf {
        self.dir.join(&Hash::of(objects.as_os_str().as_bytes()).to_string()[..16])
    }

    /// Holds every object that a repository has now.
    pub(super) fn hold(&mut self, objects: &Path) -> io::Result<()> {
        let place = self.place(objects);
        let known = self.known.entry(objects.to_owned()).or_default();
        let now = dirs_of(objects);
        known.dirs.retain(|dir, _| now.contains_key(dir));
        for (dir, changed) in now {
            let entry = known.dirs.entry(dir.clone()).or_default();
            if entry.0.is_some() && entry.0 == changed {
                continue;
            }
            fs::create_dir_all(place.join(&dir))?;
            let names = names_in(&objects.join(&dir));
            for name in names.difference(&names_in(&place.join(&dir))) {
                hold_one(&objects.join(&dir).join(name), &place.join(&dir).join(name))?;
            }
            // A directory that changes right now can change again within the same tick of the clock.
            let is_settled = changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age.as_millis() > 100);
            *entry = (changed.filter(|_| is_settled), names);
        }
        Ok(())
    }

    /// The names of objects that are gone since they were last held.
    pub(super) fn gone(&self, objects: &Path) -> BTreeSet<PathBuf> {
        let (now, mut gone) = (dirs_of(objects), BTreeSet::new());
        for (dir, (changed, names)) in self.known.get(objects).into_iter().flat_map(|known| &known.dirs) {
            if changed.is_none() || now.get(dir) != Some(changed) {
                let there = names_in(&objects.join(dir));
                gone.extend(names.difference(&there).map(|name| Path::new(dir).join(name)));
            }
        }
        gone
    }

    /// The names of objects that a repository has now.
    pub(super) fn list(objects: &Path) -> BTreeSet<PathBuf> {
        let below =
            |dir: OsString| names_in(&objects.join(&dir)).into_iter().map(move |name| Path::new(&dir).join(name));
        dirs_of(objects).into_keys().flat_map(below).collect()
    }

    /// All that is held of a repository.
    pub(super) fn held(&self, objects: &Path) -> BTreeSet<PathBuf> {
        Self::list(&self.place(objects))
    }

    /// Puts objects back that are missing.
    pub(super) fn put_back(&self, objects: &Path, names: &BTreeSet<PathBuf>) -> io::Result<()> {
        let place = self.place(objects);
        for name in names {
            let (held, there) = (place.join(name), objects.join(name));
            if there.symlink_metadata().is_err() && held.is_file() {
                if let Some(dir) = there.parent() {
                    fs::create_dir_all(dir)?;
                }
                hold_one(&held, &there)?;
            }
        }
        Ok(())
    }

    /// Lets go of what only we have and nobody needs.
    pub(super) fn prune(dir: &Path, is_needed: impl Fn(&Path) -> bool) {
        use std::os::unix::fs::MetadataExt;
        for place in fs::read_dir(dir).into_iter().flatten().flatten() {
            for name in Self::list(&place.path()) {
                let file = place.path().join(&name);
                if file.metadata().is_ok_and(|metadata| metadata.nlink() == 1) && !is_needed(&name) {
                    // One that cannot be removed stays until the next time.
                    drop(fs::remove_file(file));
                }
            }
        }
    }
}

/// The directories in which objects lie, and when each last changed.
fn dirs_of(objects: &Path) -> BTreeMap<OsString, Option<SystemTime>> {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let holds = |name: &OsStr| name == "pack" || name.len() == 2 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
    entries
        .filter(|entry| holds(&entry.file_name()))
        .map(|entry| (entry.file_name(), entry.metadata().and_then(|metadata| metadata.modified()).ok()))
        .collect()
}

fn names_in(dir: &Path) -> BTreeSet<OsString> {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| !name.as_bytes().starts_with(b"tmp_") && !is_passing(name)).collect()
}

fn hold_one(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists || !from.exists() => Ok(()),
        Err(_) => {
            let dir = to.parent().unwrap_or(Path::new("/"));
            let temp = tempfile::Builder::new().prefix("tmp_").tempfile_in(dir)?;
            fs::copy(from, temp.path())?;
            temp.persist(to).map(drop).map_err(|failed| failed.error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, args: &[&str]) {
        let mut command = Command::new("git");
        command.current_dir(dir).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn an_index_means_its_entries_in_every_version() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        for name in ["a", "b/c", "b/c d", "b/long-name-that-shares-a-beginning", "b/long-name-that-shares"] {
            fs::create_dir_all(dir.path().join("b")).unwrap();
            fs::write(dir.path().join(name), name).unwrap();
        }
        git(dir.path(), &["add", "."]);
        let read = || index(&fs::read(dir.path().join(".git/index")).unwrap()).unwrap();
        let first = read();
        assert_eq!(first.names.len(), 5);
        assert_eq!(first.names[3], Path::new("b/long-name-that-shares"));
        // Another time of the file changes the bytes, and nothing that is meant.
        let bytes = fs::read(dir.path().join(".git/index")).unwrap();
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        File::options().write(true).open(dir.path().join("a")).unwrap().set_modified(later).unwrap();
        git(dir.path(), &["update-index", "--refresh"]);
        assert_ne!(fs::read(dir.path().join(".git/index")).unwrap(), bytes);
        assert_eq!(read().sense, first.sense);
        git(dir.path(), &["update-index", "--index-version", "4"]);
        let fourth = read();
        assert_eq!((&fourth.names, fourth.sense), (&first.names, first.sense));
        git(dir.path(), &["rm", "-q", "--cached", "a"]);
        assert_ne!(read().sense, first.sense);
        for end in 0..bytes.len() {
            assert!(index(&bytes[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn objects_that_git_prunes_can_be_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("r");
        fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q"]);
        fs::write(repository.join("a"), "1").unwrap();
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-qm", "one"]);
        git(&repository, &["commit", "-q", "--amend", "-m", "two"]);
        let objects = repository.join(".git/objects");
        let mut mirror = Mirror::new(dir.path().join("m"));
        mirror.hold(&objects).unwrap();
        let before = Mirror::list(&objects);
        assert_eq!(before.len(), 4);
        assert_eq!(mirror.gone(&objects), BTreeSet::new());
        git(&repository, &["reflog", "expire", "--expire=now", "--all"]);
        git(&repository, &["gc", "-q", "--prune=now"]);
        let gone = mirror.gone(&objects);
        assert_eq!(gone, before);
        assert_eq!(Mirror::new(dir.path().join("m")).held(&objects), before);
        mirror.put_back(&objects, &gone).unwrap();
        assert!(Mirror::list(&objects).is_superset(&before));
        git(&repository, &["fsck", "--strict"]);
        fs::remove_dir_all(&objects).unwrap();
        Mirror::prune(&dir.path().join("m"), |name| name.starts_with("pack"));
        assert_eq!(mirror.held(&objects).len(), 0);
    }
}
