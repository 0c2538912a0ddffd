//! `baton sessions`: conversations are found again, changed, carried elsewhere and come from there.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Live, Run, World, run, with_sleeps, workspace_root};

fn sessions(world: &World, args: &[&str]) -> Run {
    world.baton(&[&["sessions"], args].concat())
}

fn as_json(world: &World, args: &[&str]) -> Value {
    let run = sessions(world, &[args, &["--json"]].concat()).expect(0);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Says something in a new session; its id.
fn new_session(world: &World, prompt: &str, answer: &str) -> String {
    let model = world.script(&json!({ "say": answer }).to_string());
    let run = world.baton(&["exec", "-m", &model, "--json", prompt]).expect(0);
    run.end()["session"].as_str().unwrap().to_owned()
}

fn go_on(world: &World, id: &str, prompt: &str) -> Run {
    let model = world.script("{\"say\":\"one\"}\n{\"say\":\"two\"}\n{\"say\":\"three\"}\n{\"say\":\"four\"}");
    world.baton(&["exec", "-m", &model, "--json", "-r", id, prompt]).expect(0)
}

/// What the person has said on the way to where a session is now.
fn prompts(world: &World, id: &str) -> Vec<String> {
    let shown = sessions(world, &["show", id, "--json"]).expect(0);
    let said = |event: &Value| event["message"]["content"].as_array().unwrap().last().unwrap()["text"].clone();
    shown.of("turn.start").iter().map(|event| said(event).as_str().unwrap().to_owned()).collect()
}

fn state(world: &World) -> PathBuf {
    let projects = fs::read_dir(world.home().join("projects")).unwrap();
    projects.flatten().map(|entry| entry.path()).next().unwrap()
}

fn tail(id: &str) -> &str {
    &id[id.len() - 8..]
}

#[test]
fn sessions_are_listed_shown_and_found() {
    let world = World::new();
    sessions(&world, &["list"]).expect(0);
    let first = new_session(&world, "mend the parser\nplease", "The lexer was wrong.");
    let second = new_session(&world, "write a poem", "Roses are red.");
    let listed = as_json(&world, &["list"]);
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [second.as_str(), first.as_str()]);
    assert_eq!((&listed[1]["title"], &listed[1]["turns"]), (&json!("mend the parser"), &json!(1)));
    let run = sessions(&world, &["list", "-n", "1"]).expect(0);
    assert!(run.stdout.contains(tail(&second)) && run.stdout.contains("write a poem"), "{run:?}");
    assert!(run.stderr.contains("1 of 2"), "{run:?}");

    let shown = sessions(&world, &["show", tail(&first)]).expect(0);
    assert_eq!(shown.stdout, "> mend the parser\n> please\nThe lexer was wrong.\n");
    assert!(shown.stderr.contains("done"), "{shown:?}");
    let events = sessions(&world, &["show", &first, "--json"]).expect(0).events();
    assert_eq!(events.last().unwrap()["kind"], "turn.end");
    assert!(events.iter().all(|event| event["session"] == first.as_str()));

    let found = as_json(&world, &["search", "lex", "wrong"]);
    assert_eq!((&found[0]["session"], &found[0]["who"]), (&json!(first), &json!("agent")));
    assert_eq!(as_json(&world, &["search", "nowhere"]), json!([]));
    let elsewhere = World::new();
    let mut command = elsewhere.command(&["sessions", "search", "--all", "roses"]);
    command.env("BATON_HOME", world.home());
    let run = crate::support::run(command).expect(0);
    assert!(run.stdout.contains(tail(&second)) && run.stdout.contains("Roses are red."), "{run:?}");
    assert_eq!(as_json(&elsewhere, &["search", "roses"]), json!([]));
}

#[test]
fn what_is_not_there_is_said_with_a_way_on() {
    let world = World::new();
    new_session(&world, "one", "done");
    sessions(&world, &["show", "nosuch"]).expect_error(2, "there is no session `nosuch`", "sessions list");
    let id = new_session(&world, "two", "done");
    sessions(&world, &["fork", &id, "--at", "nosuch"]).expect_error(2, "no entry `nosuch`", "--entries");
    sessions(&world, &["show", "ses"]).expect_error(2, "there is no session", "sessions list");
    sessions(&world, &["search", "--", "!!"]).expect_error(2, "no word", "letters");
    sessions(&world, &["rename", &id, " "]).expect_error(2, "empty", "one word");
    sessions(&world, &["rm", &id]).expect_error(4, "needs a yes", "--yes");
    sessions(&world, &["rm", "--restore", &id]).expect_error(2, "not in the trash", "trash");
    sessions(&world, &["import", "nosuch.tar"]).expect_error(2, "cannot read", "export");
    world.file("other.jsonl", "{\"a\":1}\n");
    sessions(&world, &["import", "other.jsonl"]).expect_error(2, "no conversation that Baton knows", "Codex");
    world.file("other.tar", "no tar at all");
    sessions(&world, &["import", "other.tar"]).expect_error(2, "no parcel", "nothing was taken");
}

