//! The manifest: what is known about every file by its stamp, so that a file which has not changed is not read again.
//!
//! It is a file of lines that is only added to, so that a moment in it has a place: its length. A session writes a file
//! of its own, which begins with all that an earlier one knew.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::state::{State, path_text};

/// A file that was changed this shortly before it was read can be changed once more without a sign of it: clocks of file
/// systems tick in steps.
const TICK_NS: i64 = 30_000_000;

/// What tells, without reading, that a file is another one or has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp(u64, i64, i64, u64, u32);

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Self(
            metadata.len(),
            ns(metadata.mtime(), metadata.mtime_nsec()),
            ns(metadata.ctime(), metadata.ctime_nsec()),
            metadata.ino(),
            metadata.mode(),
        )
    }

    pub(super) fn written(self) -> i64 {
        self.1
    }

    /// Whether a change after this moment would show.
    fn is_settled(self, now: i64) -> bool {
        now.saturating_sub(self.2.max(self.1)) > TICK_NS
    }
}

/// The time, in nanoseconds.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What is known about a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    pub(super) state: State,
    /// Whether the stamp can be relied on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_fresh: bool,
}

impl Seen {
    pub(super) fn new(stamp: Stamp, state: State, read_at: i64) -> Self {
        Self { stamp, state, is_fresh: !stamp.is_settled(read_at) }
    }

    /// Whether a file with this stamp still is as it was seen.
    pub(super) fn holds(&self, stamp: Stamp) -> bool {
        self.stamp == stamp && !self.is_fresh
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Seen(#[serde(with = "path_text")] PathBuf, Seen),
    Gone(#[serde(with = "path_text")] PathBuf),
    /// What was not looked into, all of it.
    Skipped(Vec<String>),
}

/// What is known about all files.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) seen: HashMap<PathBuf, Seen>,
    /// What was not looked at when the files were last looked through: ignored, unreadable, or more than could be taken.
    /// What lies there must not be taken for new because it is looked at later.
    pub(super) skipped: BTreeSet<PathBuf>,
    file: Option<File>,
    /// What is not written down yet.
    pending: Vec<u8>,
    len: u64,
}

impl Manifest {
    /// Reads the first `len` bytes of a manifest; a last line that is not whole does not count.
    pub(super) fn read(file: &Path, len: u64) -> io::Result<Self> {
        let mut manifest = Self::default();
        let mut lines = BufReader::with_capacity(1 << 16, File::open(file)?.take(len));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            match serde_json::from_slice(&line) {
                Ok(Line::Seen(path, seen)) => drop(manifest.seen.insert(path, seen)),
                Ok(Line::Gone(path)) => drop(manifest.seen.remove(&path)),
                Ok(Line::Skipped(paths)) => {
                    manifest.skipped = paths.iter().map(|path| path_text::to_path(path)).collect();
                }
                // A torn line is the last one; what it would have said is found out again.
                Err(_) => {}
            }
            line.clear();
        }
        Ok(manifest)
    }

    /// Writes all that is known to a new file, and from then on what is learned.
    pub(super) fn begin(&mut self, file: &Path) -> io::Result<()> {
        self.pending.clear();
        for (path, seen) in &self.seen {
            push(&mut self.pending, &Line::Seen(path.clone(), seen.clone()));
        }
        let skipped = std::mem::take(&mut self.skipped);
        self.len = 0;
        self.file = Some(File::options().create(true).truncate(true).write(true).open(file)?);
        self.skip(skipped);
        self.flush().map(drop)
    }

    pub(super) fn learn(&mut self, path: PathBuf, seen: Seen) {
        let line = Line::Seen(path, seen);
        push(&mut self.pending, &line);
        if let Line::Seen(path, seen) = line {
            self.seen.insert(path, seen);
        }
    }

    pub(super) fn forget(&mut self, path: &Path) {
        if self.seen.remove(path).is_some() {
            push(&mut self.pending, &Line::Gone(path.to_owned()));
        }
    }

    pub(super) fn skip(&mut self, skipped: BTreeSet<PathBuf>) {
        if skipped != self.skipped {
            push(&mut self.pending, &Line::Skipped(skipped.iter().map(|path| path_text::of(path)).collect()));
            self.skipped = skipped;
        }
    }

    /// Writes down what was learned; how long the file is then.
    pub(super) fn flush(&mut self) -> io::Result<u64> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.pending)?;
            self.len += self.pending.len() as u64;
        }
        self.pending.clear();
        Ok(self.len)
    }
}

fn push(pending: &mut Vec<u8>, line: &Line) {
    // Writing to memory cannot fail, and every line can be written as JSON.
    if serde_json::to_writer(&mut *pending, line).is_ok() {
        pending.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::state::FileState;

    #[test]
    fn what_was_known_at_a_moment_can_be_read_later() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m");
        let metadata = dir.path().metadata().unwrap();
        let seen = |len| {
            let state = State::File(FileState { hash: None, len, mode: 0o644, sense: None, written: Some(1) });
            Seen::new(Stamp::of(&metadata), state, i64::MAX)
        };
        let mut manifest = Manifest::default();
        manifest.begin(&file).unwrap();
        manifest.learn("/a\n".into(), seen(1));
        manifest.learn("/b".into(), seen(2));
        manifest.skip(["/skipped".into()].into());
        let then = manifest.flush().unwrap();
        manifest.forget(Path::new("/b"));
        manifest.learn("/a\n".into(), seen(3));
        let end = manifest.flush().unwrap();

        let past = Manifest::read(&file, then).unwrap();
        assert_eq!(past.seen[Path::new("/a\n")], seen(1));
        assert_eq!((past.seen.len(), past.skipped.len()), (2, 1));
        let torn = Manifest::read(&file, end - 2).unwrap();
        assert_eq!((torn.seen.len(), &torn.seen[Path::new("/a\n")]), (1, &seen(1)));
        let mut last = Manifest::read(&file, end).unwrap();
        assert_eq!((last.seen.len(), &last.seen[Path::new("/a\n")]), (1, &seen(3)));
        last.begin(&dir.path().join("next")).unwrap();
        let next = Manifest::read(&dir.path().join("next"), u64::MAX).unwrap();
        assert_eq!((next.seen, next.skipped), (last.seen, last.skipped));
    }

    #[test]
    fn a_stamp_of_just_now_is_not_relied_on() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = Stamp::of(&file.as_file().metadata().unwrap());
        assert!(!Seen::new(stamp, State::Absent, stamp.written()).holds(stamp));
        assert!(Seen::new(stamp, State::Absent, stamp.written() + 2 * TICK_NS).holds(stamp));
    }
}
