//! What a ruleset was made from: as long as that is as it was, the ruleset would come out the same.
//!
//! Rules are about what lies at a path when they are made, and everything around a hole needs one of its own. So making a
//! ruleset takes a look at all of a home, and finding out that nothing has changed there takes a look at its directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::policy::Policy;

/// What nobody may look into at level Landlock, since there is no private one.
const SHARED: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev"];

/// A directory that changed so shortly before it was listed may change again without another time on it.
const SETTLED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Basis {
    /// What is left out, as far as it is there.
    holes: Vec<PathBuf>,
    /// What rules are about, and what was there.
    places: Vec<(PathBuf, Option<Identity>)>,
    /// The directories around holes, and when something in them changed last. `None` if that cannot be relied on.
    listed: Vec<(PathBuf, Option<Changed>)>,
}

/// Device and number of a file.
type Identity = (u64, u64);
/// A directory, and the time of its last change.
type Changed = (Identity, i64, i64);

impl Basis {
    /// Begins with what a policy hides.
    pub(super) fn of(policy: &Policy) -> Self {
        Self { holes: holes(policy), places: Vec::new(), listed: Vec::new() }
    }

    /// Notes a path that a rule is about.
    pub(super) fn place(&mut self, path: PathBuf) -> &Path {
        let identity = identity(&path);
        &self.places.push_mut((path, identity)).0
    }

    /// The fewest paths that together are everything below `top` but the holes. `top` itself is none: it is to be seen.
    pub(super) fn around(&mut self, top: &Path) -> Vec<PathBuf> {
        self.place(top.to_owned());
        let below = |hole: &&PathBuf| hole.starts_with(top) && *hole != top;
        let holes: Vec<PathBuf> = self.holes.iter().filter(below).cloned().collect();
        let mut found = Vec::new();
        self.walk(top, &holes, &mut found);
        found
    }

    /// Whether this is left out.
    pub(super) fn is_hole(&self, path: &Path) -> bool {
        self.holes.iter().any(|hole| hole == path)
    }

    fn walk(&mut self, top: &Path, holes: &[PathBuf], found: &mut Vec<PathBuf>) {
        if holes.iter().any(|hole| hole == top) {
            return;
        }
        if !holes.iter().any(|hole| hole.starts_with(top)) {
            found.push(top.to_owned());
            return;
        }
        self.listed.push((top.to_owned(), changed(top).filter(is_settled)));
        let entries = fs::read_dir(top).into_iter().flatten().flatten();
        // A link is judged by where it leads.
        let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        for entry in real {
            self.walk(&entry.path(), holes, found);
        }
    }

    /// Whether all of it is as it was.
    pub(super) fn is_as_it_was(&self, policy: &Policy) -> bool {
        let is_same = |(path, then): &(PathBuf, Option<Changed>)| then.is_some() && changed(path) == *then;
        self.listed.iter().all(is_same)
            && self.places.iter().all(|(path, then)| identity(path) == *then)
            && self.holes == holes(policy)
    }
}

/// What a policy hides and is there.
fn holes(policy: &Policy) -> Vec<PathBuf> {
    // Most are not there, which one call tells, and resolving them takes many.
    let hidden = policy.hidden.iter().filter(|path| fs::metadata(path).is_ok());
    hidden.filter_map(|path| path.canonicalize().ok()).chain(SHARED.map(PathBuf::from)).collect()
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn changed(dir: &Path) -> Option<Changed> {
    fs::metadata(dir).ok().map(|meta| ((meta.dev(), meta.ino()), meta.mtime(), meta.mtime_nsec()))
}

fn is_settled((_, seconds, _): &Changed) -> bool {
    let since = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.cast_unsigned());
    since.elapsed().is_ok_and(|time| time > SETTLED)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::policy::Network;
    use super::*;

    type Change = (&'static str, fn(&Path));

    fn around(top: &Path, holes: &[PathBuf]) -> Vec<PathBuf> {
        let mut found = Basis { holes: holes.to_owned(), places: Vec::new(), listed: Vec::new() }.around(top);
        found.sort();
        found
    }

    #[test]
    fn holes_are_left_out_and_siblings_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in ["a/b", "a/c/d", "a/c/e", "f"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let found = around(top, &[top.join("a/c/d"), top.join("f")]);
        assert_eq!(found, ["a/b", "a/c/e"].map(|name| top.join(name)));
        assert_eq!(around(top, &[PathBuf::from("/elsewhere")]), [top]);
    }

    #[test]
    fn what_changes_a_rule_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["home/.ssh", "home/other", "work", "temp"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let policy = Policy {
            writable: vec![path("work")],
            protected: Vec::new(),
            hidden: vec![path("home/.ssh"), path("home/.netrc"), path("home/.docker/config")],
            readable: vec![path("home"), path("outputs")],
            temp: path("temp"),
            network: Network::Loopback,
        };
        let look = || {
            let old = SystemTime::now() - Duration::from_mins(1);
            for dir in ["home", "home/.docker"].iter().filter_map(|name| File::open(path(name)).ok()) {
                dir.set_modified(old).unwrap();
            }
            let mut basis = Basis::of(&policy);
            policy.readable.iter().chain(&policy.writable).for_each(|top| drop(basis.around(top)));
            assert!(basis.is_as_it_was(&policy));
            basis
        };
        let basis = look();
        fs::write(path("work/new"), "").unwrap();
        fs::write(path("home/other/new"), "").unwrap();
        assert!(basis.is_as_it_was(&policy), "what lies below a rule is no matter");
        let changes: [Change; 5] = [
            ("another entry beside a hole", |dir| fs::create_dir(dir.join("home/.docker")).unwrap()),
            ("a secret below a directory that was there", |dir| {
                fs::write(dir.join("home/.docker/config"), "").unwrap();
            }),
            ("another directory in place of one", |dir| {
                fs::rename(dir.join("work"), dir.join("gone")).unwrap();
                fs::create_dir(dir.join("work")).unwrap();
            }),
            ("something to be read that was not there", |dir| fs::create_dir(dir.join("outputs")).unwrap()),
            ("no hole any more", |dir| fs::remove_dir(dir.join("home/.ssh")).unwrap()),
        ];
        for (what, change) in changes {
            let basis = look();
            change(dir.path());
            assert!(!basis.is_as_it_was(&policy), "{what}");
        }
        let mut basis = Basis::of(&policy);
        basis.around(&path("home"));
        assert!(!basis.is_as_it_was(&policy), "a directory that has just changed is not relied on");
    }
}
