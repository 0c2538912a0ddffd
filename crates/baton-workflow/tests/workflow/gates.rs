//! Gates: what is submitted, what is verified, and what a verify function can and cannot do.

use serde_json::json;

use baton_workflow::verify::CommandResult;
use baton_workflow::{Argv, EventBody, Kind, Rejected, TreeHash};

use crate::support::Play;

fn gated(gate: &str) -> String {
    format!(
        "COMMAND = \"a | b\"\nworkflow(name = \"w\", params = {{\"p\": string(default = \"x; rm -rf /\"), \"test\": string(default = project.test)}},\n\
         roles = {{\"r\": role(agent = \"a\", write = [\"src/**\"], tools = CODING)}},\n\
         states = {{\"A\": state(\"r\", {gate}, {{\"pass\": \"D\"}}), \"D\": done()}})\n"
    )
}

fn asked(verify: &str) -> Vec<String> {
    let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\"}}, {verify})")), &[]);
    play.submit(json!({"x": "y"}), &[]);
    let (_, argv) = play.verification().unwrap_or_else(|| panic!("nothing is asked for: {}", play.state()));
    argv.words().to_vec()
}

#[test]
fn commands_reach_a_shell_only_as_the_author_wrote_them() {
    assert_eq!(asked("lambda c: c.run(\"cargo test\").ok"), ["cargo", "test"]);
    assert_eq!(asked("lambda c: c.run(\"echo 'a b' c\").ok"), ["echo", "a b", "c"]);
    assert_eq!(asked("lambda c: c.run(c.params.test).ok"), ["cargo", "test"]);
    assert_eq!(asked("lambda c: c.run(\"a && b\").ok"), ["sh", "-c", "a && b"]);
    assert_eq!(asked("lambda c: c.run(\"A=1 b\").ok"), ["sh", "-c", "A=1 b"]);
    assert_eq!(asked("lambda c: c.run(COMMAND).ok"), ["sh", "-c", "a | b"]);
    assert_eq!(asked("lambda c: c.run([\"echo\", c.params.p]).ok"), ["echo", "x; rm -rf /"]);
    assert_eq!(asked("lambda c: c.run(\"echo \" + c.evidence.x + \" && b\").ok"), ["echo", "y", "&&", "b"]);
    assert_eq!(asked("lambda c: c.run(c.project.test).ok"), ["cargo", "test"]);
}

#[test]
fn a_text_from_a_person_never_reaches_a_shell() {
    let text = gated("evidence({\"x\": \"text\"}, lambda c: c.run(c.params.p).ok)")
        .replace("string(default = \"x; rm -rf /\")", "string()");
    let mut play = Play::start(&text, &[("p", "echo; rm -rf $HOME")]);
    play.submit(json!({"x": "y"}), &[]);
    assert_eq!(play.verification().unwrap().1.words(), ["echo;", "rm", "-rf", "$HOME"]);
}

#[test]
fn a_function_is_replayed_until_it_returns() {
    let verify = "lambda c: c.run(\"one\").ok and c.run([\"two\", c.evidence.x]).failed";
    let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\"}}, {verify})")), &[]);
    play.submit(json!({"x": "y"}), &[]);
    assert_eq!(play.kinds(), ["verify", "set_timer"]);
    assert_eq!(play.verification().unwrap().1.words(), ["one"]);
    play.verify(0, "");
    assert_eq!(play.verification().unwrap().1.words(), ["two", "y"]);
    play.verify(1, "boom");
    assert_eq!(play.state(), "done in D");
}

#[test]
fn the_reason_of_a_refusal_is_told() {
    let reason = |verify: &str, code: i32| {
        let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\"}}, {verify})")), &[]);
        play.submit(json!({"x": "y"}), &[]);
        if play.verification().is_some() {
            play.verify(code, "two of three\n");
        }
        format!("{} {}", play.state(), if play.run.visit().is_some() { play.because() } else { String::new() })
    };
    let said = [
        reason("lambda c: c.run(\"t\").ok", 3),
        reason("lambda c: c.run(\"t\").failed", 0),
        reason("lambda c: c.run(\"t\").failed", 127),
        reason("lambda c: c.run(\"t\").failed", 126),
        reason("lambda c: False", 0),
        reason("lambda c: \"write more\"", 0),
        reason("lambda c: fail(\"no: \" + c.evidence.x)", 0),
    ]
    .join("\n");
    insta::assert_snapshot!(said);
}

