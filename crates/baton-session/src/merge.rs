//! Merging sessions from elsewhere into a project: without duplicates, and all of them or none.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use baton_core::{EventId, SessionId, Timestamp};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::changing::ChangeError;
use crate::codec::{encode, peek};
use crate::entry::{Entry, EntryBody, Header, Origin, Own, VERSION};
use crate::load::header;
use crate::log::lock_path;
use crate::scan::{Forward, Piece};
use crate::sessions::Sessions;
use baton_config::Lock;

/// A session that waits to be merged, in a file that is moved then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The session.
    pub id: SessionId,
    /// Its file.
    pub path: PathBuf,
}

/// A definition that waits to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name below `.baton`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
}

/// What became of one thing that was to be merged.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Merged {
    /// The session as it is called here, or the definition.
    pub what: String,
    /// What was done.
    pub outcome: Outcome,
}

/// What was done with something from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is new here.
    Added,
    /// The same was here already, or more of it.
    Skipped,
    /// Less of it was here; that is in the trash now.
    Extended,
    /// It went another way here: it is kept as a fork of this session.
    Forked(SessionId),
    /// Something else was here; a session of that kind is in the trash now.
    Replaced,
    /// Something else is here, and stays.
    Kept,
}

/// How two files are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Same,
    /// The one from elsewhere has more.
    More,
    /// The one from elsewhere has less.
    Less,
    /// They are the same up to here.
    Other(u64),
}

impl Sessions {
    /// A directory for what is to be merged. It goes when it is dropped, with all that was not.
    pub fn staging(&self) -> io::Result<tempfile::TempDir> {
        fs::create_dir_all(self.state_dir())?;
        tempfile::Builder::new().prefix("import-").tempdir_in(self.state_dir())
    }

    /// Merges what is staged, with the texts in the directory `blobs` beside each, and definitions into the directory
    /// `.baton`. If anything fails, everything is as before.
    pub fn merge(
        &self,
        staged: Vec<Staged>,
        definitions: &[Definition],
        baton_dir: &Path,
        replaces: bool,
        at: Timestamp,
    ) -> Result<Vec<Merged>, ChangeError> {
        let mut merged = Vec::new();
        let mut moves = Moves::default();
        fs::create_dir_all(self.dir())?;
        for one in staged {
            self.move_blobs(&one.path.with_file_name("blobs"))?;
            merged.push(self.merge_one(one, replaces, at, &mut moves)?);
        }
        for one in definitions {
            merged.push(define(one, baton_dir, replaces, &mut moves)?);
        }
        File::open(self.dir())?.sync_all()?;
        moves.is_done = true;
        Ok(merged)
    }

    fn merge_one(
        &self,
        staged: Staged,
        replaces: bool,
        at: Timestamp,
        moves: &mut Moves,
    ) -> Result<Merged, ChangeError> {
        let here = self.path(&staged.id);
        let relation = if here.exists() { Some(relation(&here, &staged.path)?) } else { None };
        let outcome = match relation {
            None => Outcome::Added,
            Some(Relation::Same) => Outcome::Skipped,
            Some(_) if replaces => Outcome::Replaced,
            Some(Relation::Less) => Outcome::Skipped,
            Some(Relation::More) => Outcome::Extended,
            Some(Relation::Other(common)) => {
                let fork = as_fork(self, &staged, common)?;
                let origin = staged.id;
                // Once more: it may be here from the last time, and may have gone on.
                let mut merged = self.merge_one(fork, false, at, moves)?;
                if merged.outcome == Outcome::Added {
                    merged.outcome = Outcome::Forked(origin);
                }
                return Ok(merged);
            }
        };
        if outcome != Outcome::Skipped {
            let _lock = Lock::take(&lock_path(&here))??;
            if here.exists() {
                let trashed = self.discard_locked(&staged.id, at)?;
                moves.done.push((here.clone(), trashed.path));
            }
            File::open(&staged.path)?.sync_all()?;
            fs::rename(&staged.path, &here)?;
            moves.done.push((staged.path, here));
        }
        Ok(Merged { what: staged.id.to_string(), outcome })
    }

    /// Texts have the names of their hashes: those that are here already are the same.
    fn move_blobs(&self, from: &Path) -> io::Result<()> {
        let listing = match fs::read_dir(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listing => listing?,
        };
        for dir in listing {
            let dir = dir?;
            for blob in fs::read_dir(dir.path())? {
                let blob = blob?;
                let into = self.blobs().dir().join(dir.file_name());
                fs::create_dir_all(&into)?;
                let file = File::open(blob.path())?;
                // Old enough to be pruned otherwise, before the session that needs it is here.
                file.set_modified(std::time::SystemTime::now())?;
                file.sync_all()?;
                fs::rename(blob.path(), into.join(blob.file_name()))?;
            }
        }
        Ok(())
    }
}

/// Files that were moved, and are moved back unless all is done.
#[derive(Default)]
struct Moves {
    done: Vec<(PathBuf, PathBuf)>,
    made: Vec<PathBuf>,
    /// What is not needed any more when all is done.
    aside: Vec<PathBuf>,
    is_done: bool,
}

impl Drop for Moves {
    fn drop(&mut self) {
        if self.is_done {
            self.aside.iter().for_each(|path| drop(fs::remove_file(path)));
        } else {
            self.made.iter().rev().for_each(|path| drop(fs::remove_file(path)));
            self.done.iter().rev().for_each(|(from, to)| drop(fs::rename(to, from)));
        }
    }
}

