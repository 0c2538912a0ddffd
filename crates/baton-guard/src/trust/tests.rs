use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { dir: tempfile::tempdir().unwrap() };
        scene.write(".git/HEAD", "ref: refs/heads/main\n");
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("repo")
    }

    fn write(&self, path: &str, content: &str) -> PathBuf {
        let file = self.dir.path().join("repo").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        file
    }

    fn survey(&self) -> Survey {
        survey(&self.root(), Keep::Contents)
    }

    fn paths(&self) -> Vec<String> {
        self.survey().items().iter().map(|item| item.path.clone()).collect()
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(&self.dir.path().join("state"))
    }

    fn state(&self) -> State {
        state(&self.survey(), self.ledger().get(&self.root()).unwrap().as_ref())
    }

    fn trust(&self) {
        self.ledger().put(&self.root(), &self.survey(), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(self.state(), State::Trusted);
    }
}

fn change(path: &str, change: Change) -> Difference {
    Difference { path: path.to_owned(), change }
}

#[test]
fn an_ordinary_repository_has_nothing_to_trust() {
    let scene = Scene::new();
    scene.write("README.md", "x");
    scene.write(".git/config", "[core]\nbare = false\n[remote \"origin\"]\nurl = https://h/x\n");
    scene.write(".git/hooks/pre-commit.sample", "x");
    scene.write(".git/hooks/pre-push", "not executable");
    scene.write(".baton/runs/1/state.json", "{}");
    scene.write(".baton/.gitignore", "runs/\n");
    assert_eq!(scene.state(), State::Nothing);
}

#[test]
fn trust_is_for_content_and_a_change_asks_again() {
    let scene = Scene::new();
    let file = scene.write(".baton/config.jsonc", "{}");
    scene.write(".claude/skills/a/SKILL.md", "s");
    let new = |path| change(path, Change::New);
    let both = [new(".baton/config.jsonc"), new(".claude/skills/a/SKILL.md")];
    assert_eq!(scene.state(), State::Untrusted(both.to_vec()));
    scene.trust();
    scene.write("src/main.rs", "whatever");
    assert_eq!(scene.state(), State::Trusted);
    scene.write(".baton/config.jsonc", "{ }");
    assert_eq!(scene.state(), State::Changed(vec![change(".baton/config.jsonc", Change::Changed)]));
    scene.write(".baton/config.jsonc", "{}");
    assert_eq!(scene.state(), State::Trusted);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(scene.state(), State::Changed(_)));
    fs::remove_file(&file).unwrap();
    assert_eq!(scene.state(), State::Changed(vec![change(".baton/config.jsonc", Change::Removed)]));
    assert!(scene.ledger().remove(&scene.root()).unwrap() && !scene.ledger().remove(&scene.root()).unwrap());
    assert!(matches!(scene.state(), State::Untrusted(_)));
}

#[test]
fn what_git_starts_counts_and_the_rest_of_its_settings_does_not() {
    let scene = Scene::new();
    let config = "[remote \"origin\"]\nurl = https://h/x\n[core]\nfsmonitor = ./e\n";
    scene.write(".git/config", config);
    let hook = scene.write(".git/hooks/pre-commit", "#!/bin/sh\n");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    scene.write("vendor/.git/config", "[diff]\nexternal = ./e\n");
    assert_eq!(scene.paths(), [".git/config", ".git/hooks/pre-commit", "vendor/.git/config"]);
    scene.trust();
    scene.write(".git/config", &format!("{config}[branch \"topic\"]\nremote = origin\n"));
    assert_eq!(scene.state(), State::Trusted);
    scene.write(".git/config", &config.replace("./e", "./f"));
    assert_eq!(scene.state(), State::Changed(vec![change(".git/config", Change::Changed)]));
    scene.write(".git/config", &config.replace("fsmonitor = ./e", "hooksPath = .husky"));
    let hook = scene.write(".husky/pre-push", "x");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(scene.paths(), [".git/config", ".husky/pre-push", "vendor/.git/config"]);
}

