//! What ends a turn: steps, money, tokens, time.

use serde_json::json;

use crate::support::{World, sleeping, with_sleeps};

const ENDLESS: &str = r#"{"call":[{"tool":"ls","input":{}}],"usage":{"input":1000,"output":1000},"repeat":true}"#;

#[test]
fn steps() {
    let run = World::new().play(ENDLESS, &["--max-steps", "3"]).expect(5);
    assert_eq!((run.end()["reason"].clone(), run.end()["steps"].clone()), (json!("steps"), json!(3)));
    assert_eq!(run.of("tool.end").len(), 3);
    assert!(run.of("error")[0]["hint"].as_str().unwrap().contains("--max-steps"));
}

#[test]
fn money() {
    // A rehearsed step costs 1000 × $3 + 1000 × $15 per million tokens: $0.018.
    let run = World::new().play(ENDLESS, &["--max-usd", "0.05"]).expect(5);
    assert_eq!(run.end()["reason"], "budget");
    let spent = run.end()["cost_usd"].as_f64().unwrap();
    assert!(spent > 0.01 && spent <= 0.05, "{spent}");
    assert!(run.of("error")[0]["message"].as_str().unwrap().contains("session budget"), "{:?}", run.of("error"));
}

#[test]
fn tokens() {
    let run = World::new().play(ENDLESS, &["--max-tokens", "9000"]).expect(5);
    assert_eq!(run.end()["reason"], "budget");
    assert!(run.end()["steps"].as_u64().unwrap() > 2);
}

#[test]
fn time_also_ends_a_tool() {
    let script = r#"{"call":[{"tool":"bash","input":{"command":"SLEEP41"}}]}
                    {"say":"never"}"#;
    let run = World::new().play(&with_sleeps(script), &["--max-time", "1"]).expect(5);
    assert_eq!(run.end()["reason"], "time");
    assert!(run.outputs()[0].contains("cancelled"), "{:?}", run.outputs());
    assert!(sleeping("4").is_empty());
}

#[test]
fn time_also_ends_a_model_call() {
    let run = World::new().play(r#"{"say":"late","delay_ms":60000}"#, &["--max-time", "1"]).expect(5);
    assert_eq!(run.end()["reason"], "time");
}

#[test]
fn settings_set_limits_too() {
    let world = World::new();
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::write(world.home().join("config.jsonc"), "{ // mine\n\"limits\": {\"steps\": 2} }").unwrap();
    assert_eq!(world.play(ENDLESS, &[]).expect(5).end()["steps"], 2);
}
