//! Plan mode without a screen: nothing is written whatever is tried, a plan is kept, and carried out when it is named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Run, World, run};

/// A world whose project is a real git repository with one commit and one change, outside of `/tmp`, which commands see as
/// another one.
fn repository() -> World {
    let world = World::new();
    world.file("src/a.rs", "fn a() {}\n");
    world.file("Makefile", "all:\n\ttouch made-by-make\n");
    world.file("build.sh", "#!/bin/sh\ntouch made-by-script\n");
    std::fs::remove_dir_all(world.project().join(".git")).unwrap();
    for args in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "one"]] {
        let git = Command::new("git")
            .args(["-c", "user.name=dev", "-c", "user.email=dev@example.com"])
            .args(args)
            .current_dir(world.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", world.home())
            .status();
        assert!(git.unwrap().success());
    }
    // Its stamp is not the index's any more: git would like to refresh it.
    world.file("src/a.rs", "fn a() {}\n");
    world.file("src/b.rs", "fn b() {}\n");
    world
}

/// Every file below, with what it holds.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                dirs.push(path.clone());
                found.insert(path, Vec::new());
            } else {
                found.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
    }
    found
}

fn bash(command: &str) -> Value {
    json!({"tool": "bash", "input": {"command": command}})
}

fn plan(text: &str, commands: &[&str], paths: &[&str]) -> Value {
    json!({"tool": "plan", "input": {"plan": text, "commands": commands, "paths": paths}})
}

/// One call after the other, then the last words.
fn script(calls: &[Value]) -> String {
    let lines: Vec<String> = calls.iter().map(|call| json!({"call": [call]}).to_string()).collect();
    format!("{}\n{{\"say\":\"that is all\"}}", lines.join("\n"))
}

const WRITES: [&str; 32] = [
    "echo x > new",
    "echo x >> src/a.rs",
    ": > src/a.rs",
    "cat <<END > new\nx\nEND",
    "echo x | tee new",
    "sed -i s/a/b/ src/a.rs",
    "perl -pi -e s/a/b/ src/a.rs",
    "perl -e 'open(F, q(>), q(new))'",
    "python3 -c 'open(\"new\", \"w\").write(\"x\")'",
    "awk 'BEGIN { print 1 > \"new\" }'",
    "cp src/a.rs new",
    "mv src/a.rs new",
    "ln -s src/a.rs new",
    "rm src/a.rs",
    "find . -name '*.rs' -delete",
    "find . -name '*.rs' -exec rm {} +",
    "mkdir new",
    "touch -d 2000-01-01 new",
    "chmod 000 src/a.rs",
    "truncate -s 0 src/a.rs",
    "dd if=/dev/zero of=src/a.rs count=1",
    "make",
    "sh build.sh",
    "bash -c 'echo x > new'",
    "env X=1 xargs touch < Makefile",
    "git commit -aqm two",
    "git checkout -q -b other",
    "git stash",
    "git clean -fdq",
    "git config user.name x",
    "eval 'echo x > new'",
    "sort -o src/a.rs src/a.rs",
];

#[test]
fn nothing_is_written_whatever_is_tried() {
    let world = repository();
    let before = tree(&world.project());
    let mut calls: Vec<Value> = WRITES.iter().map(|command| bash(command)).collect();
    calls.extend([
        json!({"tool": "write", "input": {"path": "new", "content": "x"}}),
        json!({"tool": "edit", "input": {"path": "src/a.rs", "old": "a", "new": "b"}}),
        json!({"tool": "multi_edit", "input": {"path": "src/a.rs", "edits": [{"old": "a", "new": "b"}]}}),
        json!({"tool": "apply_patch", "input": {"patch": "*** Begin Patch\n*** Delete File: src/a.rs\n*** End Patch"}}),
        json!({"tool": "bash_background", "input": {"command": "touch new"}}),
    ]);
    let run = world.play(&script(&calls), &["--permission-mode", "plan"]).expect(0);
    for (call, end) in calls.iter().zip(run.tool_ends()) {
        let output = end["output"].as_str().unwrap();
        assert!(end["is_error"] == true && output.starts_with("refused: "), "{call}: {output}");
    }
    assert_eq!(tree(&world.project()), before);
}

