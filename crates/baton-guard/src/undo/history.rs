//! The history of a project: which turns changed what, which of them are taken back, and taking one back.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::blobs::Blobs;
use super::git::Mirror;
use super::log::{self, Begin, Call, End, Extent, Held, Log, Text, TurnId};
use super::manifest::Manifest;
use super::plan::{Changed, Now, Plan, fold, plan};
use super::record::{self, Place};
use super::restore;
use super::state::{Change, State, path_text};

/// Sessions of this beginning are undos.
const UNDO: &str = "undo_";

/// A turn that changed something, or an undo.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Its name.
    pub id: TurnId,
    /// When its first change began.
    pub at: Timestamp,
    /// What was called, in its order.
    pub calls: Vec<String>,
    /// What was changed, in its order.
    pub changes: Vec<Change>,
    /// What it took back, if it is an undo.
    pub takes_back: Vec<TurnId>,
    /// Whether it is taken back itself.
    pub is_undone: bool,
    /// Whether Baton was killed meanwhile, so that what changed was only seen later.
    pub is_found_later: bool,
    objects: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

impl Turn {
    /// Whether it is an undo.
    pub fn is_undo(&self) -> bool {
        !self.takes_back.is_empty()
    }
}

/// What to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The last turn that changed something and is not taken back.
    Last,
    /// The turn of this number, of a session whose name begins or ends so; of the last one if none is named.
    Turn(Option<String>, u32),
    /// All turns of a session whose name begins or ends so; of the last one if none is named.
    Session(Option<String>),
    /// The last undo.
    Undo,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is nothing to take back.
    #[error("there is nothing to take back")]
    Nothing,
    /// There is no such turn.
    #[error("there is no {0} that changed anything")]
    Unknown(String),
    /// The session is running.
    #[error("the session {0} is still running")]
    Running(String),
    /// Somebody has changed files since, or they are not kept.
    #[error("{} of {} files cannot be taken back", .0.conflicts.len(), .0.conflicts.len() + .0.changes.len())]
    Conflicts(Plan),
    /// A file could not be used.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What came of an undo.
#[derive(Debug, Default, Serialize)]
pub struct Undone {
    /// The turns that are taken back.
    pub turns: Vec<TurnId>,
    /// What was done.
    pub changes: Vec<Change>,
    /// What stays as it is, and why.
    pub left: Vec<(String, String)>,
    /// Whether Baton was killed in one of the turns.
    pub is_found_later: bool,
}

/// How to go about it.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// What becomes of files that were changed since.
    pub changed: Changed,
    /// Whether what is refused is left alone, rather than everything.
    pub skips: bool,
    /// Whether nothing is done.
    pub is_dry: bool,
}

/// All turns of a project that changed something.
#[derive(Debug)]
pub struct History {
    dir: PathBuf,
    turns: Vec<Turn>,
}

impl History {
    /// Reads what is kept in `dir`. What was interrupted is looked into first.
    pub fn read(dir: &Path) -> io::Result<Self> {
        recover(dir)?;
        let mut turns: Vec<Turn> = Vec::new();
        for session in log::sessions(dir) {
            let mut of_session: BTreeMap<u32, Turn> = BTreeMap::new();
            for call in log::read(dir, &session)? {
                add(&mut of_session, &session, call);
            }
            turns.extend(of_session.into_values().filter(|turn| !turn.changes.is_empty() || !turn.objects.is_empty()));
        }
        turns.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
        // Whatever takes a turn back comes after it, and counts unless it was taken back itself.
        let mut undone: BTreeSet<TurnId> = BTreeSet::new();
        for turn in turns.iter_mut().rev() {
            turn.is_undone = undone.contains(&turn.id);
            if !turn.is_undone {
                undone.extend(turn.takes_back.iter().cloned());
            }
        }
        Ok(Self { dir: dir.to_owned(), turns })
    }

