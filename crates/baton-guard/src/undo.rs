//! Undo: what a call is about to change is kept before it runs, so that the person can have it back.
//!
//! Everything is in the project's state directory, never in the repository: `blobs/` (bytes by their hash), `manifest/`
//! (what each file held, by its stamp), `log/` (what each turn changed), `objects/` (second names of git's objects) and
//! `open/` (sessions with a call that is not over). Nothing of it is needed to work: it can be deleted at any time.
//!
//! What was kept survives `kill -9` at any moment: a call runs only after its first line is written, and the next who
//! comes along finds out what it did. Power loss is not provided for: that would cost a sync for every command.

mod blobs;
mod git;
mod history;
mod log;
mod manifest;
mod named;
mod plan;
mod prune;
mod record;
mod restore;
mod state;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

pub use history::{History, How, Refusal, Turn, Undone, Which};
pub use log::TurnId;
pub use named::{Ignored, Named, Summary, Target, bytes_in_words, what_cannot_be_restored};
pub use plan::{Changed, Now, Plan, Span, Step, Why, fold, plan};
pub use state::{Change, FileState, Hash, State, path_text};

use blobs::Blobs;
use git::Mirror;
use log::{Begin, End, Extent, Held, Log, Text};
use manifest::Manifest;
use record::{Place, Tracked};

/// The bytes of a larger file are not kept.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// No more new bytes are kept at once, so that the first time in a large project has an end.
pub const SNAPSHOT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Ignored files are kept up to this size in all...
pub const IGNORED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// ... and up to this number.
pub const IGNORED_ENTRIES_MAX: usize = 20_000;
/// What may be on the disk in all; then the oldest sessions go.
pub const DISK_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// How much of a command is written down for people.
const WHAT_MAX: usize = 200;

/// What one session changes, written down as it goes. Calls come one after another.
#[derive(Debug)]
pub struct Undo {
    dir: PathBuf,
    session: String,
    place: Place,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    turn: u32,
    calls: u32,
    /// What is there once something has to be kept.
    opened: Option<Opened>,
    manifest: Option<Manifest>,
    tracked: Tracked,
    mirror: Mirror,
    /// The call that is not over.
    running: Option<Running>,
}

#[derive(Debug)]
struct Opened {
    log: Log,
    /// How many turns the session had before.
    turns_before: u32,
}

#[derive(Debug)]
enum Running {
    Paths { call: u32, held: Vec<(PathBuf, State)> },
    Trees { call: u32, objects: Vec<PathBuf> },
}

impl Undo {
    /// For a session that works in `roots`. Everything is kept in `dir`, which is made when it is needed; what lies in
    /// `own` is never looked at.
    pub fn new(dir: &Path, session: &str, roots: Vec<PathBuf>, own: Vec<PathBuf>) -> Self {
        let place = Place { roots, own: [own, vec![dir.to_owned()]].concat() };
        let inner = Inner {
            turn: 0,
            calls: 0,
            opened: None,
            manifest: None,
            tracked: Tracked::new(),
            mirror: Mirror::new(dir.join("objects")),
            running: None,
        };
        Self { dir: dir.to_owned(), session: session.to_owned(), place, inner: Mutex::new(inner) }
    }

    /// What is changed from now on belongs to the next turn.
    pub fn begin_turn(&self) {
        self.lock().turn += 1;
    }

    /// Keeps files as they are, before they are changed, made or deleted.
    pub fn before_files(&self, what: &str, paths: &[&Path]) -> io::Result<()> {
        let mut inner = self.lock();
        self.open(&mut inner)?;
        let blobs = Blobs::new(self.dir.join("blobs"));
        let paths: BTreeSet<PathBuf> = paths.iter().flat_map(|path| record::with_missing_dirs(path)).collect();
        let held = paths.into_iter().map(|path| Ok((record::look(&path, &blobs)?, path)));
        let held = held.map(|held: io::Result<_>| held.map(|(state, path)| (path, state)));
        let held: Vec<(PathBuf, State)> = held.collect::<io::Result<_>>()?;
        let extent =
            Extent::Paths(held.iter().map(|(path, state)| Held { path: path.clone(), state: state.clone() }).collect());
        let call = inner.begin(what, extent)?;
        inner.running = Some(Running::Paths { call, held });
        Ok(())
    }

    /// Keeps all that a command could change. What could not be kept.
    pub fn before_command(&self, command: &str, named: &Named) -> io::Result<Summary> {
        let mut inner = self.lock();
        self.open(&mut inner)?;
        let inner = &mut *inner;
        let blobs = Blobs::new(self.dir.join("blobs"));
        if inner.manifest.is_none() {
            inner.manifest = Some(self.first_manifest()?);
        }
        let Some(manifest) = inner.manifest.as_mut() else { return Ok(Summary::default()) };
        let snapshot = record::before(manifest, &self.place, &blobs, named, &mut inner.tracked)?;
        let len = manifest.flush()?;
        for dir in &snapshot.objects {
            inner.mirror.hold(dir)?;
        }
        let texts = |paths: &[PathBuf]| paths.iter().cloned().map(Text).collect();
        let extent = Extent::Trees {
            roots: texts(&self.place.roots),
            own: texts(&self.place.own),
            manifest: self.manifest_name(),
            len,
            objects: texts(&snapshot.objects),
        };
        let call = inner.begin(command, extent)?;
        inner.running = Some(Running::Trees { call, objects: snapshot.objects });
        Ok(snapshot.summary)
    }

