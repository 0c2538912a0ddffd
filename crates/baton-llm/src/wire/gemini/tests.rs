//! Tests of the Gemini format.

use baton_core::{Block, Message, Role, StopReason, Usage};
use serde_json::json;

use crate::request::{Delta, Effort, Request, Search, Source};
use crate::wire::assemble::testing::{
    answer, call, call_delta, check_cuts, check_noise, check_prefix, check_splits, conversation, every_format, failure,
    pretty, request, sent_back, text_delta, thinking, thinking_delta,
};
use crate::wire::{Wire, WireFailureKind};

const WIRE: Wire = Wire::Gemini;
const MODEL: &str = "gemini-3-flash";

const TEXT: &str = include_str!("../../../tests/streams/gemini_text.sse");
const TOOL: &str = include_str!("../../../tests/streams/gemini_tool.sse");
const PARALLEL: &str = include_str!("../../../tests/streams/gemini_parallel.sse");
const THINKING: &str = include_str!("../../../tests/streams/gemini_thinking.sse");
const ERROR: &str = include_str!("../../../tests/streams/gemini_error.sse");
const MALFORMED: &str = include_str!("../../../tests/streams/gemini_malformed.sse");
const REFUSAL: &str = include_str!("../../../tests/streams/gemini_refusal.sse");
const BLOCKED: &str = include_str!("../../../tests/streams/gemini_blocked.sse");
const SEARCH: &str = include_str!("../../../tests/streams/gemini_search.sse");
const SAMPLES: [&str; 9] = [SEARCH, TEXT, TOOL, PARALLEL, THINKING, ERROR, MALFORMED, REFUSAL, BLOCKED];

#[test]
fn the_model_is_in_the_path() {
    assert_eq!(WIRE.path(MODEL), "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse");
}

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
    assert_eq!(deltas, [text_delta("Let me look."), call_delta("fc_A", "bash")]);
    let call = call("fc_A", "bash", json!({"command": "ls -l"}));
    assert_eq!(answer.message.content, [Block::text("Let me look."), call]);
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[test]
fn calls_without_id_get_one_and_keep_their_order() {
    let expected = [
        thinking("", "gemini", "sig1"),
        call("fresh_1", "read", json!({"path": "a.rs"})),
        call("fresh_2", "read", json!({"path": "b.rs"})),
        call("fresh_3", "pwd", json!({})),
    ];
    assert_eq!(answer(WIRE, PARALLEL).0.message.content, expected);
}

#[test]
fn signatures_go_back_on_the_parts_they_came_with() {
    let (answer, deltas) = answer(WIRE, THINKING);
    assert_eq!(deltas[..2], [thinking_delta("The user wants "), thinking_delta("a listing.")]);
    assert_eq!((answer.usage.output_tokens, answer.usage.reasoning_tokens), (70, 40));
    let body = sent_back(WIRE, MODEL, answer);
    let expected = json!([
        {"text": "Listing "},
        {"text": "now.", "thoughtSignature": "sigText=="},
        {"text": "Wait."},
        {"text": "", "thoughtSignature": "sigAlone=="},
        {"functionCall": {"id": "fc_A", "name": "bash", "args": {"command": "ls"}}, "thoughtSignature": "sigCall=="},
        {"functionCall": {"id": "fc_B", "name": "pwd", "args": {}}},
    ]);
    assert_eq!(body["contents"][1]["parts"], expected);
}

#[test]
fn a_signature_directly_after_thoughts_joins_them() {
    let stream = THINKING.replace(r#"{"text":"Listing "}"#, r#"{"text":"Hm.","thought":true}"#);
    let (answer, _) = answer(WIRE, &stream);
    let expected = [thinking("The user wants a listing.Hm.", "gemini", "sigText=="), Block::text("now.")];
    assert_eq!(answer.message.content[..2], expected);
}

#[test]
fn calls_of_other_models_get_a_signature_that_passes() {
    let message = Message {
        role: Role::Assistant,
        content: vec![thinking("Hm.", "anthropic", "sig"), call("a", "pwd", json!({})), call("b", "pwd", json!({}))],
    };
    let encode = |model| WIRE.encode(&request(model, vec![Message::user("Go"), message.clone(), Message::user("On")]));
    let parts = encode(MODEL)["contents"][1]["parts"].clone();
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1].get("thoughtSignature"), None);
    assert!(!encode("gemini-2.5-pro").to_string().contains("thoughtSignature"));
}

#[test]
fn an_error_has_its_status() {
    let failure = failure(WIRE, ERROR);
    assert_eq!(failure.kind, WireFailureKind::Reported { status: 503 });
    assert_eq!(failure.message, "UNAVAILABLE: The model is overloaded.");
    assert_eq!(failure.partial, Message::assistant("Half an ans"));
    assert_eq!(failure.usage, Usage { input_tokens: 50, ..Usage::default() });
}