    /// The turns, the oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    fn choose(&self, which: &Which) -> Result<Vec<&Turn>, Refusal> {
        let candidates = || self.turns.iter().filter(|turn| !turn.is_undo());
        let open = || candidates().filter(|turn| !turn.is_undone);
        let named = |name: &Option<String>, turn: &Turn| {
            let session = &turn.id.session;
            name.as_ref().is_none_or(|name| session.starts_with(name) || session.ends_with(name))
        };
        match which {
            Which::Last => open().next_back().map(|turn| vec![turn]).ok_or(Refusal::Nothing),
            Which::Undo => {
                let undo = self.turns.iter().rev().find(|turn| turn.is_undo() && !turn.is_undone);
                undo.map(|turn| vec![turn]).ok_or_else(|| Refusal::Unknown("undo".to_owned()))
            }
            Which::Turn(session, number) => {
                let last = candidates().rfind(|turn| named(session, turn)).map(|turn| &turn.id.session);
                let turn = candidates().find(|turn| Some(&turn.id.session) == last && turn.id.turn == *number);
                turn.map(|turn| vec![turn]).ok_or_else(|| Refusal::Unknown(format!("turn {number}")))
            }
            Which::Session(session) => {
                let last = open().rfind(|turn| named(session, turn)).ok_or_else(|| match session {
                    Some(session) => Refusal::Unknown(format!("session {session}")),
                    None => Refusal::Nothing,
                })?;
                Ok(open().filter(|turn| turn.id.session == last.id.session).collect())
            }
        }
    }

    /// Takes turns back, or says what stands in the way.
    pub fn undo(&self, which: &Which, how: How) -> Result<Undone, Refusal> {
        let turns = self.choose(which)?;
        for turn in &turns {
            if Log::open(&self.dir, &turn.id.session)?.is_none() {
                return Err(Refusal::Running(turn.id.session.clone()));
            }
        }
        let blobs = Blobs::new(self.dir.join("blobs"));
        let spans = fold(turns.iter().flat_map(|turn| &turn.changes));
        let plan = plan(&spans, &blobs, how.changed);
        if !plan.conflicts.is_empty() && !how.skips {
            return Err(Refusal::Conflicts(plan));
        }
        let mut undone = Undone {
            turns: turns.iter().map(|turn| turn.id.clone()).collect(),
            left: plan.conflicts.iter().map(|(path, why)| (path_text::of(path), why.to_string())).collect(),
            is_found_later: turns.iter().any(|turn| turn.is_found_later),
            changes: Vec::new(),
        };
        if how.is_dry {
            undone.changes = plan.changes;
            return Ok(undone);
        }
        restore::check(&plan.steps, &blobs)?;
        let (held, what) = (held(&plan.changes), what(&turns));
        let at = Timestamp::now();
        let Some(mut log) = Log::open(&self.dir, &format!("{UNDO}{}", at.as_nanosecond()))? else {
            return Err(Refusal::Running("of another undo".to_owned()));
        };
        let takes_back = undone.turns.clone();
        let scope =
            Extent::Paths(held.iter().map(|(path, state)| Held { path: path.clone(), state: state.clone() }).collect());
        log.begin(&Begin { call: 1, turn: 1, at, what, scope, takes_back })?;
        // Objects first: refs without them would be of no use.
        let mirror = Mirror::new(self.dir.join("objects"));
        let mut done = Ok(Vec::new());
        for (objects, names) in turns.iter().flat_map(|turn| &turn.objects) {
            done = done.and(mirror.put_back(objects, names).map(|()| Vec::new()));
        }
        let done = done.and_then(|_: Vec<PathBuf>| restore::restore(&plan.steps, &blobs));
        // Also when it failed half-way: what was done can be taken back.
        let changes = record::compare(&held, &blobs);
        let end = End {
            call: 1,
            at: Timestamp::now(),
            changes: changes.clone(),
            objects: BTreeMap::new(),
            is_found_later: false,
        };
        log.end(end)?;
        let others = done?.into_iter().map(|dir| (path_text::of(&dir), "others have put something there".to_owned()));
        undone.left.extend(others);
        undone.changes = changes;
        Ok(undone)
    }
}

/// The real disk; what is looked at is kept.
impl Now for Blobs {
    fn state(&self, path: &Path) -> State {
        // What cannot be looked at is nothing that was ever there.
        record::look(path, self).unwrap_or(State::Other)
    }

    fn inside(&self, dir: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }
}

fn held(changes: &[Change]) -> Vec<(PathBuf, State)> {
    changes.iter().map(|change| (change.path.clone(), change.before.clone())).collect()
}

fn what(turns: &[&Turn]) -> String {
    let names: Vec<_> = turns.iter().map(|turn| turn.id.turn.to_string()).collect();
    let session = turns.first().map_or("", |turn| turn.id.session.as_str());
    format!("undo of turn {} of {session}", names.join(", "))
}

fn add(turns: &mut BTreeMap<u32, Turn>, session: &str, call: Call) {
    let Call { begin, end } = call;
    let turn = turns.entry(begin.turn).or_insert_with(|| Turn {
        id: TurnId { session: session.to_owned(), turn: begin.turn },
        at: begin.at,
        calls: Vec::new(),
        changes: Vec::new(),
        takes_back: Vec::new(),
        is_undone: false,
        is_found_later: false,
        objects: BTreeMap::new(),
    });
    turn.takes_back.extend(begin.takes_back);
    let Some(end) = end else { return };
    if !end.changes.is_empty() || !end.objects.is_empty() {
        turn.calls.push(begin.what);
    }
    turn.is_found_later |= end.is_found_later;
    turn.changes.extend(end.changes);
    for (dir, names) in end.objects {
        turn.objects.entry(path_text::to_path(&dir)).or_default().extend(names.into_iter().map(|name| name.0));
    }
}

/// Finds out what calls did whose session was killed before it could write that down.
pub(super) fn recover(dir: &Path) -> io::Result<()> {
    for session in log::interrupted(dir) {
        // Whoever has it open knows what it does.
        let Some(mut log) = Log::open(dir, &session)? else { continue };
        for call in log::read(dir, &session)?.into_iter().filter(|call| call.end.is_none()) {
            log.end(found(dir, &call.begin))?;
        }
        log.close()?;
    }
    Ok(())
}

/// What has changed since an interrupted call began.
fn found(dir: &Path, begin: &Begin) -> End {
    let blobs = Blobs::new(dir.join("blobs"));
    let (mut changes, mut gone) = (Vec::new(), BTreeMap::new());
    match &begin.scope {
        Extent::Paths(held) => {
            let held: Vec<_> = held.iter().map(|held| (held.path.clone(), held.state.clone())).collect();
            changes = record::compare(&held, &blobs);
        }
        Extent::Trees { roots, own, manifest, len, objects } => {
            let paths = |texts: &[Text]| texts.iter().map(|text| text.0.clone()).collect();
            let place = Place { roots: paths(roots), own: paths(own) };
            // Without it, nothing can be said, and nothing can be taken back.
            if let Ok(mut manifest) = Manifest::read(&dir.join("manifest").join(manifest), *len) {
                changes = record::after(&mut manifest, &place, &blobs);
            }
            let mirror = Mirror::new(dir.join("objects"));
            for objects in objects {
                let missing =
                    mirror.held(&objects.0).difference(&Mirror::list(&objects.0)).cloned().map(Text).collect();
                gone.insert(path_text::of(&objects.0), missing);
            }
        }
    }
    End { call: begin.call, at: Timestamp::now(), changes, objects: gone, is_found_later: true }
}