#[test]
fn a_session_goes_on_from_any_of_its_entries() {
    let world = World::new();
    let id = new_session(&world, "one", "first");
    go_on(&world, &id, "two");
    let shown = sessions(&world, &["show", &id, "--entries", "--json"]).expect(0);
    let end = shown.events().into_iter().find(|entry| entry["kind"] == "turn.end").unwrap();
    let entry = tail(end["id"].as_str().unwrap()).to_owned();

    let fork = as_json(&world, &["fork", tail(&id), "--at", &entry]);
    let fork = fork["id"].as_str().unwrap();
    assert_eq!((prompts(&world, fork), prompts(&world, &id)), (vec!["one".into()], vec!["one".into(), "two".into()]));
    go_on(&world, fork, "other");
    assert_eq!(prompts(&world, fork), ["one", "other"]);
    let listed = as_json(&world, &["list"]);
    assert_eq!(listed[0]["forked"], id.as_str());

    as_json(&world, &["rollback", &id, "--to", &entry]);
    assert_eq!(prompts(&world, &id), ["one"]);
    go_on(&world, &id, "three");
    assert_eq!(prompts(&world, &id), ["one", "three"]);
    let tree = sessions(&world, &["show", &id, "--entries"]).expect(0).stdout;
    assert!(tree.contains(&format!("├─ after {entry}")) && tree.contains('╎'), "{tree}");
}

#[test]
fn a_session_gets_a_name_goes_to_the_trash_and_comes_back() {
    let world = World::new();
    let id = new_session(&world, "one", "first");
    sessions(&world, &["rename", &id, "The \u{1b}[31mparser"]).expect(0);
    let listed = sessions(&world, &["list"]).expect(0).stdout;
    assert!(listed.contains("The [31mparser") && !listed.contains('\u{1b}'), "{listed:?}");
    sessions(&world, &["rm", tail(&id), "--yes"]).expect(0);
    assert_eq!(as_json(&world, &["list"]), json!([]));
    assert_eq!(as_json(&world, &["search", "first"]), json!([]));
    sessions(&world, &["rm", "--restore", tail(&id)]).expect(0);
    assert_eq!(as_json(&world, &["list"])[0]["title"], "The \u{1b}[31mparser");
    go_on(&world, &id, "two");
}