#[test]
fn an_error_tells_how_long_to_wait() {
    let details = r#"[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"15s"}]"#;
    let stream = ERROR.replace(r#""code":503"#, &format!(r#""details":{details},"code":429"#));
    let failure = failure(WIRE, &stream);
    assert_eq!(failure.kind, WireFailureKind::Reported { status: 429 });
    assert_eq!(failure.message, "UNAVAILABLE: The model is overloaded.; retryDelay: 15s");
}

#[test]
fn a_swallowed_call_becomes_a_malformed_one() {
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"] {
        let told = MALFORMED.replace("MALFORMED_FUNCTION_CALL", reason);
        let answer = answer(WIRE, &told).0;
        let call = answer.message.tool_uses().next().unwrap();
        assert_eq!((answer.stop, call.tool.as_str()), (StopReason::ToolUse, "malformed_call"));
        assert_eq!(call.malformed, Some(format!("{reason}: Malformed function call: bash(")));
        assert_eq!(answer.message.text(), "Calling.");
    }
    assert_eq!(super::tool_in("Malformed function call: print(default_api.bash(x"), Some("bash"));
}

#[test]
fn finish_reasons() {
    for (reason, stop) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("OTHER", StopReason::Refusal),
    ] {
        let (answer, _) = answer(WIRE, &REFUSAL.replace("SAFETY", reason));
        assert_eq!((answer.stop, answer.message), (stop, Message::assistant("I cannot")), "{reason}");
    }
}

#[test]
fn a_blocked_prompt_is_a_refusal_that_says_why() {
    let (answer, deltas) = answer(WIRE, BLOCKED);
    let text = "The provider blocked the prompt: PROHIBITED_CONTENT";
    assert_eq!(deltas, [text_delta(text)]);
    assert_eq!((answer.stop, answer.message), (StopReason::Refusal, Message::assistant(text)));
}

every_format!(WIRE, MODEL, SAMPLES, [TEXT, TOOL, PARALLEL, THINKING, SEARCH]);

#[test]
fn a_growing_conversation_moves_nothing() {
    check_prefix(WIRE, MODEL, "contents", |_| {});
}

#[test]
fn efforts() {
    let encode = |model, effort| {
        let body = WIRE.encode(&Request { effort, ..request(model, vec![Message::user("Go")]) });
        body["generationConfig"]["thinkingConfig"].clone()
    };
    let level = |name| json!({"includeThoughts": true, "thinkingLevel": name});
    let budget = |tokens| json!({"includeThoughts": true, "thinkingBudget": tokens});
    assert_eq!(encode(MODEL, None), json!(null));
    assert_eq!(encode(MODEL, Some(Effort::Minimal)), level("minimal"));
    assert_eq!(encode("gemini-3.1-pro-preview", Some(Effort::Minimal)), level("low"));
    assert_eq!(encode(MODEL, Some(Effort::Max)), level("high"));
    assert_eq!(encode("gemini-2.5-flash", Some(Effort::Minimal)), budget(512));
    assert_eq!(encode("gemini-2.5-pro", Some(Effort::Max)), budget(24_576));
}

fn search(query: Option<&str>, title: &str) -> Delta {
    let source = Source { title: title.to_owned(), url: "https://blog.rust-lang.org/".to_owned() };
    Delta::Searched(Search { query: query.map(str::to_owned), sources: vec![source], problem: None })
}

#[test]
fn a_search_is_told_and_goes_back_as_it_came() {
    let (answer, deltas) = answer(WIRE, SEARCH);
    assert_eq!(deltas, [text_delta("It is out."), search(Some("rust release"), "Rust blog")]);
    let body = sent_back(WIRE, MODEL, answer);
    let args = json!({"queries": ["rust release"]});
    let response = json!({"search_suggestions": "..."});
    let expected = json!([
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": args, "id": "s1"}, "thoughtSignature": "sigC"},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": response, "id": "s1"}, "thoughtSignature": "sigR"},
        {"text": "It is out."},
    ]);
    assert_eq!(body["contents"][1]["parts"], expected);
}

#[test]
fn the_search_stands_beside_functions_where_the_model_allows_it() {
    let body = |model| WIRE.encode(&Request { web_search: true, ..conversation(model) });
    assert_eq!(body(MODEL)["tools"][1], json!({"googleSearch": {}}));
    assert_eq!(body(MODEL)["toolConfig"], json!({"includeServerSideToolInvocations": true}));
    assert_eq!(body("gemini-2.5-pro")["tools"].as_array().unwrap().len(), 1);
    let alone = WIRE.encode(&Request { web_search: true, ..request("gemini-2.5-pro", vec![Message::user("?")]) });
    assert_eq!(alone["tools"], json!([{"googleSearch": {}}]));
    assert!(WIRE.web_search(MODEL).is_ok() && WIRE.web_search("gemini-2.5-pro").is_err());
}
