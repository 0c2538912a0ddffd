//! What a script says, and that its position needs no memory.

use baton_core::{Block, CallId, Signature, StopReason, Timestamp, ToolResult, ToolUse, Usage};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn script(text: &str) -> Script {
    Script::parse("demo.jsonl", text).unwrap()
}

fn error(text: &str) -> String {
    Script::parse("demo.jsonl", text).unwrap_err().to_string()
}

fn main_role() -> AgentRole {
    AgentRole::default()
}

fn numbers(script: &Script, role: &AgentRole, said: &[&str]) -> Vec<usize> {
    let mut messages = Vec::new();
    let mut picked = Vec::new();
    for text in said {
        messages.push(Message::user(*text));
        let line = script.pick(role, &messages, 0).unwrap();
        picked.push(line.number);
        messages.push(line.message(&messages));
    }
    picked
}

#[test]
fn errors_name_file_and_line() {
    let scripts = [
        "",
        "{\"say\":\"a\"}\n\n# a comment\n{\"sya\":\"b\"}",
        r#"{"say":"a""#,
        r#"{"delay_ms":5}"#,
        r#"{"call":[{"tool":"ls","input":3}]}"#,
        r#"{"call":[{"name":"ls"}]}"#,
        r#"{"cut":"yes"}"#,
        r#"{"say":"a","repeat":0}"#,
        r#"{"say":"a","repeat":"often"}"#,
        r#"{"say":"a","stop":"lunch"}"#,
        r#"{"say":"a","cut":true,"stop":"refusal"}"#,
        r#"{"cut":true,"fail":{"status":500}}"#,
        r#"{"fail":{"status":200}}"#,
        r#"{"fail":{"status":429,"retry_after":"date+soon"}}"#,
        r#"{"fail":{"status":429,"retry_after":[1]}}"#,
        r#"{"say":"a","role":"["}"#,
        r#"{"say":"a","when":"("}"#,
    ];
    insta::assert_snapshot!(scripts.map(error).join("\n"), @r#"
    script demo.jsonl line 1: the script ends without a single answer
    script demo.jsonl line 4: unknown field `sya`, expected one of `say`, `think`, `call`, `fail`, `cut`, `stop`, `usage`, `delay_ms`, `role`, `when`, `repeat` (column 6)
    script demo.jsonl line 1: EOF while parsing an object (column 10)
    script demo.jsonl line 1: nothing to answer: give one of `say`, `think`, `call`, `fail`, `cut`
    script demo.jsonl line 1: `input` must be an object, or a string that is sent as the raw arguments (column 32)
    script demo.jsonl line 1: unknown field `name`, expected one of `tool`, `input`, `id` (column 16)
    script demo.jsonl line 1: `cut` must be true or a number of characters (column 13)
    script demo.jsonl line 1: `repeat` must be at least 1
    script demo.jsonl line 1: `repeat` must be true or a count (column 28)
    script demo.jsonl line 1: unknown variant `lunch`, expected one of `end_turn`, `tool_use`, `max_tokens`, `pause`, `refusal` (column 25)
    script demo.jsonl line 1: `stop` needs an answer that is complete, without `fail` or `cut`
    script demo.jsonl line 1: `fail` and `cut` exclude each other
    script demo.jsonl line 1: `status` must be from 400 to 599
    script demo.jsonl line 1: `retry_after` must have a number of seconds after "date+" (column 48)
    script demo.jsonl line 1: `retry_after` must be seconds, an HTTP date or "date+N" (column 40)
    script demo.jsonl line 1: `role` is no glob: error parsing glob '[': unclosed character class; missing ']'
    script demo.jsonl line 1: `when` is no regex: error: unclosed group
    "#);
}

#[test]
fn lines_follow_each_other() {
    let script = script("// first\n{\"say\":\"a\"}\n\n# second\n{\"say\":\"b\"}\n");
    assert_eq!(numbers(&script, &main_role(), &["x", "y"]), [2, 5]);
}

#[test]
fn when_role_and_repeat_choose() {
    let script = script(
        r#"{"say":"tests pass","when":"(?i)EXIT 0","repeat":true}
{"say":"reviewing","role":"review*"}
{"say":"again","repeat":2}
{"say":"last"}"#,
    );
    assert_eq!(numbers(&script, &main_role(), &["go", "exit 0", "no", "exit 0", "end"]), [3, 1, 3, 1, 4]);
    assert_eq!(numbers(&script, &AgentRole::new("reviewer"), &["go", "on"]), [2, 3]);
}

#[test]
fn when_sees_tool_results_and_every_message_since_the_last_answer() {
    let script = script("{\"say\":\"seen\",\"when\":\"(?s)2 failed.*hurry\"}");
    let result = Block::ToolResult(ToolResult::ok(CallId::new("c"), "2 failed"));
    let messages = [Message { role: Role::User, content: vec![result] }, Message::user("hurry")];
    assert_eq!(script.pick(&main_role(), &messages, 0).unwrap().number, 1);
    assert!(script.pick(&main_role(), &[Message::user("2 failed")], 0).is_err());
}

#[test]
fn failed_attempts_move_on_and_are_used_up_by_the_answer() {
    let script = script(
        r#"{"fail":{"status":529},"repeat":2}
{"say":"par","cut":true}
{"say":"done"}
{"say":"next"}"#,
    );
    let mut messages = vec![Message::user("go")];
    let at = |messages: &[Message], failures| script.pick(&main_role(), messages, failures).unwrap().number;
    assert_eq!([0, 1, 2, 3, 4].map(|failures| at(&messages, failures)), [1, 1, 2, 3, 3]);
    messages.extend([Message::assistant("done"), Message::user("on")]);
    assert_eq!(at(&messages, 0), 4);
}

#[test]
fn an_endless_failure_stays_and_is_no_obstacle_to_the_replay() {
    let script = script(
        r#"{"fail":{"status":400}}
{"fail":{"status":500},"when":"crash","repeat":true}
{"say":"a"}
{"say":"b"}"#,
    );
    let at = |messages: &[Message], failures| script.pick(&main_role(), messages, failures).unwrap().number;
    let mut messages = vec![Message::user("crash")];
    assert_eq!(at(&messages, 1_000_000), 2);
    messages.extend([Message::assistant("by another model"), Message::user("go")]);
    assert_eq!(at(&messages, 0), 4);
    messages.extend([Message::assistant("b"), Message::user("crash")]);
    assert_eq!(at(&messages, 0), 2);
}

#[test]
fn exhausted_says_where_and_what_to_do() {
    let script = script("{\"say\":\"a\"}\n{\"say\":\"b\",\"role\":\"other\"}");
    let messages = [Message::user("x"), Message::assistant("a"), Message::user("y")];
    let fault = crate::LlmError::from(script.pick(&main_role(), &messages, 0).unwrap_err()).fault();
    assert_eq!(fault.message, "script demo.jsonl line 2: no line is left for role `main` after 1 answers");
    assert!(fault.hint.unwrap().contains("repeat"));
}

#[test]
fn a_line_becomes_a_message() {
    let script = script(
        r#"{"think":"hm","say":"ok","call":[{"tool":"ls"},{"tool":"read","input":"{\"path\":\"a\"}","id":"mine"},{"tool":"edit","input":"{\"path\":"}]}"#,
    );
    let line = &script.lines[0];
    assert_eq!(line.ending, Ending::Complete(StopReason::ToolUse));
    let call = |id, tool: &str, input, malformed: Option<&str>| {
        Block::ToolUse(ToolUse {
            id: CallId::new(id),
            tool: tool.into(),
            input,
            malformed: malformed.map(str::to_owned),
        })
    };
    let signature = Signature { wire: "script".into(), token: "thought_1".into() };
    assert_eq!(
        line.message(&[Message::user("a"), Message::assistant("b"), Message::user("c")]).content,
        [
            Block::Thinking { text: "hm".into(), signature: Some(signature) },
            Block::text("ok"),
            call("call_1_0", "ls", json!({}), None),
            call("mine", "read", json!({"path": "a"}), None),
            call("call_1_2", "edit", json!({}), Some("{\"path\":")),
        ]
    );
}

#[test]
fn cuts_keep_what_arrives_before_them() {
    let script = script("{\"say\":\"größe\",\"call\":[{\"tool\":\"ls\"}],\"cut\":3}\n{\"say\":\"a\",\"cut\":false}");
    assert_eq!(script.lines[0].message(&[]), Message::assistant("grö"));
    assert_eq!(script.lines[0].ending, Ending::Cut);
    assert_eq!(script.lines[1].ending, Ending::Complete(StopReason::EndTurn));
}

#[test]
fn usage_is_stated_or_estimated() {
    let script = script(
        "{\"say\":\"12345678\",\"think\":\"1\"}\n{\"say\":\"a\",\"usage\":{\"input\":7,\"cache_read_tokens\":5}}",
    );
    let estimated = Usage { input_tokens: 3, output_tokens: 3, reasoning_tokens: 1, ..Usage::default() };
    assert_eq!(script.lines[0].usage(10), estimated);
    assert_eq!(script.lines[1].usage(10), Usage { input_tokens: 7, cache_read_tokens: 5, ..Usage::default() });
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let header = |text: &str| {
        RetryAfter::try_from(serde_json::from_str::<serde_json::Value>(text).unwrap())
            .unwrap()
            .header(Timestamp::UNIX_EPOCH)
    };
    assert_eq!(header("2"), "2");
    assert_eq!(header("0.5"), "0.5");
    assert_eq!(header("\"7\""), "7");
    assert_eq!(header("\"date+61\""), "Thu, 01 Jan 1970 00:01:01 GMT");
}

/// A model that keeps its position in memory, as the rules are told: the first line that fits and is not used up.
struct InMemory<'a> {
    script: &'a Script,
    uses: Uses,
}

