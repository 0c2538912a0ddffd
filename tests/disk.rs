//! Disks that are full, read-only or broken, and two Batons on one session: clear words, and nothing is lost.

mod fault;

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::odd_machine::among_mounts;
use crate::support::{Live, Run, World, run};
use fault::Fault;

/// All events of a process, and what is done when one of them is seen.
fn watch(live: &mut Live, mut seen: impl FnMut(&Value)) -> Vec<Value> {
    let mut events = Vec::new();
    while let Some(event) = live.next_event() {
        seen(&event);
        events.push(event);
    }
    events
}

fn says(event: &Value, words: &str) -> bool {
    event["kind"] == "notice" && event["text"].as_str().is_some_and(|text| text.contains(words))
}

/// The entries of all session files below a directory, by their ids; and how many lines are none.
fn kept(home: &Path) -> (Vec<String>, usize) {
    fn files(dir: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
    let sessions = files(home).into_iter().filter(|file| {
        file.extension().is_some_and(|end| end == "jsonl") && file.parent().is_some_and(|dir| dir.ends_with("sessions"))
    });
    let (mut ids, mut torn) = (Vec::new(), 0);
    for file in sessions {
        let bytes = std::fs::read(file).unwrap();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Value>(line) {
                Ok(entry) => ids.push(entry["id"].as_str().unwrap().to_owned()),
                Err(_) => torn += 1,
            }
        }
    }
    (ids, torn)
}

/// Every event that lasts is kept once. What is told about the session itself cannot be.
fn assert_kept(events: &[Value], ids: &[String]) {
    let passing = ["message.delta", "thinking.delta", "tool.update"];
    let lasts = |event: &&Value| {
        !passing.iter().any(|kind| event["kind"] == *kind)
            && !says(event, "waiting up to")
            && !says(event, "the session is written again")
    };
    for event in events.iter().filter(lasts) {
        let times = ids.iter().filter(|id| event["id"] == id.as_str()).count();
        assert_eq!(times, 1, "{event}");
    }
}

fn exec(model: &str) -> [&str; 7] {
    ["exec", "--json", "--permission-mode", "yolo", "-m", model, "go"]
}

#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost() {
    let world = World::new();
    let home = world.home();
    std::fs::create_dir_all(&home).unwrap();
    let (filler, free, copy) = (home.join("filler"), world.project().join("free"), world.project().join("copy"));
    let fill = format!("cat /dev/zero > {} 2>/dev/null; echo full", filler.display());
    let script = [
        json!({"call": [{"tool": "bash", "input": {"command": fill}}]}),
        // More than what is left of a block that is in use.
        json!({"say": "a long word ".repeat(1_000)}),
        json!({"say": "and on"}),
    ];
    let model = world.script(&script.map(|line| line.to_string()).join("\n"));
    // Inside, the home is a small disk. It is freed when the test says so, and copied out at the end.
    let mounts = format!(
        "mount -t tmpfs -o size=2m none {home}\n(until [ -e {free} ]; do sleep 0.01; done; rm {filler}) &",
        home = home.display(),
        free = free.display(),
        filler = filler.display(),
    );
    let after =
        format!("\"$0\" exec --json -c --permission-mode yolo again; cp -r {} {}", home.display(), copy.display());
    let mut live = Live::start(among_mounts(&world, &mounts, &exec(&model), &after));
    let events = watch(&mut live, |event| {
        if says(event, "waiting up to") {
            std::fs::write(&free, "").unwrap();
        }
    });
    assert_eq!(live.wait(), 0, "{events:#?}");
    let refused = events.iter().find(|event| says(event, "waiting up to")).expect("somebody is told");
    assert!(says(refused, "No space left on device") && says(refused, "cannot write the session"), "{refused}");
    assert!(events.iter().any(|event| says(event, "is written again, and nothing of it is missing")), "{events:#?}");
    let ends: Vec<_> = events.iter().filter(|event| event["kind"] == "turn.end").collect();
    assert_eq!((ends.len(), &ends[0]["reason"], &ends[1]["text"]), (2, &json!("done"), &json!("and on")));
    let (ids, torn) = kept(&copy);
    assert_eq!(torn, 0, "what was half written was taken away");
    assert_kept(&events, &ids);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let world = World::new();
    let home = world.home();
    std::fs::create_dir_all(&home).unwrap();
    let model = world.script("{\"say\":\"one\"}\n{\"say\":\"two\"}");
    let read_only = format!("mount --bind {0} {0}\nmount -o remount,bind,ro {0}", home.display());
    let refused = run(among_mounts(&world, &read_only, &exec(&model), ""));
    refused.expect_error(8, "Read-only file system", "BATON_HOME");
    assert!(kept(&home).0.is_empty());

    // A session that is there is not touched, and goes on later.
    world.baton(&exec(&model)).expect(0);
    let before = kept(&home);
    let refused = run(among_mounts(&world, &read_only, &["exec", "--permission-mode", "yolo", "-c", "more"], ""));
    assert_eq!(refused.code, 8, "{refused:#?}");
    assert!(refused.stderr.contains("Read-only file system"), "{refused:#?}");
    assert_eq!(kept(&home), before);
    let goes_on = world.baton(&["exec", "--json", "--permission-mode", "yolo", "-c", "more"]).expect(0);
    assert_eq!(goes_on.end()["text"], "two");
}

