//! Scripts of sessions with everything in them: commands with effects, calls beside each other, edits, big outputs, turns.

use serde_json::{Value, json};

/// What the model says when there is nothing left to do.
pub const LAST_WORDS: &str = "all is done";

fn bash(command: &str) -> Value {
    json!({"tool": "bash", "input": {"command": command}})
}

pub fn script(dice: &mut fastrand::Rng) -> String {
    // A summary takes its time, so that it can be killed.
    let mut lines = vec![json!({"role": "compact", "say": "### Goal\nto get on", "delay_ms": 5, "repeat": true})];
    let mut marks = 0;
    for turn in 0..3 {
        for _ in 0..dice.usize(2..5) {
            let mut mark = |more: &str| {
                marks += 1;
                format!("echo mark-{marks}. >> log; echo made {marks}{more}")
            };
            match dice.u8(..7) {
                0 | 1 => {
                    let command = mark(["", "; sleep 0.03; echo slowly"][dice.usize(..2)]);
                    lines.push(json!({"say": "I make a mark.", "call": [bash(&command)]}));
                    // A model that does it again when it does not know what came of it, and one that insists.
                    if dice.bool() {
                        lines.push(json!({"when": "Baton was stopped while this ran", "call": [bash(&command)]}));
                        if dice.bool() {
                            lines.push(json!({"when": "not run: this exact command", "call": [bash(&command)]}));
                        }
                    }
                }
                2 => {
                    let (one, other) = (mark(""), mark(""));
                    lines.push(json!({"call": [bash(&one), {"tool": "ls", "input": {}}, bash(&other)]}));
                }
                3 => lines.push(json!({"think": "look", "call": [{"tool": "glob", "input": {"pattern": "*"}},
                    {"tool": "ls", "input": {}}, {"tool": "grep", "input": {"pattern": "mark", "path": "log"}}]})),
                4 => {
                    let path = format!("file{marks}-{turn}");
                    let content = format!("first\n{}", "more\n".repeat(5_000));
                    lines.push(json!({"call": [{"tool": "write", "input": {"path": path, "content": content}}]}));
                    lines.push(json!({"call": [{"tool": "edit", "input": {"path": path, "old": "first", "new": "second"}}]}));
                }
                5 => {
                    let command = mark("; seq 1 1200 | sed 's/$/ words and words and words to fill it/'");
                    lines.push(json!({"call": [bash(&command)]}));
                }
                _ => lines.push(json!({"say": "a long word ".repeat(200), "call": [{"tool": "todo", "input": {"items": ["go on"]}}]})),
            }
        }
        lines.push(json!({"say": format!("turn {turn} is done")}));
    }
    lines.push(json!({"say": LAST_WORDS, "repeat": true}));
    lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat()
}