/// A person's rules let all of it run, so only the kernel is left to refuse it.
#[test]
fn nothing_is_written_by_what_the_guard_lets_through() {
    let world = repository();
    std::fs::create_dir_all(world.home()).unwrap();
    let programs =
        ["touch", "tee", "sed", "perl", "python3", "cp", "mv", "rm", "find", "make", "sh", "git", "dd", "ln"];
    let allow: Vec<String> = programs.iter().map(|program| format!("Bash({program}:*)")).collect();
    let outside = world.project().parent().unwrap().join("beside");
    let allow = [allow, vec!["Edit(./**)".to_owned(), format!("Edit(/{})", outside.display())]].concat();
    std::fs::write(world.home().join("config.jsonc"), json!({"permissions": {"allow": allow}}).to_string()).unwrap();
    let before = tree(&world.project());
    let calls: Vec<Value> = [
        "touch new",
        "echo x > new",
        "echo x | tee src/a.rs",
        "sed -i s/a/b/ src/a.rs",
        "perl -pi -e s/a/b/ src/a.rs",
        "python3 -c 'open(\"new\", \"w\").write(\"x\")'",
        "cp src/a.rs new",
        "mv src/a.rs new",
        "rm src/a.rs",
        "find . -name '*.rs' -delete",
        "make",
        "sh build.sh",
        "git commit -aqm two",
        "git stash",
        "git push origin main",
        "dd if=Makefile of=src/a.rs",
        "ln -s src/a.rs new",
    ]
    .map(bash)
    .into();
    let beside = bash(&format!("cp src/a.rs {}", outside.display()));
    let calls = [calls, vec![beside]].concat();
    for level in ["namespaces", "landlock"] {
        let model = world.script(&script(&calls));
        let mut command = world.command(&["exec", "-m", &model, "--json", "--permission-mode", "plan", "go"]);
        command.env("BATON_SANDBOX__LEVEL", level);
        let run = run(command).expect(0);
        let is_held = run.of("session.start")[0]["sandbox"] == level;
        for (call, end) in calls.iter().zip(run.tool_ends()) {
            let output = end["output"].as_str().unwrap();
            // Perl tells it and goes on.
            let told = ["Read-only file system", "Permission denied"].iter().any(|why| output.contains(why));
            assert!(end["is_error"] == true || told, "{call}: {end}");
            // What would leave the sandbox is not let through, and nothing is where there is none.
            let leaves = call == calls.last().unwrap() || call["input"]["command"] == "git push origin main";
            assert_eq!(output.starts_with("refused: "), leaves || !is_held, "{level}, {call}: {output}");
        }
        assert_eq!(tree(&world.project()), before, "{level}");
    }
    assert!(!outside.exists());
}

#[test]
fn what_only_reads_works_and_does_not_complain() {
    let world = repository();
    let before = tree(&world.project());
    let commands = ["git status --short", "git diff --stat", "git log --oneline", "cat src/a.rs", "wc -l < Makefile"];
    let run = world.play(&script(&commands.map(bash)), &["--permission-mode", "plan"]).expect(0);
    for (command, end) in commands.iter().zip(run.tool_ends()) {
        let output = end["output"].as_str().unwrap();
        let complains = ["fatal", "warning", "error", "Read-only", "denied"].iter().any(|word| output.contains(word));
        assert!(end["is_error"] == false && !complains, "{command}: {output}");
    }
    assert!(run.outputs()[0].contains("?? src/b.rs") && !run.outputs()[0].contains("a.rs"), "{:?}", run.outputs());
    assert_eq!(tree(&world.project()), before);
}

/// Lets a plan be made; its hash.
fn made(world: &World, call: &Value) -> (String, Run) {
    let model = world.script(&script(std::slice::from_ref(call)));
    let run = world.baton(&["exec", "-m", &model, "--permission-mode", "plan", "plan it"]).expect(0);
    let line = run.stderr.lines().find(|line| line.starts_with("plan 1 ")).unwrap_or_else(|| panic!("{run:#?}"));
    (line.split(' ').nth(2).unwrap().to_owned(), run)
}

fn kept(world: &World, hash: &str) -> PathBuf {
    let projects = std::fs::read_dir(world.home().join("projects")).unwrap().flatten();
    let file =
        projects.map(|project| project.path().join("plans").join(format!("{hash}.json"))).find(|file| file.exists());
    file.expect("the plan is kept")
}

