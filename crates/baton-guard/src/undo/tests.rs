//! A session from its first call to its undo, with real files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use baton_core::PermissionMode;

use super::*;
use crate::path::Scope;
use crate::{Context, Rules, analyse, evaluate_command};

struct Scene {
    temp: tempfile::TempDir,
    sessions: u32,
}

const PLAIN: How = How { changed: Changed::Refuse, skips: false, is_dry: false };

impl Scene {
    fn new() -> Self {
        let scene = Self { temp: tempfile::tempdir().unwrap(), sessions: 0 };
        fs::create_dir(scene.temp.path().join("project")).unwrap();
        scene
    }

    fn root(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("project")
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("undo")
    }

    fn session(&mut self) -> Undo {
        self.sessions += 1;
        let undo = Undo::new(&self.dir(), &format!("s{}", self.sessions), vec![self.root()], Vec::new());
        undo.begin_turn();
        undo
    }

    fn write(&self, name: &str, bytes: &str) {
        let file = self.root().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.root().join(name)).ok()
    }

    fn named(&self, command: &str) -> Named {
        let scope = self.scope();
        Named::of(&analyse(command, &scope), &scope)
    }

    fn scope(&self) -> Scope {
        let root = self.root();
        Scope { cwd: root.clone(), root, home: "/nowhere".into(), ..Scope::default() }
    }

    fn run(&self, undo: &Undo, command: &str) -> Summary {
        let summary = undo.before_command(command, &self.named(command)).unwrap();
        self.shell(command);
        undo.after().unwrap();
        summary
    }

    fn shell(&self, command: &str) {
        let output =
            std::process::Command::new("bash").args(["-c", command]).current_dir(self.root()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn undo(&self, which: &Which, how: How) -> Result<Undone, Refusal> {
        History::read(&self.dir()).unwrap().undo(which, how)
    }
}

#[test]
fn a_command_is_taken_back_and_that_as_well() {
    let mut scene = Scene::new();
    scene.write("a", "1");
    scene.write("d/b", "2");
    fs::create_dir(scene.root().join("empty")).unwrap();
    symlink("d/b", scene.root().join("link")).unwrap();
    fs::set_permissions(scene.root().join("a"), fs::Permissions::from_mode(0o751)).unwrap();
    let session = scene.session();
    scene.run(&session, "rm -rf d empty link; chmod 600 a; echo 3 >a; mkdir -p n/m; echo 4 > n/m/new");
    drop(session);
    assert_eq!(scene.read("a").as_deref(), Some("3\n"));
    let undone = scene.undo(&Which::Last, PLAIN).unwrap();
    assert_eq!(undone.left, []);
    assert_eq!(
        (scene.read("a"), scene.read("d/b"), scene.read("link")),
        (Some("1".into()), Some("2".into()), Some("2".into()))
    );
    assert!(scene.root().join("empty").is_dir() && !scene.root().join("n").exists());
    assert_eq!(scene.root().join("a").metadata().unwrap().permissions().mode() & 0o777, 0o751);
    assert!(matches!(scene.undo(&Which::Last, PLAIN), Err(Refusal::Nothing)));
    scene.undo(&Which::Undo, PLAIN).unwrap();
    assert_eq!((scene.read("a").as_deref(), scene.read("n/m/new").as_deref()), (Some("3\n"), Some("4\n")));
    scene.undo(&Which::Last, PLAIN).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("1"));
}

#[test]
fn turns_are_taken_back_one_by_one_or_together() {
    let mut scene = Scene::new();
    scene.write("a", "0");
    let session = scene.session();
    for turn in 1..=3 {
        scene.run(&session, &format!("echo {turn} > a; touch t{turn}"));
        session.begin_turn();
    }
    drop(session);
    let Err(Refusal::Conflicts(plan)) = scene.undo(&Which::Turn(None, 1), PLAIN) else { panic!("a was changed later") };
    assert_eq!(plan.conflicts, [(scene.root().join("a"), Why::ChangedSince)]);
    assert!(scene.root().join("t1").exists(), "nothing is done by half");
    scene.undo(&Which::Last, PLAIN).unwrap();
    assert_eq!((scene.read("a").as_deref(), scene.read("t3")), (Some("2\n"), None));
    scene.undo(&Which::Session(None), PLAIN).unwrap();
    assert_eq!((scene.read("a").as_deref(), scene.read("t1"), scene.read("t2")), (Some("0"), None, None));
    let turns = History::read(&scene.dir()).unwrap();
    assert!(turns.turns().iter().filter(|turn| !turn.is_undo()).all(|turn| turn.is_undone));
}

