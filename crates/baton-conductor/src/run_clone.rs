//! The clone of a run: a repository of its own that borrows the person's objects. Agents work in its tree; nothing here
//! starts a program of the repository.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton_guard::git;
use baton_workflow::{EffectId, RelPath, RunId, TreeHash};

/// The trailer that tells which effect made a commit.
pub(crate) const TRAILER: &str = "Baton-Effect";
/// Where the person's repository keeps the base of a run alive.
const BASES: &str = "refs/baton";

/// What went wrong with a clone, for people.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// Git refuses.
    #[error("git {what} failed: {why}")]
    Git {
        /// What it was asked.
        what: String,
        /// What it said.
        why: String,
    },
    /// Two runs inside have changed the same in different ways.
    #[error("{0} was changed in two ways that contradict each other")]
    Contradiction(String),
    /// The disk refuses.
    #[error("{}: {why}", .path.display())]
    Io {
        /// What was used.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}

impl CloneError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |why| Self::Io { path: path.to_owned(), why }
    }
}

type Result<T> = std::result::Result<T, CloneError>;

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Their name.
    pub name: String,
    /// Their address.
    pub email: String,
}

/// The place of one run: a clone in `tree`, and `base`, which is what it looked like before any agent came.
#[derive(Debug, Clone)]
pub struct RunClone {
    dir: PathBuf,
    repository: PathBuf,
    /// Where the base is kept: parts of a clone share it.
    kept: PathBuf,
}

impl RunClone {
    /// The clone of the repository in this directory, made or not.
    pub fn new(dir: PathBuf, repository: PathBuf) -> Self {
        Self { kept: dir.clone(), dir, repository }
    }

    /// A clone of its own for a run inside this one.
    pub(crate) fn part(&self, name: &str) -> Self {
        Self { dir: self.dir.join(name), ..self.clone() }
    }

    /// Where agents work.
    pub fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// What the tree was when set-up had ended.
    pub(crate) fn base(&self) -> PathBuf {
        self.kept.join("base")
    }