/// A session whose disk fails from its first command on, until the test has seen that it says so.
fn with_fault(world: &World, fault: &Fault) -> (Vec<Value>, i32) {
    let script = [
        json!({"call": [{"tool": "bash", "input": {"command": format!("touch {}", fault.flag.display())}}]}),
        json!({"call": [{"tool": "bash", "input": {"command": "echo after >> log"}}]}),
        json!({"say": "done"}),
        json!({"say": "and on"}),
    ];
    let model = world.script(&script.map(|line| line.to_string()).join("\n"));
    let mut command = world.command(&exec(&model));
    fault.inject(&mut command);
    let mut live = Live::start(command);
    let events = watch(&mut live, |event| {
        if says(event, "waiting up to") {
            std::fs::remove_file(&fault.flag).unwrap();
        }
    });
    (events, live.wait())
}

#[test]
fn a_disk_that_fails_for_a_while_costs_nothing() {
    for can_take_back in [true, false] {
        let world = World::new();
        let fault = Fault::new(&world.project(), can_take_back);
        let (events, code) = with_fault(&world, &fault);
        assert_eq!(code, 0, "{events:#?}");
        let refused = events.iter().find(|event| says(event, "waiting up to")).expect("somebody is told");
        assert!(says(refused, "Input/output error"), "{refused}");
        assert!(events.iter().any(|event| says(event, "is written again")), "{events:#?}");
        assert_eq!(world.read("log"), "after\n");
        let (ids, torn) = kept(&world.home());
        assert_kept(&events, &ids);
        // What could not be taken back stays, apart from the entries, and is told about once.
        assert_eq!(torn > 0, !can_take_back);
        for (times, text) in [(1, "and on"), (0, "")] {
            let again = world.baton(&["exec", "--json", "--permission-mode", "yolo", "-c", "more"]);
            let told = again.of("notice").iter().filter(|notice| says(notice, "is damaged")).count();
            assert_eq!(told, if can_take_back { 0 } else { torn * times }, "{again:#?}");
            assert!(times == 0 || again.end()["text"] == text, "{again:#?}");
        }
    }
}

#[test]
fn one_session_has_one_writer() {
    let world = World::new();
    let hold =
        json!({"call": [{"tool": "bash", "input": {"command": "echo held; until [ -e go ]; do sleep 0.01; done"}}]});
    let model = world.script(&format!("{hold}\n{{\"when\":\"in a copy\",\"say\":\"copied\"}}\n{{\"say\":\"done\"}}"));
    let mut live = Live::start(world.command(&exec(&model)));
    let pid = live.child.id();
    let session = live.until("session.start")["session"].as_str().unwrap().to_owned();
    live.until("tool.update");
    let before = kept(&world.home());
    for which in [&["-c"][..], &["-r", &session]] {
        let second: Run = world.baton(&[&["exec", "--permission-mode", "yolo", "more"], which].concat());
        let (stderr, code) = (second.stderr.clone(), second.code);
        second.expect_error(8, &format!("it is open in another Baton (process {pid})"), "--fork");
        assert!(stderr.contains(&session), "{code}: {stderr}");
    }
    assert_eq!(kept(&world.home()), before, "nothing was written");
    let copy = world.baton(&["exec", "--json", "--permission-mode", "yolo", "-c", "--fork", "in a copy"]).expect(0);
    assert_eq!(copy.end()["text"], "copied");
    assert_ne!(copy.events()[0]["session"], session.as_str());
    world.file("go", "");
    assert_eq!(live.wait(), 0);
    // The lock of a process that was killed is nobody's.
    std::fs::remove_file(world.project().join("go")).unwrap();
    let mut live = Live::start(world.command(&exec(&model)));
    let session = live.until("session.start")["session"].as_str().unwrap().to_owned();
    live.until("tool.update");
    live.signal(Signal::KILL);
    // Nobody ends its command then.
    world.file("go", "");
    live.wait();
    let after = world.baton(&["exec", "--json", "--permission-mode", "yolo", "-r", &session, "more"]).expect(0);
    assert_eq!(after.end()["text"], "done");
}
