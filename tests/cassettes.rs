//! Recording model traffic and replaying it elsewhere, in all four wire formats.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Live, Run, World, run};
use crate::wire_formats::{FORMATS, Format, strip};

const KEY: &str = "sk-Zq81xW07-vK93mB52yTu";

/// A world with files, in which a script was played over HTTP and recorded.
struct Recorded {
    world: World,
    cassette: PathBuf,
    run: Run,
}

fn world() -> World {
    let world = World::new();
    for name in ["a", "b"] {
        world.file(&format!("{name}.txt"), format!("content of {name}"));
    }
    world.file("AGENTS.md", "Be brief.");
    world
}

/// `PROJECT` in the script is the project's directory.
fn record(format: &Format, script: &str, extra: &[&str]) -> Recorded {
    let world = world();
    let server = world.serve(&script.replace("PROJECT", &world.project().display().to_string()));
    let cassette = world.home().with_file_name("tape.jsonl");
    let args = ["exec", "--json", "--permission-mode", "auto", "-m", format.model, "go", "--record"];
    let mut command = world.command(&args);
    command.arg(&cassette).args(extra);
    command.env(format.url.0, format!("{}{}", server.url, format.url.1)).env(format.key.0, KEY);
    let run = run(command);
    Recorded { world, cassette, run }
}

fn replay(world: &World, cassette: &Path, prompt: &str) -> Run {
    let model = format!("cassette/{}", cassette.display());
    world.baton(&["exec", "--json", "--permission-mode", "auto", "-m", &model, prompt])
}

/// What a run told, without what differs from run to run.
fn told(world: &World, run: &Run) -> Vec<String> {
    let project = world.project().canonicalize().unwrap().display().to_string();
    let state = fs::read_dir(world.home().join("projects")).unwrap().next().unwrap().unwrap().path();
    let mut events = run.events();
    // How much a command has printed at a moment depends on the moment.
    events.retain(|event| event["kind"] != "notice" && event["kind"] != "tool.update");
    let plain = events.into_iter().map(|mut event| {
        for field in ["id", "session", "item", "at", "duration_ms", "delay_ms", "until"] {
            strip(&mut event, field);
        }
        event.to_string().replace(&project, "PROJECT").replace(&*state.to_string_lossy(), "STATE")
    });
    plain.collect()
}

fn exchanges(cassette: &Path) -> Vec<Value> {
    let text = fs::read_to_string(cassette).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_was_recorded_is_replayed_in_another_place() {
    let script = r#"{"think":"a deep thought","say":"Looking at PROJECT/a.txt","call":[{"tool":"read","input":{"path":"PROJECT/a.txt"}},{"tool":"bash","input":{"command":"pwd; seq 3000"}}]}
                    {"call":[{"tool":"read","input":{"path":"nope.txt"}},{"tool":"edit","input":{"path":"b.txt","old":"content","new":"all"}}]}
                    {"say":"Grüße aus PROJECT.","usage":{"input":100,"output":7,"cache_read":50}}"#;
    for format in &FORMATS {
        let recorded = record(format, script, &[]);
        assert_eq!(recorded.run.code, 0, "{:#?}", recorded.run);
        let elsewhere = world();
        let again = replay(&elsewhere, &recorded.cassette, "go").expect(0);
        assert_eq!(told(&elsewhere, &again), told(&recorded.world, &recorded.run), "{}", format.model);
        assert_eq!(elsewhere.read("b.txt"), "all of b");
        assert!(again.of("notice")[0]["text"].as_str().unwrap().contains("no model is called"));
        // And once more in the same place: full outputs are kept beside those of the first run.
        elsewhere.file("b.txt", "content of b");
        assert_eq!(replay(&elsewhere, &recorded.cassette, "go").expect(0).end()["text"], again.end()["text"]);
        let tape = fs::read_to_string(&recorded.cassette).unwrap();
        assert!(!tape.contains(&*recorded.world.project().to_string_lossy()), "{tape}");
        assert_eq!(tape.matches("Be brief.").count(), 1, "every message is kept once");
    }
}

#[test]
fn a_request_that_differs_is_refused_and_shown() {
    let script = r#"{"call":[{"tool":"read","input":{"path":"a.txt"}}]}
                    {"say":"read"}"#;
    let recorded = record(&FORMATS[0], script, &[]);
    let other_prompt = replay(&recorded.world, &recorded.cassette, "go away").expect(2);
    let message = other_prompt.of("error")[0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("exchange 1") && message.contains("\n-go\n+go away"), "{message}");

    let elsewhere = world();
    elsewhere.file("a.txt", "another content of a");
    let other_file = replay(&elsewhere, &recorded.cassette, "go").expect(2);
    let message = other_file.of("error")[0]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("exchange 2") && message.contains("message 3 differs"), "{message}");
    assert!(message.contains("content of a\n+") && message.contains("another content of a"), "{message}");
    assert!(other_file.of("error")[0]["hint"].as_str().unwrap().contains("record it again"));

    let model = format!("cassette/{}:high", recorded.cassette.display());
    let other_effort = elsewhere.baton(&["exec", "-m", &model, "go"]).expect(2);
    assert!(other_effort.stderr.contains("-none\n+high"), "{}", other_effort.stderr);
}

