//! The log of a session: what each call was about to change, and what it changed. Lines that are only added to.
//!
//! A call's first line is written before it changes anything, together with all that is needed to find out later what
//! it did; its second line says what that was. A call without a second line was interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::{Change, State, path_text};

/// A call that is about to change something.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Begin {
    /// Its number in the session.
    pub(super) call: u32,
    pub(super) turn: u32,
    pub(super) at: Timestamp,
    /// For people.
    pub(super) what: String,
    pub(super) scope: Extent,
    /// The turns that it takes back, if it is an undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) takes_back: Vec<TurnId>,
}

/// What a call may change.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Extent {
    /// These paths, which held this.
    Paths(Vec<Held>),
    /// Anything in these directories; the manifest of this name and length says what they held.
    Trees {
        roots: Vec<Text>,
        own: Vec<Text>,
        manifest: String,
        len: u64,
        /// Where objects of git are held.
        objects: Vec<Text>,
    },
}

/// A path and what it held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Held {
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    pub(super) state: State,
}

/// A path in a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Text(#[serde(with = "path_text")] pub(super) PathBuf);

/// What a call has changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) call: u32,
    pub(super) at: Timestamp,
    pub(super) changes: Vec<Change>,
    /// Objects of git that are gone, by where they were.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) objects: BTreeMap<String, BTreeSet<Text>>,
    /// Whether nobody was there when it ended, so that others may have changed things, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_found_later: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Begin(Begin),
    End(End),
}

/// The name of a turn: the session and its number there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TurnId {
    /// The session.
    pub session: String,
    /// The number, from 1.
    pub turn: u32,
}

/// A session's log, locked as long as the session lives.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    /// Is there while a call is not over.
    mark: PathBuf,
}

impl Log {
    /// Opens a session's log for writing; none if somebody else has it open.
    pub(super) fn open(dir: &Path, session: &str) -> io::Result<Option<Self>> {
        let file = File::options().create(true).append(true).read(true).open(file_of(dir, session))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file, mark: dir.join("open").join(session) })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        File::create(&self.mark)?;
        self.add(&Line::Begin(begin.clone()))
    }

    pub(super) fn end(&mut self, end: End) -> io::Result<()> {
        self.add(&Line::End(end))?;
        self.close()
    }

    /// No call is running.
    pub(super) fn close(&self) -> io::Result<()> {
        match fs::remove_file(&self.mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn add(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // A line that a kill has cut off ends here, and is skipped by whoever reads.
        if self.file.metadata()?.len() > 0 && !self.ends_whole()? {
            text.insert(0, b'\n');
        }
        self.file.write_all(&text)
    }

    fn ends_whole(&self) -> io::Result<bool> {
        use std::os::unix::fs::FileExt;
        let mut last = [0];
        self.file.read_exact_at(&mut last, self.file.metadata()?.len() - 1)?;
        Ok(last == *b"\n")
    }
}

fn file_of(dir: &Path, session: &str) -> PathBuf {
    dir.join("log").join(format!("{session}.jsonl"))
}

/// A call as it was written down.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) begin: Begin,
    /// Nothing if it was interrupted, or is running.
    pub(super) end: Option<End>,
}

/// The calls of a session, in their order.
pub(super) fn read(dir: &Path, session: &str) -> io::Result<Vec<Call>> {
    let file = match File::open(file_of(dir, session)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut calls: Vec<Call> = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        match serde_json::from_slice(&line?) {
            Ok(Line::Begin(begin)) => calls.push(Call { begin, end: None }),
            Ok(Line::End(end)) => {
                if let Some(call) = calls.iter_mut().rfind(|call| call.begin.call == end.call) {
                    call.end = Some(end);
                }
            }
            // Cut off by a kill, which can only have been the last line of its time.
            Err(_) => {}
        }
    }
    Ok(calls)
}

/// All sessions that have a log.
pub(super) fn sessions(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("log")).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned());
    let mut sessions: Vec<_> = entries.filter_map(name).collect();
    sessions.sort();
    sessions
}

/// The sessions that have a call which is not over.
pub(super) fn interrupted(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("open")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Forgets a session.
pub(super) fn remove(dir: &Path, session: &str) -> io::Result<()> {
    drop(fs::remove_file(dir.join("open").join(session)));
    fs::remove_file(file_of(dir, session))
}
