use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A repository with one commit and one change, and a program that leaves a mark when it is started.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.root()).unwrap();
        scene.plain(&["init", "--quiet"]);
        fs::write(scene.root().join("a.txt"), "one\n").unwrap();
        fs::write(scene.root().join(".gitattributes"), "*.txt diff=x filter=x merge=x\n").unwrap();
        scene.plain(&["add", "."]);
        scene.plain(&["commit", "--quiet", "-m", "first"]);
        fs::write(scene.root().join("a.txt"), "one\ntwo\n").unwrap();
        let evil = scene.evil();
        fs::write(
            &evil,
            format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\ncat \"$1\" 2>/dev/null\ntrue\n", scene.mark().display()),
        )
        .unwrap();
        fs::set_permissions(evil, fs::Permissions::from_mode(0o755)).unwrap();
        scene
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn evil(&self) -> PathBuf {
        self.dir.path().join("evil")
    }

    fn mark(&self) -> PathBuf {
        self.dir.path().join("mark")
    }

    fn git(&self) -> Command {
        let mut git = Command::new("git");
        git.current_dir(self.root()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x"]);
        git
    }

    fn plain(&self, args: &[&str]) {
        assert!(self.git().args(args).status().unwrap().success(), "{args:?}");
    }

    fn ran(&self) -> bool {
        let ran = self.mark().exists();
        drop(fs::remove_file(self.mark()));
        ran
    }
}

/// What a hostile repository sets, and a command that makes git obey it.
const ATTACKS: [(&str, &str, &[&str]); 15] = [
    ("fsmonitor", "[core]\nfsmonitor = EVIL\n", &["status"]),
    ("external diff", "[diff]\nexternal = EVIL\n", &["diff"]),
    ("diff command", "[diff \"x\"]\ncommand = EVIL\n", &["diff"]),
    ("textconv", "[diff \"x\"]\ntextconv = EVIL\n", &["diff"]),
    ("textconv of a log", "[diff \"x\"]\ntextconv = EVIL\n", &["log", "-p"]),
    ("textconv of a blame", "[diff \"x\"]\ntextconv = EVIL\n", &["blame", "a.txt"]),
    ("clean filter", "[filter \"x\"]\nclean = EVIL\nrequired = true\n", &["diff"]),
    ("filter process", "[filter \"x\"]\nprocess = EVIL\n", &["diff"]),
    ("smudge filter", "[filter \"x\"]\nsmudge = EVIL\n", &["checkout", "--", "a.txt"]),
    ("signature", "[gpg]\nprogram = EVIL\n[commit]\ngpgSign = true\n", &["commit", "--allow-empty", "-m", "x"]),
    ("pager", "[core]\npager = EVIL\n[pager]\nstatus = EVIL\n", &["--paginate", "status"]),
    ("alias", "[alias]\nst = !EVIL\n", &["st"]),
    ("upload pack", "[remote \"o\"]\nurl = .\nuploadpack = EVIL\n", &["fetch", "o"]),
    ("ssh", "[remote \"o\"]\nurl = ssh://localhost/x\n[core]\nsshCommand = EVIL\n", &["fetch", "o"]),
    ("address", "[protocol \"ext\"]\nallow = always\n[remote \"o\"]\nurl = ext::EVIL x\n", &["fetch", "o"]),
];

#[test]
fn nothing_that_a_repository_names_is_started() {
    for (what, config, args) in ATTACKS {
        let scene = Scene::new();
        let file = scene.root().join(".git/config");
        let own = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{own}{}", config.replace("EVIL", &scene.evil().display().to_string()))).unwrap();
        drop(scene.git().args(args).stdin(Stdio::null()).output().unwrap());
        // The pager is started on terminals only, which there is none of here.
        assert!(scene.ran() || what == "pager", "{what}: the attack works without us");
        // The clean copy, so that every command has the same to do.
        fs::write(scene.root().join("a.txt"), "one\ntwo\n").unwrap();
        drop(
            scene.git().args(args).envs(quiet(&scene.root(), Quiet::Untrusted)).stdin(Stdio::null()).output().unwrap(),
        );
        assert!(!scene.ran(), "{what}: a command of an agent");
        let own = command(&scene.root()).args(args).output().unwrap();
        assert!(!scene.ran(), "{what}: our own call");
        if matches!(args[0], "status" | "diff" | "log") {
            assert!(own.status.success() && !own.stdout.is_empty(), "{what}: {own:?}");
        }
    }
}

