//! Paths and the tools: what a role may write, what a grant lets a call touch, what searches do not show, and races.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_core::{Access, CallId, PermissionMode, ToolUse};
use baton_guard::path::Pattern;
use baton_guard::{Origin, PathGuard, PermissionSettings, Rules, Scope, Verdict};
use baton_tools::{Executor, Grant, Outcome, Permit, Progress, Reach, Registry, Workspace};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const ROWS: &str = include_str!("../../../tests/samples/paths.tsv");
const ROUNDS: usize = 100_000;

struct World {
    _dir: TempDir,
    base: PathBuf,
    executor: Executor,
}

impl World {
    fn new(deny: &[&str], writable: Option<&str>, reach: Reach) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for made in ["proj/src", "proj/docs", "proj/tests", "proj/.git/hooks", "evil", "home"] {
            fs::create_dir_all(base.join(made)).unwrap();
        }
        let root = base.join("proj");
        let scope = Scope {
            root: root.clone(),
            cwd: root,
            home: base.join("home"),
            writable: writable.map(|pattern| vec![Pattern::new(pattern)]),
            ..Scope::default()
        };
        let mut rules = Rules::none();
        let deny = deny.iter().map(|rule| (*rule).to_owned()).collect();
        rules.add(&PermissionSettings { deny, ..PermissionSettings::default() }, Origin::Trusted).unwrap();
        let workspace = Workspace::guarded(PathGuard::new(scope, rules, reach), base.join("outputs")).unwrap();
        let executor = Executor::new(Registry::builtin(), Arc::new(workspace));
        Self { _dir: dir, base, executor }
    }

    fn plain() -> Self {
        Self::new(&[], None, Reach::Inside)
    }

    fn workspace(&self) -> &Workspace {
        self.executor.workspace()
    }

    fn file(&self, path: &str, contents: &str) -> PathBuf {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }

    async fn run(&self, tool: &str, input: Value, grant: Grant) -> Outcome {
        let call = ToolUse { id: CallId::new("call_1"), tool: tool.to_owned(), input, malformed: None };
        let permit = Permit { grant, ..Permit::default() };
        self.executor.run_with(&call, permit, CancellationToken::new(), Progress::none()).await
    }

    async fn ok(&self, tool: &str, input: Value) -> String {
        let outcome = self.run(tool, input, Grant::none()).await;
        assert!(!outcome.is_error, "{}", outcome.text);
        outcome.text
    }

    async fn error(&self, tool: &str, input: Value) -> String {
        let outcome = self.run(tool, input, Grant::none()).await;
        assert!(outcome.is_error, "{}", outcome.text);
        outcome.text
    }
}

#[tokio::test]
async fn a_role_writes_only_its_files() {
    let mut tried = 0;
    for row in ROWS.lines().skip(1) {
        let cells: Vec<&str> = row.split('\t').collect();
        let [expect, op, path, role, setup] = cells[..] else { panic!("{row}") };
        if role == "-" {
            continue;
        }
        let world = World::new(&[], Some(role), Reach::Inside);
        let kept = world.file("proj/src/main.rs", "fn main() {}\n");
        let fill = |text: &str| text.replace("$R", world.base.join("proj").to_str().unwrap());
        if setup != "-" {
            assert!(std::process::Command::new("bash").args(["-ec", &fill(setup)]).status().unwrap().success());
        }
        let path = fill(path);
        let outcome = if op == "rename" {
            let (from, to) = path.split_once(" -> ").unwrap();
            let moves = format!("*** Begin Patch\n*** Update File: {from}\n*** Move to: {to}\n*** End Patch");
            world.run("apply_patch", json!({"patch": moves}), Grant::none()).await
        } else {
            world.run("write", json!({"path": path, "content": "x"}), Grant::none()).await
        };
        assert_eq!(outcome.is_error, expect != "allow", "{row}: {}", outcome.text);
        assert!(!outcome.is_error || outcome.text.contains("role may write"), "{row}: {}", outcome.text);
        assert_eq!(fs::read_to_string(kept).unwrap(), "fn main() {}\n", "{row}");
        tried += 1;
    }
    assert!(tried > 5, "{tried}");
}