#[test]
fn a_plan_is_kept_and_carried_out_when_its_hash_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let world = repository();
    let (hash, run) = made(&world, &plan("# Two files", &["touch made", "git add:*"], &["src/new.rs", "docs/**"]));
    assert_eq!(run.stdout, "that is all\n");
    let grants = "asks for:\n  Bash(touch made)\n  Bash(git add:*)\n  Edit(./src/new.rs)\n  Edit(./docs/**)\n";
    assert!(run.stderr.contains(grants), "{}", run.stderr);
    assert!(
        run.stderr.contains(&format!("approve and carry out: baton exec --plan {}\n", &hash[..12])),
        "{}",
        run.stderr
    );
    assert_eq!(kept(&world, &hash).metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let calls = [
        bash("touch made"),
        json!({"tool": "write", "input": {"path": "src/new.rs", "content": "x"}}),
        json!({"tool": "write", "input": {"path": "docs/deep/x.md", "content": "x"}}),
        bash("git add docs"),
        bash("touch made other"),
        bash("touch made; touch other"),
        json!({"tool": "write", "input": {"path": "src/other.rs", "content": "x"}}),
        json!({"tool": "write", "input": {"path": "docs/AGENTS.md", "content": "x"}}),
        json!({"tool": "write", "input": {"path": "docs/.git/config", "content": "x"}}),
    ];
    let model = world.script(&script(&calls));
    let run = world.baton(&["exec", "-m", &model, "--json", "--plan", &hash[..12]]).expect(0);
    let ends = run.tool_ends();
    for end in &ends[..4] {
        assert_eq!(end["is_error"], false, "{end}");
    }
    for end in &ends[4..] {
        assert!(end["is_error"] == true && end["output"].as_str().unwrap().starts_with("refused: "), "{end}");
    }
    assert!(!world.project().join("other").exists());
    let opening = run.of("turn.start")[0]["message"].to_string();
    assert!(opening.contains("# Two files") && opening.contains("Bash(touch made)"), "{opening}");
    assert!(opening.contains("Carry out the approved plan."), "{opening}");
    let notices: Vec<_> = run.of("notice").iter().map(|notice| notice["text"].to_string()).collect();
    assert!(notices.iter().any(|text| text.contains(&hash) && text.contains("Edit(./docs/**)")), "{notices:?}");
    let log = world.baton(&["audit", "query", "--kind", "plan"]).expect(0).stdout;
    assert!(log.contains(&hash) && log.contains("approved"), "{log}");
}

#[test]
fn the_grants_come_on_top_of_another_mode_and_denials_stay() {
    let world = repository();
    let (hash, _) = made(&world, &plan("x", &["git push:*"], &["docs/**"]));
    std::fs::create_dir_all(world.home()).unwrap();
    let rules = json!({"permissions": {"deny": ["Bash(git push:*)", "Edit(./docs/**)"]}});
    std::fs::write(world.home().join("config.jsonc"), rules.to_string()).unwrap();
    let calls = [
        bash("touch by-mode"),
        bash("git push"),
        json!({"tool": "write", "input": {"path": "docs/a", "content": "x"}}),
    ];
    let model = world.script(&script(&calls));
    let args = ["exec", "-m", &model, "--json", "--plan", &hash, "--permission-mode", "auto", "go"];
    let ends = world.baton(&args).expect(0).tool_ends();
    assert_eq!(ends.iter().map(|end| end["is_error"] == true).collect::<Vec<_>>(), [false, true, true]);
    let args = ["exec", "-m", &model, "--plan", &hash, "--permission-mode", "plan"];
    world.baton(&args).expect_error(2, "cannot stay in plan mode", "--permission-mode");
}

#[test]
fn a_plan_that_was_changed_or_is_not_there_is_not_carried_out() {
    let world = repository();
    let (hash, _) = made(&world, &plan("x", &["touch made"], &[]));
    let model = world.script(&script(&[bash("touch made"), bash("touch more")]));
    let exec = |digits: &str| world.baton(&["exec", "-m", &model, "--plan", digits]);
    exec("0123456789ab").expect_error(2, "there is no plan 0123456789ab", "--permission-mode plan");
    exec(&hash[..8]).expect_error(2, "at least 12", "--permission-mode plan");
    let file = kept(&world, &hash);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("touch made", "touch more")).unwrap();
    exec(&hash).expect_error(2, "was changed after it was shown", "nothing was run");
    assert!(!world.project().join("made").exists() && !world.project().join("more").exists());
}

#[test]
fn the_tool_is_there_in_plan_mode_only() {
    let world = repository();
    let has_tool = |mode: &str| {
        let run = world.play(&script(&[]), &["--permission-mode", mode]).expect(0);
        run.of("session.start")[0]["tools"].as_array().unwrap().contains(&json!("plan"))
    };
    assert_eq!(["plan", "ask", "auto"].map(has_tool), [true, false, false]);
    // A plan that cannot be granted is told back, and nothing is kept.
    let bad = plan("x", &["rm -rf /", "make && make"], &[".git/config"]);
    let run = world.play(&script(&[bad]), &["--permission-mode", "plan"]).expect(0);
    let output = &run.outputs()[0];
    for grant in ["`rm -rf /`: ", "`make && make`: ", "`.git/config`: "] {
        assert!(output.contains(grant), "{output}");
    }
}
