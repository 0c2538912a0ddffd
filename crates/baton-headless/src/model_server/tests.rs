//! The four formats against their decoders, and the server over HTTP.

use std::net::SocketAddr;

use baton_core::{Block, CallId, ToolResult};
use baton_llm::wire::{Wire, WireEvent, WireFailureKind};
use baton_llm::{Answer, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::sse::pieces;
use super::*;

const RICH: &str = r#"{"think":"Look first, then act.","say":"Größe prüfen: I read both files.","call":[{"tool":"read","input":{"path":"src/a.rs","limit":20}},{"tool":"bash","input":{"command":"cargo test"}}],"usage":{"input":100,"output":40,"cache_read":900,"reasoning":8}}"#;

const FORMATS: [(Wire, &dyn Format); 4] = [
    (Wire::Anthropic, &anthropic::Anthropic),
    (Wire::Responses, &responses::Responses),
    (Wire::Chat, &chat::Chat),
    (Wire::Gemini, &gemini::Gemini),
];

fn script(text: &str) -> Script {
    Script::parse("test.jsonl", text).unwrap()
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "script".to_owned(),
        system: "Be brief.".to_owned(),
        tools: Vec::new(),
        messages,
        output_max: 1000,
        effort: None,
        web_search: false,
        abilities: baton_llm::Abilities { images: true, thinking: true },
        cache_key: "key".to_owned(),
        role: AgentRole::default(),
        failures: 0,
        past: baton_llm::Past::default(),
    }
}

/// Renders the script's answer to `go` as a stream.
fn stream(format: &dyn Format, script: &Script) -> String {
    let body = json!({"model": "script", "stream_options": {"include_usage": true}});
    let messages = [Message::user("go")];
    let line = script.pick(&AgentRole::default(), &messages, 0).unwrap();
    format.stream(&Reply::new(&body, line, &messages, 400))
}

fn decode(wire: Wire, text: &str) -> Vec<WireEvent> {
    let mut decoder = wire.decoder(Box::new(|| CallId::new("call_fresh")));
    let mut events = Vec::new();
    decoder.push(text.as_bytes(), &mut events);
    decoder.finish(&mut events);
    events
}

/// What the last event ends with, or why it does not.
fn ending(wire: Wire, script_text: &str) -> Result<Answer, WireFailureKind> {
    let (_, format) = FORMATS.into_iter().find(|(it, _)| *it == wire).unwrap();
    match decode(wire, &stream(format, &script(script_text))).pop() {
        Some(WireEvent::Ended(answer)) => Ok(answer),
        Some(WireEvent::Failed(failure)) => Err(failure.kind),
        other => panic!("{wire:?} ended with {other:?}"),
    }
}

#[test]
fn streams_look_like_the_real_ones() {
    for (wire, format) in FORMATS {
        insta::assert_snapshot!(format!("{wire:?}").to_lowercase(), stream(format, &script(RICH)));
    }
}

/// Without the signatures, whose form is each format's own, and with neighbouring texts joined: Gemini
/// keeps the piece of text that carries a signature apart.
fn plain(message: Message) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for mut block in message.content {
        if let Block::Thinking { signature, .. } = &mut block {
            *signature = None;
        }
        match (blocks.last_mut(), block) {
            (Some(Block::Text { text }), Block::Text { text: more }) => text.push_str(&more),
            (_, block) => blocks.push(block),
        }
    }
    blocks
}

#[test]
fn what_is_rendered_is_decoded() {
    let script = script(RICH);
    let line = script.pick(&AgentRole::default(), &[Message::user("go")], 0).unwrap();
    for (wire, _) in FORMATS {
        let answer = ending(wire, RICH).unwrap();
        let Block::Thinking { signature, .. } = &answer.message.content[0] else { panic!("{wire:?}: {answer:?}") };
        let is_signed = signature.as_ref().is_some_and(|signature| signature.token.contains("thought_0"));
        assert_eq!(is_signed, wire != Wire::Chat, "{wire:?}");
        assert_eq!(plain(answer.message), plain(line.message(&[Message::user("go")])), "{wire:?}");
        assert_eq!(answer.stop, StopReason::ToolUse, "{wire:?}");
        let mut usage = line.usage(0);
        if wire == Wire::Anthropic {
            // This format does not tell how much of the output was reasoning.
            usage.reasoning_tokens = 0;
        }
        assert_eq!(answer.usage, usage, "{wire:?}");
    }
}

