//! The plan of an undo, pure: from what was changed and what is there now to steps, and to what stands in their way.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::state::{Change, FileState, State};

/// What became of one path over several changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Before the first of them.
    pub before: State,
    /// After the last of them.
    pub after: State,
    /// Whether somebody else changed it in between.
    pub is_broken: bool,
}

/// Joins changes, given in their order, path by path.
pub fn fold<'a>(changes: impl IntoIterator<Item = &'a Change>) -> BTreeMap<PathBuf, Span> {
    let mut spans: BTreeMap<PathBuf, Span> = BTreeMap::new();
    for change in changes {
        match spans.get_mut(&change.path) {
            None => {
                let (before, after) = (change.before.clone(), change.after.clone());
                spans.insert(change.path.clone(), Span { before, after, is_broken: false });
            }
            Some(span) => {
                span.is_broken |= !span.after.same(&change.before);
                span.after = change.after.clone();
            }
        }
    }
    spans
}

/// One thing to do. They come in an order in which each finds what it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Remove a file or a link.
    Remove(PathBuf),
    /// Remove a directory, if nothing is left in it.
    RemoveDir(PathBuf),
    /// Make a directory that its owner can fill.
    MakeDir(PathBuf),
    /// Put a file in place of what is there.
    Put(PathBuf, FileState),
    /// Put a link in place of what is there.
    Link(PathBuf, PathBuf),
    /// Give a directory its permissions, once it is filled.
    Mode(PathBuf, u32),
}

impl Step {
    /// Where.
    pub fn path(&self) -> &Path {
        match self {
            Self::Remove(path)
            | Self::RemoveDir(path)
            | Self::MakeDir(path)
            | Self::Put(path, _)
            | Self::Link(path, _)
            | Self::Mode(path, _) => path,
        }
    }
}

/// Why a path is not taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is not as the agent left it.
    ChangedSince,
    /// It was changed between two changes of the agent.
    ChangedBetween,
    /// What was there is not kept.
    NotKept,
    /// Something is in its place, or in the place of a directory above it.
    Blocked,
}

impl Why {
    /// Whether going on all the same would only take away what is kept by then.
    fn can_be_forced(self) -> bool {
        matches!(self, Self::ChangedSince | Self::ChangedBetween)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChangedSince => "it was changed since",
            Self::ChangedBetween => "somebody else changed it between two changes of the agent",
            Self::NotKept => "what was there was too large to keep, or no file",
            Self::Blocked => "something else is in its place now",
        })
    }
}

/// What is done about paths that were changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// They are refused.
    Refuse,
    /// They are taken back as well.
    Overwrite,
}

/// What an undo would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to do, in order.
    pub steps: Vec<Step>,
    /// What becomes of each path, by path.
    pub changes: Vec<Change>,
    /// What is refused, by path.
    pub conflicts: Vec<(PathBuf, Why)>,
}

/// What is there now.
pub trait Now {
    /// What a path holds.
    fn state(&self, path: &Path) -> State;
    /// What is in a directory.
    fn inside(&self, dir: &Path) -> Vec<PathBuf>;
}

/// Plans to put paths back as they were before, seen from what is there now.
pub fn plan(spans: &BTreeMap<PathBuf, Span>, disk: &impl Now, changed: Changed) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<&Path, (State, &State)> = BTreeMap::new();
    for (path, span) in spans {
        let now = disk.state(path);
        if now == span.before {
            continue;
        }
        match refusal(span, &now).filter(|why| changed == Changed::Refuse || !why.can_be_forced()) {
            // A refresh that means nothing is not worth a word.
            Some(_) if now.same(&span.before) => {}
            Some(why) => plan.conflicts.push((path.clone(), why)),
            None => drop(wanted.insert(path, (now, &span.before))),
        }
    }
    // What is below something that is no directory, and stays so, cannot be put there.
    let mut can_hold: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut is_blocked = |path: &Path| {
        path.ancestors().skip(1).any(|dir| {
            let holds = |state: &State| matches!(state, State::Dir { .. } | State::Absent);
            !*can_hold
                .entry(dir.to_owned())
                .or_insert_with(|| wanted.get(dir).map_or_else(|| holds(&disk.state(dir)), |(_, to)| holds(to)))
        })
    };
    let put = wanted.iter().filter(|(_, (_, to))| **to != State::Absent).map(|(path, _)| *path);
    let blocked: Vec<&Path> = put.filter(|path| is_blocked(path) || !goes(path, &wanted, disk)).collect();
    for path in blocked {
        wanted.remove(path);
        plan.conflicts.push((path.to_owned(), Why::Blocked));
    }
    plan.conflicts.sort_by(|(one, _), (other, _)| one.cmp(other));
    plan.steps = steps(&wanted);
    plan.changes = wanted
        .into_iter()
        .map(|(path, (now, to))| Change { path: path.to_owned(), before: now, after: to.clone() })
        .collect();
    plan
}

/// Whether what is at a path now leaves it free: a directory that becomes something else must be empty by then.
fn goes(path: &Path, wanted: &BTreeMap<&Path, (State, &State)>, disk: &impl Now) -> bool {
    let Some((State::Dir { .. }, to)) = wanted.get(path) else { return true };
    let is_gone = |path: &PathBuf| {
        wanted.get(path.as_path()).is_some_and(|(_, to)| **to == State::Absent) && goes(path, wanted, disk)
    };
    matches!(to, State::Dir { .. }) || disk.inside(path).iter().all(is_gone)
}

/// Why a path cannot be put back, if it cannot.
fn refusal(span: &Span, now: &State) -> Option<Why> {
    if !span.before.is_kept() {
        return Some(Why::NotKept);
    }
    if span.is_broken {
        return Some(Why::ChangedBetween);
    }
    (!now.same(&span.after)).then_some(Why::ChangedSince)
}

fn steps(wanted: &BTreeMap<&Path, (State, &State)>) -> Vec<Step> {
    let (mut remove, mut remove_dirs, mut make, mut fill, mut modes) = (vec![], vec![], vec![], vec![], vec![]);
    for (path, (now, to)) in wanted {
        let path = || (*path).to_owned();
        let stays = matches!((now, to), (State::Dir { .. }, State::Dir { .. }) | (State::File(_), State::File(_)));
        match now {
            State::Dir { .. } if !stays => remove_dirs.push(Step::RemoveDir(path())),
            State::File(_) | State::Link { .. } | State::Other if !stays => remove.push(Step::Remove(path())),
            _ => {}
        }
        match to {
            State::Absent | State::Other => {}
            State::File(held) => fill.push(Step::Put(path(), held.clone())),
            State::Link { to } => fill.push(Step::Link(path(), to.clone())),
            State::Dir { mode } => {
                if !stays {
                    make.push(Step::MakeDir(path()));
                }
                modes.push(Step::Mode(path(), *mode));
            }
        }
    }
    // A path comes before what is below it, so the reverse empties directories before they go.
    remove_dirs.reverse();
    modes.reverse();
    [remove, remove_dirs, make, fill, modes].concat()
}

#[cfg(test)]
mod tests;
