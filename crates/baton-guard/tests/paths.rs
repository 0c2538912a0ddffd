//! Paths in a real tree: links, hard links, devices, protected places, a role's files, and a race.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_core::{Access, PermissionMode};
use baton_guard::path::{Pattern, resolve};
use baton_guard::{Context, Grant, Origin, PathGuard, PermissionSettings, Reach, Rules, Scope, Verdict};

struct World {
    dir: tempfile::TempDir,
    root: PathBuf,
    rules: Rules,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let root = base.join("proj");
        for made in [
            "proj/src",
            "proj/docs",
            "proj/tests",
            "proj/secrets",
            "proj/app",
            "proj/.git/hooks",
            "proj/.baton",
            "proj-evil",
            "home/.ssh",
        ] {
            fs::create_dir_all(base.join(made)).unwrap();
        }
        for file in [
            "proj/src/main.rs",
            "proj/Cargo.toml",
            "proj/secrets/key.pem",
            "proj/.env",
            "proj/.env.example",
            "proj/app/.env.local",
            "proj/.git/config",
            "proj-evil/secret.txt",
            "home/.bashrc",
            "home/.netrc",
            "home/.ssh/id_ed25519",
        ] {
            fs::write(base.join(file), file).unwrap();
        }
        let list =
            |tool: &str| ["secrets/**", "**/.env*", "!**/.env.example"].map(|spec| format!("{tool}({spec})")).to_vec();
        let settings = PermissionSettings {
            deny: [list("Read"), list("Edit")].concat(),
            allow: vec!["Read(.env.example)".to_owned()],
            ..PermissionSettings::default()
        };
        let mut rules = Rules::none();
        rules.add(&settings, Origin::Trusted).unwrap();
        Self { dir, root, rules }
    }

    fn base(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn scope(&self, writable: Option<&str>) -> Scope {
        Scope {
            root: self.root.clone(),
            cwd: self.root.clone(),
            home: self.base().join("home"),
            writable: writable.map(|pattern| vec![Pattern::new(pattern)]),
            ..Scope::default()
        }
    }

    fn decide(&self, path: &str, access: Access, scope: Option<&str>) -> Verdict {
        let context = Context { scope: self.scope(scope), sandboxed: true, hosts: Vec::new() };
        let path =
            path.replace("$R", &self.root.display().to_string()).replace("$T", &self.base().display().to_string());
        resolve::decide(&path, access, PermissionMode::AcceptEdits, &self.rules, &context).verdict
    }
}