#[test]
fn a_broken_function_calls_a_person_and_costs_no_attempts() {
    let end = |verify: &str| {
        let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\"}}, {verify})")), &[]);
        play.submit(json!({"x": "y"}), &[]);
        play.state()
    };
    let said = [
        end("lambda c: None"),
        end("lambda c: \"\""),
        end("lambda c: 1"),
        end("lambda c: c.evidence.y"),
        end("lambda c: c.run(None).ok"),
        end("lambda c: c.run(3).ok"),
        end("lambda c: c.run([\"a\", 3]).ok"),
        end("lambda c: c.run([]).ok"),
        end("lambda c: c.run(\"'\").ok"),
        end("lambda c: c.run(c.project.lint).ok"),
        end("lambda c: done()"),
        end("lambda: True"),
        end("lambda c: [x for x in range(100000000)] == []"),
    ]
    .join("\n");
    insta::assert_snapshot!(said);
}

#[test]
fn commands_of_one_verification_are_limited() {
    let verify = "lambda c: [c.run(\"t\") for i in range(100)] == []";
    let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\"}}, {verify})")), &[]);
    play.submit(json!({"x": "y"}), &[]);
    let mut count = 0;
    while play.verification().is_some() {
        play.verify(0, "");
        count += 1;
    }
    assert_eq!(count, baton_workflow::verify::RUNS_MAX);
    assert!(play.state().starts_with("escalated from A"), "{}", play.state());
}

#[test]
fn everything_that_a_function_can_see() {
    let verify =
        "lambda c: \"%s|%s|%s|%s|%s|%s\" % (c.params.p, c.evidence.x, c.evidence.more, c.changed, c.verdict, c.result)";
    let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\", \"more\": \"list?\"}}, {verify})")), &[]);
    play.submit(json!({"x": "y"}), &["src/b.rs", "src/a.rs"]);
    assert_eq!(play.because(), "x; rm -rf /|y|None|[\"src/a.rs\", \"src/b.rs\"]|None|None");
    play.submit(json!({"x": "y", "more": [1, {"k": true}]}), &["src/c.rs"]);
    assert_eq!(play.because(), "x; rm -rf /|y|[1, {\"k\": True}]|[\"src/a.rs\", \"src/b.rs\", \"src/c.rs\"]|None|None");
}

#[test]
fn a_command_gate_runs_after_the_agent() {
    let mut play = Play::start(&gated("command(\"make check\")"), &[]);
    play.submit(json!({}), &[]);
    assert_eq!(play.verification().unwrap().1.words(), ["make", "check"]);
    play.verify(2, "no rule\n");
    assert_eq!(
        (play.state().as_str(), play.because().as_str()),
        ("A", "`make check` ended with exit code 2:\nno rule")
    );
    play.submit(json!({}), &[]);
    play.verify(0, "");
    assert_eq!(play.state(), "done in D");

    let mut play = Play::start(
        &gated("command([\"lint\"], lambda c: \"0 warnings\" in c.result.output and c.run(\"more\").ok)"),
        &[],
    );
    play.submit(json!({}), &[]);
    play.verify(1, "0 warnings");
    assert_eq!(play.verification().unwrap().1.words(), ["more"]);
    play.verify(0, "");
    assert_eq!(play.state(), "done in D");
}

#[test]
fn evidence_for_another_tree_does_not_count() {
    let mut play = Play::start(&gated("evidence({\"x\": \"text\"}, lambda c: c.run(\"t\").ok)"), &[]);
    play.submit(json!({"x": "y"}), &[]);
    let (effect, argv) = play.verification().unwrap();
    let result =
        CommandResult { argv, code: Some(0), output: String::new(), duration_ms: 0, tree: TreeHash::new("other") };
    play.send(EventBody::Verified { effect, result });
    assert_eq!(
        (play.state().as_str(), play.because().as_str()),
        ("A", "the command ran on tree other, but tree tree was submitted")
    );
}

