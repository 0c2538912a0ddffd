//! Paths, the pure part: where a path lies, what is protected there, and whether it may be read or written.

mod guard;
mod handle;
mod near;
mod pattern;
pub mod resolve;

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use baton_core::Access;
use serde::Deserialize;

pub use guard::{Glance, Grant, PathGuard, Reach, Refusal, Sight};
pub use handle::{Dir, Found, Made, Parent, Spot, real_path};
pub use near::Near;
pub use pattern::{Pattern, wildcard};
pub use resolve::Judged;

use crate::decision::{Decision, Verdict};
use crate::shipped;

const SHIPPED: &str = include_str!("path/protected.jsonc");

/// What can be read although it lies outside: toolchains, sources of packages, facts about the system.
const READABLE: [&str; 26] = [
    "/usr/include",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share",
    "/usr/local/include",
    "/usr/local/lib",
    "/usr/local/share",
    "/usr/local/go",
    "/opt/homebrew/include",
    "/opt/homebrew/lib",
    "/nix/store",
    "/etc/os-release",
    "/etc/lsb-release",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/version",
    "/proc/loadavg",
    "~/.cargo/registry/src",
    "~/.cargo/git/checkouts",
    "~/.rustup/toolchains",
    "~/go/pkg/mod",
    "~/.m2/repository",
    "~/.gradle/caches",
    "~/.local/share/pnpm",
    "~/.nvm/versions",
    "~/.pyenv/versions",
];

/// Files that anything may write to: what goes there is gone or is shown.
const SINKS: [&str; 6] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/dev/tty"];

/// Where an agent works: the facts that paths are judged by. All paths are absolute and have no links in them.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The workspace.
    pub root: PathBuf,
    /// Where the agent is.
    pub cwd: PathBuf,
    /// The person's home directory.
    pub home: PathBuf,
    /// Other directories that were given to the agent.
    pub added: Vec<PathBuf>,
    /// Directories that may be read, besides the known toolchains.
    pub readable: Vec<PathBuf>,
    /// Baton's own directories, wherever they were put: no agent writes there.
    pub own: Vec<PathBuf>,
    /// What the role may write, laid on the workspace; nothing means all of it.
    pub writable: Option<Vec<Pattern>>,
    /// What nobody may write any more, laid on the workspace.
    pub frozen: Vec<Pattern>,
}

/// Where a path lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the workspace or in a directory that was added.
    Inside,
    /// Outside, in something that may be read.
    Readable,
    /// Outside.
    Outside,
}

/// The shipped data.
#[derive(Debug, Default, Deserialize)]
struct File {
    paths: Vec<Protected>,
}

/// What is protected and how.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, serde(deny_unknown_fields))]
struct Protected {
    id: String,
    read: Option<Verdict>,
    write: Option<Verdict>,
    reason: String,
    #[serde(default)]
    only_outside: bool,
    patterns: Vec<String>,
    #[serde(default)]
    but: Vec<String>,
    #[cfg(test)]
    #[serde(rename = "match")]
    matches: Vec<String>,
    #[cfg(test)]
    other: Vec<String>,
}

struct Compiled {
    rule: Protected,
    patterns: Vec<(Anchor, Pattern)>,
    but: Vec<Pattern>,
}

#[derive(Clone, Copy, PartialEq)]
enum Anchor {
    Root,
    Home,
}

static PROTECTED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let File { paths } = shipped::read(SHIPPED);
    paths
        .into_iter()
        .map(|rule| Compiled {
            patterns: rule
                .patterns
                .iter()
                .map(|text| match text.strip_prefix("~/") {
                    Some(rest) => (Anchor::Home, Pattern::new(rest)),
                    None => (Anchor::Root, Pattern::new(text)),
                })
                .collect(),
            but: rule.but.iter().map(|text| Pattern::new(text)).collect(),
            rule,
        })
        .collect()
});

/// The components that protected paths have: a path without any of them is not protected. Every file that a search comes
/// across is asked about, so they are sorted by how they can be compared.
#[derive(Default)]
struct Marks {
    names: HashSet<String>,
    beginnings: Vec<String>,
    endings: Vec<String>,
    patterns: Vec<String>,
}

