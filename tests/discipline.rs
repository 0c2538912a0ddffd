//! What the agent cannot talk its way out of: circles, failing edits, questions to nobody, answers without their form.

use serde_json::{Value, json};

use crate::support::{Run, World};

fn edit(path: &str, old: &str) -> String {
    json!({"call": [{"tool": "edit", "input": {"path": path, "old": old, "new": "x"}}]}).to_string()
}

/// The error of a turn that ended because a person is needed.
fn blocked(run: &Run) -> Value {
    assert_eq!(run.end()["reason"], "blocked");
    run.of("error").pop().unwrap()
}

#[test]
fn an_agent_that_goes_in_circles_is_told_and_then_stopped() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"bash","input":{"command":"echo once >> log"}}],"repeat":true}"#;
    let run = world.play(script, &[]).expect(4);
    assert_eq!(world.read("log"), "once\nonce\n", "the third is not run");
    assert!(run.outputs()[2].starts_with("not run: this exact call would be made 3 times"), "{:?}", run.outputs());
    assert!(blocked(&run)["message"].as_str().unwrap().contains("goes in circles"));
    assert!(run.tool_ends().len() < 20);
}

#[test]
fn an_agent_that_listens_goes_on() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"ls","input":{}}],"repeat":3}
                    {"call":[{"tool":"bash","input":{"command":"echo other"}}]}
                    {"say":"done"}"#;
    world.play(script, &[]).expect(0);
}

#[test]
fn tests_are_run_again_after_each_edit() {
    let world = World::new();
    let test = r#"{"call":[{"tool":"bash","input":{"command":"cat n; exit 1"}}]}"#;
    let write =
        |n: u32| json!({"call": [{"tool": "write", "input": {"path": "n", "content": n.to_string()}}]}).to_string();
    let lines: Vec<String> = (0..6).flat_map(|n| [write(n), test.to_owned()]).collect();
    world.play(&format!("{}\n{{\"say\":\"done\"}}", lines.join("\n")), &[]).expect(0);
}

#[test]
fn after_three_failing_edits_everything_goes_back_and_the_agent_reports() {
    let world = World::new();
    world.file("a.txt", "one\ntwo\n");
    world.file("b.txt", "bee\n");
    let script = [
        edit("a.txt", "one"),
        edit("b.txt", "bee"),
        edit("a.txt", "nowhere"),
        r#"{"call":[{"tool":"read","input":{"path":"a.txt"}}]}"#.to_owned(),
        edit("a.txt", "no where"),
        edit("a.txt", "knowhere"),
        edit("a.txt", "two"),
        r#"{"call":[{"tool":"bash","input":{"command":"echo y > a.txt"}},{"tool":"read","input":{"path":"b.txt"}}]}"#
            .to_owned(),
        r#"{"say":"I tried three times."}"#.to_owned(),
    ];
    let run = world.play(&script.join("\n"), &[]).expect(4);
    assert_eq!(world.read("a.txt"), "one\ntwo\n");
    assert_eq!(world.read("b.txt"), "bee\n");
    let outputs = run.outputs();
    assert!(outputs[5].contains("put back as they were when the turn began: a.txt, b.txt"), "{}", outputs[5]);
    assert!(outputs[6].starts_with("not run: editing was stopped"), "{}", outputs[6]);
    assert!(outputs[7].starts_with("not run: editing was stopped"), "{}", outputs[7]);
    assert!(outputs[8].contains("bee"), "reading is possible: {}", outputs[8]);
    assert!(blocked(&run)["message"].as_str().unwrap().starts_with("three edits failed"));
    assert_eq!(run.end()["text"], "I tried three times.");
    // Nothing is lost: what was taken back can be had again.
    let said = run.of("notice")[0]["text"].as_str().unwrap().to_owned();
    let diff = said.split("is kept in ").nth(1).unwrap();
    let diff = std::fs::read_to_string(diff).unwrap();
    assert!(diff.contains("-one") && diff.contains("-bee") && diff.contains("+x"), "{diff}");
}

#[test]
fn edits_that_fail_together_or_are_mended_are_no_strikes() {
    let world = World::new();
    world.file("a.txt", "one\ntwo\nthree\n");
    let miss = |old| json!({"tool": "edit", "input": {"path": "a.txt", "old": old, "new": "x"}});
    let together = json!({"call": [miss("!p"), miss("!q"), miss("!r"), miss("!s")]});
    let script = [
        together.to_string(),
        edit("a.txt", "one"),
        edit("a.txt", "nowhere"),
        edit("a.txt", "two"),
        edit("a.txt", "no where"),
        edit("a.txt", "three"),
        r#"{"say":"done"}"#.to_owned(),
    ];
    world.play(&script.join("\n"), &[]).expect(0);
    assert_eq!(world.read("a.txt"), "x\nx\nx\n");
}

