//! What is asked for follows from what is given.

use serde_json::{Value, json};

use super::*;
use crate::{Tool, Typed};

fn asked(input: Value) -> Result<String, String> {
    let input: Input = serde_json::from_value(input).unwrap();
    input.asked().map(|asked| format!("{asked:?}"))
}

#[test]
fn the_action_may_be_left_out() {
    for (input, says) in [
        (json!({"command": "x"}), "Start(\"x\")"),
        (json!({"command": "x", "action": "start", "id": null}), "Start(\"x\")"),
        (json!({"id": 1}), "Read(1)"),
        (json!({"id": 1, "action": "read", "wait": 5}), "Read(1)"),
        (json!({"id": 1, "action": "kill"}), "Kill(1)"),
        (json!({}), "List"),
        (json!({"action": "list"}), "List"),
    ] {
        assert_eq!(asked(input.clone()).as_deref(), Ok(says), "{input}");
    }
    for input in [
        json!({"action": "start"}),
        json!({"action": "kill"}),
        json!({"action": "kill", "command": "x"}),
        json!({"command": "x", "id": 1}),
        json!({"action": "list", "id": 1}),
        json!({"action": "read", "command": "x"}),
    ] {
        assert!(asked(input.clone()).unwrap_err().starts_with("not clear what to do"), "{input}");
    }
}

#[test]
fn it_costs_the_model_little() {
    let tool = Typed::new(BashBackground);
    let spec = serde_json::to_string(tool.spec()).unwrap();
    assert!(spec.len() < 800, "{} bytes: {spec}", spec.len());
}
