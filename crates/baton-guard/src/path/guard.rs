//! The path guard: judges what a tool wants to touch and opens it by handle, so that what was judged is what is used.

use std::fmt;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use baton_core::{Access, PermissionMode};
use rustix::io::Errno;

use super::handle::{Found, Spot};
use super::resolve::{self, Judged, Looked};
use super::{Scope, has_mark, is_marked, shown};
use crate::decision::{Decision, Verdict};
use crate::evaluate::{Call, Context, evaluate};
use crate::rule::Rules;

/// How often a path that changes while it is looked up is looked up again.
const TRIES_MAX: usize = 8;

/// How far tools may reach without anybody's leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The workspace and what was added to it; to read, also toolchains and sources of packages.
    Inside,
    /// Everywhere: what nobody's rule denies.
    Anywhere,
}

/// What one call may touch although it would have to be asked for: a person said yes, or a rule did. No grant lets a
/// call touch what is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant(Vec<(PathBuf, Access)>);

impl Grant {
    /// Nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// This path as well, as [`Judged::path`] has it. To write a file is to read it, too. To read a directory is to read what
    /// lies below, except for what would be asked for in the workspace as well.
    #[must_use]
    pub fn path(mut self, real: impl Into<PathBuf>, access: Access) -> Self {
        self.0.push((real.into(), access));
        self
    }

    /// What both have.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    fn settles(&self, decision: &Decision, real: &Path, access: Access) -> bool {
        let lies_below = |dir: &Path| decision.rule == resolve::READ_OUTSIDE && real.starts_with(dir);
        decision.verdict == Verdict::Ask
            && self.0.iter().any(|(path, to)| (*to == access || to.changes()) && (path == real || lies_below(path)))
    }

    fn pass(&self, decision: Decision, real: &Path, access: Access) -> Result<(), Refusal> {
        if decision.verdict == Verdict::Allow || self.settles(&decision, real, access) {
            return Ok(());
        }
        Err(Refusal::Judged(decision))
    }
}

/// Why something was not opened.
#[derive(Debug)]
pub enum Refusal {
    /// The guard does not let it be, or not without asking.
    Judged(Decision),
    /// It may be read, but there is nothing.
    Missing(PathBuf),
    /// The system does not let it be.
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for Refusal {
    /// What happened, why, and what can be done, for a model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Judged(Decision { verdict: Verdict::Deny, reason, .. }) => {
                write!(f, "refused: {reason}. No tool may do this: leave it, or tell the person what is needed")
            }
            Self::Judged(Decision { reason, .. }) => write!(
                f,
                "refused: {reason}, so a person has to allow it, and nobody has. Use another path in the workspace, or tell \
                 the person what is needed"
            ),
            Self::Missing(path) => write!(f, "{} does not exist", shown(path)),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}

/// The guard of the files of one agent.
#[derive(Debug, Clone)]
pub struct PathGuard {
    context: Context,
    /// Shared by all copies, since settings may change during a session.
    rules: Arc<RwLock<Rules>>,
    reach: Reach,
}

impl PathGuard {
    /// A guard for this place, with these rules.
    pub fn new(scope: Scope, rules: Rules, reach: Reach) -> Self {
        Self {
            context: Context { scope, sandboxed: false, hosts: Vec::new() },
            rules: Arc::new(RwLock::new(rules)),
            reach,
        }
    }

