//! Paths as a model may give them, against the real tools: what is denied is not read, written, removed or told.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::run;

const ROWS: &str = include_str!("samples/paths.tsv");

/// What no tool may give away: it is in every file that may not be read.
const CANARY: &str = "CANARY";
/// What tools write here.
const WRITTEN: &str = "WRITTEN";

struct Scene {
    dir: TempDir,
    base: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap().join("t");
        for made in
            ["proj/src", "proj/docs", "proj/tests", "proj/secrets", "proj/app", "proj/.baton", "proj-evil", "home/.ssh"]
        {
            fs::create_dir_all(base.join(made)).unwrap();
        }
        for (file, contents) in
            [("proj/src/main.rs", "fn main() {}\n"), ("proj/Cargo.toml", ""), ("proj/.env.example", "A=\n")]
        {
            fs::write(base.join(file), contents).unwrap();
        }
        for file in [
            "proj/secrets/key.pem",
            "proj/.env",
            "proj/app/.env.local",
            "proj-evil/secret.txt",
            "home/.bashrc",
            "home/.netrc",
            "home/.ssh/id_ed25519",
        ] {
            fs::write(base.join(file), format!("{CANARY} of {file}\n")).unwrap();
        }
        let made = Command::new("git").args(["init", "-q"]).current_dir(base.join("proj")).status().unwrap();
        assert!(made.success());
        let scene = Self { dir, base };
        fs::create_dir(scene.own()).unwrap();
        let list = |tool: &str| ["secrets/**", "**/.env*", "!**/.env.example"].map(|spec| format!("{tool}({spec})"));
        let deny = [list("Read"), list("Edit")].concat();
        let rules = json!({"deny": deny, "allow": ["Read(.env.example)"]});
        fs::write(scene.own().join("config.jsonc"), json!({"permissions": rules}).to_string()).unwrap();
        fs::write(scene.own().join("credentials"), CANARY).unwrap();
        scene
    }

    /// Baton's own directory.
    fn own(&self) -> PathBuf {
        self.base.with_file_name("own")
    }

    fn fill(&self, text: &str) -> String {
        let names = [("$R", "proj"), ("$T", "")];
        let text = text.replace("$B", self.own().to_str().unwrap());
        names.iter().fold(text, |text, (name, dir)| {
            text.replace(name, self.base.join(dir).to_str().unwrap().trim_end_matches('/'))
        })
    }

    /// Everything that there is, as far as an agent could change it.
    fn all(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut dirs = vec![self.base.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap().flatten() {
                let (path, metadata) = (entry.path(), entry.metadata().unwrap());
                let holds = if metadata.is_dir() {
                    dirs.push(path.clone());
                    "a directory".to_owned()
                } else if metadata.is_symlink() {
                    format!("a link to {}", fs::read_link(&path).unwrap().display())
                } else if metadata.is_file() && metadata.len() < 1 << 20 {
                    format!("{:o} {:?}", metadata.mode(), fs::read(&path).unwrap())
                } else {
                    format!("{:o} {}", metadata.mode(), metadata.len())
                };
                all.insert(path, holds);
            }
        }
        all
    }

    /// What the tool of a row answers, and whether that is an error.
    fn call(&self, tool: &str, input: &Value) -> (String, bool) {
        let script = self.dir.path().join("script.jsonl");
        let lines = [json!({"call": [{"tool": tool, "input": input}]}), json!({"say": "done"})];
        fs::write(&script, lines.map(|line| line.to_string()).join("\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command
            .args(["exec", "--json", "--permission-mode", "auto", "-m", &format!("script/{}", script.display()), "go"])
            .current_dir(self.base.join("proj"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.base.join("home"))
            .env("BATON_HOME", self.own())
            .stdin(Stdio::null());
        let run = run(command);
        // Links in a project's settings end it before it begins.
        if run.code == 2 && run.stderr.contains("links in a project's settings are refused") {
            return (run.stderr, true);
        }
        let ends = run.expect(0).tool_ends();
        (ends[0]["output"].as_str().unwrap().to_owned(), ends[0]["is_error"] == json!(true))
    }
}

/// The call that does what a row says.
fn call(op: &str, path: &str) -> (&'static str, Value) {
    let patched = |body: String| ("apply_patch", json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")}));
    match op.split_once(':') {
        Some(("glob", pattern)) => return ("glob", json!({"pattern": pattern, "path": path})),
        Some(("grep", pattern)) => return ("grep", json!({"pattern": pattern, "path": path})),
        _ => {}
    }
    match op {
        "read" => ("read", json!({"path": path})),
        "list" => ("ls", json!({"path": path})),
        "write" | "create" => ("write", json!({"path": path, "content": WRITTEN})),
        "edit" => ("edit", json!({"path": path, "old": "A", "new": WRITTEN})),
        "delete" => patched(format!("*** Delete File: {path}")),
        "rename" => {
            let (from, to) = path.split_once(" -> ").unwrap();
            patched(format!("*** Update File: {from}\n*** Move to: {to}"))
        }
        _ => panic!("{op}"),
    }
}

fn unmark(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟦') {
        out.push_str(before);
        let (mark, after) = after.split_once('⟧').unwrap();
        if mark == "NUL" {
            out.push('\0');
        } else if let Some(code) = mark.strip_prefix("U+") {
            out.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        } else {
            let (count, text) = mark.strip_prefix("REP*").unwrap().split_once(':').unwrap();
            out.push_str(&text.repeat(count.parse().unwrap()));
        }
        rest = after;
    }
    out + rest
}

fn check(row: &str) {
    let cells: Vec<&str> = row.split('\t').collect();
    let [expect, op, path, role, setup] = cells[..] else { panic!("{row}") };
    // No command has a role yet; the tests of the tools have these rows.
    if role != "-" {
        return;
    }
    let scene = Scene::new();
    if setup != "-" {
        assert!(Command::new("bash").args(["-ec", &scene.fill(setup)]).status().unwrap().success(), "{row}");
    }
    let (op, path) = (scene.fill(op), scene.fill(&unmark(path)));
    let (tool, input) = call(&op, &path);
    let before = scene.all();
    let (said, is_error) = scene.call(tool, &input);
    let after = scene.all();
    assert!(!said.contains(&format!("{CANARY} of")) && !said.contains("root:"), "{row}: {said}");
    assert!(!said.contains(['\u{1b}', '\u{7}']), "{row}: {said}");
    let lists = matches!(tool, "glob" | "grep" | "ls");
    if expect == "unfit" {
        assert!(is_error && !said.starts_with("refused"), "{row}: {said}");
        return;
    }
    if expect == "allow" {
        assert!(!is_error, "{row}: {said}");
        assert!(
            !lists || !["proj-evil", "secret.txt", "key.pem"].iter().any(|name| said.contains(name)),
            "{row}: {said}"
        );
        assert!(op != "grep:fn" || said.contains("main.rs:1:fn main"), "{row}: {said}");
        match tool {
            "write" => assert_eq!(fs::read_to_string(&path).unwrap(), WRITTEN, "{row}"),
            "apply_patch" => assert_eq!(before.len(), after.len() + 1, "{row}"),
            _ => assert_eq!(before, after, "{row}"),
        }
        return;
    }
    assert_eq!(before, after, "{row}: {said}");
    assert!(!Path::new("/dev/shm/x").exists() && !Path::new("/etc/cron.d/x").exists(), "{row}");
    if lists && !is_error {
        let found = said.lines().any(|line| !line.starts_with('[') && !line.starts_with("no "));
        assert!(!found, "{row}: {said}");
    } else {
        assert!(is_error, "{row}: {said}");
    }
    assert_eq!(
        said.contains("that has to be asked for") || said.contains("a person has to allow it"),
        expect == "ask" || said.contains("lies outside"),
        "{row}: {said}"
    );
}

#[test]
fn every_path_leads_where_it_may_and_no_further() {
    let rows: Vec<&str> = ROWS.lines().skip(1).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    check(row);
                }
            });
        }
    });
}