#[test]
fn stop_reasons_arrive() {
    for (wire, _) in FORMATS {
        let stop = |line| ending(wire, line).unwrap().stop;
        assert_eq!(stop(r#"{"say":"a"}"#), StopReason::EndTurn, "{wire:?}");
        assert_eq!(stop(r#"{"say":"a","stop":"max_tokens"}"#), StopReason::MaxTokens, "{wire:?}");
        assert_eq!(stop(r#"{"say":"a","stop":"refusal"}"#), StopReason::Refusal, "{wire:?}");
        assert_eq!(stop(r#"{"say":"","stop":"refusal"}"#), StopReason::Refusal, "{wire:?}");
    }
    assert_eq!(ending(Wire::Anthropic, r#"{"say":"a","stop":"pause"}"#).unwrap().stop, StopReason::Pause);
}

#[test]
fn failures_arrive() {
    for (wire, _) in FORMATS {
        assert_eq!(ending(wire, r#"{"say":"half","cut":true}"#), Err(WireFailureKind::Cut), "{wire:?}");
        let failed = ending(wire, r#"{"say":"half","fail":{"status":429}}"#);
        assert_eq!(failed, Err(WireFailureKind::Reported { status: 429 }), "{wire:?}");
        let broken = ending(wire, r#"{"call":[{"tool":"read","input":"{\"path\":"}]}"#);
        let message = broken.unwrap().message;
        let raw = message.tool_uses().next().unwrap().malformed.clone().unwrap();
        assert!(raw.ends_with("{\"path\":"), "{wire:?}: {raw}");
    }
}

#[test]
fn requests_are_read_back() {
    let line = script(RICH);
    let mut messages = vec![Message::user("go")];
    messages.push(line.pick(&AgentRole::default(), &messages, 0).unwrap().message(&messages));
    let results = ["fn a() {}", "2 failed"].into_iter().zip(0..);
    let results = results.map(|(text, index)| ToolResult::ok(CallId::new(format!("call_0_{index}")), text));
    messages.push(Message { role: Role::User, content: results.map(Block::ToolResult).collect() });
    for (wire, format) in FORMATS {
        let read = format.messages(&wire.encode(&request(messages.clone()))).unwrap();
        let answers = read.iter().filter(|message| message.role == Role::Assistant).count();
        assert_eq!(answers, 1, "{wire:?}");
        let script = script("{\"say\":\"a\"}\n{\"say\":\"b\",\"when\":\"(?s)fn a.*2 failed$\"}");
        assert_eq!(script.pick(&AgentRole::default(), &read, 0).unwrap().number, 2, "{wire:?}");
    }
}

#[test]
fn unusable_bodies_are_named() {
    let problem = |format: &dyn Format, body: Value| format.messages(&body).unwrap_err();
    assert_eq!(problem(&anthropic::Anthropic, json!({})), "`messages` must be a list, not null");
    let strange = json!({"messages": [{"role": "user", "content": [{"type": "video"}]}]});
    assert_eq!(problem(&anthropic::Anthropic, strange), "`type` must be a kind of block, not \"video\"");
    let nameless = json!({"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]});
    assert_eq!(problem(&gemini::Gemini, nameless), "`name` must be a string, not null");
}

#[test]
fn pieces_are_whole_characters() {
    let text = "Größe ändern über alle Maßstäbe: äöüäöüäöüäöüäöüäöüäöü 语言模型语言模型语言模型";
    assert_eq!(pieces(text).collect::<String>(), text);
    assert!(pieces(text).all(|piece| piece.len() <= 24));
}

#[test]
fn append_only_names_the_first_difference() {
    let role = AgentRole::default();
    let body = |turns: Value| json!({"system": "s", "tools": [{"name": "ls"}], "messages": turns});
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let marked = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]});
    let model = json!({"role": "assistant", "content": "ok"});
    let mut checked = AppendOnly::default();
    let mut check = |body: &Value| {
        let messages = anthropic::Anthropic.messages(body).unwrap();
        checked.check(&role, "messages", &messages, body)
    };
    assert_eq!(check(&body(json!([marked("go")]))), Ok(()));
    assert_eq!(check(&body(json!([user("go"), model, marked("on")]))), Ok(()));
    let mut other = body(json!([user("go"), model, user("on")]));
    other["tools"][0]["name"] = json!("glob");
    assert_eq!(check(&other).unwrap_err(), "not append-only: tools[0].name was `\"ls\"`, is `\"glob\"`");
    let changed = check(&body(json!([user("go"), model, user("off"), model, user("x")]))).unwrap_err();
    assert_eq!(changed, "not append-only: messages[2].content[0].text was `\"on\"`, is `\"off\"`");
    let shorter = check(&body(json!([user("go"), model]))).unwrap_err();
    assert_eq!(shorter, "not append-only: messages shrank from 3 to 2 items");
    assert_eq!(check(&body(json!([user("go")]))), Ok(()), "a new conversation");
}

/// Starts a server that lives as long as the test.
async fn start(script_text: &str, log: Option<PathBuf>) -> SocketAddr {
    let options = Options { script: script(script_text), port: 0, log, append_only: true };
    let server = ModelServer::bind(options).await.unwrap();
    let address = server.address();
    tokio::spawn(server.serve(std::future::pending()));
    address
}

/// Posts over a connection of its own; the raw response.
async fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nx-api-key: secret\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all((head + body).as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn failures_are_counted_and_forgotten() {
    let lines = r#"{"fail":{"status":429,"retry_after":"date+9"}}
{"fail":{"status":529,"body":"busy"}}
{"say":"half","cut":true}
{"say":"done"}"#;
    let address = start(lines, None).await;
    let body = r#"{"stream":true,"messages":[{"role":"user","content":"go"}]}"#;
    for _ in 0..2 {
        let limited = post(address, "/v1/messages", body).await;
        assert!(limited.starts_with("HTTP/1.1 429"), "{limited}");
        assert!(limited.contains("GMT\r\n") && limited.contains("rate_limit_error"), "{limited}");
        assert!(post(address, "/v1/messages", body).await.ends_with("\r\n\r\nbusy"));
        let cut = post(address, "/v1/messages", body).await;
        assert!(cut.contains("half") && !cut.ends_with("0\r\n\r\n"), "{cut}");
        let done = post(address, "/v1/messages", body).await;
        assert!(done.contains("message_stop") && done.ends_with("0\r\n\r\n"), "{done}");
    }
}

#[tokio::test]
async fn every_route_answers() {
    let address = start(r#"{"say":"hello"}"#, None).await;
    let messages = r#"{"messages":[{"role":"user","content":"go"}]}"#;
    let contents = r#"{"contents":[{"parts":[{"text":"go"}]}]}"#;
    for (path, body) in [
        ("/v1/messages", messages),
        ("/v1/chat/completions", messages),
        ("/chat/completions", messages),
        ("/v1/responses", r#"{"input":"go"}"#),
        ("/responses", r#"{"input":"go"}"#),
        ("/v1beta/models/script:generateContent", contents),
        ("/v1beta/models/script:streamGenerateContent?alt=sse", contents),
    ] {
        let response = post(address, path, body).await;
        assert!(response.starts_with("HTTP/1.1 200") && response.contains("hello"), "{path}: {response}");
    }
    let lost = post(address, "/v1/nowhere", "{}").await;
    assert!(lost.starts_with("HTTP/1.1 404") && lost.contains("POST /v1/messages"), "{lost}");
}

#[tokio::test]
async fn the_log_has_every_request_and_no_key() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("requests.jsonl");
    let address = start(r#"{"say":"hello"}"#, Some(log.clone())).await;
    post(address, "/v1/messages", r#"{"messages":[{"role":"user","content":"go"}]}"#).await;
    let used_up = r#"{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"hello"}]}"#;
    let refused = post(address, "/v1/messages", used_up).await;
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("script test.jsonl line 1"), "{refused}");
    post(address, "/v1/messages", "nonsense").await;

    let text = std::fs::read_to_string(log).unwrap();
    assert!(!text.contains("secret"), "{text}");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["line"], 1);
    assert_eq!(records[0]["auth"], "x-api-key");
    assert_eq!(records[0]["body"]["messages"][0]["content"], "go");
    assert_eq!(records[1]["error"], "script test.jsonl line 1: no line is left for role `main` after 1 answers");
    assert_eq!(records[2]["body"], Value::Null);
}