#[test]
fn a_persons_changes_are_refused_skipped_or_overwritten() {
    let mut scene = Scene::new();
    scene.write("a", "1");
    scene.write("b", "1");
    let session = scene.session();
    scene.run(&session, "echo 2 | tee a > b");
    assert!(matches!(scene.undo(&Which::Last, PLAIN), Err(Refusal::Running(_))));
    drop(session);
    scene.write("a", "person");
    assert!(matches!(scene.undo(&Which::Last, PLAIN), Err(Refusal::Conflicts(_))));
    assert_eq!(scene.read("b").as_deref(), Some("2\n"));
    let dry = How { is_dry: true, skips: true, ..PLAIN };
    assert_eq!(scene.undo(&Which::Last, dry).unwrap().changes.len(), 1);
    assert_eq!(scene.read("b").as_deref(), Some("2\n"));
    let undone = scene.undo(&Which::Last, How { skips: true, ..PLAIN }).unwrap();
    assert_eq!(undone.left.len(), 1);
    assert_eq!((scene.read("a").as_deref(), scene.read("b").as_deref()), (Some("person"), Some("1")));
    scene.undo(&Which::Turn(None, 1), How { changed: Changed::Overwrite, ..PLAIN }).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("1"));
    scene.undo(&Which::Undo, PLAIN).unwrap();
    assert_eq!(scene.read("a").as_deref(), Some("person"));
}

#[test]
fn what_was_interrupted_is_found_out_later() {
    let mut scene = Scene::new();
    scene.write("a", "1");
    scene.write("ignored", "secret");
    scene.write(".gitignore", "ignored\n");
    let session = scene.session();
    session.before_command("make", &scene.named("make")).unwrap();
    drop(session);
    // What was ignored then is not new because it is not ignored now.
    scene.shell("rm a; echo > new; rm .gitignore");
    let undone = scene.undo(&Which::Last, PLAIN).unwrap();
    assert!(undone.is_found_later);
    assert_eq!((scene.read("a").as_deref(), scene.read("new")), (Some("1"), None));
    assert_eq!(scene.read("ignored").as_deref(), Some("secret"));

    let session = scene.session();
    session.before_files("write b", &[&scene.root().join("deep/b")]).unwrap();
    scene.write("deep/b", "1");
    drop(session);
    // The next session comes along before anybody asks.
    let session = scene.session();
    session.before_files("write c", &[&scene.root().join("c")]).unwrap();
    scene.write("c", "1");
    session.after().unwrap();
    drop(session);
    scene.undo(&Which::Last, PLAIN).unwrap();
    assert_eq!((scene.read("c"), scene.read("deep/b").as_deref()), (None, Some("1")));
    scene.undo(&Which::Last, PLAIN).unwrap();
    assert!(!scene.root().join("deep").exists());
}

#[test]
fn ignored_files_are_kept_where_they_are_named() {
    let mut scene = Scene::new();
    scene.write(".gitignore", "*.log\nbuild/\n.env\n/large\n");
    for (name, bytes) in [("a.log", "log"), ("build/x/y", "y"), (".env", "key"), ("src/b.log", "b"), ("b.txt", "t")] {
        scene.write(name, bytes);
    }
    let session = scene.session();
    let is_kept = |command: &str, names: &[&str]| {
        let before: Vec<_> = names.iter().map(|name| scene.read(name)).collect();
        scene.run(&session, command);
        let after: Vec<_> = names.iter().map(|name| scene.read(name)).collect();
        assert_ne!(before, after, "{command}");
        session.begin_turn();
        (before, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), command.to_owned())
    };
    let mut all = Vec::new();
    for (command, names) in [
        ("rm *.log", &["a.log"][..]),
        ("rm -rf build src", &["build/x/y", "src/b.log"]),
        ("echo other > .env", &[".env"]),
        ("mv .env build.env", &[".env", "build.env"]),
        ("echo new > new.log", &["new.log"]),
        ("find . -name '*.log' -delete", &["new.log"]),
    ] {
        all.push(is_kept(command, names));
    }
    drop(session);
    for (before, names, command) in all.into_iter().rev() {
        scene.undo(&Which::Last, PLAIN).unwrap();
        let now: Vec<_> = names.iter().map(|name| scene.read(name)).collect();
        assert_eq!(now, before, "{command}");
    }
    fs::write(scene.root().join("large"), "").unwrap();
    fs::File::options().write(true).open(scene.root().join("large")).unwrap().set_len(3 << 30).unwrap();
    let session = scene.session();
    let foreseen = session.foresee(&scene.named("rm -rf large .env"));
    assert_eq!(foreseen.ignored, [(scene.root().join("large"), 3 << 30)]);
    let command = "rm -rf large .env; curl https://example.com > /etc/x";
    let (named, scope) = (scene.named(command), scene.scope());
    let said = what_cannot_be_restored(&analyse(command, &scope), &named, &scope, &foreseen).join("\n");
    for part in ["large 3.2 GB", "outside of the workspace: /etc/x", "other machines"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains(".env"), "{said}");
}

