//! Tests of the Anthropic format.

use baton_core::{Block, Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::request::{Delta, Effort, Request, Search, Source};
use crate::wire::assemble::testing::{
    answer, call, call_delta, check_cuts, check_noise, check_prefix, check_splits, conversation, every_format, failure,
    malformed, pretty, request, sent_back, text_delta, thinking, thinking_delta,
};
use crate::wire::{Wire, WireFailureKind};

const WIRE: Wire = Wire::Anthropic;
const MODEL: &str = "claude-sonnet-4-5";

const TEXT: &str = include_str!("../../../tests/streams/anthropic_text.sse");
const TOOL: &str = include_str!("../../../tests/streams/anthropic_tool.sse");
const PARALLEL: &str = include_str!("../../../tests/streams/anthropic_parallel.sse");
const THINKING: &str = include_str!("../../../tests/streams/anthropic_thinking.sse");
const ERROR: &str = include_str!("../../../tests/streams/anthropic_error.sse");
const MALFORMED: &str = include_str!("../../../tests/streams/anthropic_malformed.sse");
const REFUSAL: &str = include_str!("../../../tests/streams/anthropic_refusal.sse");
const SEARCH: &str = include_str!("../../../tests/streams/anthropic_search.sse");
const SAMPLES: [&str; 8] = [SEARCH, TEXT, TOOL, PARALLEL, THINKING, ERROR, MALFORMED, REFUSAL];

#[test]
fn text() {
    let (answer, deltas) = answer(WIRE, TEXT);
    assert_eq!(deltas, [text_delta("Grüße, "), text_delta("Welt 🦀!")]);
    assert_eq!(answer.message, Message::assistant("Grüße, Welt 🦀!"));
    assert_eq!(answer.stop, StopReason::EndTurn);
    let usage = Usage {
        input_tokens: 25,
        output_tokens: 12,
        cache_read_tokens: 2000,
        cache_write_tokens: 300,
        reasoning_tokens: 0,
    };
    assert_eq!(answer.usage, usage);
}

#[test]
fn a_tool_call() {
    let (answer, deltas) = answer(WIRE, TOOL);
    assert_eq!(deltas, [text_delta("Let me look."), call_delta("toolu_01A", "bash")]);
    let call = call("toolu_01A", "bash", json!({"command": "ls -l"}));
    assert_eq!(answer.message.content, [Block::text("Let me look."), call]);
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[test]
fn interleaved_calls_keep_the_order_in_which_they_began() {
    let expected = [
        call("toolu_01A", "read", json!({"path": "a.rs"})),
        call("toolu_01B", "read", json!({"path": "b.rs"})),
        call("toolu_01C", "pwd", json!({})),
    ];
    assert_eq!(answer(WIRE, PARALLEL).0.message.content, expected);
}

#[test]
fn thinking_goes_back_as_it_came() {
    let (answer, deltas) = answer(WIRE, THINKING);
    assert_eq!(deltas[..2], [thinking_delta("The user wants "), thinking_delta("a listing.")]);
    let body = sent_back(WIRE, MODEL, answer);
    let expected = json!([
        {"type": "thinking", "thinking": "The user wants a listing.", "signature": "EqQBCkYIBxgCKkDc+/=="},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p"},
        {"type": "text", "text": "Listing."},
        {"type": "tool_use", "id": "toolu_01A", "name": "bash", "input": {"command": "ls"}},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[test]
fn reasoning_never_comes_last() {
    let mut message = Message::assistant("Yes.");
    message.content.push(thinking("And", "anthropic", "sig"));
    let body = WIRE.encode(&request(MODEL, vec![Message::user("?"), message, Message::user("Go on")]));
    assert_eq!(body["messages"][1]["content"], json!([{"type": "text", "text": "Yes."}]));
}

#[test]
fn errors_have_the_status_of_their_kind() {
    let failure_of = failure(WIRE, ERROR);
    assert_eq!(failure_of.kind, WireFailureKind::Reported { status: 529 });
    assert_eq!(failure_of.message, "overloaded_error: Overloaded");
    assert_eq!(failure_of.partial, Message::assistant("Half an ans"));
    assert_eq!(failure_of.usage, Usage { input_tokens: 25, output_tokens: 1, ..Usage::default() });
    for (kind, status) in [
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("unheard_of_error", 500),
    ] {
        let stream = ERROR.replace("overloaded_error", kind);
        assert_eq!(failure(WIRE, &stream).kind, WireFailureKind::Reported { status }, "{kind}");
    }
}

#[test]
fn input_that_is_no_object_is_kept_as_text() {
    let expected = [malformed("toolu_01A", "bash", r#"{"command": "l"#), malformed("toolu_01B", "bash", r#"["ls"]"#)];
    assert_eq!(answer(WIRE, MALFORMED).0.message.content, expected);
}

#[test]
fn a_call_without_input_is_whole_only_if_the_answer_is() {
    let stream = PARALLEL.replace(r#""stop_reason":"tool_use""#, r#""stop_reason":"max_tokens""#);
    let (answer, _) = answer(WIRE, &stream);
    assert_eq!(answer.stop, StopReason::MaxTokens);
    assert_eq!(answer.message.content[1], call("toolu_01B", "read", json!({"path": "b.rs"})));
    assert_eq!(answer.message.content[2], malformed("toolu_01C", "pwd", ""));
}

#[test]
fn stop_reasons() {
    for (reason, stop) in [
        ("refusal", StopReason::Refusal),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("pause_turn", StopReason::Pause),
        ("stop_sequence", StopReason::EndTurn),
        ("tool_use", StopReason::EndTurn), // there is no call to wait for
        ("reason_of_tomorrow", StopReason::EndTurn),
    ] {
        let stream = REFUSAL.replace(r#""stop_reason":"refusal""#, &format!(r#""stop_reason":"{reason}""#));
        let (answer, _) = answer(WIRE, &stream);
        assert_eq!((answer.stop, answer.message), (stop, Message::assistant("I cannot")), "{reason}");
    }
}

#[test]
fn a_stop_reason_without_the_stop_is_a_cut() {
    let stream = TEXT.replace("message_stop", "message_paused");
    assert_eq!(failure(WIRE, &stream).kind, WireFailureKind::Cut);
}

#[test]
fn what_is_no_event_is_malformed() {
    let failure = failure(WIRE, "data: <html>502 Bad Gateway</html>\n\n");
    assert_eq!(failure.kind, WireFailureKind::Malformed);
    assert!(failure.message.contains("502 Bad Gateway"), "{}", failure.message);
}

every_format!(WIRE, MODEL, SAMPLES, [TEXT, TOOL, PARALLEL, THINKING, SEARCH]);

#[test]
fn a_growing_conversation_moves_nothing_but_marks() {
    check_prefix(WIRE, MODEL, "messages", |body| {
        for block in body["messages"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .flat_map(|message| message["content"].as_array_mut().into_iter().flatten())
        {
            block.as_object_mut().expect("an object").remove("cache_control");
        }
    });
}

#[test]
fn there_are_at_most_four_marks_and_the_last_block_has_one() {
    let whole = conversation(MODEL);
    for n in 1..=whole.messages.len() {
        let body = WIRE.encode(&Request { messages: whole.messages[..n].to_vec(), ..whole.clone() });
        assert!(body.to_string().matches("cache_control").count() <= 4);
    }
    let body = WIRE.encode(&whole);
    let last = body["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
    assert_eq!(last["content"][0]["cache_control"], json!({"type": "ephemeral"}));
}

#[test]
fn the_name_tells_who_takes_a_budget() {
    for model in [
        "claude-2.1",
        "claude-3-opus-20240229",
        "claude-3-5-sonnet-v2@20241022",
        "claude-3-7-sonnet-latest",
        "anthropic/claude-3.7-sonnet:thinking",
        "claude-sonnet-4",
        "claude-4-sonnet",
        "claude-opus-4",
        "claude-opus-4-0",
        "claude-sonnet-4-latest",
        "claude-sonnet-4-20250514",
        "claude-sonnet-4@20250514",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "claude-opus-4-1",
        "Claude-Opus-4.1",
        "claude-opus-4-1@20250805",
        "anthropic.claude-opus-4-1-20250805-v1:0",
        "claude-sonnet-4-5",
        "claude-haiku-4-5-20251001",
        "anthropic/claude-opus-4.5",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-5-20251101-v1:0",
        "glm-4.7",
        "kimi-k3",
    ] {
        assert!(!super::is_adaptive(model), "{model}");
    }
    for model in [
        "claude-opus-4-6",
        "claude-sonnet-4-6",
        "claude-opus-4.8",
        "us.anthropic.claude-opus-4-6-v1",
        "global.anthropic.claude-opus-4-7-v1:0",
        "claude-opus-5",
        "claude-opus-5@20260401",
        "claude-haiku-5-5",
        "claude-sonnet-5-20260301",
        "claude-opus-10",
        "claude-mythos-preview",
    ] {
        assert!(super::is_adaptive(model), "{model}");
    }
}

#[test]
fn efforts() {
    let encode = |model, effort, output_max| {
        let plain = request(model, vec![Message::user("Go")]);
        let body = WIRE.encode(&Request { output_max, effort, ..plain });
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let budget = |tokens: u64| (json!({"type": "enabled", "budget_tokens": tokens}), Value::Null);
    let none = (Value::Null, Value::Null);
    for (effort, output_max, expected) in [
        (None, 64_000, none.clone()),
        (Some(Effort::Minimal), 64_000, none.clone()),
        (Some(Effort::Low), 64_000, budget(4_000)),
        (Some(Effort::Medium), 64_000, budget(10_000)),
        (Some(Effort::High), 64_000, budget(32_000)),
        (Some(Effort::Max), 64_000, budget(48_000)),
        (Some(Effort::High), 8_000, budget(6_000)),
        (Some(Effort::High), 1_000, none.clone()),
    ] {
        for model in [MODEL, "claude-opus-4-20250514", "claude-3-7-sonnet-latest", "glm-4.7"] {
            assert_eq!(encode(model, effort, output_max), expected, "{model} {effort:?} {output_max}");
        }
    }
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    for model in ["claude-opus-4-6", "claude-opus-4-7", "claude-opus-5"] {
        assert_eq!(encode(model, None, 64_000), none);
        assert_eq!(encode(model, Some(Effort::Minimal), 64_000), (Value::Null, json!({"effort": "low"})));
        assert_eq!(encode(model, Some(Effort::Max), 64_000), (adaptive.clone(), json!({"effort": "max"})));
    }
}

fn search(query: Option<&str>, title: &str) -> Delta {
    let source = Source { title: title.to_owned(), url: "https://blog.rust-lang.org/".to_owned() };
    Delta::Searched(Search { query: query.map(str::to_owned), sources: vec![source], problem: None })
}

#[test]
fn a_search_is_told_and_goes_back_as_it_came() {
    let (answer, deltas) = answer(WIRE, SEARCH);
    let told = search(Some("rust release"), "Rust blog");
    assert_eq!(deltas, [text_delta("I will search."), told, text_delta("It is out.")]);
    assert_eq!((answer.stop, answer.message.text().as_str()), (StopReason::EndTurn, "I will search.\nIt is out."));
    let citation = json!({
        "type": "web_search_result_location", "cited_text": "Announcing", "url": "https://blog.rust-lang.org/",
        "title": "Rust blog", "encrypted_index": "Eo8BCioIAhgB",
    });
    let result = json!({
        "type": "web_search_result", "title": "Rust blog", "url": "https://blog.rust-lang.org/",
        "encrypted_content": "EqgfCioIARgB", "page_age": "3 days ago",
    });
    let expected = json!([
        {"type": "text", "text": "I will search."},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rust release"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [result]},
        {"type": "text", "text": "It is out.", "citations": [citation]},
    ]);
    assert_eq!(sent_back(WIRE, MODEL, answer.clone())["messages"][1]["content"], expected);
    for (wire, model) in [(Wire::Responses, "gpt-5.2"), (Wire::Chat, "deepseek-chat"), (Wire::Gemini, "gemini-3-flash")]
    {
        let body = sent_back(wire, model, answer.clone()).to_string();
        assert!(!body.contains("srvtoolu_1") && !body.contains("Eo8B") && body.contains("It is out."), "{body}");
    }
}

#[test]
fn a_search_that_failed_says_why() {
    let (from, to) = (SEARCH.find("[{\"type\":\"web_search_result\"").unwrap(), SEARCH.find("}]}}\n").unwrap() + 2);
    let problem = r#"{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}"#;
    let (_, deltas) = answer(WIRE, &SEARCH.replace(&SEARCH[from..to], problem));
    let told = Search {
        query: Some("rust release".to_owned()),
        sources: Vec::new(),
        problem: Some("max_uses_exceeded".to_owned()),
    };
    assert_eq!(deltas[1], Delta::Searched(told));
}

#[test]
fn the_search_is_a_tool_among_the_others() {
    let body = WIRE.encode(&Request { web_search: true, ..conversation(MODEL) });
    let last = body["tools"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["type"], &last["name"]), (&json!("web_search_20250305"), &json!("web_search")));
}