#[test]
fn hooks_of_a_repository_and_of_those_below_it_do_not_run() {
    let scene = Scene::new();
    let hook = |dir: &str| {
        let hooks = scene.root().join(dir);
        fs::create_dir_all(&hooks).unwrap();
        fs::copy(scene.evil(), hooks.join("post-index-change")).unwrap();
        fs::copy(scene.evil(), hooks.join("pre-commit")).unwrap();
    };
    hook(".git/hooks");
    hook(".husky");
    for config in ["", "[core]\nhooksPath = .husky\n"] {
        let file = scene.root().join(".git/config");
        let own = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{own}{config}")).unwrap();
        let commit = ["commit", "--quiet", "--allow-empty", "-m", "next"];
        assert!(scene.git().args(commit).status().unwrap().success() && scene.ran());
        let quieted = scene.git().args(commit).envs(quiet(&scene.root(), Quiet::Untrusted)).status().unwrap();
        assert!(quieted.success() && !scene.ran());
        assert!(command(&scene.root()).args(["status"]).output().unwrap().status.success() && !scene.ran());
        assert_eq!(control(&scene.root()).hooks.len(), 2);
    }
}

#[test]
fn settings_are_found_behind_pointers_and_includes() {
    let scene = Scene::new();
    let root = scene.root();
    let evil = scene.evil().display().to_string();
    // A repository elsewhere, to which a file points; what names the program is in a file that is included.
    fs::rename(root.join(".git"), scene.dir.path().join("elsewhere")).unwrap();
    fs::write(root.join(".git"), "gitdir: ../elsewhere\n").unwrap();
    fs::write(root.join("more"), format!("[diff \"x\"]\ntextconv = {evil}\n")).unwrap();
    let file = scene.dir.path().join("elsewhere/config");
    let own = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{own}[includeIf \"gitdir:/\"]\npath = ../repo/more\n")).unwrap();
    assert!(programs_named(&control(&root)).contains("diff.x.textconv"));
    assert!(scene.git().arg("diff").output().unwrap().status.success() && scene.ran());
    assert!(scene.git().arg("diff").envs(quiet(&root, Quiet::Untrusted)).output().unwrap().status.success());
    assert!(command(&root).arg("diff").output().unwrap().status.success() && !scene.ran());
}

#[test]
fn a_repository_hidden_in_another_is_not_obeyed() {
    let scene = Scene::new();
    let bare = scene.root().join("docs");
    let copy = Command::new("cp").arg("-r").arg(scene.root().join(".git")).arg(&bare).status();
    assert!(copy.unwrap().success());
    let settings = format!(
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = {}\n",
        scene.evil().display()
    );
    fs::write(bare.join("config"), settings).unwrap();
    let status = |vars: Vec<(OsString, OsString)>| {
        drop(scene.git().arg("status").current_dir(&bare).envs(vars).output().unwrap());
        scene.ran()
    };
    assert!(status(Vec::new()), "the attack works without us");
    assert!(!status(quiet(&scene.root(), Quiet::Unnamed)));
    assert!(!status(quiet(&scene.root(), Quiet::Untrusted)));
    command(&bare).arg("status").output().unwrap();
    assert!(!scene.ran());
}

#[test]
fn a_work_tree_elsewhere_is_not_touched() {
    let scene = Scene::new();
    let outside = scene.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    scene.plain(&["config", "core.worktree", "../../outside"]);
    let vars = quiet(&scene.root(), Quiet::Untrusted);
    drop(scene.git().args(["checkout", "--", "."]).envs(vars).output().unwrap());
    assert!(!outside.join("a.txt").exists());
    fs::write(scene.root().join("a.txt"), "changed\n").unwrap();
    let output = command(&scene.root()).args(["status", "--short"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), " M a.txt\n");
}

#[test]
fn settings_that_cannot_be_read_leave_no_repository() {
    let scene = Scene::new();
    let file = scene.root().join(".git/config");
    let own = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{own}{}[core]\nfsmonitor = {}\n", "# long\n".repeat(200_000), scene.evil().display()))
        .unwrap();
    drop(scene.git().arg("status").envs(quiet(&scene.root(), Quiet::Untrusted)).output().unwrap());
    drop(command(&scene.root()).arg("status").output().unwrap());
    assert!(!scene.ran());
}

#[test]
fn the_path_has_no_relative_entries() {
    assert_eq!(without_relative(OsStr::new("/usr/bin:/bin")), None);
    assert_eq!(without_relative(OsStr::new(".:/usr/bin::bin:/bin")), Some("/usr/bin:/bin".into()));
}
