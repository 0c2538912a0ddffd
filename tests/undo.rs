//! `baton undo`: whatever an agent has done to files and to git, it is undone byte for byte, and nobody else's work is lost.

mod accidents;
mod sample;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Live, Run, World};
use sample::{Everything, fill, lost_objects, shell};

/// A script that runs commands, one after another.
fn script(commands: &[&str]) -> String {
    let line = |command: &&str| json!({ "call": [{ "tool": "bash", "input": { "command": command } }] }).to_string();
    let lines: Vec<String> = commands.iter().map(line).chain([r#"{"say":"done"}"#.to_owned()]).collect();
    lines.join("\n")
}

fn exec(world: &World, script: &str) -> Run {
    let model = world.script(script);
    world.baton(&["exec", "-m", &model, "--json", "--permission-mode", "yolo", "go"]).expect(0)
}

fn sample() -> World {
    let world = World::new();
    fill(&world.project());
    world
}

fn survive(accidents: &[&str]) {
    let losses: Vec<String> = accidents.iter().filter_map(|accident| loss(accident)).collect();
    assert!(losses.is_empty(), "{} of {} accidents:\n{}", losses.len(), accidents.len(), losses.join("\n\n"));
}

/// What is not as it was after an accident and its undo.
fn loss(accident: &str) -> Option<String> {
    let world = sample();
    let before = Everything::of(&world.project());
    let run = exec(&world, &script(&accident.lines().collect::<Vec<_>>()));
    let outputs = run.outputs().join("\n");
    if Everything::of(&world.project()).differences(&before).is_empty() && lost_objects(&world.project()).is_empty() {
        return Some(format!("{accident}: nothing happened: {outputs}"));
    }
    let undo = world.baton(&["undo", "--session"]);
    let mut lost = Everything::of(&world.project()).differences(&before);
    if lost.is_empty() {
        lost.extend(lost_objects(&world.project()).iter().map(|object| format!("the object {object} is lost")));
    }
    let is_whole = lost.is_empty() && undo.code == 0;
    let shown = lost.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    (!is_whole).then(|| format!("{accident}\n{outputs}\n{}\n{} differ:\n{shown}", undo.stderr, lost.len()))
}

#[test]
fn deleted_files_come_back() {
    survive(accidents::DELETED);
}

#[test]
fn what_git_forgets_comes_back() {
    let (one, two) = accidents::GIT.split_at(accidents::GIT.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| survive(one));
        survive(two);
    });
}

#[test]
fn overwritten_files_come_back() {
    survive(accidents::OVERWRITTEN);
}

#[test]
fn there_are_enough_accidents() {
    let all = [accidents::DELETED, accidents::GIT, accidents::OVERWRITTEN].concat();
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert!(different.len() >= 60 && different.len() == all.len(), "{}", different.len());
}

#[test]
fn edits_of_every_tool_are_taken_back() {
    let world = sample();
    let before = Everything::of(&world.project());
    let call = |tool: &str, input: Value| json!({ "call": [{ "tool": tool, "input": input }] }).to_string();
    let patch = "*** Begin Patch\n*** Delete File: notes.txt\n*** Add File: made/by/patch\n+x\n*** End Patch";
    let lines = [
        call("write", json!({ "path": "deep/new/file", "content": "x" })),
        call("read", json!({ "path": ".env" })),
        call("write", json!({ "path": ".env", "content": "x" })),
        call("read", json!({ "path": "README" })),
        call("edit", json!({ "path": "README", "old": "staged", "new": "edited" })),
        call("multi_edit", json!({ "path": "README", "edits": [{ "old": "edited", "new": "again" }] })),
        call("apply_patch", json!({ "patch": patch })),
        r#"{"say":"done"}"#.to_owned(),
    ];
    let run = exec(&world, &lines.join("\n"));
    assert!(run.tool_ends().iter().all(|end| end["is_error"] == false), "{:#?}", run.outputs());
    let changed = Everything::of(&world.project()).differences(&before);
    assert_eq!(changed.len(), 8, "{changed:#?}");
    world.baton(&["undo"]).expect(0);
    assert_eq!(Everything::of(&world.project()).differences(&before), [""; 0]);
}

