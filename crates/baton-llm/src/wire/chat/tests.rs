//! Tests of the Chat Completions format.

use baton_core::{Block, Message, StopReason, Usage};
use serde_json::json;

use crate::request::{Effort, Request};
use crate::wire::assemble::testing::{
    answer, call, call_delta, check_cuts, check_noise, check_prefix, check_splits, conversation, every_format, failure,
    malformed, pretty, request, sent_back, text_delta, thinking, thinking_delta,
};
use crate::wire::{Wire, WireFailureKind};

const WIRE: Wire = Wire::Chat;
const MODEL: &str = "deepseek-chat";

const TEXT: &str = include_str!("../../../tests/streams/chat_text.sse");
const TOOL: &str = include_str!("../../../tests/streams/chat_tool.sse");
const PARALLEL: &str = include_str!("../../../tests/streams/chat_parallel.sse");
const THINKING: &str = include_str!("../../../tests/streams/chat_thinking.sse");
const ERROR: &str = include_str!("../../../tests/streams/chat_error.sse");
const MALFORMED: &str = include_str!("../../../tests/streams/chat_malformed.sse");
const REFUSAL: &str = include_str!("../../../tests/streams/chat_refusal.sse");
const UNNUMBERED: &str = include_str!("../../../tests/streams/chat_unnumbered.sse");
const SAME_INDEX: &str = include_str!("../../../tests/streams/chat_same_index.sse");
const NAME_PIECES: &str = include_str!("../../../tests/streams/chat_name_pieces.sse");
const MISTRAL: &str = include_str!("../../../tests/streams/chat_mistral.sse");
const OPENROUTER: &str = include_str!("../../../tests/streams/chat_openrouter.sse");
const SAMPLES: [&str; 12] = [
    TEXT,
    TOOL,
    PARALLEL,
    THINKING,
    ERROR,
    MALFORMED,
    REFUSAL,
    UNNUMBERED,
    SAME_INDEX,
    NAME_PIECES,
    MISTRAL,
    OPENROUTER,
];

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
fn interleaved_calls_keep_the_order_in_which_they_began() {
    let (answer, deltas) = answer(WIRE, PARALLEL);
    let expected = [
        call("call_A", "read", json!({"path": "a.rs"})),
        call("call_B", "read", json!({"path": "b.rs"})),
        call("call_C", "pwd", json!({})),
    ];
    assert_eq!(answer.message.content, expected);
    assert_eq!(deltas.len(), 3, "each call is told once, also the one without input: {deltas:?}");
}

#[test]
fn calls_without_index_or_id_are_told_apart() {
    let expected = [
        call("fresh_1", "read", json!({"path": "a.rs"})),
        call("fresh_2", "pwd", json!({})),
        call("call_X", "read", json!({"path": "b.rs"})),
    ];
    let (answer, _) = answer(WIRE, UNNUMBERED);
    assert_eq!(answer.message.content, expected);
    assert_eq!(answer.stop, StopReason::ToolUse, "whatever the finish reason says");
}

#[test]
fn calls_that_share_an_index_are_told_apart_by_id() {
    let expected = [call("call_A", "read", json!({"path": "a.rs"})), call("call_B", "read", json!({"path": "b.rs"}))];
    assert_eq!(answer(WIRE, SAME_INDEX).0.message.content, expected);
}

#[test]
fn calls_that_share_an_id_get_another() {
    let stream = PARALLEL.replace("call_B", "call_A");
    let (answer, _) = answer(WIRE, &stream);
    let ids: Vec<_> = answer.message.tool_uses().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_A", "fresh_1", "call_C"]);
}

#[test]
fn a_name_may_come_in_pieces_and_again() {
    let (answer, deltas) = answer(WIRE, NAME_PIECES);
    assert_eq!(deltas, [call_delta("call_A", "bash")]);
    assert_eq!(answer.message.content, [call("call_A", "bash", json!({"command": "ls"}))]);
}

#[test]
fn thinking_goes_back_in_the_field_it_came_in() {
    for field in ["reasoning_content", "reasoning"] {
        let (answer, deltas) = answer(WIRE, &THINKING.replace("reasoning_content", field));
        assert_eq!(deltas[..2], [thinking_delta("The user wants "), thinking_delta("a listing.")]);
        assert_eq!(answer.usage.reasoning_tokens, 40);
        let body = sent_back(WIRE, MODEL, answer);
        let function = json!({"name": "bash", "arguments": r#"{"command":"ls"}"#});
        let expected = json!({
            "role": "assistant",
            "content": "Listing.",
            field: "The user wants a listing.",
            "tool_calls": [{"id": "call_A", "type": "function", "function": function}],
        });
        assert_eq!(body["messages"][1], expected);
    }
}

#[test]
fn thinking_in_the_content_goes_back_there() {
    let (answer, deltas) = answer(WIRE, MISTRAL);
    let expected = [
        thinking_delta("The user wants "),
        thinking_delta("a listing."),
        text_delta("List"),
        text_delta("ing."),
        call_delta("D681PevKs", "bash"),
    ];
    assert_eq!(deltas, expected);
    let body = sent_back(WIRE, "mistral-medium-latest", answer);
    let content = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "The user wants a listing."}]},
        {"type": "text", "text": "Listing."},
    ]);
    assert_eq!(body["messages"][1]["content"], content);
    assert_eq!(body["messages"][1].as_object().map(serde_json::Map::len), Some(3), "role, content, tool_calls");
}