#[test]
fn a_command_that_only_reads_is_known() {
    let scene = Scene::new();
    let context = Context { scope: scene.scope(), sandboxed: false, hosts: Vec::new() };
    for command in ["ls", "git log | head", "grep -rn x .", "cat a; wc -l b"] {
        assert!(scene.named(command).is_read_only, "{command}");
        let decision =
            evaluate_command(&analyse(command, &scene.scope()), PermissionMode::Ask, &Rules::none(), &context);
        assert_eq!(decision.rule, "command.read-only");
    }
    for command in ["rm a", "make", "ls > a", "git stash", "python x.py", "$X", "sed -i s/a/b/ f"] {
        assert!(!scene.named(command).is_read_only, "{command}");
    }
}

#[test]
fn a_file_that_has_not_changed_is_not_read_again() {
    let mut scene = Scene::new();
    scene.write("a", "1");
    let file = scene.root().join("a");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let blobs = scene.dir().join("blobs");
    let count = || fs::read_dir(&blobs).map_or(0, Iterator::count);
    // Its change of a moment ago has to be past for its stamp to count.
    while manifest::now() - stamp_ctime(&file) < 60_000_000 {
        std::thread::yield_now();
    }
    let session = scene.session();
    scene.run(&session, "true $X");
    assert!(count() > 0);
    drop(session);
    fs::remove_dir_all(&blobs).unwrap();
    let session = scene.session();
    scene.run(&session, "true $X");
    assert_eq!(count(), 0, "also by the next session");
}

fn stamp_ctime(file: &Path) -> i64 {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().unwrap();
    metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec()
}

#[test]
fn the_oldest_sessions_go_when_the_disk_is_full() {
    let mut scene = Scene::new();
    for session in 1..=3 {
        scene.write("a", &format!("{session}").repeat(1000));
        let undo = scene.session();
        undo.before_files("write a", &[&scene.root().join("a")]).unwrap();
        scene.write("a", "");
        undo.after().unwrap();
    }
    let now = std::time::SystemTime::now();
    let age = |path: PathBuf, seconds| {
        let file = fs::File::options().append(true).open(path).unwrap();
        file.set_modified(now - std::time::Duration::from_secs(seconds)).unwrap();
    };
    age(scene.dir().join("pruned.jsonl"), 100_000);
    for session in 1..=3 {
        age(scene.dir().join(format!("log/s{session}.jsonl")), 100_000 - session);
    }
    for dir in fs::read_dir(scene.dir().join("blobs")).unwrap().flatten().filter(|dir| dir.path().is_dir()) {
        for blob in fs::read_dir(dir.path()).unwrap().flatten() {
            age(blob.path(), 100_000);
        }
    }
    prune::prune(&scene.dir(), "s4", 2_100);
    assert_eq!(log::sessions(&scene.dir()), ["s2", "s3"]);
    assert!(fs::read_to_string(scene.dir().join("pruned.jsonl")).unwrap().contains("\"session\":\"s1\""));
    assert_eq!(Blobs::new(scene.dir().join("blobs")).all().len(), 3);
    scene.undo(&Which::Session(Some("s3".into())), PLAIN).unwrap();
    assert_eq!(scene.read("a"), Some("3".repeat(1000)));
}
