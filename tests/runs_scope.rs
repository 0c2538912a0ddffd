//! What a role may write: tried with every tool and every way of the shell, at both levels of the sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::runs::{Repo, call, differences, everything, named_call, shell, submit};
use crate::support::{Run, run};

const LEVELS: [&str; 2] = ["namespaces", "landlock"];

/// One role, one gate that believes it, and a person at the end: the clone is kept then.
fn definition(write: &str, tools: &str) -> String {
    format!(
        r#"workflow(
    name = "scoped",
    roles = {{"tester": role(agent = "tdd-red", write = {write}, tools = {tools})}},
    states = {{
        "WORK": state("tester", gate = evidence({{"file": "path"}}), on = {{"pass": "HOLD"}}, retries = 0),
        "HOLD": human("Is it good?", options = ["yes"], on = {{"yes": "DONE"}}),
        "DONE": done(),
    }},
)
"#
    )
}

/// A world in which a role tries things.
struct Trial {
    repo: Repo,
    level: &'static str,
}

/// Everything that could be changed, before or after.
struct Seen {
    /// The person's repository and whatever lies beside it.
    outside: BTreeMap<String, String>,
    /// The clone's place.
    inside: BTreeMap<String, String>,
}

impl Trial {
    fn new(level: &'static str, write: &str, tools: &str) -> Self {
        let repo = Repo::new();
        repo.workflow("scoped", &definition(write, tools));
        // Something to lose: in the working tree, the index, the stash and the settings.
        repo.world.file("README.md", "Stashed.\n");
        repo.git(&["stash", "--quiet"]);
        repo.world.file("src/staged.sh", "echo staged\n");
        repo.git(&["add", "src/staged.sh"]);
        repo.world.file("src/loose.sh", "echo loose\n");
        Self { repo, level }
    }

    fn start(&self, script: &[Value]) -> Run {
        let mut command = self.repo.starting("scoped", script, &["--new"]);
        command.env("BATON_SANDBOX__LEVEL", self.level);
        run(command)
    }

    fn clone_dir(&self) -> PathBuf {
        self.repo.clone_tree().parent().unwrap().to_owned()
    }

    fn seen(&self) -> Seen {
        let around = self.repo.world.project().parent().unwrap().to_owned();
        // Baton's own, the script, the one private ref that keeps the base alive, and what is written for people.
        let is_ours = |name: &str| {
            let of_baton = ["project/.git/refs/baton", "project/.baton/runs"].iter().any(|ours| name.starts_with(ours));
            name == "home" || name == "script.jsonl" || of_baton
        };
        let inside = everything(&self.clone_dir(), |name| {
            // Objects and indexes are found by what refers to them; orders and a base copy are the conductor's.
            ["tree/.git/objects", "tree/.git/index", "tree/.git/logs", "index", "base.index", "orders.json"]
                .contains(&name)
        });
        Seen { outside: everything(&around, is_ours), inside }
    }
}