static MARKS: LazyLock<Marks> = LazyLock::new(|| {
    let is_plain = |text: &str| !text.contains(['*', '?', '[', '\\']);
    let all = PROTECTED.iter().flat_map(|compiled| &compiled.patterns).flat_map(|(_, pattern)| pattern.components());
    let mut marks = Marks::default();
    for component in all.filter(|component| *component != "*").collect::<HashSet<_>>() {
        let (list, text) = match (component.strip_suffix('*'), component.strip_prefix('*')) {
            _ if is_plain(component) => {
                marks.names.insert(component.to_owned());
                continue;
            }
            (Some(beginning), _) if is_plain(beginning) => (&mut marks.beginnings, beginning),
            (_, Some(ending)) if is_plain(ending) => (&mut marks.endings, ending),
            _ => (&mut marks.patterns, component),
        };
        list.push(text.to_owned());
    }
    marks
});

/// The patterns of files that are asked for before they are written, wherever they lie.
pub(crate) fn asked_before_writing() -> impl Iterator<Item = &'static str> {
    let asked = PROTECTED.iter().filter(|compiled| compiled.rule.write == Some(Verdict::Ask));
    asked.flat_map(|compiled| &compiled.rule.patterns).map(String::as_str)
}

fn is_marked(component: &str) -> bool {
    let Marks { names, beginnings, endings, patterns } = &*MARKS;
    names.contains(component)
        || beginnings.iter().any(|beginning| component.starts_with(beginning))
        || endings.iter().any(|ending| component.ends_with(ending))
        || patterns.iter().any(|pattern| wildcard(pattern, component))
}

/// Whether a path has a component that protected paths have.
fn has_mark(path: &Path) -> bool {
    path.components().any(|part| match part {
        Component::Normal(name) => is_marked(&name.to_string_lossy()),
        _ => false,
    })
}

impl Scope {
    /// The absolute path that a tool is given by a text, from where the agent is. `~` is the home directory, `.` and `..` stay.
    pub fn meant(&self, path: &str) -> PathBuf {
        meant(path, &self.cwd, &self.home)
    }

    /// Where a path lies.
    pub fn place(&self, path: &Path) -> Place {
        if path.starts_with(&self.root) || self.added.iter().any(|dir| path.starts_with(dir)) {
            return Place::Inside;
        }
        let known = READABLE.iter().any(|dir| match dir.strip_prefix("~/") {
            Some(rest) => path.starts_with(self.home.join(rest)),
            None => path.starts_with(dir),
        });
        let readable = known || self.readable.iter().any(|dir| path.starts_with(dir));
        if readable { Place::Readable } else { Place::Outside }
    }

    /// Whether a path may be read or written, before any rule of a person. `path` is absolute, without `..`; if it still
    /// holds wildcards, `glob` says so, and everything it could stand for counts.
    pub fn judge(&self, path: &Path, access: Access, glob: bool) -> Decision {
        let place = self.place(path);
        let text = path.to_string_lossy();
        let protected = self.own_secret(path).or_else(|| self.protected(path, access, glob, place));
        if access != Access::Read && SINKS.contains(&&*text) {
            return Decision::allow("path.sink", "what is written there is kept nowhere");
        }
        let shown = || shown(path);
        let plain = match (place, access) {
            (_, Access::Write | Access::Execute) if self.is_own(path) => {
                Decision::deny("path.baton-control", format!("{} is Baton's own: an agent may not change it", shown()))
            }
            (Place::Inside, Access::Read) => Decision::allow("path.inside", "it lies in the workspace"),
            (Place::Inside, _) if path == self.root => {
                Decision::deny("path.root", "the workspace itself may not be replaced or removed")
            }
            (Place::Inside, _) if !self.in_write_scope(path, glob) => {
                let (inner, allowed) = (self.inner_path(path), self.role_files());
                Decision::deny("path.role", format!("{inner} is not among the files that this role may write{allowed}"))
            }
            (Place::Inside, _) if self.is_frozen(path, glob) => {
                let inner = self.inner_path(path);
                Decision::deny("path.frozen", format!("{inner} is frozen: an earlier state of the run has settled it"))
            }
            (Place::Inside, _) => Decision::allow("path.inside", "it lies in the workspace"),
            (Place::Readable, Access::Read) => {
                Decision::allow("path.toolchain", "it belongs to a toolchain or to the sources of packages")
            }
            (_, Access::Read) => {
                Decision::ask("path.read-outside", format!("{} lies outside of the workspace", shown()))
            }
            (_, _) => Decision::ask("path.write-outside", format!("{} lies outside of the workspace", shown())),
        };
        match protected {
            Some(protected) => protected.join(plain),
            None => plain,
        }
    }