    /// What a command would destroy that could not be brought back. Nothing is kept yet.
    pub fn foresee(&self, named: &Named) -> Summary {
        record::foresee(&self.place, named)
    }

    /// Writes down what the call has changed; how many paths that is.
    pub fn after(&self) -> io::Result<usize> {
        let mut inner = self.lock();
        self.finish(&mut inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the log. A call of this session that was given up is over by now.
    fn open(&self, inner: &mut Inner) -> io::Result<()> {
        self.finish(inner)?;
        if inner.opened.is_some() {
            return Ok(());
        }
        make_dirs(&self.dir)?;
        history::recover(&self.dir)?;
        let Some(log) = Log::open(&self.dir, &self.session)? else {
            return Err(io::Error::other(format!("the session {} is open elsewhere", self.session)));
        };
        let calls = log::read(&self.dir, &self.session)?;
        let turns_before = calls.iter().map(|call| call.begin.turn).max().unwrap_or(0);
        inner.calls = calls.iter().map(|call| call.begin.call).max().unwrap_or(0);
        inner.opened = Some(Opened { log, turns_before });
        prune::prune(&self.dir, &self.session, DISK_BYTES_MAX);
        Ok(())
    }

    fn finish(&self, inner: &mut Inner) -> io::Result<usize> {
        let Some(running) = inner.running.take() else { return Ok(0) };
        let blobs = Blobs::new(self.dir.join("blobs"));
        let (call, changes, objects) = match running {
            Running::Paths { call, held } => (call, record::compare(&held, &blobs), BTreeMap::new()),
            Running::Trees { call, objects } => {
                let Some(manifest) = inner.manifest.as_mut() else { return Ok(0) };
                let changes = record::after(manifest, &self.place, &blobs);
                manifest.flush()?;
                (call, changes, gone(&inner.mirror, &objects))
            }
        };
        let count = changes.len();
        let end = End { call, at: Timestamp::now(), changes, objects, is_found_later: false };
        match inner.opened.as_mut() {
            Some(opened) => opened.log.end(end).map(|()| count),
            None => Ok(count),
        }
    }

    /// Which manifests are about the same directories.
    fn manifest_end(&self) -> String {
        let roots: Vec<u8> =
            self.place.roots.iter().flat_map(|root| [root.as_os_str().as_bytes(), b"\0"].concat()).collect();
        format!(".{}", &Hash::of(&roots).to_string()[..16])
    }

    fn manifest_name(&self) -> String {
        format!("{}{}", self.session, self.manifest_end())
    }

    /// What an earlier session knew, written down anew for this one.
    fn first_manifest(&self) -> io::Result<Manifest> {
        let dir = self.dir.join("manifest");
        let end = self.manifest_end();
        let files = fs::read_dir(&dir)?.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(&end));
        let mut files: Vec<_> =
            files.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
        files.sort();
        let newest = files.last().and_then(|(_, file)| Manifest::read(file, u64::MAX).ok());
        let mut manifest = newest.unwrap_or_default();
        manifest.begin(&dir.join(self.manifest_name()))?;
        // Those of sessions that are over have done their work.
        let open = log::interrupted(&self.dir);
        for (_, file) in files.iter().filter(|(_, file)| *file != dir.join(self.manifest_name())) {
            let session = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if !open.iter().any(|open| open == session) && matches!(Log::open(&self.dir, session), Ok(Some(_))) {
                drop(fs::remove_file(file));
            }
        }
        Ok(manifest)
    }
}

impl Inner {
    /// Writes a call's first line; the number of the call.
    fn begin(&mut self, what: &str, scope: Extent) -> io::Result<u32> {
        let Some(opened) = self.opened.as_mut() else { return Err(io::Error::other("the log is not open")) };
        self.calls += 1;
        let what = &what[..what.floor_char_boundary(WHAT_MAX)];
        let turn = opened.turns_before + self.turn.max(1);
        let (call, at, what) = (self.calls, Timestamp::now(), what.to_owned());
        opened.log.begin(&Begin { call, turn, at, what, scope, takes_back: Vec::new() })?;
        Ok(call)
    }
}

/// The objects that are gone since they were held, by where they were.
fn gone(mirror: &Mirror, objects: &[PathBuf]) -> BTreeMap<String, BTreeSet<Text>> {
    let gone = objects.iter().map(|dir| (path_text::of(dir), mirror.gone(dir).into_iter().map(Text).collect()));
    gone.filter(|(_, names): &(_, BTreeSet<_>)| !names.is_empty()).collect()
}

fn make_dirs(dir: &Path) -> io::Result<()> {
    for below in ["blobs", "manifest", "log", "objects", "open"] {
        // What a person works on is nobody else's business.
        DirBuilder::new().recursive(true).mode(0o700).create(dir.join(below))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