    /// From now on these rules count.
    pub fn replace_rules(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    fn rules(&self) -> RwLockReadGuard<'_, Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place.
    pub fn scope(&self) -> &Scope {
        &self.context.scope
    }

    /// Adds a directory that belongs to the workspace.
    pub fn add(&mut self, dir: PathBuf) {
        self.context.scope.added.push(dir);
    }

    /// Adds a directory that may be read.
    pub fn add_readable(&mut self, dir: PathBuf) {
        self.context.scope.readable.push(dir);
    }

    /// What is to happen with an absolute path in this mode, under these rules: by how it is written, by where it leads
    /// now, and by what is there.
    pub fn judge(&self, path: &Path, access: Access, mode: PermissionMode, rules: &Rules) -> Judged {
        resolve::judge(path, access, mode, rules, &self.context)
    }

    /// Finds what may be read and holds it.
    pub fn find(&self, path: &Path, grant: &Grant) -> Result<Found, Refusal> {
        retry(|| {
            let Looked { decision, located } = self.look(path, Access::Read)?;
            grant.pass(decision, &located.path, Access::Read)?;
            if located.missing > 0 {
                return Err(Refusal::Missing(located.path).into());
            }
            let found = Found::hold(&located.path)?;
            if found.path != located.path {
                // Moved after it was looked up. It is judged by where it is.
                grant.pass(self.by_place(&found.path, Access::Read), &found.path, Access::Read)?;
            }
            Ok(found)
        })
    }

    /// Finds the place of a file that may be written and holds it. A link is followed, also one that leads to nothing yet.
    pub fn spot(&self, path: &Path, grant: &Grant) -> Result<Spot, Refusal> {
        retry(|| {
            let Looked { decision, located } = self.look(path, Access::Write)?;
            grant.pass(decision, &located.path, Access::Write)?;
            let spot = Spot::hold(located.path, located.missing)?;
            if let Some(found) = spot.found() {
                if found.metadata.is_symlink() {
                    return Err(Disturbed::Again);
                }
                grant.pass(self.by_kind(found), &spot.path, Access::Write)?;
            }
            Ok(spot)
        })
    }

    /// The same without following a link that is there: it is the link's place.
    pub fn spot_itself(&self, path: &Path, grant: &Grant) -> Result<Spot, Refusal> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return self.spot(path, grant) };
        retry(|| {
            let parent = self.look(dir, Access::Read)?.located;
            let real = parent.path.join(name);
            let decision = self.by_text(path, Access::Write).join(self.by_place(&real, Access::Write));
            grant.pass(decision, &real, Access::Write)?;
            let is_there = parent.missing == 0 && real.symlink_metadata().is_ok();
            Ok(Spot::hold(real, if is_there { 0 } else { parent.missing + 1 })?)
        })
    }

    /// As [`Self::judge`], for a file or a link that would be deleted: it is not followed.
    pub fn judge_deleting(&self, path: &Path, mode: PermissionMode, rules: &Rules) -> Judged {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return self.judge(path, Access::Write, mode, rules);
        };
        let by_text = resolve::by_text(path, Access::Write, mode, rules, &self.context);
        match resolve::locate(dir) {
            Ok(parent) => {
                let real = parent.path.join(name);
                let by_place = evaluate(&Call::Write(real.clone()), mode, rules, &self.context);
                Judged { decision: by_text.join(by_place), path: Some(real) }
            }
            Err(_) => self.judge(path, Access::Write, mode, rules),
        }
    }

    /// What a search below a directory may do with what it comes across.
    pub fn sight<'a>(&'a self, base: &'a Path, grant: &'a Grant) -> Sight<'a> {
        let scope = self.scope();
        let is_plain = !has_mark(base)
            && !self.rules().tighten_reading()
            && !scope.own.iter().any(|own| own.starts_with(base) || base.starts_with(own));
        Sight { guard: self, base, grant, is_plain }
    }

    fn mode(&self) -> PermissionMode {
        // Whether files may be changed at all was decided before a tool runs. Here it is where they lie that counts.
        match self.reach {
            Reach::Inside => PermissionMode::AcceptEdits,
            Reach::Anywhere => PermissionMode::Yolo,
        }
    }

    fn look(&self, path: &Path, access: Access) -> Result<Looked, Refusal> {
        resolve::look(path, access, self.mode(), &self.rules(), &self.context)
    }

    fn by_place(&self, real: &Path, access: Access) -> Decision {
        let call = if access == Access::Read { Call::Read(real.to_owned()) } else { Call::Write(real.to_owned()) };
        evaluate(&call, self.mode(), &self.rules(), &self.context)
    }

    fn by_text(&self, path: &Path, access: Access) -> Decision {
        resolve::by_text(path, access, self.mode(), &self.rules(), &self.context)
    }

    /// What is wrong with writing to what is there, whatever its path.
    fn by_kind(&self, found: &Found) -> Decision {
        let (kind, path) = (found.metadata.file_type(), shown(&found.path));
        if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket() {
            return Decision::deny("path.device", format!("{path} is a device, pipe or socket, not a regular file"));
        }
        if self.reach == Reach::Inside && kind.is_file() && found.metadata.nlink() > 1 {
            return resolve::hard_link(&found.path);
        }
        Decision::allow("path.kind", "it is a file or a directory")
    }
}

