//! The clone of a run: a repository of its own that borrows the person's objects. Agents work in its tree; nothing here
//! starts a program of the repository.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_guard::git;
use baton_workflow::{EffectId, RelPath, RunId, TreeHash};

use crate::asking::{ask, ask_counting};
use crate::copying::{copy, copy_dir, copy_objects, remove};
use crate::orders::Orders;

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
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |why| Self::Io { path: path.to_owned(), why }
    }

    /// Whether the disk is full, or worse: nobody's work is the cause.
    pub(crate) fn is_of_machine(&self) -> bool {
        const SIGNS: [&str; 5] = [
            "No space left on device",
            "Disk quota exceeded",
            "Read-only file system",
            "Input/output error",
            "unable to write new index file",
        ];
        match self {
            Self::Io { why, .. } => {
                use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
                matches!(why.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
            }
            Self::Git { why, .. } => SIGNS.iter().any(|sign| why.to_lowercase().contains(&sign.to_lowercase())),
            Self::Contradiction(_) => false,
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, CloneError>;

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
    memory: Arc<Mutex<Memory>>,
}

/// What git need not be asked twice.
#[derive(Debug, Default)]
struct Memory {
    /// The tree that the index of snapshots stands for.
    tree: Option<TreeHash>,
    /// Files that differ between two trees.
    changed: HashMap<(TreeHash, TreeHash), Vec<RelPath>>,
    /// Where the objects are that the clone does not have itself.
    borrowed: Option<Vec<PathBuf>>,
}

/// How many answers about two trees are remembered.
const CHANGED_MAX: usize = 64;

impl RunClone {
    /// The clone of the repository in this directory, made or not.
    pub fn new(dir: PathBuf, repository: PathBuf) -> Self {
        Self { kept: dir.clone(), dir, repository, memory: Arc::default() }
    }

    /// A clone of its own for a run inside this one.
    pub(crate) fn part(&self, name: &str) -> Self {
        Self { dir: self.dir.join(name), memory: Arc::default(), ..self.clone() }
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

    /// Whether no agent has come to it yet.
    pub fn is_untouched(&self) -> bool {
        !Orders::file_in(&self.dir).exists()
    }

    /// The commit that the person's repository is at; none if there is none.
    pub fn head_of(repository: &Path) -> Option<String> {
        ask(git::command(repository).args(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])).ok()
    }

    /// The top directory of the repository that a directory is in.
    pub fn top_of(dir: &Path) -> Option<PathBuf> {
        ask(git::command(dir).args(["rev-parse", "--show-toplevel"]))
            .ok()
            .filter(|top| !top.is_empty())
            .map(PathBuf::from)
    }

    /// Files in the person's tree that are not as in their last commit.
    pub fn uncommitted(repository: &Path) -> Result<Vec<String>> {
        let listed = ask(git::command(repository).args(["status", "--porcelain", "-z"]))?;
        Ok(listed.split('\0').filter_map(|line| line.get(3..)).map(str::to_owned).collect())
    }

    /// Who commits in the person's repository.
    pub fn identity(repository: &Path) -> Identity {
        let mut who = Identity { name: "Baton".to_owned(), email: "baton@localhost".to_owned() };
        let asked = ["config", "--get-regexp", r"^user\.(name|email)$"];
        // The last one counts, as for git.
        for line in ask(git::command(repository).args(asked)).unwrap_or_default().lines() {
            match line.split_once(' ') {
                Some(("user.name", name)) if !name.is_empty() => name.clone_into(&mut who.name),
                Some(("user.email", email)) if !email.is_empty() => email.clone_into(&mut who.email),
                _ => {}
            }
        }
        who
    }

    /// Makes the clone at a commit. What is there of an earlier try is removed.
    pub(crate) fn make(&self, run_id: &RunId, commit: &str) -> Result<()> {
        remove(&self.dir)?;
        let tree = self.tree();
        fs::create_dir_all(&tree).map_err(CloneError::io(&tree))?;
        let theirs = |what: &[&str]| ask(git::command(&self.repository).args(what));
        let told = theirs(&["rev-parse", "--path-format=absolute", "--git-path", "objects", "--show-object-format"])?;
        let (objects, format) = told.split_once('\n').unwrap_or((&told, "sha1"));
        // So that the person's own cleaning up does not take it away.
        theirs(&["update-ref", &format!("{BASES}/{run_id}"), commit])?;
        ask(git::command(&self.dir)
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
        self.git(&["reset", "--quiet", "--hard", commit])?;
        self.submodules()?;
        self.included()
    }

    /// Where the objects are that this clone does not have itself: the person's, and those that they borrow.
    pub(crate) fn borrowed(&self) -> Vec<PathBuf> {
        self.memory().borrowed.get_or_insert_with(|| self.find_borrowed()).clone()
    }

    fn find_borrowed(&self) -> Vec<PathBuf> {
        let objects = ["rev-parse", "--path-format=absolute", "--git-path", "objects"];
        let Ok(objects) = ask(git::command(&self.repository).args(objects)) else { return Vec::new() };
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
            ask(update.env("GIT_ALLOW_PROTOCOL", "file"))?;
        }
        Ok(())
    }

    /// Copies files that git ignores and `.worktreeinclude` names.
    fn included(&self) -> Result<()> {
        if !self.repository.join(".worktreeinclude").is_file() {
            return Ok(());
        }
        let mut list = git::command(&self.repository);
        list.args(["ls-files", "-z", "--others", "--ignored", "--exclude-from=.worktreeinclude"]);
        for name in ask(&mut list)?.split('\0').filter(|name| !name.is_empty()) {
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
        // What was just checked out need not be read again.
        let (checked_out, own) = (self.tree().join(".git/index"), self.index());
        if checked_out.exists() {
            fs::copy(&checked_out, &own).map_err(CloneError::io(&checked_out))?;
        }
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
        ask(read.env("GIT_INDEX_FILE", &index).env("GIT_DIR", self.tree().join(".git")).env("GIT_WORK_TREE", to))?;
        remove(&index)
    }

    fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// The tree as it is now, without what git ignores.
    pub(crate) fn snapshot(&self) -> Result<TreeHash> {
        let (index, mut memory) = (self.index(), self.memory());
        let known = memory.tree.take();
        let mut add = git::command(&self.tree());
        // It names whatever it takes in: if that is nothing, the tree is the one that is known.
        add.args(["add", "--all", "--verbose"]).env("GIT_INDEX_FILE", &index);
        let (taken_in, tries) = ask_counting(&mut add)?;
        let tree = match known {
            Some(known) if taken_in.is_empty() && tries == 1 => known,
            _ => TreeHash::new(self.git_with(&index, &["write-tree"])?),
        };
        memory.tree = Some(tree.clone());
        Ok(tree)
    }

    /// Files that differ between two trees.
    pub(crate) fn changed(&self, from: &TreeHash, to: &TreeHash) -> Result<Vec<RelPath>> {
        if from == to {
            return Ok(Vec::new());
        }
        let both = (from.clone(), to.clone());
        if let Some(known) = self.memory().changed.get(&both) {
            return Ok(known.clone());
        }
        let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from.as_str(), to.as_str()];
        let listed = self.git(&args)?;
        let paths = listed.split('\0').filter(|name| !name.is_empty());
        // A name that is no path of ours (a line break in it) is named as far as it goes: it is in nobody's scope.
        let changed: Vec<_> = paths.map(|name| RelPath::parse(name).unwrap_or_else(|_| odd(name))).collect();
        let mut memory = self.memory();
        if memory.changed.len() >= CHANGED_MAX {
            memory.changed.clear();
        }
        memory.changed.insert(both, changed.clone());
        Ok(changed)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts files back to how they are in a tree.
    pub(crate) fn put_back(&self, tree: &TreeHash) -> Result<()> {
        let mut memory = self.memory();
        memory.tree = None;
        // The index knows what is there now, so that this touches nothing else.
        self.git_with(&self.index(), &["read-tree", "--reset", "-u", tree.as_str()])?;
        memory.tree = Some(tree.clone());
        Ok(())
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

    /// The commit that an effect has made, if it has.
    pub(crate) fn commit_of(&self, effect: &EffectId, base: &str) -> Result<Option<String>> {
        let format = format!("--format=%H %(trailers:key={TRAILER},valueonly,separator=%x2C)");
        let listed = self.git(&["log", &format, &format!("{base}..HEAD")])?;
        let found =
            listed.lines().filter_map(|line| line.split_once(' ')).find(|(_, trailer)| *trailer == effect.as_str());
        Ok(found.map(|(commit, _)| commit.to_owned()))
    }

    /// Commits a tree, once for each effect; the commit. None if there is nothing to commit.
    pub(crate) fn commit(
        &self,
        tree: &TreeHash,
        message: &str,
        effect: &EffectId,
        base: &str,
        who: &Identity,
    ) -> Result<Option<String>> {
        if let Some(done) = self.commit_of(effect, base)? {
            return Ok(Some(done));
        }
        let head = self.git(&["rev-parse", "HEAD^{commit}", "HEAD^{tree}"])?;
        let (parent, committed) = head.split_once('\n').unwrap_or((&head, ""));
        if tree.as_str() == committed {
            return Ok(None);
        }
        // Nobody else writes our trailer.
        let said: Vec<&str> = message.lines().filter(|line| !line.trim_start().starts_with(TRAILER)).collect();
        let message = format!("{}\n\n{TRAILER}: {effect}\n", said.join("\n").trim());
        let commit = self.commit_tree(tree.as_str(), &[parent], &message, who)?;
        self.git(&["update-ref", "refs/heads/baton", &commit, parent])?;
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
        ask(&mut make)
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
        ask(fetch.env("GIT_ALLOW_PROTOCOL", "file")).map(drop)
    }

    /// Removes it all; the branch stays.
    pub fn remove(&self, run_id: &RunId) -> Result<()> {
        ask(git::command(&self.repository).args(["update-ref", "-d", &format!("{BASES}/{run_id}")]))?;
        remove(&self.dir)
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        ask(git::command(&self.tree()).args(args))
    }

    fn git_with(&self, index: &Path, args: &[&str]) -> Result<String> {
        ask(git::command(&self.tree()).args(args).env("GIT_INDEX_FILE", index))
    }
}

fn odd(name: &str) -> RelPath {
    let plain: String = name.chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    RelPath::parse(plain.trim_start_matches('/'))
        .or_else(|_| RelPath::parse("?"))
        .unwrap_or_else(|_| unreachable!("`?` is a path"))
}