#[test]
fn what_another_baton_has_open_is_left_alone() {
    let world = World::new();
    let script = with_sleeps(r#"{"call":[{"tool":"bash","input":{"command":"SLEEP71"}}]}"#);
    let model = world.script(&script);
    let command = world.command(&["exec", "--json", "--permission-mode", "yolo", "-m", &model, "go"]);
    let mut live = Live::start(command);
    let started = live.until("tool.start");
    let id = started["session"].as_str().unwrap();
    let held = format!("open in another Baton (process {})", live.child.id());
    for change in
        [&["rename", id, "x"][..], &["rm", id, "--yes"], &["rollback", id, "--to", started["id"].as_str().unwrap()]]
    {
        sessions(&world, change).expect_error(8, &held, "end it there");
    }
    // Looking is for everybody, and so is a copy.
    assert_eq!(prompts(&world, id), ["go"]);
    sessions(&world, &["fork", id]).expect(0);
    live.signal(rustix::process::Signal::INT);
    assert_eq!(live.wait(), 130);
}

#[test]
fn damage_is_reported_with_its_place() {
    let world = World::new();
    let id = new_session(&world, "one", "first");
    sessions(&world, &["check"]).expect(0);
    let file = state(&world).join(format!("sessions/{id}.jsonl"));
    let mut bytes = fs::read(&file).unwrap();
    let length = bytes.len();
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 30;
    bytes[at] ^= 1;
    bytes.extend_from_slice(b"{\"id\":\"evt_half");
    fs::write(&file, &bytes).unwrap();
    let run = sessions(&world, &["check", tail(&id), "--json"]).expect(3);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let damage = report[0]["damage"].as_array().unwrap();
    assert_eq!(damage.len(), 2, "{report}");
    assert_eq!((&damage[1]["from"], &damage[1]["bytes"]), (&json!(length), &json!(15)));
    assert_eq!(as_json(&world, &["list"])[0]["damage"], 2);
    let run = sessions(&world, &["show", &id]).expect(0);
    assert!(run.stdout.contains("> one") && run.stderr.contains(&format!("bytes {length} to")), "{run:?}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn the_index_is_never_the_truth() {
    let world = World::new();
    new_session(&world, "mend the parser", "done");
    let before = as_json(&world, &["list"]);
    let index = state(&world).join("index.db");
    for content in [&b""[..], b"no database at all, and long enough to be looked at as one"] {
        fs::write(&index, content).unwrap();
        assert_eq!(as_json(&world, &["list"]), before);
    }
    for end in ["", "-wal", "-shm"] {
        drop(fs::remove_file(format!("{}{end}", index.display())));
    }
    fs::create_dir(&index).unwrap();
    let run = sessions(&world, &["search", "parser", "--json"]).expect(0);
    assert!(run.stderr.contains("cannot be kept"), "{run:?}");
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn sessions_are_carried_to_another_machine_and_go_on_there() {
    let (here, there) = (World::new(), World::new());
    let id = new_session(&here, "one", "first");
    here.file(".baton/agents/reviewer.md", "You review.");
    here.file(".baton/config.jsonc", "{\n  // mine\n  \"model\": \"anthropic/claude-sonnet-4-5\"\n}\n");
    let parcel = here.project().join("all.tar");
    let told = as_json(&here, &["export", "-o", "all.tar"]);
    assert_eq!((&told["sessions"], &told["definitions"]), (&json!(1), &json!(2)));
    let path = parcel.to_str().unwrap();
    let merged = as_json(&there, &["import", path]);
    assert_eq!(merged["merged"][0], json!({"what": id, "outcome": "added"}));
    assert_eq!(there.read(".baton/agents/reviewer.md"), "You review.");
    assert!(there.read(".baton/config.jsonc").contains("// mine"));
    go_on(&there, &id, "there");
    assert_eq!(prompts(&there, &id), ["one", "there"]);
    assert_eq!(as_json(&there, &["import", path])["merged"][0]["outcome"], "skipped");

    go_on(&here, &id, "here");
    sessions(&here, &["export", tail(&id), "-o", "one.tar"]).expect(0);
    let path = here.project().join("one.tar");
    let merged = as_json(&there, &["import", path.to_str().unwrap()]);
    assert_eq!(merged["merged"][0]["outcome"], json!({"forked": id}));
    let fork = merged["merged"][0]["what"].as_str().unwrap();
    assert_eq!((prompts(&there, fork), prompts(&there, &id)[1].as_str()), (vec!["one".into(), "here".into()], "there"));
    let merged = as_json(&there, &["import", path.to_str().unwrap(), "--replace"]);
    assert_eq!(merged["merged"][0]["outcome"], "replaced");
    assert_eq!(prompts(&there, &id), ["one", "here"]);

    let mut bytes = fs::read(&parcel).unwrap();
    let at = bytes.windows(5).rposition(|piece| piece == b"first").unwrap();
    bytes[at] = b'F';
    let bad = here.file("bad.tar", bytes);
    let fresh = World::new();
    sessions(&fresh, &["import", bad.to_str().unwrap()]).expect_error(2, "not what the list says", "nothing was taken");
    assert_eq!(as_json(&fresh, &["list"]), json!([]));
}

#[test]
fn secrets_of_other_agents_stay_behind() {
    let world = World::new();
    let token = format!("ghp_{}", "Zr4nT7kQ2mW9xB5vL8cY1sD6fG3hJ0pAeUiO");
    for (sample, words) in
        [("claude_code.jsonl", "Never change the tests."), ("codex_rollout.jsonl", "Why is the build red?")]
    {
        let text = fs::read_to_string(workspace_root().join("tests/samples").join(sample)).unwrap();
        assert!(text.contains(words), "{sample}");
        let file = world.file(sample, text.replace(words, &format!("{words} {token}")));
        sessions(&world, &["import", "--all", file.to_str().unwrap()]).expect(0);
    }
    assert_eq!(as_json(&world, &["list"]).as_array().unwrap().len(), 2);
    let found = std::process::Command::new("grep").args(["-rl", &token[4..]]).arg(state(&world)).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
}

#[test]
fn conversations_of_other_agents_go_on_here() {
    let world = World::new();
    let root = world.project().canonicalize().unwrap().display().to_string();
    let dir = world.home().join("foreign");
    fs::create_dir_all(dir.join("a/b")).unwrap();
    for (sample, file) in [("claude_code.jsonl", "a/c.jsonl"), ("codex_rollout.jsonl", "a/b/rollout-1.jsonl")] {
        let text = fs::read_to_string(workspace_root().join("tests/samples").join(sample)).unwrap();
        fs::write(dir.join(file), text.replace("/home/ada/shop", &root)).unwrap();
        // One of another project, which is left out.
        let other = text.replace("3f1c9a52", "00000000").replace("019b0a77", "00000000");
        fs::write(dir.join(file).with_extension("other.jsonl"), other).unwrap();
    }
    let merged = as_json(&world, &["import", dir.to_str().unwrap()]);
    assert_eq!((merged["merged"].as_array().unwrap().len(), &merged["other_projects"]), (2, &json!(2)), "{merged}");
    assert_eq!(merged["skipped_lines"]["damaged lines"], 1);
    let again = as_json(&world, &["import", dir.to_str().unwrap()]);
    assert!(again["merged"].as_array().unwrap().iter().all(|one| one["outcome"] == "skipped"), "{again}");
    let listed = as_json(&world, &["list"]);
    let of = |origin: &str| {
        let rows = listed.as_array().unwrap().iter();
        rows.clone().find(|row| row["imported"].as_str().unwrap().starts_with(origin)).unwrap().clone()
    };
    let (claude, codex) = (of("claude-code:"), of("codex:"));
    assert_eq!(
        (&claude["title"], &claude["model"]),
        (&json!("Rounding of prices in the cart"), &json!("anthropic/claude-sonnet-4-5-20250929"))
    );
    assert_eq!((&codex["title"], &codex["turns"]), (&json!("Why is the build red?"), &json!(2)));

    let server = world.serve("{\"say\":\"It does.\"}\n".repeat(9).as_str());
    let id = claude["id"].as_str().unwrap();
    let mut command = world.command(&["exec", "-m", "compat/any", "-r", id, "Go on, then."]);
    command.env("BATON_COMPAT_BASE_URL", format!("{}/v1", server.url)).env("BATON_COMPAT_API_KEY", "k");
    run(command).expect(0);
    let requests = server.requests();
    let body = requests[0].to_string();
    assert!(body.contains("Never change the tests.") && body.contains("pytest -q"), "{body}");
    assert!(body.contains("Go on, then.") && !body.contains("It looks like this in the shop"), "{body}");
    assert_eq!(prompts(&world, id).len(), 3);
    let more = as_json(&world, &["import", dir.join("a/c.jsonl").to_str().unwrap()]);
    assert_eq!(more["merged"][0]["outcome"], "skipped");
}

#[test]
fn old_sessions_are_pruned_by_rule_and_not_without_a_trace() {
    let world = World::new();
    let id = new_session(&world, "one", "first");
    for _ in 0..11 {
        sessions(&world, &["fork", &id]).expect(0);
    }
    let prune = |args: &[&str]| {
        let mut command = world.command(&[&["sessions", "prune", "--json"], args].concat());
        command.env("BATON_SESSIONS__KEEP_DAYS", "30");
        let run = run(command).expect(0);
        serde_json::from_str::<Value>(&run.stdout).unwrap()
    };
    assert_eq!(prune(&[]), json!([]));
    let file = state(&world).join(format!("sessions/{id}.jsonl"));
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(24 * 40);
    fs::File::options().append(true).open(&file).unwrap().set_modified(old).unwrap();
    let proposed = prune(&["--dry-run"]);
    assert_eq!((&proposed[0]["what"], &proposed[0]["why"]), (&json!(id), &json!("age")));
    assert!(file.exists());
    prune(&[]);
    assert!(!file.exists());
    assert_eq!(as_json(&world, &["list"]).as_array().unwrap().len(), 11);
    let lines = fs::read_to_string(state(&world).join("pruned.jsonl")).unwrap();
    assert!(lines.contains(&id), "{lines}");
    sessions(&world, &["rm", "--restore", &id]).expect(0);
    // The same at the end of a turn, once a day.
    fs::remove_file(state(&world).join("pruned")).unwrap();
    let model = world.script(r#"{"say":"done"}"#);
    let mut command = world.command(&["exec", "-m", &model, "two"]);
    command.env("BATON_SESSIONS__KEEP_DAYS", "30");
    run(command).expect(0);
    assert!(!file.exists());
}