    /// The directory of all of it.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The commit that the person's repository is at; none if there is none.
    pub fn head_of(repository: &Path) -> Option<String> {
        run(git::command(repository).args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])).ok()
    }

    /// The top directory of the repository that a directory is in.
    pub fn top_of(dir: &Path) -> Option<PathBuf> {
        run(git::command(dir).args(["rev-parse", "--show-toplevel"]))
            .ok()
            .filter(|top| !top.is_empty())
            .map(PathBuf::from)
    }

    /// Files in the person's tree that are not as in their last commit.
    pub fn uncommitted(repository: &Path) -> Result<Vec<String>> {
        let listed = run(git::command(repository).args(["status", "--porcelain", "-z"]))?;
        Ok(listed.split('\0').filter_map(|line| line.get(3..)).map(str::to_owned).collect())
    }

    /// Who commits in the person's repository.
    pub fn identity(repository: &Path) -> Identity {
        let ask = |key: &str| run(git::command(repository).args(["config", key])).ok().filter(|text| !text.is_empty());
        Identity {
            name: ask("user.name").unwrap_or_else(|| "Baton".to_owned()),
            email: ask("user.email").unwrap_or_else(|| "baton@localhost".to_owned()),
        }
    }

    /// Makes the clone at a commit. What is there of an earlier try is removed.
    pub(crate) fn make(&self, run_id: &RunId, commit: &str) -> Result<()> {
        remove(&self.dir)?;
        let tree = self.tree();
        fs::create_dir_all(&tree).map_err(CloneError::io(&tree))?;
        let ask = |what: &[&str]| run(git::command(&self.repository).args(what));
        let told = ask(&["rev-parse", "--path-format=absolute", "--git-path", "objects", "--show-object-format"])?;
        let (objects, format) = told.split_once('\n').unwrap_or((&told, "sha1"));
        // So that the person's own cleaning up does not take it away.
        ask(&["update-ref", &format!("{BASES}/{run_id}"), commit])?;
        run(git::command(&self.dir)
            .args(["init", "--quiet", "--initial-branch=baton"])
            .arg(format!("--object-format={format}"))
            .arg("tree"))?;
        let alternates = tree.join(".git/objects/info/alternates");
        fs::write(&alternates, format!("{objects}\n")).map_err(CloneError::io(&alternates))?;
        let exclude = tree.join(".git/info/exclude");
        // What a tool writes beside a file before it takes its place, if it was killed in between.
        fs::create_dir_all(tree.join(".git/info")).map_err(CloneError::io(&exclude))?;
        fs::write(&exclude, ".baton-????????????\n").map_err(CloneError::io(&exclude))?;
        let config = tree.join(".git/config");
        let own = "[gc]\n\tauto = 0\n[core]\n\tautocrlf = false\n\tfsync = none\n";
        let known = fs::read_to_string(&config).map_err(CloneError::io(&config))?;
        fs::write(&config, known + own).map_err(CloneError::io(&config))?;
        self.git(&["update-ref", "refs/heads/baton", commit])?;
        self.git(&["reset", "--quiet", "--hard", "HEAD"])?;
        self.submodules()?;
        self.included()
    }

    /// Where the objects are that this clone does not have itself: the person's, and those that they borrow.
    pub(crate) fn borrowed(&self) -> Vec<PathBuf> {
        let objects = ["rev-parse", "--path-format=absolute", "--git-path", "objects"];
        let Ok(objects) = run(git::command(&self.repository).args(objects)) else { return Vec::new() };
        let objects = PathBuf::from(objects);
        let theirs = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
        let theirs = theirs.lines().filter(|line| !line.is_empty()).map(|line| objects.join(line));
        let real = theirs.chain([objects.clone()]).filter_map(|dir| dir.canonicalize().ok());
        real.collect()
    }

    /// Checks submodules out, from the person's own copies of them.
    fn submodules(&self) -> Result<()> {
        let file = self.tree().join(".gitmodules");
        if !file.is_file() {
            return Ok(());
        }
        let listed = self.git(&["config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"])?;
        for line in listed.lines() {
            let Some((key, path)) = line.split_once(' ') else { continue };
            let theirs = self.repository.join(path);
            if RelPath::parse(path).is_err() || !theirs.join(".git").exists() {
                continue;
            }
            let name = key.trim_start_matches("submodule.").trim_end_matches(".path");
            self.git(&["config", &format!("submodule.{name}.url"), &theirs.to_string_lossy()])?;
            let mut update = git::command(&self.tree());
            update.args(["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--", path]);
            run(update.env("GIT_ALLOW_PROTOCOL", "file"))?;
        }
        Ok(())
    }

    /// Copies files that git ignores and `.worktreeinclude` names.
    fn included(&self) -> Result<()> {
        let list = self.repository.join(".worktreeinclude");
        if !list.is_file() {
            return Ok(());
        }
        let mut ask = git::command(&self.repository);
        ask.args(["ls-files", "-z", "--others", "--ignored", "--exclude-from=.worktreeinclude"]);
        for name in run(&mut ask)?.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (self.repository.join(name), self.tree().join(name));
            if let Some(dir) = to.parent() {
                fs::create_dir_all(dir).map_err(CloneError::io(dir))?;
            }
            copy(&from, &to)?;
        }
        Ok(())
    }

    /// Keeps the tree as it is now as the base of every verification.
    pub(crate) fn keep_base(&self) -> Result<TreeHash> {
        let tree = self.snapshot()?;
        remove(&self.base())?;
        copy_dir(&self.tree(), &self.base(), &[".git"])?;
        let (from, to) = (self.index(), self.kept.join("base.index"));
        fs::copy(&from, &to).map_err(CloneError::io(&from))?;
        Ok(tree)
    }

    /// Makes a directory that is the base with this tree on it: nothing that an agent left beside it is there.
    pub(crate) fn check_out(&self, tree: &TreeHash, to: &Path) -> Result<()> {
        remove(to)?;
        copy_dir(&self.base(), to, &[])?;
        let index = to.with_extension("index");
        fs::copy(self.kept.join("base.index"), &index).map_err(CloneError::io(&index))?;
        let mut read = git::command(&self.tree());
        read.args(["read-tree", "--reset", "-u", tree.as_str()]);
        run(read.env("GIT_INDEX_FILE", &index).env("GIT_DIR", self.tree().join(".git")).env("GIT_WORK_TREE", to))?;
        remove(&index)
    }

    fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// The tree as it is now, without what git ignores.
    pub(crate) fn snapshot(&self) -> Result<TreeHash> {
        let index = self.index();
        self.git_with(&index, &["add", "--all"])?;
        Ok(TreeHash::new(self.git_with(&index, &["write-tree"])?))
    }

    /// Files that differ between two trees.
    pub(crate) fn changed(&self, from: &TreeHash, to: &TreeHash) -> Result<Vec<RelPath>> {
        if from == to {
            return Ok(Vec::new());
        }
        let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from.as_str(), to.as_str()];
        let listed = self.git(&args)?;
        let paths = listed.split('\0').filter(|name| !name.is_empty());
        // A name that is no path of ours (a line break in it) is named as far as it goes: it is in nobody's scope.
        Ok(paths.map(|name| RelPath::parse(name).unwrap_or_else(|_| odd(name))).collect())
    }

    /// Puts files back to how they are in a tree.
    pub(crate) fn put_back(&self, tree: &TreeHash) -> Result<()> {
        // The index knows what is there now, so that this touches nothing else.
        self.git_with(&self.index(), &["read-tree", "--reset", "-u", tree.as_str()]).map(drop)
    }

    /// A tree that is `now`, but with these files as they are in `then`.
    pub(crate) fn mixed(&self, now: &TreeHash, then: &TreeHash, paths: &[RelPath]) -> Result<TreeHash> {
        let index = self.dir.join("mixed.index");
        remove(&index)?;
        self.git_with(&index, &["read-tree", now.as_str()])?;
        for some in paths.chunks(500) {
            let names: Vec<&str> = some.iter().map(RelPath::as_str).collect();
            self.git_with(&index, &[&["rm", "--quiet", "--cached", "--ignore-unmatch", "--"], &names[..]].concat())?;
            let listed = self.git(&[&["ls-tree", "-r", then.as_str(), "--"], &names[..]].concat())?;
            for line in listed.lines() {
                let Some((mode, rest)) = line.split_once(' ') else { continue };
                let Some((object, path)) = rest.split_once(' ').and_then(|(_, rest)| rest.split_once('\t')) else {
                    continue;
                };
                let entry = format!("{mode},{object},{path}");
                self.git_with(&index, &["update-index", "--add", "--cacheinfo", &entry])?;
            }
        }
        let tree = self.git_with(&index, &["write-tree"])?;
        remove(&index)?;
        Ok(TreeHash::new(tree))
    }

    /// The commit that the clone is at.
    pub(crate) fn head(&self) -> Result<String> {
        self.git(&["rev-parse", "--verify", "HEAD^{commit}"])
    }

    /// The tree of a commit.
    pub(crate) fn tree_of(&self, commit: &str) -> Result<TreeHash> {
        self.git(&["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).map(TreeHash::new)
    }

    /// The commit that an effect has made, if it has.
    pub(crate) fn commit_of(&self, effect: &EffectId, base: &str) -> Result<Option<String>> {
        let format = format!("--format=%H %(trailers:key={TRAILER},valueonly,separator=%x2C)");
        let listed = self.git(&["log", &format, &format!("{base}..HEAD")])?;
        let found =
            listed.lines().filter_map(|line| line.split_once(' ')).find(|(_, trailer)| *trailer == effect.as_str());
        Ok(found.map(|(commit, _)| commit.to_owned()))
    }

    /// Commits the tree as it is, once for each effect; the commit. None if there is nothing to commit.
    pub(crate) fn commit(
        &self,
        message: &str,
        effect: &EffectId,
        base: &str,
        who: &Identity,
    ) -> Result<Option<String>> {
        if let Some(done) = self.commit_of(effect, base)? {
            return Ok(Some(done));
        }
        let (tree, parent) = (self.snapshot()?, self.head()?);
        if tree == self.tree_of(&parent)? {
            return Ok(None);
        }
        // Nobody else writes our trailer.
        let said: Vec<&str> = message.lines().filter(|line| !line.trim_start().starts_with(TRAILER)).collect();
        let message = format!("{}\n\n{TRAILER}: {effect}\n", said.join("\n").trim());
        let commit = self.commit_tree(tree.as_str(), &[&parent], &message, who)?;
        self.git(&["update-ref", "refs/heads/baton", &commit, &parent])?;
        // So that `git status` in the clone says what agents would expect.
        self.git(&["read-tree", &commit])?;
        Ok(Some(commit))
    }

    /// Becomes a copy of another clone as it is now. Nothing happens if it is one already.
    pub(crate) fn fork(&self, from: &Self) -> Result<()> {
        let tree = self.tree();
        if tree.exists() {
            return Ok(());
        }
        let (began, half) = (from.snapshot()?, self.dir.join("tree.half"));
        remove(&half)?;
        copy_dir(&from.tree(), &half, &[])?;
        let note = self.dir.join("began");
        fs::write(&note, began.as_str()).map_err(CloneError::io(&note))?;
        fs::rename(&half, &tree).map_err(CloneError::io(&tree))
    }

    /// Takes in what was done in a part of this clone since it was forked. Doing it twice changes nothing more.
    pub(crate) fn absorb(&self, part: &Self, effect: &EffectId, who: &Identity) -> Result<()> {
        let note = part.dir.join("began");
        let began = fs::read_to_string(&note).map_err(CloneError::io(&note))?;
        let (ours, theirs) = (self.snapshot()?, part.snapshot()?);
        copy_objects(&part.tree().join(".git/objects"), &self.tree().join(".git/objects"))?;
        let wrap = |tree: &str, parents: &[&str]| self.commit_tree(tree, parents, "part", who);
        let base = wrap(&began, &[])?;
        let (ours, theirs) = (wrap(ours.as_str(), &[&base])?, wrap(theirs.as_str(), &[&base])?);
        self.put_back(&TreeHash::new(self.merge(&ours, &theirs)?))?;
        let (head, other) = (self.head()?, part.head()?);
        if head != other
            && self.commit_of(effect, &other)?.is_none()
            && self.git(&["merge-base", "--is-ancestor", &other, &head]).is_err()
        {
            let tree = self.merge(&head, &other)?;
            let merge = self.commit_tree(&tree, &[&head, &other], &format!("Join\n\n{TRAILER}: {effect}\n"), who)?;
            self.git(&["update-ref", "refs/heads/baton", &merge, &head])?;
            self.git(&["read-tree", &merge])?;
        }
        Ok(())
    }

    /// The tree that two commits come to.
    fn merge(&self, ours: &str, theirs: &str) -> Result<String> {
        let mut merge = git::command(&self.tree());
        merge.args(["merge-tree", "--write-tree", "--no-messages", "--name-only", ours, theirs]);
        let failed = |why: String| CloneError::Git { what: "merge-tree".to_owned(), why };
        let output = merge.output().map_err(|error| failed(error.to_string()))?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = listed.lines();
        match (lines.next(), output.status.code()) {
            (Some(tree), Some(0)) => Ok(tree.to_owned()),
            (Some(_), Some(1)) => Err(CloneError::Contradiction(lines.collect::<Vec<_>>().join(", "))),
            _ => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }

    fn commit_tree(&self, tree: &str, parents: &[&str], message: &str, who: &Identity) -> Result<String> {
        let mut make = git::command(&self.tree());
        make.args(["commit-tree", tree, "-m", message]);
        for parent in parents {
            make.args(["-p", parent]);
        }
        for part in ["AUTHOR", "COMMITTER"] {
            make.env(format!("GIT_{part}_NAME"), &who.name).env(format!("GIT_{part}_EMAIL"), &who.email);
        }
        run(&mut make)
    }

    /// Brings the clone's commits to the person's repository as a branch, and nothing else.
    pub(crate) fn bring_back(&self, branch: &str) -> Result<()> {
        let mut fetch = git::command(&self.repository);
        fetch.args([
            "-c",
            "protocol.file.allow=always",
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--force",
        ]);
        fetch.arg(self.tree()).arg(format!("refs/heads/baton:refs/heads/{branch}"));
        run(fetch.env("GIT_ALLOW_PROTOCOL", "file")).map(drop)
    }

    /// Removes it all; the branch stays.
    pub fn remove(&self, run_id: &RunId) -> Result<()> {
        run(git::command(&self.repository).args(["update-ref", "-d", &format!("{BASES}/{run_id}")]))?;
        remove(&self.dir)
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        run(git::command(&self.tree()).args(args))
    }

    fn git_with(&self, index: &Path, args: &[&str]) -> Result<String> {
        run(git::command(&self.tree()).args(args).env("GIT_INDEX_FILE", index))
    }
}

fn odd(name: &str) -> RelPath {
    let plain: String = name.chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    RelPath::parse(plain.trim_start_matches('/'))
        .or_else(|_| RelPath::parse("?"))
        .unwrap_or_else(|_| unreachable!("`?` is a path"))
}

/// How often git is asked again, and how long it is waited in between.
const TRIES: usize = 40;
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// A lock of ours that is older was left by a git that was killed.
const LOCK_AGE_MAX: Duration = Duration::from_secs(1);

/// Asks git. One that was killed has done nothing that cannot be done again, and its locks are in the way for a moment only.
fn run(command: &mut Command) -> Result<String> {
    let what: Vec<_> = command.get_args().take(3).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let failed = |why: String| CloneError::Git { what: what.join(" "), why };
    let mut why = String::new();
    for _ in 0..TRIES {
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned());
        }
        String::from_utf8_lossy(&output.stderr).trim().clone_into(&mut why);
        match lock_in_the_way(&why) {
            Some(lock) => drop_if_left(&lock),
            None if output.status.signal() == Some(9) => {}
            None => break,
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    Err(failed(why))
}

/// The lock that git complains about.
fn lock_in_the_way(why: &str) -> Option<PathBuf> {
    let line = why.lines().find(|line| line.contains(".lock': File exists"))?;
    let (before, _) = line.split_once("': File exists")?;
    before.rsplit_once('\'').map(|(_, path)| PathBuf::from(path))
}

/// Removes a lock that nobody else can have, if it is not new.
fn drop_if_left(lock: &Path) {
    let text = lock.to_string_lossy();
    let is_ours = ["/clones/", "/refs/baton/", "/refs/heads/baton/"].iter().any(|part| text.contains(part));
    let age = fs::metadata(lock).and_then(|known| known.modified()).ok().and_then(|at| at.elapsed().ok());
    if is_ours && age.is_some_and(|age| age > LOCK_AGE_MAX) {
        drop(fs::remove_file(lock));
    }
}

/// Removes a file or a directory, whatever its permissions; nothing if there is none.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let known = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        known => known.map_err(CloneError::io(path))?,
    };
    if !known.is_dir() {
        return fs::remove_file(path).map_err(CloneError::io(path));
    }
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    // Some build tools make their directories read-only.
    open_up(path);
    fs::remove_dir_all(path).map_err(CloneError::io(path))
}

