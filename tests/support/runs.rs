//! A git repository with a small sh project in it, and runs of workflows on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Run, World, run};

/// What is in the repository's last commit.
pub const FILES: [(&str, &str); 4] = [
    ("README.md", "Sums.\n"),
    ("src/add.sh", "echo $(($1 + $2))\n"),
    ("tests/add_test.sh", "test \"$(sh src/add.sh 2 3)\" = 5\n"),
    ("tests/run.sh", "for test in tests/*_test.sh; do sh \"$test\" || { echo \"$test fails\"; exit 1; }; done\n"),
];

/// A world whose project is a real repository.
pub struct Repo {
    pub world: World,
}

impl Repo {
    /// With two commits, and a settings file of the person that says how it is tested.
    pub fn new() -> Self {
        let repo = Self::empty();
        repo.world.file("src/add.sh", "echo 5\n");
        repo.commit("begin");
        for (path, text) in FILES {
            repo.world.file(path, text);
        }
        repo.commit("add");
        repo
    }

    /// Without a commit.
    pub fn empty() -> Self {
        let repo = Self { world: World::new() };
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo.git(&["config", "user.name", "Ada"]);
        repo.git(&["config", "user.email", "ada@example.org"]);
        repo.settings(&json!({"project": {"test": "sh tests/run.sh"}}));
        repo
    }

    /// The person's settings.
    pub fn settings(&self, settings: &Value) {
        std::fs::create_dir_all(self.world.home()).unwrap();
        std::fs::write(self.world.home().join("config.jsonc"), settings.to_string()).unwrap();
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--no-verify", "-m", message]);
    }

    /// Git in the project; what it prints.
    pub fn git(&self, args: &[&str]) -> String {
        git(&self.world.project(), args)
    }

    /// Makes a definition of the person's.
    pub fn workflow(&self, name: &str, text: &str) {
        let dir = self.world.home().join("workflows");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("{name}.star")), text).unwrap();
    }

    /// `run start NAME` with a script, events as JSON.
    pub fn starting(&self, name: &str, script: &[Value], extra: &[&str]) -> Command {
        let lines: Vec<String> = script.iter().map(Value::to_string).collect();
        let model = self.world.script(&lines.join("\n"));
        self.world.command(&[&["run", "start", name, "--json", "-m", &model], extra].concat())
    }

    pub fn start(&self, name: &str, script: &[Value], extra: &[&str]) -> Run {
        run(self.starting(name, script, extra))
    }

    /// What `run log` says.
    pub fn log(&self) -> String {
        self.world.baton(&["run", "log"]).expect(0).stdout
    }

    /// What `run status --json` says of the last run.
    pub fn status(&self) -> Value {
        let listed = self.world.baton(&["run", "status", "--json"]).expect(0).stdout;
        serde_json::from_str(listed.lines().next().unwrap()).unwrap()
    }

    /// Where the agents of the last run work.
    pub fn clone_tree(&self) -> PathBuf {
        self.status()["clone"].as_str().expect("the clone is kept").into()
    }

    /// The commits on the branch that a run has brought back: subject, and the trailer of the effect that made it.
    pub fn brought_back(&self) -> Vec<(String, String)> {
        let branch = self.git(&["for-each-ref", "--format=%(refname)", "refs/heads/baton"]);
        if branch.is_empty() {
            return Vec::new();
        }
        let format = "--format=%s%x09%(trailers:key=Baton-Effect,valueonly,separator=%x2C)";
        let listed = self.git(&["log", "--reverse", format, &format!("main..{branch}")]);
        listed.lines().map(|line| line.split_once('\t').unwrap()).map(|(one, two)| (one.into(), two.into())).collect()
    }
}

pub fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", dir);
    let ran = run(command);
    assert_eq!(ran.code, 0, "git {args:?}: {ran:?}");
    ran.stdout.trim_end().to_owned()
}

/// One line of a script: a role calls one tool. It costs next to nothing, so that long scripts stay within budgets.
pub fn call(role: &str, tool: &str, input: Value) -> Value {
    let mut line = json!({"role": role, "call": [{"tool": tool}], "usage": {"input": 1, "output": 1}});
    line["call"][0]["input"] = input;
    line
}

/// The same under a name: the event that ends it carries that as `call`.
pub fn named_call(name: &str, role: &str, tool: &str, input: Value) -> Value {
    let mut line = call(role, tool, input);
    line["call"][0]["id"] = json!(name);
    line
}

/// One line of a script: a role runs a command.
pub fn shell(role: &str, command: &str) -> Value {
    call(role, "bash", json!({"command": command}))
}

/// One line of a script: a role hands something in.
pub fn submit(role: &str, fields: Value) -> Value {
    call(role, "submit_evidence", fields)
}

/// Everything below a directory by its name: contents, targets of links, permissions. `but` says what is left out.
pub fn everything(dir: &Path, but: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    gather(dir, "", &but, &mut found);
    found
}

fn gather(dir: &Path, prefix: &str, but: &impl Fn(&str) -> bool, found: &mut BTreeMap<String, String>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if but(&name) {
            continue;
        }
        let meta = entry.path().symlink_metadata().unwrap();
        let mode = meta.permissions().mode();
        let what = if meta.is_dir() {
            gather(&entry.path(), &format!("{name}/"), but, found);
            format!("directory {mode:o}")
        } else if meta.is_symlink() {
            format!("link to {}", std::fs::read_link(entry.path()).unwrap().display())
        } else if meta.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            format!("file {mode:o} {}", String::from_utf8_lossy(&bytes))
        } else {
            "something else".to_owned()
        };
        found.insert(name, what);
    }
}

/// What differs between two directories, in words.
pub fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let differs = names.filter(|name| before.get(*name) != after.get(*name));
    differs.map(|name| format!("{name}: {:?} became {:?}", before.get(name), after.get(name))).collect()
}

impl Run {
    /// What the tools answered to a role, in the order of their ends.
    pub fn outputs_of(&self, role: &str) -> Vec<String> {
        let ends = self.of("tool.end").into_iter().filter(|end| end["role"] == role);
        ends.map(|end| end["output"].as_str().unwrap().to_owned()).collect()
    }
}