/// How a file from elsewhere is to the one here. A last line that was cut off does not count.
fn relation(here: &Path, elsewhere: &Path) -> io::Result<Relation> {
    let (mut here, mut elsewhere) = (BufReader::new(File::open(here)?), BufReader::new(File::open(elsewhere)?));
    let mut lines = (Vec::new(), Vec::new());
    let mut common = 0;
    loop {
        lines.0.clear();
        lines.1.clear();
        read_line(&mut here, &mut lines.0)?;
        read_line(&mut elsewhere, &mut lines.1)?;
        match (lines.0.is_empty(), lines.1.is_empty()) {
            (true, true) => return Ok(Relation::Same),
            (true, false) => return Ok(Relation::More),
            (false, true) => return Ok(Relation::Less),
            (false, false) if lines.0 != lines.1 => return Ok(Relation::Other(common)),
            (false, false) => common += lines.0.len() as u64,
        }
    }
}

/// The longest piece that is compared at once.
const PIECE_MAX: u64 = 1024 * 1024;

/// A line with its break, or a piece of a long one; nothing if it has no end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<()> {
    let read = reader.take(PIECE_MAX).read_until(b'\n', line)?;
    if (read as u64) < PIECE_MAX && line.last() != Some(&b'\n') {
        line.clear();
    }
    Ok(())
}

/// A session that went another way than the one here, as a fork with an id that follows from its content.
fn as_fork(sessions: &Sessions, staged: &Staged, common: u64) -> io::Result<Staged> {
    let mut file = File::open(&staged.path)?;
    let old = header(&file, sessions.blobs())?;
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut HashWriter(&mut hasher))?;
    let hash = hasher.finalize();
    file.seek(SeekFrom::Start(0))?;
    let mut scan = Forward::new(&file, 0);
    let mut last = None;
    while let Some(piece) = scan.next()? {
        let Piece::Whole(at, line) = piece else { continue };
        let Some(head) = peek(&line) else { continue };
        if last.is_some() && at >= common {
            break;
        }
        last = Some(EventId::new(head.id));
    }
    let time = |id: &str| Ulid::from_string(id.rsplit('_').next().unwrap_or(id)).map_or(0, |ulid| ulid.timestamp_ms());
    let random = |bytes: &[u8]| bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let born = time(staged.id.as_str());
    let id = SessionId::new(format!("ses_{}", Ulid::from_parts(born, random(&hash[..10]))));
    let entry = last.ok_or_else(|| io::Error::other(format!("{} has no entries", staged.id)))?;
    let (cwd, imported) = old.map(|old| (old.cwd, old.imported)).unwrap_or_default();
    let forked = Some(Origin { session: staged.id.clone(), entry });
    let first = Entry {
        id: EventId::new(format!("evt_{}", Ulid::from_parts(born, random(&hash[10..20])))),
        parent: None,
        at: i64::try_from(born).ok().and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or_default(),
        item: None,
        body: EntryBody::Own(Own::Header(Header { v: VERSION, session: id.clone(), cwd, forked, imported })),
    };
    let path = staged.path.with_file_name(format!("{id}.fork"));
    let mut out = File::create(&path)?;
    out.write_all(&encode(&first, sessions.blobs())?.line)?;
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file, &mut out)?;
    if let Ok(used) = file.metadata()?.modified() {
        out.set_modified(used)?;
    }
    Ok(Staged { id, path })
}

struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts a definition where it belongs. Links on the way lead elsewhere, and are refused.
fn define(one: &Definition, baton_dir: &Path, replaces: bool, moves: &mut Moves) -> Result<Merged, ChangeError> {
    let mut dir = baton_dir.to_owned();
    let target = baton_dir.join(&one.name);
    for name in Path::new(&one.name).parent().into_iter().flat_map(Path::components) {
        refuse_link(&dir)?;
        dir.push(name);
    }
    refuse_link(&dir)?;
    refuse_link(&target)?;
    let mut content = Vec::new();
    File::open(&one.path)?.read_to_end(&mut content)?;
    let outcome = match fs::read(&target) {
        Ok(here) if here == content => Outcome::Skipped,
        Ok(_) if !replaces => Outcome::Kept,
        Ok(_) => Outcome::Replaced,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::Added,
        Err(error) => return Err(error.into()),
    };
    if matches!(outcome, Outcome::Added | Outcome::Replaced) {
        fs::create_dir_all(&dir)?;
        let mut file = tempfile::Builder::new().permissions(plain()).tempfile_in(&dir)?;
        file.write_all(&content)?;
        file.as_file().sync_all()?;
        if outcome == Outcome::Replaced {
            let aside = tempfile::Builder::new().prefix(".replaced-").tempfile_in(&dir)?;
            fs::rename(&target, aside.path())?;
            let (_, aside) = aside.keep().map_err(|error| error.error)?;
            moves.done.push((target.clone(), aside.clone()));
            moves.aside.push(aside);
        }
        file.persist_noclobber(&target).map_err(|error| error.error)?;
        moves.made.push(target);
    }
    Ok(Merged { what: format!(".baton/{}", one.name), outcome })
}

fn plain() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(known) if known.is_symlink() => Err(io::Error::other(format!("{} is a link", path.display()))),
        _ => Ok(()),
    }
}