impl InMemory<'_> {
    fn next(&mut self, said: &String) -> Option<usize> {
        let at =
            self.script.lines.iter().zip(&self.uses).position(|(line, used)| {
                line.fits(&main_role(), &said) && line.uses_max.is_none_or(|max| *used < max)
            })?;
        self.uses[at] += 1;
        Some(at)
    }
}

fn any_line() -> impl Strategy<Value = String> {
    let body = prop_oneof![Just(r#""say":"s""#), Just(r#""say":"s","cut":true"#), Just(r#""fail":{"status":500}"#)];
    let when = prop_oneof![Just(""), Just(r#","when":"a""#), Just(r#","when":"b""#)];
    let repeat = prop_oneof![Just(""), Just(r#","repeat":2"#), Just(r#","repeat":true"#)];
    (body, when, repeat).prop_map(|(body, when, repeat)| format!("{{{body}{when}{repeat}}}"))
}

proptest! {
    #[test]
    fn picking_from_history_equals_remembering(
        lines in prop::collection::vec(any_line(), 1..8),
        said in prop::collection::vec("[ab]{1,2}", 1..12),
    ) {
        let script = script(&lines.join("\n"));
        let mut memory = InMemory { script: &script, uses: vec![0; script.lines.len()] };
        let mut messages = Vec::new();
        'conversation: for text in said {
            messages.push(Message::user(&text));
            for failures in 0.. {
                let picked = script.pick(&main_role(), &messages, failures).ok().map(|line| line.number);
                prop_assert_eq!(picked, memory.next(&text).map(|at| at + 1));
                let Some(number) = picked else { break 'conversation };
                if !script.lines[number - 1].fails() {
                    break;
                }
                if failures > 20 {
                    break 'conversation;
                }
            }
            messages.push(Message::assistant("s"));
        }
    }
}