#[test]
fn failures_and_retries_are_part_of_it() {
    let script = r#"{"fail":{"status":429,"retry_after":1}}
                    {"say":"half of it","cut":true}
                    {"fail":{"status":529}}
                    {"say":"all of it"}"#;
    for format in &FORMATS {
        let recorded = record(format, script, &[]);
        assert_eq!((recorded.run.code, recorded.run.of("retry").len()), (0, 3), "{:#?}", recorded.run);
        let statuses: Vec<_> = exchanges(&recorded.cassette).iter().map(|line| line["status"].clone()).collect();
        assert_eq!(statuses, [429, 200, 529, 200]);
        let elsewhere = world();
        let again = replay(&elsewhere, &recorded.cassette, "go").expect(0);
        assert_eq!(told(&elsewhere, &again), told(&recorded.world, &recorded.run), "{}", format.model);
        assert!(again.of("retry").iter().all(|retry| retry["delay_ms"] == 0), "nobody is waited for");
    }
}

#[test]
fn a_server_that_is_not_there_is_recorded_too() {
    let (world, elsewhere) = (world(), world());
    let cassette = world.home().with_file_name("tape.jsonl");
    let mut command = world.command(&["exec", "--json", "-m", "compat/any", "go", "--record"]);
    command.arg(&cassette).env("BATON_COMPAT_BASE_URL", "http://127.0.0.1:9/v1");
    let gone = run(command).expect(6);
    let again = replay(&elsewhere, &cassette, "go").expect(6);
    assert_eq!(again.of("retry").len(), gone.of("retry").len());
    assert_eq!(exchanges(&cassette).len(), gone.of("retry").len() + 1);
}

#[test]
fn no_part_of_a_key_is_kept() {
    // The model says it in pieces, calls a tool with it, and the tool repeats it.
    let script = format!(
        r#"{{"think":"it is {KEY}","say":"{KEY} and {KEY}","call":[{{"tool":"bash","input":{{"command":"echo {KEY}; cat key.txt"}}}}]}}
           {{"fail":{{"status":529,"body":{{"error":{{"message":"bad key {KEY}"}}}}}}}}
           {{"say":"done: {KEY}"}}"#
    );
    for format in &FORMATS {
        let recorded = record(format, &script, &[]);
        assert_eq!(recorded.run.code, 0, "{:#?}", recorded.run);
        let tape = fs::read_to_string(&recorded.cassette).unwrap();
        for part in KEY.as_bytes().windows(5) {
            let part = std::str::from_utf8(part).unwrap();
            assert!(!tape.contains(part), "{}: {part} in {tape}", format.model);
        }
        assert!(tape.contains(&format!("{{baton:key:{}}}", format.key.0)), "{tape}");
        assert!(!tape.contains("withheld"), "{tape}");
        replay(&world(), &recorded.cassette, "go").expect(0);
    }
}