#[test]
fn reasoning_details_are_put_together_and_go_back() {
    let (answer, deltas) = answer(WIRE, OPENROUTER);
    assert_eq!(deltas[..3], [thinking_delta("The user wants "), thinking_delta("a listing."), text_delta("Listing.")]);
    let format = "anthropic-claude-v1";
    let details = json!([
        {"type": "reasoning.text", "text": "The user wants a listing.", "format": format, "index": 0, "signature": "Et8BCmUIDxgC"},
        {"type": "reasoning.encrypted", "data": "EmwK", "id": "r1", "format": format, "index": 1},
        {"type": "reasoning.encrypted", "data": "AhgBEgy3", "id": "r2", "format": format, "index": 1},
        {"type": "reasoning.summary", "summary": "a"},
        {"type": "reasoning.summary", "summary": "b"},
    ]);
    let expected = thinking("The user wants a listing.", "chat-details", &details.to_string());
    assert_eq!(answer.message.content[0], expected);
    let reply = sent_back(WIRE, "anthropic/claude-sonnet-4.5", answer)["messages"][1].clone();
    assert_eq!(reply["reasoning_details"], details);
    assert_eq!((reply.get("reasoning"), reply["content"].as_str()), (None, Some("Listing.")));
}

#[test]
fn details_of_a_cut_answer_are_not_sent() {
    let (cut, _) = OPENROUTER.split_once(r#""content":"Listing.""#).expect("the text");
    let failure = failure(WIRE, cut);
    assert_eq!(failure.partial.content, [thinking("The user wants a listing.", "chat", "reasoning")]);
}

#[test]
fn reasoning_beside_the_completion_is_output_too() {
    let usage = |counts| super::usage(&counts);
    let xai = usage(json!({
        "prompt_tokens": 10_120, "completion_tokens": 1_499, "total_tokens": 14_428,
        "prompt_tokens_details": {"cached_tokens": 128}, "completion_tokens_details": {"reasoning_tokens": 2_809},
    }));
    assert_eq!((xai.input_tokens, xai.output_tokens, xai.reasoning_tokens), (9_992, 4_308, 2_809));
    let total_lost = usage(json!({"prompt_tokens": 10, "completion_tokens": 5}));
    assert_eq!((total_lost.input_tokens, total_lost.output_tokens), (10, 5));
}

#[test]
fn errors_come_in_many_shapes() {
    let failure_of = failure(WIRE, ERROR);
    assert_eq!(failure_of.kind, WireFailureKind::Reported { status: 502 });
    assert_eq!(failure_of.message, "502: Upstream disconnected");
    assert_eq!(failure_of.partial, Message::assistant("Half an ans"));
    for (error, status, message) in [
        (r#"{"code":"429","message":"Slow"}"#, 429, "429: Slow"),
        (r#"{"code":null,"type":"rate_limit_error","message":"Slow"}"#, 429, "rate_limit_error: Slow"),
        (r#"{"code":"odd","type":"invalid_request_error","message":"No"}"#, 400, "odd: No"),
        (r#""out of memory""#, 500, r#"500: "out of memory""#),
    ] {
        let failure = failure(WIRE, &format!("data: {{\"error\":{error}}}\n\n"));
        assert_eq!((failure.kind, failure.message.as_str()), (WireFailureKind::Reported { status }, message));
    }
}

#[test]
fn input_that_is_no_object_is_kept_as_text() {
    let expected = [malformed("call_A", "bash", r#"{"command": "l"#), malformed("call_B", "bash", r#"["ls"]"#)];
    assert_eq!(answer(WIRE, MALFORMED).0.message.content, expected);
}

#[test]
fn finish_reasons() {
    for (reason, stop) in [
        ("content_filter", StopReason::Refusal),
        ("length", StopReason::MaxTokens),
        ("stop", StopReason::EndTurn),
        ("eos_token", StopReason::EndTurn),
    ] {
        let (answer, _) = answer(WIRE, &REFUSAL.replace("content_filter", reason));
        assert_eq!((answer.stop, answer.message), (stop, Message::assistant("I cannot")), "{reason}");
    }
    let stopped = failure(WIRE, &REFUSAL.replace("content_filter", "error"));
    assert_eq!(stopped.kind, WireFailureKind::Reported { status: 500 });
}

#[test]
fn a_refusal_in_its_own_field_is_text_and_a_stop_reason() {
    let stream = TEXT.replace("content", "refusal");
    let (answer, _) = answer(WIRE, &stream);
    assert_eq!((answer.stop, answer.message), (StopReason::Refusal, Message::assistant("Grüße, Welt 🦀!")));
}

#[test]
fn the_end_may_come_without_a_word_but_not_without_a_reason() {
    let silent = TEXT.replace("data: [DONE]\n\n", "");
    assert_eq!(answer(WIRE, &silent), answer(WIRE, TEXT));
    let unfinished = TEXT.replace(r#""finish_reason":"stop""#, r#""finish_reason":null"#);
    assert_eq!(failure(WIRE, &unfinished).kind, WireFailureKind::Cut);
}

every_format!(
    WIRE,
    MODEL,
    SAMPLES,
    [TEXT, TOOL, PARALLEL, THINKING, UNNUMBERED, SAME_INDEX, NAME_PIECES, MISTRAL, OPENROUTER]
);

#[test]
fn a_growing_conversation_moves_nothing() {
    check_prefix(WIRE, MODEL, "messages", |_| {});
}

#[test]
fn efforts() {
    let encode = |effort| WIRE.encode(&Request { effort, ..request(MODEL, vec![Message::user("Go")]) });
    assert_eq!(encode(None).get("reasoning_effort"), None);
    assert_eq!(encode(Some(Effort::Minimal))["reasoning_effort"], "low");
    assert_eq!(encode(Some(Effort::Max))["reasoning_effort"], "high");
}