#[tokio::test]
async fn a_grant_is_for_one_call_and_its_paths() {
    let world = World::new(&["Read(//**/denied)"], None, Reach::Inside);
    let file = world.file("evil/a.txt", "theirs\n");
    world.file("evil/deep/b.txt", "theirs\n");
    world.file("evil/deep/.env", "theirs\n");
    world.file("evil/deep/key.pem", "theirs\n");
    world.file("evil/deep/denied", "theirs\n");
    world.file("proj/.env", "SECRET=1\n");
    symlink(world.base.join("evil"), world.base.join("proj/out")).unwrap();

    let judged = {
        let workspace = world.workspace();
        let path = workspace.resolve("out/a.txt");
        workspace.guard().judge(&path, Access::Read, PermissionMode::Auto, &Rules::none())
    };
    assert_eq!((judged.decision.verdict, judged.path.as_ref()), (Verdict::Ask, Some(&file)));
    let grant = Grant::none().path(judged.path.unwrap(), Access::Read);
    let read = world.run("read", json!({"path": "out/a.txt"}), grant.clone()).await;
    assert_eq!(read.text, "     1\ttheirs");
    assert!(world.run("read", json!({"path": "out/deep/b.txt"}), grant.clone()).await.is_error);
    assert!(world.run("write", json!({"path": "out/a.txt", "content": ""}), grant).await.is_error);
    world.error("read", json!({"path": "out/a.txt"})).await;
    let grant = Grant::none().path(world.base.join("proj/.env"), Access::Read);
    assert!(!world.run("read", json!({"path": ".env"}), grant).await.is_error);

    // A directory stands for what is in it, but not for secrets, and never for what a rule denies.
    let grant = Grant::none().path(world.base.join("evil"), Access::Read);
    let found = world.run("grep", json!({"pattern": "theirs", "path": "out"}), grant.clone()).await;
    let lines: Vec<&str> = found.text.lines().collect();
    assert_eq!(lines[..2], ["out/a.txt:1:theirs", "out/deep/b.txt:1:theirs"], "{}", found.text);
    assert!(found.text.contains("1 not shown") && found.text.contains("1 files not searched"), "{}", found.text);
    let found = world.run("glob", json!({"pattern": "**/*", "path": "out"}), grant.clone()).await;
    assert!(found.text.contains("key.pem") && !found.text.contains("denied\n"), "{}", found.text);
    assert!(world.run("read", json!({"path": "out/deep/denied"}), grant).await.is_error);

    let new = world.base.join("evil/new/file");
    let grant = Grant::none().path(&new, Access::Write);
    let wrote = world.run("write", json!({"path": "out/new/file", "content": "x"}), grant).await;
    assert!(!wrote.is_error, "{}", wrote.text);
    assert_eq!(fs::read_to_string(new).unwrap(), "x");
    assert_eq!(world.workspace().take_back("1").restored.len(), 1);
}

#[tokio::test]
async fn what_a_rule_denies_is_not_shown_and_not_searched() {
    let world = World::new(&["Read(secrets/**)", "Read(hidden)", "Read(*.log)"], None, Reach::Inside);
    for file in ["proj/secrets/a.txt", "proj/hidden/b.txt", "proj/c.log", "proj/c.txt", "proj/src/id_rsa"] {
        world.file(file, "needle\n");
    }
    assert_eq!(
        world.ok("grep", json!({"pattern": "needle"})).await,
        "c.txt:1:needle\n[4 not shown: a rule denies reading them]"
    );
    let found = world.ok("glob", json!({"pattern": "**/*"})).await;
    assert_eq!(found, "c.txt\n[4 not shown: a rule denies reading them]");
    let listed = world.ok("ls", json!({})).await;
    assert!(listed.starts_with(".git/\nc.txt  7 B\n") && listed.ends_with("[2 not shown: a rule denies reading them]"));
    assert_eq!(world.ok("ls", json!({"path": "secrets"})).await, "[1 not shown: a rule denies reading them]");
    let near = world.error("read", json!({"path": "c.lo"})).await;
    assert!(!near.contains("c.log"), "{near}");
}

#[tokio::test]
async fn everywhere_is_everywhere_but_not_what_is_no_file_or_denied() {
    let world = World::new(&["Read(//**/denied)", "Edit(//**/denied)"], None, Reach::Anywhere);
    let file = world.file("evil/a.txt", "theirs\n");
    let denied = world.file("evil/denied", "theirs\n");
    world.ok("read", json!({"path": file})).await;
    world.ok("write", json!({"path": ".git/hooks/x", "content": "x"})).await;
    fs::hard_link(&file, world.base.join("proj/hard")).unwrap();
    world.ok("edit", json!({"path": "hard", "old": "theirs", "new": "mine"})).await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
    world.error("read", json!({"path": denied})).await;
    world.error("write", json!({"path": denied, "content": "x"})).await;
    for path in ["/dev/zero", "/dev/null", "/proc/self/environ"] {
        world.error("read", json!({"path": path})).await;
        world.error("write", json!({"path": path, "content": "x"})).await;
    }
}

/// Has another thread swap each of these pairs of names, there and back, while the rounds last.
fn while_swapped(pairs: &[(PathBuf, PathBuf)], mut round: impl FnMut()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut pause = 0;
            while !done.load(Ordering::Relaxed) {
                for (one, other) in pairs.iter().flat_map(|pair| [pair, pair]) {
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                    // At all distances; whoever only renames keeps the kernel from everything else.
                    pause = (pause + 97) % 1_000;
                    (0..pause).for_each(|_| std::hint::spin_loop());
                }
            }
        });
        // Whatever goes wrong, the other thread has an end.
        let _end = Flag(&done);
        (0..ROUNDS).for_each(|_| round());
    });
}

struct Flag<'a>(&'a AtomicBool);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_byte_from_outside_is_read_while_links_are_swapped() {
    let world = World::plain();
    let at = |path: &str| world.base.join(path);
    world.file("proj/dir/f", "mine");
    world.file("proj/f", "mine");
    world.file("evil/f", "theirs");
    symlink(at("evil"), at("proj/to-dir")).unwrap();
    symlink(world.file("home/.netrc", "theirs"), at("proj/to-file")).unwrap();
    let pairs = [(at("proj/dir"), at("proj/to-dir")), (at("proj/f"), at("proj/to-file"))];
    let (mut number, mut read, mut refused) = (0, [0; 2], [0; 2]);
    while_swapped(&pairs, || {
        number = 1 - number;
        match world.workspace().find(["dir/f", "f"][number], &Grant::none()) {
            Ok(found) => {
                assert_eq!(std::io::read_to_string(found.open().unwrap()).unwrap(), "mine");
                read[number] += 1;
            }
            Err(_) => refused[number] += 1,
        }
    });
    assert!(read.iter().chain(&refused).all(|count| *count > 100), "{read:?} read, {refused:?} refused");
}
