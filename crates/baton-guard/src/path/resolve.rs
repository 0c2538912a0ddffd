//! Where paths really lead, and what is to happen with them: by how they are written and by where they lead.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use baton_core::{Access, PermissionMode};

use super::guard::Refusal;
use super::{normalise, shown};
use crate::decision::{Decision, Verdict};
use crate::evaluate::{Call, Context, evaluate};
use crate::rule::Rules;

/// The longest path that is looked at; the system takes no longer one.
const LENGTH_MAX: usize = 4096;
const LINKS_MAX: usize = 40;

/// The rule that asks before something outside is read.
pub(super) const READ_OUTSIDE: &str = "path.read-outside";

/// Rules about where a path lies. Only where it really lies counts, not how it is written.
const OF_PLACE: [&str; 3] = [READ_OUTSIDE, "path.write-outside", "path.role"];

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub struct Located {
    /// The path with every link resolved.
    pub path: PathBuf,
    /// How many of its last parts do not exist.
    pub missing: usize,
}

/// Follows the links of a path, also of one whose last parts do not exist yet and of a link that leads nowhere.
pub fn locate(path: &Path) -> io::Result<Located> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let mut missing = Vec::new();
        let mut at = path.as_path();
        loop {
            match at.canonicalize() {
                Ok(real) => {
                    let found = missing.iter().rev().fold(real, |dir, name| dir.join(name));
                    if !missing.iter().any(|name| name == "..") {
                        return Ok(Located { path: found, missing: missing.len() });
                    }
                    // Up from what does not exist, and so perhaps to what does.
                    path = normalise(&found);
                    break;
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(error) => {
                    if at.is_symlink() {
                        let link = at.parent().unwrap_or(at).canonicalize()?.join(at.read_link()?);
                        path = missing.iter().rev().fold(link, |dir, name| dir.join(name));
                        break;
                    }
                    let (Some(parent), Some(name)) = (at.parent(), at.components().next_back()) else {
                        return Err(error);
                    };
                    missing.push(name.as_os_str().to_owned());
                    at = parent;
                }
            }
        }
    }
    Err(io::Error::other("it has too many links"))
}

/// What was decided about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What is to happen.
    pub decision: Decision,
    /// Where it really leads, if that can be told: what a [`Grant`](super::Grant) is given for.
    pub path: Option<PathBuf>,
}

/// A path that was looked up.
pub(super) struct Looked {
    /// What is to happen, whatever is there.
    pub(super) decision: Decision,
    pub(super) located: Located,
}

/// Decides about a path as a tool was given it: by how it is written, by where it leads now, and by what is there.
pub fn decide(text: &str, access: Access, mode: PermissionMode, rules: &Rules, context: &Context) -> Decision {
    if text.is_empty() {
        return malformed("it is no path");
    }
    judge(&context.scope.cwd.join(text), access, mode, rules, context).decision
}

/// The same for an absolute path.
pub(super) fn judge(path: &Path, access: Access, mode: PermissionMode, rules: &Rules, context: &Context) -> Judged {
    match look(path, access, mode, rules, context) {
        Ok(Looked { decision, located }) => {
            Judged { decision: decision.join(by_kind(&located, access)), path: Some(located.path) }
        }
        Err(Refusal::Judged(decision)) => Judged { decision, path: None },
        Err(Refusal::Missing(_)) => Judged { decision: missing(path), path: None },
        Err(Refusal::Failed(error)) => {
            let reason = format!("{} cannot be followed: {error}", shown(path));
            Judged { decision: Decision::deny("path.unresolvable", reason), path: None }
        }
    }
}

/// Looks a path up and judges it by how it is written and by where it leads.
pub(super) fn look(
    path: &Path,
    access: Access,
    mode: PermissionMode,
    rules: &Rules,
    context: &Context,
) -> Result<Looked, Refusal> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.contains(&0) {
        return Err(Refusal::Judged(malformed("it is no path")));
    }
    if bytes.len() > LENGTH_MAX {
        return Err(Refusal::Judged(malformed("the path is longer than the system takes")));
    }
    if bytes.windows(3).any(|part| part == b"://") {
        return Err(Refusal::Judged(malformed("it is an address, not a path")));
    }
    let by_text = by_text(path, access, mode, rules, context);
    let judge = |path: PathBuf| evaluate(&question(path, access), mode, rules, context);
    match locate(path) {
        Ok(located) => Ok(Looked { decision: by_text.join(judge(located.path.clone())), located }),
        // Why it cannot be followed is told only of what may be known.
        Err(error) => match by_text.join(judge(normalise(path))) {
            Decision { verdict: Verdict::Allow, .. } => Err(Refusal::Failed(error)),
            decision => Err(Refusal::Judged(decision)),
        },
    }
}

/// As it is written counts, too: a link in place of a protected directory protects what it leads to.
pub(super) fn by_text(path: &Path, access: Access, mode: PermissionMode, rules: &Rules, context: &Context) -> Decision {
    let normal = normalise(path);
    let written = (path.components().any(|part| part == Component::ParentDir)).then(|| path.to_owned());
    [Some(normal), written]
        .into_iter()
        .flatten()
        .map(|path| evaluate(&question(path, access), mode, rules, context))
        .filter(|decision| !OF_PLACE.contains(&&*decision.rule))
        .fold(Decision::allow("path.text", "nothing speaks against how it is written"), Decision::join)
}

fn question(path: PathBuf, access: Access) -> Call {
    if access == Access::Read { Call::Read(path) } else { Call::Write(path) }
}

fn malformed(reason: &'static str) -> Decision {
    Decision::deny("path.malformed", reason)
}

fn missing(path: &Path) -> Decision {
    Decision::deny("path.missing", format!("{} does not exist, so there is nothing to read", shown(path)))
}

/// What is to happen with a file that has several names.
pub(super) fn hard_link(path: &Path) -> Decision {
    Decision::ask("path.hard-link", format!("{} has another name elsewhere, which would change with it", shown(path)))
}

fn by_kind(located: &Located, access: Access) -> Decision {
    let Located { path, missing: parts } = located;
    let fine = Decision::allow("path.kind", "it is a file or a directory");
    if *parts > 0 {
        return if access == Access::Read { missing(path) } else { fine };
    }
    let Ok(found) = path.symlink_metadata() else { return fine };
    let kind = found.file_type();
    if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket() {
        Decision::deny("path.device", format!("{} is a device, pipe or socket", shown(path)))
    } else if access != Access::Read && kind.is_file() && found.nlink() > 1 {
        hard_link(path)
    } else {
        fine
    }
}