#[test]
fn a_cassette_that_ends_early_says_so() {
    let script = r#"{"call":[{"tool":"ls","input":{}}]}
                    {"say":"listed"}"#;
    let recorded = record(&FORMATS[2], script, &[]);
    let whole = fs::read(&recorded.cassette).unwrap();

    let torn = recorded.cassette.with_file_name("torn.jsonl");
    fs::write(&torn, &whole[..whole.len() - 40]).unwrap();
    let run = replay(&recorded.world, &torn, "go").expect(2);
    assert!(run.of("notice")[0]["text"].as_str().unwrap().contains("without line 3, which is cut off"), "{run:#?}");
    assert_eq!(run.of("tool.end").len(), 1);
    assert!(run.of("error")[0]["message"].as_str().unwrap().contains("played to its end (1 exchanges)"), "{run:#?}");

    let damaged = recorded.cassette.with_file_name("damaged.jsonl");
    fs::write(&damaged, String::from_utf8(whole).unwrap().replacen("\"exchange\":1", "\"exchange\":", 1)).unwrap();
    let model = format!("cassette/{}", damaged.display());
    recorded.world.baton(&["exec", "-m", &model, "go"]).expect_error(2, "line 2", "record one");
    recorded.world.baton(&["exec", "-m", "cassette/no.jsonl", "go"]).expect_error(2, "no.jsonl", "");
    let script = recorded.world.script(r#"{"say":"x"}"#).replace("script/", "cassette/");
    recorded.world.baton(&["exec", "-m", &script, "go"]).expect_error(2, "this is no cassette", "script/FILE");
}

#[test]
fn what_was_answered_survives_a_kill() {
    let world = world();
    let server = world.serve(
        r#"{"say":"first","call":[{"tool":"ls","input":{}}]}
           {"delay_ms":600000,"say":"never"}"#,
    );
    let cassette = world.home().with_file_name("tape.jsonl");
    let mut command = world.command(&["exec", "--json", "-m", "anthropic/claude-sonnet-4-5", "go", "--record"]);
    command.arg(&cassette).env("ANTHROPIC_BASE_URL", &server.url).env("ANTHROPIC_API_KEY", KEY);
    let mut live = Live::start(command);
    live.until("tool.end");
    while fs::read_to_string(&cassette).unwrap().lines().count() < 2 {
        std::thread::yield_now();
    }
    live.child.kill().unwrap();
    live.wait();
    let again = replay(&world, &cassette, "go").expect(2);
    assert_eq!(again.of("message.end")[0]["message"]["content"][0]["text"], "first");
    assert!(again.of("notice").iter().all(|notice| !notice.to_string().contains("cut off")), "{again:#?}");
}

#[test]
fn the_prices_of_the_recorded_model_apply() {
    let recorded = record(&FORMATS[0], r#"{"say":"dear","usage":{"input":1000000,"output":7}}"#, &[]);
    let again = replay(&world(), &recorded.cassette, "go").expect(0);
    assert_eq!(again.end()["cost_usd"], recorded.run.end()["cost_usd"]);
    assert_eq!(again.of("usage")[0]["model"], "anthropic/claude-sonnet-4-5");
}

#[test]
fn what_cannot_be_recorded_is_refused_before_the_first_request() {
    let world = world();
    let server = world.serve(r#"{"say":"x"}"#);
    let exec = |args: &[&str]| {
        let mut command = world.command(&[&["exec", "-m", "compat/any"], args].concat());
        command.env("BATON_COMPAT_BASE_URL", format!("{}/v1", server.url));
        run(command)
    };
    let taken = world.file("taken.jsonl", "something else");
    exec(&["--record", "taken.jsonl", "go"]).expect_error(2, "taken.jsonl", "remove it first");
    assert_eq!(fs::read_to_string(taken).unwrap(), "something else");
    exec(&["--record", "no/such/dir/tape.jsonl", "go"]).expect_error(2, "tape.jsonl", "directory that is there");
    exec(&["--record", "tape.jsonl", "-i", "no.png", "go"]).expect(2);
    assert!(!world.project().join("tape.jsonl").exists(), "nothing was recorded, so nothing is left");
    assert!(server.requests().is_empty());
    let script = world.script(r#"{"say":"x"}"#);
    world.baton(&["exec", "-m", &script, "--record", "t", "go"]).expect_error(2, "nothing to record", "--record");
    assert!(!world.project().join("t").exists());
}