/// What a search below one directory may do with what it comes across.
#[derive(Debug)]
pub struct Sight<'a> {
    guard: &'a PathGuard,
    base: &'a Path,
    grant: &'a Grant,
    /// Whether nothing but the names below can make a difference.
    is_plain: bool,
}

impl Sight<'_> {
    /// `Allow`: it may be read. `Ask`: it may only be named. `Deny`: it is not even shown. `path` is from the directory on and
    /// has no links in it.
    pub fn of(&self, path: &Path) -> Verdict {
        if self.is_plain && !has_mark(path) { Verdict::Allow } else { self.judged(path) }
    }

    /// Begins to look at one after the other.
    pub fn glance(&self) -> Glance<'_> {
        Glance { sight: self, last: None }
    }

    fn judged(&self, path: &Path) -> Verdict {
        let real = self.base.join(path);
        let decision = self.guard.by_place(&real, Access::Read);
        if self.grant.settles(&decision, &real, Access::Read) { Verdict::Allow } else { decision.verdict }
    }
}

/// Looks at what a search comes across. Mostly it lies beside what came before, so its directory is known.
#[derive(Debug)]
pub struct Glance<'a> {
    sight: &'a Sight<'a>,
    /// The directory of the last one, and whether it has a component that protected paths have.
    last: Option<(PathBuf, bool)>,
}

impl Glance<'_> {
    /// As [`Sight::of`].
    pub fn of(&mut self, path: &Path) -> Verdict {
        let dir = path.parent().unwrap_or(Path::new(""));
        let is_known = |(at, _): &(PathBuf, bool)| at.as_os_str() == dir.as_os_str();
        let (_, is_marked_dir) = match self.last.take() {
            Some(last) if is_known(&last) => self.last.insert(last),
            _ => self.last.insert((dir.to_owned(), has_mark(dir))),
        };
        let has_mark = *is_marked_dir || path.file_name().is_some_and(|name| is_marked(&name.to_string_lossy()));
        if self.sight.is_plain && !has_mark { Verdict::Allow } else { self.sight.judged(path) }
    }
}

/// Why an attempt to hold something came to nothing.
enum Disturbed {
    /// Something else is there by now.
    Again,
    For(Refusal),
}

impl From<Refusal> for Disturbed {
    fn from(refusal: Refusal) -> Self {
        Self::For(refusal)
    }
}

impl From<io::Error> for Disturbed {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        // It was there, without links, a moment ago.
        let is_loop = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        if is_loop || matches!(error.kind(), Kind::NotFound | Kind::NotADirectory | Kind::Other) {
            Self::Again
        } else {
            Self::For(Refusal::Failed(error))
        }
    }
}

fn retry<T>(mut attempt: impl FnMut() -> Result<T, Disturbed>) -> Result<T, Refusal> {
    for _ in 0..TRIES_MAX {
        match attempt() {
            Ok(held) => return Ok(held),
            Err(Disturbed::For(refusal)) => return Err(refusal),
            Err(Disturbed::Again) => {}
        }
    }
    Err(Refusal::Failed(io::Error::other("what lies there changes all the time: somebody else is at work on it")))
}
