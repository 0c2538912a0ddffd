//! Tests of the Responses format.

use baton_core::{Block, Message, StopReason, Usage};
use serde_json::json;

use crate::request::{Abilities, Delta, Effort, Request, Search, Source};
use crate::wire::assemble::testing::{
    answer, call, call_delta, check_cuts, check_noise, check_prefix, check_splits, conversation, every_format, failure,
    malformed, pretty, request, sent_back, text_delta, thinking, thinking_delta,
};
use crate::wire::{Wire, WireFailureKind};

const WIRE: Wire = Wire::Responses;
const MODEL: &str = "gpt-5.2";

const TEXT: &str = include_str!("../../../tests/streams/responses_text.sse");
const TOOL: &str = include_str!("../../../tests/streams/responses_tool.sse");
const PARALLEL: &str = include_str!("../../../tests/streams/responses_parallel.sse");
const THINKING: &str = include_str!("../../../tests/streams/responses_thinking.sse");
const ERROR: &str = include_str!("../../../tests/streams/responses_error.sse");
const MALFORMED: &str = include_str!("../../../tests/streams/responses_malformed.sse");
const REFUSAL: &str = include_str!("../../../tests/streams/responses_refusal.sse");
const LENGTH: &str = include_str!("../../../tests/streams/responses_length.sse");
const SEARCH: &str = include_str!("../../../tests/streams/responses_search.sse");
const SAMPLES: [&str; 9] = [SEARCH, TEXT, TOOL, PARALLEL, THINKING, ERROR, MALFORMED, REFUSAL, LENGTH];

#[test]
fn text() {
    let (answer, deltas) = answer(WIRE, TEXT);
    assert_eq!(deltas, [text_delta("Grüße, "), text_delta("Welt 🦀!")]);
    assert_eq!(answer.message, Message::assistant("Grüße, Welt 🦀!"));
    assert_eq!(answer.stop, StopReason::EndTurn);
    assert_eq!(answer.usage, Usage { input_tokens: 20, output_tokens: 12, cache_read_tokens: 100, ..Usage::default() });
}