#[test]
fn a_question_to_nobody_takes_the_default() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"ask_user","input":{"question":"Which?","options":["a","b"],"default":"b"}}]}
                    {"when":"^b\n.nobody is there","say":"b it is"}"#;
    let run = world.play(script, &[]).expect(0);
    assert_eq!(run.end()["text"], "b it is");
}

#[test]
fn a_turn_that_ends_with_a_question_needs_a_person() {
    let world = World::new();
    let ask = r#"{"call":[{"tool":"ask_user","input":{"question":"Drop the table?","options":["yes","no"]}}]}"#;
    let run = world.play(&format!("{ask}\n{{\"say\":\"I have to know.\"}}"), &[]).expect(4);
    assert!(run.outputs()[0].starts_with("nobody is there to answer"), "{:?}", run.outputs());
    assert_eq!(blocked(&run)["message"], "nobody was there to answer: Drop the table?");

    let went_on = r#"{"call":[{"tool":"bash","input":{"command":"echo without"}}]}"#;
    world.play(&format!("{ask}\n{went_on}\n{{\"say\":\"I did the rest.\"}}"), &[]).expect(0);
}

#[test]
fn the_list_of_what_is_to_do_is_shown() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"todo","input":{"items":[{"text":"one","status":"done"},{"text":"two"}]}}]}
                    {"say":"ok"}"#;
    let run = world.play(script, &[]).expect(0);
    assert_eq!(run.outputs(), ["1 of 2 done; next: two"]);
    assert_eq!(run.tool_ends()[0]["meta"]["items"][0], json!({"text": "one", "status": "done"}));
    let model = world.script(script);
    let text = world.baton(&["exec", "-m", &model, "go"]).expect(0);
    assert!(text.stderr.contains("✓ one\n  ○ two\n"), "{}", text.stderr);
    let codex = world.baton(&["exec", "-m", &model, "--output-format", "codex-json", "go"]).expect(0);
    let list = codex.events().into_iter().find(|line| line["type"] == "item.completed").unwrap();
    let items = json!([{"text": "one", "completed": true}, {"text": "two", "completed": false}]);
    assert_eq!(list["item"], json!({"id": "item_0", "type": "todo_list", "items": items}));
}

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

#[test]
fn an_answer_is_asked_for_again_until_it_has_its_form() {
    let world = World::new();
    world.file("schema.json", SCHEMA);
    let script = r#"{"when":"must be one JSON value that matches this schema","say":"n is 1"}
                    {"when":"does not match the schema: it is not JSON","say":"{\"n\":\"1\"}"}
                    {"when":"does not match the schema.*[\\s\\S]*/n","say":"```json\n{\"n\":1}\n```"}"#;
    let run = world.play(script, &["--output-schema", "schema.json", "-o", "answer.json"]).expect(0);
    let end = run.end();
    assert_eq!((&end["text"], &end["answer"]), (&json!("{\"n\":1}"), &json!({"n": 1})));
    assert_eq!(world.read("answer.json"), "{\"n\":1}");
    let model = world.script(r#"{"say":"{\"n\":2}"}"#);
    let args = ["exec", "-m", &model, "--output-format", "json", "--output-schema", "schema.json", "go"];
    assert_eq!(world.baton(&args).expect(0).events()[0]["structured_output"], json!({"n": 2}));
}

#[test]
fn an_answer_that_never_has_its_form_fails_the_task() {
    let world = World::new();
    world.file("schema.json", SCHEMA);
    let run = world.play(r#"{"say":"no","repeat":true}"#, &["--output-schema", "schema.json"]).expect(3);
    assert_eq!(run.of("step.start").len(), 3, "asked, and asked again twice");
    assert_eq!(run.end()["reason"], "failed");
    let silent = "{\"call\":[{\"tool\":\"ls\",\"input\":{}}]}\n{\"say\":\"\",\"repeat\":true}";
    world.play(silent, &["--output-schema", "schema.json"]).expect(3);
}

#[test]
fn a_schema_that_is_none_is_bad_input() {
    let world = World::new();
    world.file("text", "not json");
    world.file("wrong", r#"{"type":"objekt"}"#);
    let model = world.script(r#"{"say":"never"}"#);
    for file in ["text", "wrong", "missing"] {
        let run = world.baton(&["exec", "-m", &model, "--output-schema", file, "go"]);
        run.expect_error(2, "cannot use the schema", "JSON schema");
    }
}