#[test]
fn a_result_for_another_command_does_not_count() {
    let mut play = Play::start(&gated("evidence({\"x\": \"text\"}, lambda c: c.run(\"t\").ok)"), &[]);
    play.submit(json!({"x": "y"}), &[]);
    let (effect, _) = play.verification().unwrap();
    let argv = Argv::split("true").unwrap();
    let result =
        CommandResult { argv, code: Some(0), output: String::new(), duration_ms: 0, tree: TreeHash::new("tree") };
    play.send(EventBody::Verified { effect, result });
    assert!(play.state().starts_with("escalated from A"), "{}", play.state());
}

#[test]
fn a_stopped_command_has_neither_succeeded_nor_failed() {
    let mut play = Play::start(&gated("evidence({\"x\": \"text\"}, lambda c: c.run(\"t\").failed)"), &[]);
    play.submit(json!({"x": "y"}), &[]);
    let (effect, argv) = play.verification().unwrap();
    let result =
        CommandResult { argv, code: None, output: "…".repeat(20_000), duration_ms: 0, tree: TreeHash::new("tree") };
    play.send(EventBody::Verified { effect, result });
    assert!(play.because().starts_with("`t` did not end by itself:\n…"), "{}", play.because());
    assert!(play.because().len() < 10_000, "what is told is bounded");
}

#[test]
fn malformed_evidence_comes_back_with_every_reason() {
    let gate = "evidence({\"file\": \"path\", \"files\": \"paths\", \"why\": \"text\", \"list\": \"list\", \"n\": \"number\", \"ok\": \"bool\", \
                \"level\": one_of([\"low\", \"high\"]), \"note\": \"text?\"})";
    let mut play = Play::start(&gated(gate), &[]);
    let before = play.run.clone();
    let Kind::Agent(work) = &play.definition.main().unwrap().states[0].kind else { panic!() };
    let schema = serde_json::to_string_pretty(&work.gate.fields().unwrap().schema()).unwrap();
    insta::assert_snapshot!("the_schema_of_a_gate", schema);
    let mut said = String::new();
    for fields in [
        json!({}),
        json!({"file": "../x", "files": [], "why": "  ", "list": "a", "n": "1", "ok": 1, "level": "hihg", "nota": "x"}),
        json!({"file": "/etc/passwd", "files": ["a", "b/../../c"], "why": 3, "list": {}, "n": null, "ok": "true", "level": 1, "note": ""}),
        json!({"file": 1, "files": "a", "why": "x".repeat(70_000), "list": vec![0; 2000], "n": true, "ok": [], "level": "low"}),
        json!({"why": "x".repeat(300_000)}),
    ] {
        match play.try_submit(fields, &[]) {
            Err(Rejected::Malformed(problems)) => said.extend([problems.join("\n"), "\n\n".to_owned()]),
            other => panic!("{other:?}"),
        }
    }
    insta::assert_snapshot!(said);
    assert_eq!(play.run, before, "nothing has changed");
    let good = json!({"file": "./a//b.rs", "files": ["x"], "why": "w", "list": [], "n": 1.5, "ok": false, "level": "high", "note": null});
    play.submit(good, &[]);
    assert_eq!(play.state(), "done in D");
    let evidence = serde_json::to_value(&play.run.evidence).unwrap();
    assert_eq!(evidence["A"]["file"], "a/b.rs");
    assert_eq!(evidence["A"].get("note"), None);
}

#[test]
fn a_command_that_does_not_end_fails_the_attempt() {
    let verify = "lambda c: c.run(\"one\").ok and c.run(\"two\").ok";
    let mut play = Play::start(&gated(&format!("evidence({{\"x\": \"text\"}}, {verify})")), &[]);
    play.submit(json!({"x": "y"}), &[]);
    play.time_out();
    assert_eq!(play.because(), "command 1 of the verification did not end in time");
    play.submit(json!({"x": "y"}), &[]);
    play.verify(0, "");
    play.time_out();
    assert_eq!(play.because(), "command 2 of the verification did not end in time");
}