#[test]
fn paths_lead_where_they_may() {
    let world = World::new();
    let (root, base) = (world.root.clone(), world.base());
    fs::write(root.join("-rf"), "x").unwrap();
    symlink("src/main.rs", root.join("in")).unwrap();
    symlink("/etc/passwd", root.join("pw")).unwrap();
    symlink(root.join("l2"), root.join("l1")).unwrap();
    symlink("/etc/passwd", root.join("l2")).unwrap();
    symlink(base.join("home/.bashrc2"), root.join("dangling")).unwrap();
    symlink("secrets/key.pem", root.join("pub.pem")).unwrap();
    symlink("/proc/self/environ", root.join("env")).unwrap();
    symlink("/dev/zero", root.join("zero")).unwrap();
    symlink("../src", root.join("docs/s")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    fs::hard_link(base.join("home/.bashrc"), root.join("hard")).unwrap();
    fs::create_dir_all(root.join("vendor/lib/.git/hooks")).unwrap();
    let long = format!("$R/{}x", "a/".repeat(5000));
    for (access, path, scope) in [
        (Access::Read, "$R/src/main.rs", None),
        (Access::Write, "$R/src/new.rs", None),
        (Access::Read, "$R//src///main.rs", None),
        (Access::Read, "$R/-rf", None),
        (Access::Read, "$R", None),
        (Access::Read, "$R/in", None),
        (Access::Read, "$R/.env.example", None),
        (Access::Write, "$R/docs/new.md", Some("docs/**")),
    ] {
        assert_eq!(world.decide(path, access, scope), Verdict::Allow, "{path}");
    }
    for (access, path, scope) in [
        (Access::Read, "$T/proj-evil/secret.txt", None),
        (Access::Read, "$R/../proj-evil/secret.txt", None),
        (Access::Read, "$R/src/../../home/.ssh/id_ed25519", None),
        (Access::Read, "/etc/passwd", None),
        (Access::Read, "$R/..\u{2215}proj-evil\u{2215}secret.txt", None),
        (Access::Read, "..\\..\\etc\\passwd", None),
        (Access::Read, "$HOME/.netrc", None),
        (Access::Read, "file://$R/src%2f..%2f..%2fhome/.netrc", None),
        (Access::Read, long.as_str(), None),
        (Access::Read, "", None),
        (Access::Read, "$R/pw", None),
        (Access::Read, "$R/l1", None),
        (Access::Write, "$R/dangling", None),
        (Access::Read, "$R/pub.pem", None),
        (Access::Read, "$R/env", None),
        (Access::Read, "$R/loop", None),
        (Access::Read, "/proc/self/cwd/../proj-evil/secret.txt", None),
        (Access::Read, "/dev/fd/0", None),
        (Access::Write, "/proc/self/mem", None),
        (Access::Read, "$R/zero", None),
        (Access::Write, "/dev/shm/x", None),
        (Access::Write, "$R/.git/config", None),
        (Access::Write, "$R/vendor/lib/.git/hooks/post-checkout", None),
        (Access::Write, "$R/.mcp.json", None),
        (Access::Write, "$R", None),
        (Access::Read, "$R/.env", None),
        (Access::Read, "$R/app/.env.local", None),
        (Access::Read, "$R/src/../.env", None),
        (Access::Write, "$R/docs/../src/main.rs", Some("docs/**")),
        (Access::Write, "$R/docs/s/main.rs", Some("docs/**")),
        (Access::Write, "$R/tests/x.sh", Some("tests/**/*.rs")),
        (Access::Write, "/etc/cron.d/x", None),
        (Access::Write, "../.git/hooks/pre-commit", None),
        (Access::Read, "../home/.netrc", None),
    ] {
        assert_ne!(world.decide(path, access, scope), Verdict::Allow, "{path}");
    }
    assert_eq!(world.decide("$R/hard", Access::Write, None), Verdict::Ask);
}

#[test]
fn a_link_in_place_of_a_protected_directory_protects_nothing_else() {
    let world = World::new();
    for (name, decoy) in [(".git", "decoy"), (".baton", "d")] {
        fs::remove_dir_all(world.root.join(name)).unwrap();
        fs::create_dir(world.root.join(decoy)).unwrap();
        symlink(decoy, world.root.join(name)).unwrap();
        assert_eq!(world.decide(&format!("$R/{name}/config"), Access::Write, None), Verdict::Deny);
    }
}

#[test]
fn a_handle_never_leaves_its_directory_while_links_are_swapped() {
    const ROUNDS: usize = 20_000;
    let world = World::new();
    let (plain, link, at) = (world.root.join("plain"), world.root.join("link"), world.root.join("f"));
    fs::write(&plain, "mine").unwrap();
    fs::write(&at, "mine").unwrap();
    symlink(world.base().join("home/.netrc"), &link).unwrap();
    let guard = PathGuard::new(world.scope(None), world.rules.clone(), Reach::Inside);
    let done = AtomicBool::new(false);
    let (mut opened, mut refused) = (0, 0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::rename(&link, &at).unwrap();
                symlink(world.base().join("home/.netrc"), &link).unwrap();
                fs::rename(&plain, &at).unwrap();
                fs::write(&plain, "mine").unwrap();
            }
        });
        for _ in 0..ROUNDS {
            match guard.find(&at, &Grant::none()) {
                Ok(found) => {
                    opened += 1;
                    assert_eq!(std::io::read_to_string(found.open().unwrap()).unwrap(), "mine");
                }
                Err(_) => refused += 1,
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}