    /// Keys and records of what agents did, wherever Baton's own directories were put.
    fn own_secret(&self, path: &Path) -> Option<Decision> {
        let inner = self.own.iter().find_map(|dir| path.strip_prefix(dir).ok())?;
        let mut parts = inner.components().map(|part| part.as_os_str().to_string_lossy());
        let is_secret = match parts.next()?.as_ref() {
            "projects" => parts.nth(1).is_some_and(|part| part == "audit"),
            first => first.starts_with("credentials"),
        };
        let reason = || format!("{} holds keys or the record of what agents did", shown(path));
        is_secret.then(|| Decision::deny("path.baton-credentials", reason()))
    }

    /// Baton's own, unless it is what the agent works in: a run has its clone there.
    fn is_own(&self, path: &Path) -> bool {
        self.own
            .iter()
            .any(|dir| path.starts_with(dir) && !(self.root.starts_with(dir) && path.starts_with(&self.root)))
    }

    fn inner_path(&self, path: &Path) -> String {
        shown(path.strip_prefix(&self.root).unwrap_or(path))
    }

    fn role_files(&self) -> String {
        let texts: Vec<&str> = self.writable.iter().flatten().map(Pattern::text).collect();
        if texts.is_empty() { "; it may write none".to_owned() } else { format!(" ({})", texts.join(", ")) }
    }

    fn is_frozen(&self, path: &Path, glob: bool) -> bool {
        let Ok(inner) = path.strip_prefix(&self.root) else { return false };
        let text = inner.to_string_lossy();
        let components: Vec<&str> = components(&text);
        let hits = |pattern: &Pattern| if glob { pattern.may_cover(&components) } else { pattern.covers(&components) };
        self.frozen.iter().any(hits)
    }

    fn in_write_scope(&self, path: &Path, glob: bool) -> bool {
        let Some(patterns) = &self.writable else { return true };
        let Ok(inner) = path.strip_prefix(&self.root) else { return true };
        let text = inner.to_string_lossy();
        let components: Vec<&str> = components(&text);
        !glob && patterns.iter().any(|pattern| pattern.covers(&components))
    }

    fn protected(&self, path: &Path, access: Access, glob: bool, place: Place) -> Option<Decision> {
        if !glob && !has_mark(path) {
            return None;
        }
        self.protected_by(&PROTECTED, path, access, glob, place)
    }

    fn protected_by(
        &self,
        rules: &[Compiled],
        path: &Path,
        access: Access,
        glob: bool,
        place: Place,
    ) -> Option<Decision> {
        let text = path.to_string_lossy();
        let all = components(&text);
        let home = path.strip_prefix(&self.home).ok().map(|rest| rest.to_string_lossy());
        let below_home = home.as_deref().map(components);
        let hits =
            |pattern: &Pattern, parts: &[&str]| if glob { pattern.may_cover(parts) } else { pattern.covers(parts) };
        let mut strictest: Option<Decision> = None;
        for Compiled { rule, patterns, but } in rules {
            let verdict = if access == Access::Read { rule.read } else { rule.write };
            let Some(verdict) = verdict.filter(|_| !(rule.only_outside && place == Place::Inside)) else { continue };
            if strictest.as_ref().is_some_and(|found| found.verdict >= verdict) {
                continue;
            }
            let is_hit = patterns.iter().any(|(anchor, pattern)| match (anchor, &below_home) {
                (Anchor::Root, _) => hits(pattern, &all),
                (Anchor::Home, Some(parts)) => hits(pattern, parts),
                (Anchor::Home, None) => false,
            });
            if is_hit && !but.iter().any(|pattern| pattern.covers(&all)) {
                let reason = format!("{}: {}", shown(path), rule.reason);
                strictest = Some(Decision::new(verdict, rule.id.clone(), reason));
            }
        }
        strictest
    }
}

/// The absolute path that a tool is given by a text; see [`Scope::meant`].
pub fn meant(path: &str, cwd: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => cwd.join(path),
    }
}

/// A path for people: control characters escaped, so that it shows what it is, in one line.
pub fn shown(path: &Path) -> String {
    let text = escaped(&path.to_string_lossy());
    if text.contains(['\n', '\t']) { text.replace('\n', "\\n").replace('\t', "\\t") } else { text }
}

/// A text for people, with every character that a terminal would obey or hide written out.
pub fn escaped(text: &str) -> String {
    if !text.contains(is_hidden) {
        return text.to_owned();
    }
    text.chars().map(|c| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// Whether a character is obeyed or hidden rather than shown.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}' | '\u{e0000}'..='\u{e007f}')
}

fn components(text: &str) -> Vec<&str> {
    text.split('/').filter(|part| !part.is_empty()).collect()
}

/// Takes `.` and `..` away without looking at the disk.
pub fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests;