fn open_up(dir: &Path) {
    drop(fs::set_permissions(dir, fs::Permissions::from_mode(0o700)));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        open_up(&entry.path());
    }
}

/// Copies a directory with links and permissions; what is neither file, link nor directory is left out.
pub(crate) fn copy_dir(from: &Path, to: &Path, but: &[&str]) -> Result<()> {
    fs::create_dir_all(to).map_err(CloneError::io(to))?;
    for entry in fs::read_dir(from).map_err(CloneError::io(from))? {
        let entry = entry.map_err(CloneError::io(from))?;
        let name = entry.file_name();
        if but.iter().any(|left_out| name == *left_out) {
            continue;
        }
        copy(&entry.path(), &to.join(&name))?;
    }
    let mode = fs::metadata(from).map_err(CloneError::io(from))?.permissions();
    fs::set_permissions(to, mode).map_err(CloneError::io(to))
}

/// Copies loose objects that are not there yet. A clone of ours has no others.
fn copy_objects(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(CloneError::io(from))?.flatten() {
        let name = entry.file_name();
        if name.len() != 2 {
            continue;
        }
        let dir = to.join(&name);
        fs::create_dir_all(&dir).map_err(CloneError::io(&dir))?;
        for object in fs::read_dir(entry.path()).map_err(CloneError::io(from))?.flatten() {
            let place = dir.join(object.file_name());
            if !place.exists() {
                copy(&object.path(), &place)?;
            }
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let known = fs::symlink_metadata(from).map_err(CloneError::io(from))?;
    if known.is_dir() {
        copy_dir(from, to, &[])
    } else if known.is_symlink() {
        let target = fs::read_link(from).map_err(CloneError::io(from))?;
        symlink(target, to).map_err(CloneError::io(to))
    } else if known.is_file() {
        fs::copy(from, to).map(drop).map_err(CloneError::io(from))
    } else {
        Ok(())
    }
}