#[test]
fn links_pipes_and_large_files_are_not_followed_or_waited_for() {
    let scene = Scene::new();
    let root = scene.root();
    scene.write("docs/skills/a/SKILL.md", "s");
    fs::create_dir_all(root.join(".claude")).unwrap();
    symlink("../docs/skills", root.join(".claude/skills")).unwrap();
    assert_eq!(scene.paths(), [".claude/skills", ".claude/skills/a/SKILL.md"]);
    scene.trust();
    scene.write("docs/skills/a/SKILL.md", "other");
    assert_eq!(scene.state(), State::Changed(vec![change(".claude/skills/a/SKILL.md", Change::Changed)]));

    fs::write(scene.dir.path().join("secret"), "s").unwrap();
    fs::create_dir_all(root.join(".baton/agents")).unwrap();
    symlink("../../../secret", root.join(".baton/agents/out.md")).unwrap();
    symlink("loop", root.join(".baton/agents/loop")).unwrap();
    symlink("..", root.join(".baton/agents/up")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join(".baton/agents/pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let large = scene.write(".baton/agents/large", "");
    fs::OpenOptions::new().write(true).open(large).unwrap().set_len(1 << 40).unwrap();
    symlink("agents/large", root.join(".baton/config.jsonc")).unwrap();
    let found = scene.survey();
    let problem = |path: &str| {
        let item = found.items().iter().find(|item| item.path == path).unwrap();
        item.problem.clone().unwrap_or_default()
    };
    assert!(problem(".baton/agents/out.md").contains("leads out of the project to ../../../secret"));
    assert!(problem(".baton/agents/loop").contains("leads nowhere"));
    assert!(problem(".baton/agents/pipe").contains("neither"));
    assert!(problem(".baton/agents/large").contains("too large"));
    assert!(problem(".baton/config.jsonc").contains("is a link to agents/large"));
    scene.ledger().put(&root, &found, Timestamp::UNIX_EPOCH).unwrap();
    assert!(matches!(scene.state(), State::Changed(_)), "what cannot be covered is never trusted");
}

#[test]
fn names_are_shown_as_they_are_and_nothing_hides() {
    let scene = Scene::new();
    let dir = scene.root().join(".baton/agents");
    fs::create_dir_all(&dir).unwrap();
    for name in [&b"a\xff.md"[..], b"a\\xff.md", b"a\n.md", "a\u{202e}.md".as_bytes()] {
        fs::write(dir.join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let paths = scene.paths();
    assert_eq!(paths.len(), 4);
    assert!(paths.iter().all(|path| path.is_ascii() && !path.contains('\n')), "{paths:?}");
    fs::create_dir(scene.root().join(".agents")).unwrap();
    symlink("/nowhere", scene.root().join(".agents/skills")).unwrap();
    assert_eq!(scene.survey().items().len(), 5);
}

#[test]
fn the_ledger_is_for_one_person_and_many_writers() {
    let scene = Scene::new();
    scene.write(".mcp.json", "{}");
    scene.trust();
    let file = scene.dir.path().join("state/trust.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let hash = scene.survey().items()[0].hash.clone();
    assert_eq!(scene.ledger().content(&hash).as_deref(), Some(&b"{}"[..]));
    let (ledger, survey) = (scene.ledger(), scene.survey());
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (ledger, survey) = (&ledger, &survey);
            scope.spawn(move || ledger.put(Path::new(&format!("/p{n}")), survey, Timestamp::UNIX_EPOCH).unwrap());
        }
    });
    assert_eq!(ledger.list().unwrap().len(), 9);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(ledger.get(&scene.root()), Err(LedgerError::Foreign { .. })));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "{").unwrap();
    assert!(matches!(ledger.get(&scene.root()), Err(LedgerError::Damaged { .. })));
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let item = ("[abc./]{1,4}", "[0-9]{1,3}", prop::bool::weighted(0.1)).prop_map(|(path, hash, bad)| Item {
        path,
        hash,
        problem: bad.then(|| "bad".to_owned()),
        content: None,
    });
    prop::collection::vec(item, 0..6)
}

proptest! {
    #[test]
    fn trusted_means_exactly_this(first in items(), second in items(), order in any::<bool>()) {
        let (a, b) = (Survey::new(first.clone()), Survey::new(second));
        let record = Record { hash: a.hash(), at: Timestamp::UNIX_EPOCH, files: a.hashes() };
        let same = a.hashes() == b.hashes();
        prop_assert_eq!(a.hash() == b.hash(), same);
        let found = state(&b, Some(&record));
        let is_good = b.items().iter().all(|item| item.problem.is_none());
        prop_assert_eq!(found == State::Trusted, same && is_good && !b.items().is_empty(), "{:?}", found);
        prop_assert!(state(&b, None) != State::Trusted);
        let mut shuffled = a.items().to_vec();
        if order { shuffled.reverse(); }
        prop_assert_eq!(Survey::new(shuffled).hash(), a.hash());
    }

    #[test]
    fn a_name_is_shown_as_no_other(a in prop::collection::vec(any::<u8>(), 0..8), b in prop::collection::vec(any::<u8>(), 0..8)) {
        prop_assert_eq!(survey::shown(&a) == survey::shown(&b), a == b);
    }
}
