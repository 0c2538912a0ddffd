//! Output in the form of other agents, checked against the field names of what those print.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::World;

/// A patch, as a line of a script.
const PATCH: &str = r#"{"call":[{"tool":"apply_patch","input":{"patch":"*** Begin Patch\n*** Add File: a.txt\n+a\n*** Add File: b.txt\n+b\n*** End Patch"}}]}
{"say":"ok"}"#;

const SCRIPT: &str = r#"{"think":"hm","say":"Running it.","call":[{"tool":"bash","input":{"command":"printf hello"}}]}
{"call":[{"tool":"bash","input":{"command":"exit 3"}},{"tool":"ls","input":{}}]}
{"say":"All done."}"#;

fn print(format: &str) -> Vec<Value> {
    let world = World::new();
    let model = world.script(SCRIPT);
    let run =
        world.baton(&["exec", "-m", &model, "--output-format", format, "--permission-mode", "auto", "go"]).expect(0);
    lines(&run.stdout)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every field of a line with its kind, so that two lines of one kind can be compared: `assistant/message/content/0/text`.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let kind =
                ["type", "subtype"].iter().filter_map(|key| map.get(*key)?.as_str()).collect::<Vec<_>>().join("/");
            // What is named by the person or the model is no field of the form.
            let free = ["input", "arguments", "modelUsage", "result"];
            for (key, inner) in map {
                let path = format!("{path}/{kind}.{key}");
                if !free.contains(&key.as_str()) {
                    fields(inner, &path, found);
                }
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, path, found)),
        _ => {}
    }
}

fn check(ours: &[Value], sample: &str, additions: &[&str]) {
    let of = |lines: &[Value]| {
        let mut found = BTreeSet::new();
        for line in lines {
            fields(line, "", &mut found);
        }
        found
    };
    let (ours, theirs) = (of(ours), of(&lines(sample)));
    let strange: Vec<_> =
        ours.difference(&theirs).filter(|field| !additions.iter().any(|part| field.contains(part))).collect();
    assert!(strange.is_empty(), "not in the sample: {strange:#?}");
}

#[test]
fn codex_json() {
    let lines = print("codex-json");
    // Tools that Codex has not look like those of a server.
    check(&lines, include_str!("samples/codex_exec.jsonl"), &["mcp_tool_call"]);
    assert_eq!(lines[0]["type"], "thread.started");
    let command = lines.iter().find(|line| line["item"]["exit_code"] == 3).unwrap();
    assert_eq!((&command["item"]["command"], &command["item"]["status"]), (&"exit 3".into(), &"failed".into()));
    assert_eq!(lines.last().unwrap()["type"], "turn.completed");
}

#[test]
fn codex_json_names_the_files_of_a_patch() {
    let world = World::new();
    let model = world.script(PATCH);
    let run = world
        .baton(&["exec", "-m", &model, "--output-format", "codex-json", "--permission-mode", "auto", "go"])
        .expect(0);
    let lines = lines(&run.stdout);
    let change = lines.iter().rev().find(|line| line["item"]["type"] == "file_change").unwrap();
    let names = |path: &Value| path.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let paths: Vec<_> =
        change["item"]["changes"].as_array().unwrap().iter().map(|change| names(&change["path"])).collect();
    assert_eq!(paths, ["a.txt", "b.txt"], "{change}");
    assert!(change["item"]["changes"].as_array().unwrap().iter().all(|change| change["kind"] == "add"), "{change}");
    assert_eq!(world.read("b.txt"), "b\n");
}

#[test]
fn stream_json() {
    let lines = print("stream-json");
    check(&lines, include_str!("samples/claude_stream.jsonl"), &["system/init.version", "result/success.errors"]);
    assert_eq!((&lines[0]["subtype"], &lines[0]["tools"][3]), (&"init".into(), &"bash".into()));
    assert_eq!(lines[1]["message"]["content"][0]["type"], "thinking");
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["subtype"], &last["result"], &last["num_turns"]),
        (&"success".into(), &"All done.".into(), &3.into())
    );
}

#[test]
fn json_is_the_result_alone() {
    let lines = print("json");
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["type"], &lines[0]["result"]), (&"result".into(), &"All done.".into()));
}

#[test]
fn failures_are_told_in_each_form() {
    let world = World::new();
    let model = world.script(r#"{"fail":{"status":400,"body":"no good"}}"#);
    let last = |format: &str| {
        let run = world.baton(&["exec", "-m", &model, "--output-format", format, "go"]).expect(6);
        lines(&run.stdout).pop().unwrap()
    };
    assert_eq!(last("codex-json")["error"]["message"], "script answered 400: no good");
    assert_eq!(last("stream-json")["is_error"], true);
    assert_eq!(last("json")["errors"][0], "script answered 400: no good");
}

#[test]
fn the_answer_is_also_written_to_a_file() {
    let world = World::new();
    let model = world.script(r#"{"say":"All done."}"#);
    world.baton(&["exec", "-m", &model, "-o", "answer.txt", "go"]).expect(0);
    assert_eq!(world.read("answer.txt"), "All done.");
    world.baton(&["exec", "-m", &model, "-o", "nowhere/answer.txt", "go"]).expect_error(
        2,
        "nowhere/answer.txt",
        "cannot write",
    );
}