#[test]
fn what_a_person_did_since_is_refused_and_nothing_is_done_by_half() {
    let world = sample();
    let before = Everything::of(&world.project());
    exec(&world, &script(&["echo agent > README; rm notes.txt; git add -A"]));
    world.file("README", "mine");
    let refused = Everything::of(&world.project());
    let run = world.baton(&["undo"]).expect(8);
    assert!(run.stdout.contains("refused README: it was changed since"), "{run:?}");
    assert!(run.stderr.contains("--skip") && run.stderr.contains("--force"), "{run:?}");
    assert_eq!(Everything::of(&world.project()), refused);

    let dry: Value =
        serde_json::from_str(&world.baton(&["undo", "--skip", "--dry-run", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(dry["left"][0]["why"], "it was changed since");
    assert_eq!(Everything::of(&world.project()), refused);
    world.baton(&["undo", "--skip"]).expect(0);
    let skipped = Everything::of(&world.project()).differences(&before);
    assert!(skipped.len() == 1 && skipped[0].starts_with("README: "), "{skipped:?}");
    world.baton(&["undo", "--redo"]).expect(0);
    assert_eq!(Everything::of(&world.project()), refused);
    world.baton(&["undo", "--force"]).expect(0);
    assert_eq!(Everything::of(&world.project()).differences(&before), [""; 0]);
    world.baton(&["undo", "--redo"]).expect(0);
    assert_eq!(world.read("README"), "mine");
}

#[test]
fn looking_at_the_repository_is_no_change() {
    let world = sample();
    let before = Everything::of(&world.project());
    exec(&world, &script(&["git add -A"]));
    // An editor does this all the time, and git writes its index anew.
    shell("touch README src/*; git status >/dev/null; git diff >/dev/null", &world.project());
    world.baton(&["undo"]).expect(0);
    let mut differences = Everything::of(&world.project()).differences(&before);
    // That one was written by nobody but git, when the person looked.
    differences.retain(|difference| !difference.starts_with("vendor/lib/.git/index: "));
    assert_eq!(differences, [""; 0]);
}

#[test]
fn turns_are_listed_and_found() {
    let world = sample();
    world.baton(&["undo"]).expect_error(2, "nothing to take back", "--list");
    assert_eq!(world.baton(&["undo", "--list"]).expect(0).stdout, "no turn has changed anything\n");
    exec(&world, &script(&["ls", "git status"]));
    assert_eq!(world.baton(&["undo", "--list"]).expect(0).stdout, "no turn has changed anything\n");
    exec(&world, &script(&["echo 1 > README"]));
    exec(&world, &script(&["echo 2 > notes.txt", "rm -rf src"]));
    let list: Value = serde_json::from_str(&world.baton(&["undo", "--list", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(list[0]["calls"], json!(["echo 2 > notes.txt", "rm -rf src"]));
    let first = list[1]["turn"].as_str().unwrap();
    world.baton(&["undo", "--turn", "7"]).expect_error(2, "no turn 7", "--list");
    world.baton(&["undo", "--turn", first]).expect(0);
    assert_eq!((world.read("README").as_str(), world.read("notes.txt").as_str()), ("staged\nmore\n", "2\n"));
    let text = world.baton(&["undo", "--list"]).expect(0).stdout;
    assert!(text.contains("[undo]") && text.contains("[taken back]"), "{text}");
    world.baton(&["undo", "--turn", "1", "--session"]).expect(2);
}

#[test]
fn a_kill_loses_nothing() {
    let world = sample();
    let before = Everything::of(&world.project());
    let go = world.home().join("go");
    let command =
        format!("rm -rf src .env; git stash clear; echo gone; until [ -e '{}' ]; do sleep 0.01; done", go.display());
    let model = world.script(&script(&[&command]));
    let mut live = Live::start(world.command(&["exec", "-m", &model, "--json", "--permission-mode", "yolo", "go"]));
    live.until("tool.update");
    world.baton(&["undo"]).expect(2);
    live.signal(Signal::KILL);
    live.wait();
    let run = world.baton(&["undo"]).expect(0);
    assert!(run.stdout.contains("was killed"), "{run:?}");
    assert_eq!(Everything::of(&world.project()).differences(&before), [""; 0]);
    std::fs::write(go, "").unwrap();
}

#[test]
fn a_kill_while_files_are_kept_changes_nothing() {
    let world = sample();
    for n in 0..2_000 {
        world.file(&format!("many/{}/{n}", n % 20), format!("{n}").repeat(100));
    }
    let before = Everything::of(&world.project());
    let model = world.script(&script(&["rm -rf many src"]));
    let live = Live::start(world.command(&["exec", "-m", &model, "--json", "--permission-mode", "yolo", "go"]));
    let projects = world.home().join("projects");
    let has_begun = || {
        let dirs = std::fs::read_dir(&projects).into_iter().flatten().flatten();
        dirs.map(|dir| dir.path().join("undo/blobs"))
            .any(|blobs| std::fs::read_dir(blobs).is_ok_and(|blobs| blobs.count() > 20))
    };
    while !has_begun() {
        std::thread::yield_now();
    }
    live.signal(Signal::KILL);
    live.wait();
    // It was killed before the command, or in the middle of it: then there is something to take back.
    let run = world.baton(&["undo"]);
    assert!(run.code == 2 || run.code == 0, "{run:?}");
    assert_eq!(Everything::of(&world.project()).differences(&before), [""; 0]);
    exec(&world, &script(&["rm -rf many src"]));
    world.baton(&["undo"]).expect(0);
    assert_eq!(Everything::of(&world.project()).differences(&before), [""; 0]);
}