#[test]
fn a_tool_call() {
    let (answer, deltas) = answer(WIRE, TOOL);
    assert_eq!(deltas, [text_delta("Let me look."), call_delta("call_A", "bash")]);
    let call = call("call_A", "bash", json!({"command": "ls -l"}));
    assert_eq!(answer.message.content, [Block::text("Let me look."), call]);
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[test]
fn what_was_not_streamed_is_told_with_the_item() {
    let streamed =
        |event: &&str| !event.contains(".delta") && !event.contains(".added") && !event.contains("arguments.done");
    let stream: Vec<_> = TOOL.split_inclusive("\n\n").filter(streamed).collect();
    assert_eq!(answer(WIRE, &stream.concat()), answer(WIRE, TOOL));
}

#[test]
fn interleaved_calls_keep_the_order_in_which_they_began() {
    let expected = [
        call("call_A", "read", json!({"path": "a.rs"})),
        call("call_B", "read", json!({"path": "b.rs"})),
        call("call_C", "pwd", json!({})),
    ];
    assert_eq!(answer(WIRE, PARALLEL).0.message.content, expected);
}

#[test]
fn thinking_goes_back_as_it_came() {
    let (answer, deltas) = answer(WIRE, THINKING);
    let expected = ["**Plan**", "\n\n", "Look ", "first."].map(thinking_delta);
    assert_eq!(deltas[..4], expected);
    assert_eq!(answer.usage.reasoning_tokens, 64);
    let body = sent_back(WIRE, MODEL, answer);
    let summary =
        json!([{"type": "summary_text", "text": "**Plan**"}, {"type": "summary_text", "text": "Look first."}]);
    assert_eq!(
        body["input"][1],
        json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA-final"})
    );
    assert_eq!(body["input"][2]["type"], "function_call");
}

#[test]
fn reasoning_never_comes_last() {
    let mut message = Message::assistant("Yes.");
    message.content.push(thinking("And", "responses", r#"{"type":"reasoning"}"#));
    let body = WIRE.encode(&request(MODEL, vec![Message::user("?"), message, Message::user("Go on")]));
    assert_eq!(body["input"].as_array().map(Vec::len), Some(3));
}

#[test]
fn errors_have_the_status_of_their_code() {
    let failure_of = failure(WIRE, ERROR);
    assert_eq!(failure_of.message, "insufficient_quota: You exceeded your current quota.");
    assert_eq!(failure_of.partial, Message::assistant("Half."));
    for (code, status) in [
        ("insufficient_quota", 429),
        ("rate_limit_exceeded", 429),
        ("invalid_prompt", 400),
        ("context_length_exceeded", 400),
        ("server_error", 500),
        ("internal_error", 500),
        ("server_is_overloaded", 529),
        ("slow_down", 503),
        ("vector_store_timeout", 504),
        ("image_too_small", 400),
        ("unheard_of", 400),
    ] {
        let stream = ERROR.replace("insufficient_quota", code);
        assert_eq!(failure(WIRE, &stream).kind, WireFailureKind::Reported { status }, "{code}");
    }
}

#[test]
fn an_error_event_may_be_flat_or_nested() {
    for event in [
        r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down","param":null,"sequence_number":3}"#,
        r#"{"type":"error","error":{"type":"requests","code":"rate_limit_exceeded","message":"Slow down"}}"#,
    ] {
        let failure = failure(WIRE, &format!("event: error\ndata: {event}\n\n"));
        assert_eq!(failure.kind, WireFailureKind::Reported { status: 429 });
        assert_eq!(failure.message, "rate_limit_exceeded: Slow down");
    }
}

#[test]
fn an_error_without_a_code_is_the_servers() {
    let said = ERROR.replace(r#""code":"insufficient_quota""#, r#""code":null"#);
    assert_eq!(failure(WIRE, &said).kind, WireFailureKind::Reported { status: 500 });
    let event = r#"{"type":"error","code":null,"message":"Please try again in 11s","param":null}"#;
    let failure = failure(WIRE, &format!("data: {event}\n\n"));
    assert_eq!(failure.kind, WireFailureKind::Reported { status: 500 });
    assert_eq!(failure.message, "500: Please try again in 11s");
}

#[test]
fn a_failed_answer_may_tell_what_it_used() {
    let counts = r#"{"input_tokens":20,"output_tokens":7,"total_tokens":27}"#;
    let (head, tail) = ERROR.split_once("event: response.failed").expect("the end");
    let stream = format!("{head}{}", tail.replace(r#""usage":null"#, &format!(r#""usage":{counts}"#)));
    assert_eq!(failure(WIRE, &stream).usage, Usage { input_tokens: 20, output_tokens: 7, ..Usage::default() });
    assert_eq!(failure(WIRE, ERROR).usage, Usage::default());
}

#[test]
fn input_that_is_no_object_is_kept_as_text() {
    let expected = [malformed("call_A", "bash", r#"{"command": "l"#), malformed("call_B", "bash", r#"["ls"]"#)];
    assert_eq!(answer(WIRE, MALFORMED).0.message.content, expected);
}

#[test]
fn a_refusal_is_text_and_a_stop_reason() {
    let (answer, deltas) = answer(WIRE, REFUSAL);
    assert_eq!(deltas, [text_delta("I cannot "), text_delta("help.")]);
    assert_eq!((answer.stop, answer.message), (StopReason::Refusal, Message::assistant("I cannot help.")));
}

#[test]
fn an_incomplete_answer_says_why() {
    let (length, _) = answer(WIRE, LENGTH);
    assert_eq!((length.stop, length.message), (StopReason::MaxTokens, Message::assistant("A long st")));
    let filtered = LENGTH.replace("max_output_tokens", "content_filter");
    assert_eq!(answer(WIRE, &filtered).0.stop, StopReason::Refusal);
}

every_format!(WIRE, MODEL, SAMPLES, [TEXT, TOOL, PARALLEL, THINKING, SEARCH]);

#[test]
fn a_growing_conversation_moves_nothing() {
    check_prefix(WIRE, MODEL, "input", |_| {});
}

#[test]
fn efforts() {
    let of = |request: Request| {
        let body = WIRE.encode(&request);
        (body["reasoning"]["effort"].clone(), body.get("include").is_some())
    };
    let encode = |model, effort| of(Request { effort, ..request(model, vec![Message::user("Go")]) });
    let dull = Abilities { images: true, thinking: false };
    for effort in [None, Some(Effort::High)] {
        let request = Request { effort, abilities: dull, ..request(MODEL, vec![Message::user("Go")]) };
        assert_eq!(of(request), (json!(null), false));
    }
    assert_eq!(encode(MODEL, None), (json!(null), true));
    assert_eq!(encode(MODEL, Some(Effort::Minimal)), (json!("none"), true));
    assert_eq!(encode("gpt-5-mini", Some(Effort::Minimal)), (json!("minimal"), true));
    assert_eq!(encode("gpt-5.3-codex", Some(Effort::Minimal)), (json!("low"), true));
    assert_eq!(encode("o4-mini", Some(Effort::Minimal)), (json!("low"), true));
    assert_eq!(encode(MODEL, Some(Effort::Max)), (json!("xhigh"), true));
}

fn search(query: Option<&str>, title: &str) -> Delta {
    let source = Source { title: title.to_owned(), url: "https://blog.rust-lang.org/".to_owned() };
    Delta::Searched(Search { query: query.map(str::to_owned), sources: vec![source], problem: None })
}

#[test]
fn a_search_is_told_and_goes_back_as_it_came() {
    let (answer, deltas) = answer(WIRE, SEARCH);
    assert_eq!(deltas, [search(Some("rust release"), ""), text_delta("It is out."), search(None, "Rust blog")]);
    let body = sent_back(WIRE, MODEL, answer);
    let expected = json!({
        "id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "rust release", "sources": [{"type": "url", "url": "https://blog.rust-lang.org/"}]},
    });
    assert_eq!(body["input"][1], expected);
    assert_eq!(body["input"][2]["content"][0]["text"], "It is out.");
}

#[test]
fn the_search_is_a_tool_among_the_others() {
    let body = WIRE.encode(&Request { web_search: true, ..conversation(MODEL) });
    assert_eq!(body["tools"].as_array().unwrap().last(), Some(&json!({"type": "web_search"})));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content", "web_search_call.action.sources"]));
}