/// Ways to write what a role may not write, each under a name. PROJECT is the person's repository.
const COMMANDS: [(&str, &str); 30] = [
    ("redirection", "echo x > src/redirected.sh"),
    ("appending", "echo x >> src/add.sh"),
    ("sed", "sed -i s/1/2/ src/add.sh"),
    ("truncate", "truncate -s 0 src/add.sh"),
    ("python", r#"python3 -c "open('src/python.sh', 'w').write('x')""#),
    ("perl", r#"perl -e 'open(F, ">", "src/perl.sh") or die $!; print F "x"'"#),
    ("checkout of a file", "git checkout HEAD~1 -- src/add.sh"),
    ("checkout", "git checkout --quiet HEAD~1"),
    ("stash", "echo x > tests/add_test.sh; git stash; git stash list; git checkout -- tests/add_test.sh"),
    ("reset", "git reset --hard HEAD~1"),
    ("commit", "git commit --allow-empty -m evil"),
    ("link", "ln -sfn ../src tests/link; echo x > tests/link/linked.sh"),
    ("hard link", "ln src/add.sh tests/hard.sh && echo x >> tests/hard.sh"),
    ("mv out", "mv src/add.sh tests/moved.sh"),
    ("mv in", "cp tests/add_test.sh tests/spare.sh; mv tests/spare.sh src/moved.sh"),
    ("rm", "rm -rf src"),
    ("mkdir", "mkdir src/new"),
    ("new at the top", "echo x > new.txt"),
    ("chmod", "chmod 777 src/add.sh"),
    ("chmod that git does not see", "chmod 600 src/add.sh"),
    ("git hooks", "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"),
    ("git config", "git config user.name evil"),
    ("git exclude", "mkdir -p .git/info; echo x > .git/info/exclude"),
    ("outside", "echo x > ../outside.txt"),
    ("the base of verifications", "echo x > ../base/tests/run.sh"),
    ("the repository", "echo x > PROJECT/src/add.sh"),
    ("permissions of the repository", "chmod 600 PROJECT/src/add.sh"),
    ("hooks of the repository", "echo x > PROJECT/.git/hooks/pre-commit"),
    ("config of the repository", "git -C PROJECT config user.name evil"),
    ("home", "echo x > PROJECT/../.profile/x"),
];

/// The same with the tools that write.
fn tool_calls(project: &str) -> Vec<(&'static str, &'static str, Value)> {
    let patch = |text: &str| json!({"patch": format!("*** Begin Patch\n{text}\n*** End Patch")});
    vec![
        ("edit", "edit", json!({"path": "src/add.sh", "old": "echo", "new": "echo evil"})),
        ("multi_edit", "multi_edit", json!({"path": "src/add.sh", "edits": [{"old": "echo", "new": "echo evil"}]})),
        ("write", "write", json!({"path": "src/written.sh", "content": "x"})),
        ("patch that adds", "apply_patch", patch("*** Add File: src/patched.sh\n+x")),
        ("patch that deletes", "apply_patch", patch("*** Delete File: src/add.sh")),
        (
            "patch that moves",
            "apply_patch",
            patch(
                "*** Update File: tests/add_test.sh\n*** Move to: src/patched.sh\n@@\n-test \"$(sh src/add.sh 2 3)\" = 5\n+test",
            ),
        ),
        ("write through a link", "write", json!({"path": "tests/link/written.sh", "content": "x"})),
        ("edit through a link", "edit", json!({"path": "tests/link/add.sh", "old": "echo", "new": "echo evil"})),
        ("write outside", "write", json!({"path": "../outside.txt", "content": "x"})),
        ("write around", "write", json!({"path": "tests/../src/around.sh", "content": "x"})),
        ("write to the repository", "write", json!({"path": format!("{project}/src/tool.sh"), "content": "x"})),
        ("write a hook", "write", json!({"path": ".git/hooks/pre-commit", "content": "x"})),
        ("write a setting of git", "write", json!({"path": ".git/config", "content": "x"})),
        ("write a hook in a link", "write", json!({"path": "tests/link/../.git/hooks/pre-commit", "content": "x"})),
    ]
}

/// Every try, and the honest work after them.
fn script(project: &str, honest: &[Value]) -> (Vec<String>, Vec<Value>) {
    let (mut names, mut lines) = (Vec::new(), Vec::new());
    lines.push(call("tester", "write", json!({"path": "tests/link.sh", "content": "ln -sfn ../src tests/link\n"})));
    lines.push(shell("tester", "sh tests/link.sh"));
    for (name, tool, input) in tool_calls(project) {
        names.push(name.to_owned());
        lines.push(named_call(name, "tester", tool, input));
    }
    for (at, (name, command)) in COMMANDS.iter().enumerate() {
        let command = command.replace("PROJECT", project);
        names.push((*name).to_owned());
        lines.push(named_call(name, "tester", "bash", json!({"command": command})));
        // A script of its own: nobody looks into it before it runs.
        let (hidden, file) = (format!("{name}, hidden"), format!("tests/evil_{at}.sh"));
        lines.push(call("tester", "write", json!({"path": file, "content": format!("{command}\n")})));
        lines.push(named_call(&hidden, "tester", "bash", json!({"command": format!("sh {file}")})));
        names.push(hidden);
    }
    // Writers that wait until the next command has made the file.
    let waits = "until [ -e tests/go_NAME ]; do sleep 0.01; done; echo x > src/late_NAME.sh; echo written";
    for (name, around) in
        [("background", "(WAITS) &"), ("setsid", "setsid sh -c 'WAITS' &"), ("nohup", "nohup sh -c 'WAITS' &")]
    {
        let (waits, file) = (waits.replace("NAME", name), format!("tests/evil_{name}.sh"));
        lines.push(call("tester", "write", json!({"path": file, "content": around.replace("WAITS", &waits)})));
        lines.push(named_call(name, "tester", "bash", json!({"command": format!("sh {file}")})));
        lines.push(shell("tester", &format!("touch tests/go_{name}")));
        names.push(name.to_owned());
    }
    let file = "tests/evil_job.sh";
    lines.push(call("tester", "write", json!({"path": file, "content": waits.replace("NAME", "job")})));
    lines.push(call("tester", "bash_background", json!({"command": format!("sh {file}")})));
    lines.push(shell("tester", "touch tests/go_job"));
    lines.push(named_call(
        "job",
        "tester",
        "bash_background",
        json!({"id": 1, "until": "written|Permission|Read-only"}),
    ));
    names.push("job".to_owned());
    lines.push(named_call(
        "kept job",
        "tester",
        "bash_background",
        json!({"command": format!("sh {file}"), "keep": true}),
    ));
    names.push("kept job".to_owned());
    lines.extend(honest.iter().cloned());
    (names, lines)
}

/// What an agent is told when it tried what it may not do.
const SIGNS: [&str; 9] = [
    "not among the files",
    "refused",
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Invalid cross-device link",
    "put back",
    "not started",
    "ran on in the background",
];

/// The same where a command cannot even see it: the world of these tests may lie in `/tmp`, of which commands have their own.
const UNSEEN: [&str; 3] = ["nonexistent", "No such file or directory", "not in a git directory"];

/// What Landlock says nothing about: of permissions, only what git knows of them is put back there.
const PERMISSIONS: [&str; 2] = ["chmod that git does not see, hidden", "permissions of the repository, hidden"];

/// What the log has of a refusal: the advice to the agent is only for it.
fn reason(output: &str) -> &str {
    let reason = output.split_once(" was not run: ").map_or(output, |(_, reason)| reason);
    // What was put back is named, not what the command has written.
    if let Some((_, put_back)) = reason.split_once("[changed although") {
        return put_back.split(']').next().unwrap_or_default();
    }
    reason.split(". Leave it").next().unwrap_or(reason).lines().next().unwrap_or_default()
}

/// What is wrong after these calls: whatever changed that may not, and whatever is not told to the agent or not in the log.
fn wrong(trial: &Trial, before: &Seen, run: &Run, names: &[String], is_its_own: impl Fn(&str) -> bool) -> Vec<String> {
    let after = trial.seen();
    let mut wrong = differences(&before.outside, &after.outside);
    let inside = differences(&before.inside, &after.inside);
    wrong.extend(inside.into_iter().filter(|line| !is_its_own(line)));
    let (ends, log) = (run.of("tool.end"), trial.repo.log());
    for name in names {
        let end = ends.iter().find(|end| end["call"] == *name).unwrap_or_else(|| panic!("no {name}: {run:#?}"));
        let output = end["output"].as_str().unwrap();
        if UNSEEN.iter().any(|sign| output.contains(sign)) {
            continue;
        }
        if !SIGNS.iter().any(|sign| output.contains(sign)) {
            wrong.push(format!("{name} is not told: {output}"));
        }
        let reason = reason(output);
        if !log.contains(reason) {
            wrong.push(format!("{name} is not in the log: {output}"));
        }
    }
    wrong
}

#[track_caller]
fn all_tries_fail(level: &'static str) {
    let trial = Trial::new(level, r#"["tests/**"]"#, "CODING + [\"bash_background\"]");
    let honest = [
        call("tester", "write", json!({"path": "tests/mul_test.sh", "content": "true\n"})),
        call("tester", "edit", json!({"path": "tests/mul_test.sh", "old": "true", "new": "false"})),
        shell("tester", "mkdir -p tests/deep && echo x > tests/deep/x.sh && sed -i s/x/y/ tests/deep/x.sh"),
        shell("tester", "git log --oneline -2 && git diff HEAD --stat"),
        submit("tester", json!({"file": "tests/mul_test.sh"})),
    ];
    let run = trial.start(&honest).expect(4);
    assert!(run.tool_ends().iter().all(|end| end["is_error"] == false), "{run:#?}");
    assert!(!trial.repo.log().contains("refused"), "{}", trial.repo.log());
    let before = trial.seen();
    let project = trial.repo.world.project();
    let (mut names, mut lines) = script(project.to_str().unwrap(), &honest);
    if level == "landlock" {
        lines.retain(|line| !PERMISSIONS.iter().any(|name| line["call"][0]["id"] == *name));
        names.retain(|name| !PERMISSIONS.contains(&name.as_str()));
    }
    let run = trial.start(&lines).expect(4);
    assert_eq!(run.of("session.start")[0]["sandbox"], level);
    assert_eq!(run.of("gate.decided")[0]["outcome"], "pass", "{run:#?}");
    let wrong = wrong(&trial, &before, &run, &names, |line| line.starts_with("tree/tests/"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_beyond_a_roles_files_changes_in_namespaces() {
    all_tries_fail("namespaces");
}

#[test]
fn nothing_beyond_a_roles_files_changes_with_landlock() {
    all_tries_fail("landlock");
}

/// Tries that are scripts, each under its name.
fn hidden(commands: &[(&str, &str)]) -> (Vec<String>, Vec<Value>) {
    let (mut names, mut lines) = (Vec::new(), Vec::new());
    for (name, command) in commands {
        // A variable that nobody knows beforehand, so that nobody looks into it.
        let text = command.replace('"', "\\\"").replace('$', "\\$");
        let command = format!("c=$(printf '%s' \"{text}\"); sh -c \"$c\"");
        names.push((*name).to_owned());
        lines.push(named_call(name, "tester", "bash", json!({"command": command})));
    }
    (names, lines)
}

#[test]
fn a_role_with_one_file_at_the_top_writes_that_file_alone() {
    for level in LEVELS {
        let trial = Trial::new(level, r#"["hello.txt"]"#, "CODING");
        let honest = [
            call("tester", "write", json!({"path": "hello.txt", "content": "hello\n"})),
            shell("tester", "sed -i s/hello/Hello/ hello.txt && echo world >> hello.txt"),
            submit("tester", json!({"file": "hello.txt"})),
        ];
        let run = trial.start(&honest).expect(4);
        assert!(run.tool_ends().iter().all(|end| end["is_error"] == false), "{level}: {:#?}", run.outputs());
        let before = trial.seen();
        let commit = "t=$(git write-tree) && c=$(git -c user.name=x -c user.email=x commit-tree -m x $t) && \
                      git update-ref refs/heads/baton $c || exit 1";
        let (names, mut lines) = hidden(&[
            ("another", "echo x > other.txt"),
            ("code", "echo x >> src/add.sh"),
            ("new directory", "mkdir new && echo x > new/x.txt"),
            ("removal", "rm -rf src tests"),
            ("hook", "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"),
            ("exclude", "mkdir -p .git/info && echo '*' > .git/info/exclude"),
            ("setting", "git config core.worktree /"),
            ("commit", commit),
            ("head", "echo 'ref: refs/heads/evil' > .git/HEAD"),
            ("alternates", "echo /x > .git/objects/info/alternates"),
            ("link", "ln -sf src/add.sh hello.txt && echo x >> hello.txt; rm -f hello.txt; exit 1"),
        ]);
        lines.push(named_call("tool", "tester", "write", json!({"path": "other.txt", "content": "x"})));
        lines.extend(honest);
        let run = trial.start(&lines).expect(4);
        assert_eq!(run.of("session.start")[0]["sandbox"], level);
        assert_eq!(run.of("gate.decided")[0]["outcome"], "pass", "{run:#?}");
        let wrong = wrong(&trial, &before, &run, &names, |line| line.starts_with("tree/hello.txt:"));
        assert!(wrong.is_empty(), "{level}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_role_that_writes_nothing_reads_and_runs_tests() {
    for level in LEVELS {
        let trial = Trial::new(level, "[]", "READING + [\"bash\"]");
        let honest = [
            call("tester", "read", json!({"path": "src/add.sh"})),
            shell("tester", "sh tests/run.sh && git log --oneline -1"),
            shell("tester", "python3 -c \"import tempfile; print(tempfile.NamedTemporaryFile('w').write('x'))\""),
            submit("tester", json!({"file": "src/add.sh"})),
        ];
        let run = trial.start(&honest).expect(4);
        assert!(run.tool_ends().iter().all(|end| end["is_error"] == false), "{level}: {:#?}", run.outputs());
        let before = trial.seen();
        let (names, mut lines) = hidden(&[
            ("code", "echo x >> src/add.sh"),
            ("test", "echo x > tests/x.sh"),
            ("top", "echo x > x.txt"),
            ("removal", "rm -rf src"),
            ("hook", "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"),
        ]);
        lines.extend(honest);
        let run = trial.start(&lines).expect(4);
        assert_eq!(run.of("gate.decided")[0]["outcome"], "pass", "{run:#?}");
        let wrong = wrong(&trial, &before, &run, &names, |_| false);
        assert!(wrong.is_empty(), "{level}:\n{}", wrong.join("\n"));
        // A tool that it was not given is not there.
        let script = [call("tester", "write", json!({"path": "x", "content": "x"})), honest_end()];
        let run = trial.start(&script).expect(4);
        assert_eq!(run.tool_ends()[0]["is_error"], true, "{run:#?}");
    }
}

fn honest_end() -> Value {
    submit("tester", json!({"file": "src/add.sh"}))
}

#[test]
fn a_link_in_place_of_a_writable_directory_opens_nothing() {
    for level in LEVELS {
        let trial = Trial::new(level, r#"["tests/**", "tests/deep/**"]"#, "CODING");
        let before_run = trial.start(&[shell("tester", "mkdir -p tests/deep"), honest_end()]).expect(4);
        assert_eq!(before_run.of("gate.decided")[0]["outcome"], "pass");
        let before = trial.seen();
        let run = trial.start(&[
            shell("tester", "rmdir tests/deep; rm -rf tests/deep; ln -s \"$PWD/src\" tests/deep; true"),
            shell("tester", "c='echo x > tests/deep/add.sh'; sh -c \"$c\"; c='rm tests/deep/add.sh'; sh -c \"$c\""),
            call("tester", "write", json!({"path": "tests/deep/add.sh", "content": "x"})),
            honest_end(),
        ]);
        let run = run.expect(4);
        let wrong = wrong(&trial, &before, &run, &[], |line| line.starts_with("tree/tests/"));
        assert!(wrong.is_empty(), "{level}:\n{}\n{run:#?}", wrong.join("\n"));
    }
}

/// The test is frozen when its gate is passed; whoever comes next may write everything else.
const FREEZES: &str = r#"workflow(
    name = "scoped",
    roles = {
        "tester": role(agent = "tdd-red", write = ["tests/**"], tools = CODING),
        "coder": role(agent = "tdd-green", write = ["**"], tools = CODING),
    },
    states = {
        "RED": state("tester", freeze = ["tests/**"], gate = evidence({"file": "path"}), on = {"pass": "GREEN"}),
        "GREEN": state("coder", gate = evidence({"file": "path"}), on = {"pass": "HOLD"}, retries = 0),
        "HOLD": human("Is it good?", options = ["yes"], on = {"yes": "DONE"}),
        "DONE": done(),
    },
)
"#;

#[test]
fn a_frozen_file_stays_as_it_is_and_is_named() {
    for level in LEVELS {
        let trial = Trial::new(level, "[]", "CODING");
        trial.repo.workflow("scoped", FREEZES);
        let by_script = "echo true > tests/mul_test.sh; rm tests/add_test.sh; echo x > tests/new_test.sh\n";
        let run = trial.start(&[
            call("tester", "write", json!({"path": "tests/mul_test.sh", "content": "false\n"})),
            submit("tester", json!({"file": "tests/mul_test.sh"})),
            call("coder", "write", json!({"path": "tests/mul_test.sh", "content": "true\n"})),
            call("coder", "edit", json!({"path": "tests/mul_test.sh", "old": "false", "new": "true"})),
            shell("coder", "echo true > tests/mul_test.sh"),
            call("coder", "write", json!({"path": "x.sh", "content": by_script})),
            shell("coder", "sh x.sh"),
            shell("coder", "echo 'echo 6' > src/mul.sh"),
            submit("coder", json!({"file": "src/mul.sh"})),
        ]);
        let run = run.expect(4);
        // Calls of two conversations can have the same ids.
        let ends = run.of("tool.end");
        let outputs: Vec<&str> = ends.iter().map(|end| end["output"].as_str().unwrap()).collect();
        for output in [outputs[2], outputs[3], outputs[4], outputs[6]] {
            assert!(output.contains("tests/mul_test.sh") && output.contains("frozen"), "{level}: {output}");
            assert!(trial.repo.log().contains(reason(output)), "{level}: {output}");
        }
        assert!(outputs[6].contains("frozen by RED"), "{level}: {}", outputs[6]);
        let tree = trial.repo.clone_tree();
        let read = |path: &str| std::fs::read_to_string(tree.join(path)).unwrap();
        assert_eq!((read("tests/mul_test.sh"), read("src/mul.sh")), ("false\n".into(), "echo 6\n".into()));
        assert!(tree.join("tests/add_test.sh").exists() && !tree.join("tests/new_test.sh").exists());
        assert_eq!(run.of("gate.decided").last().unwrap()["outcome"], "pass", "{run:#?}");
    }
}
