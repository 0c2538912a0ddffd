use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use baton_core::{AgentRole, Block, CallId, FixedClock, Message, Role, SequentialIds, ToolResult};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::record::Tee;
use super::*;
use crate::request::Abilities;
use crate::transport::{Body, Reply, Transport, Unsent};

const KEY: &str = "sk-Zq81xW07-vK93mB52yTu";

fn marks() -> Marks {
    let keys = [("A_KEY".to_owned(), KEY.to_owned()), ("B_KEY".to_owned(), "quo\"ted\\key".to_owned())];
    Marks::new(keys, [("project", PathBuf::from("/home/me/p")), ("home", PathBuf::from("/home/me/"))])
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "m".to_owned(),
        system: "Be good.".to_owned(),
        tools: Vec::new(),
        messages,
        output_max: 1000,
        effort: None,
        web_search: false,
        abilities: Abilities { images: true, thinking: true },
        cache_key: "ses_1".to_owned(),
        role: AgentRole::default(),
        failures: 0,
        past: crate::request::Past::default(),
    }
}

/// A server that answers each request with the next pieces.
struct Pieces(Mutex<VecDeque<Vec<Vec<u8>>>>);

struct PieceBody(VecDeque<Vec<u8>>);

#[async_trait]
impl Transport for Pieces {
    async fn send(&self, _: &Request) -> Result<Reply, Unsent> {
        let pieces = self.0.lock().unwrap().pop_front().unwrap();
        Ok(Reply {
            status: 200,
            headers: BTreeMap::new(),
            at: "2026-03-04T05:06:07Z".parse().unwrap(),
            call_ids: Box::new(|| CallId::new("fresh")),
            body: Box::new(PieceBody(pieces.into())),
        })
    }
}

#[async_trait]
impl Body for PieceBody {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        Ok(self.0.pop_front().map(Bytes::from))
    }
}

/// Records exchanges and returns the text of the cassette.
async fn record(wire: Wire, exchanges: Vec<(Request, Vec<Vec<u8>>)>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tape.jsonl");
    let (recording, recorder) = Recording::create(&file, "p/m".parse().unwrap(), wire, marks()).unwrap();
    let clock = Arc::new(FixedClock("2026-03-04T05:06:07Z".parse().unwrap()));
    let (requests, replies): (Vec<_>, Vec<_>) = exchanges.into_iter().unzip();
    let tee = Tee { inner: Pieces(Mutex::new(replies.into())), recorder, clock };
    for request in requests {
        let Ok(mut reply) = tee.send(&request).await else { panic!("not sent") };
        while reply.body.next().await.unwrap().is_some() {}
    }
    recording.finish().await.unwrap();
    std::fs::read_to_string(&file).unwrap()
}

/// One event of a format that carries a piece of text, and one that carries a piece of a call's input.
fn event(wire: Wire, piece: &str, in_call: bool) -> String {
    let data = match (wire, in_call) {
        (Wire::Anthropic, false) => {
            json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":piece}})
        }
        (Wire::Anthropic, true) => {
            json!({"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":piece}})
        }
        (Wire::Responses, false) => json!({"type":"response.output_text.delta","item_id":"msg_1","delta":piece}),
        (Wire::Responses, true) => {
            json!({"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":piece})
        }
        (Wire::Chat, false) => json!({"choices":[{"index":0,"delta":{"content":piece}}]}),
        (Wire::Chat, true) => {
            json!({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":piece}}]}}]})
        }
        (Wire::Gemini, false) => json!({"candidates":[{"content":{"parts":[{"text":piece}]}}]}),
        (Wire::Gemini, true) => json!({"candidates":[{"content":{"parts":[{"text":piece,"thought":true}]}}]}),
    };
    format!("data: {data}\n\n")
}

const WIRES: [Wire; 4] = [Wire::Anthropic, Wire::Responses, Wire::Chat, Wire::Gemini];

proptest! {
    #[test]
    fn a_key_is_found_however_it_is_cut(
        cuts in prop::collection::btree_set(1..KEY.len(), 0..6),
        wire in prop::sample::select(WIRES.to_vec()),
        in_call: bool,
    ) {
        let mut body = event(wire, "before ", in_call);
        let mut start = 0;
        for end in cuts.into_iter().chain([KEY.len()]) {
            body += &event(wire, &KEY[start..end], in_call);
            start = end;
        }
        body += &event(wire, " after", in_call);
        let marked = marks().stream(&body);
        prop_assert!(marked.contains("{baton:key:A_KEY}"), "{marked}");
        for part in KEY.as_bytes().windows(4) {
            prop_assert!(!marked.contains(std::str::from_utf8(part).unwrap()), "{marked}");
        }
        prop_assert!(marked.contains("before ") && marked.contains(" after"), "{marked}");
    }

    #[test]
    fn a_body_without_secrets_stays_as_it_is(body in "(data: \\{\"a\":\"[a-z /]*\"\\}\r?\n|[ -~]*\n|\\PC*)*") {
        prop_assert_eq!(marks().stream(&body), body);
    }
}

#[test]
fn what_providers_really_send_stays_as_it_is() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams")).unwrap() {
        let body = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert_eq!(marks().stream(&body), body);
    }
}

#[test]
fn places_are_marked_and_names_that_only_begin_like_them_are_not() {
    let cases = [
        ("cd /home/me/p && ls", "cd {baton:project} && ls"),
        ("/home/me/p/src/main.rs:3", "{baton:project}/src/main.rs:3"),
        ("It is in /home/me/p.", "It is in {baton:project}."),
        ("/home/me/p2 and /home/me/.cargo", "{baton:home}/p2 and {baton:home}/.cargo"),
        ("/home/me2/p /mnt/home/me/p /home/me/p.old", "/home/me2/p /mnt/home/me/p {baton:home}/p.old"),
        ("a\\n/home/me/p", "a\\n{baton:project}"),
        ("file:///home/me/p", "file://{baton:project}"),
    ];
    for (text, expected) in cases {
        assert_eq!(marks().text(text), expected);
    }
    let marked = marks().stream("data: {\"text\":\"see /home/me/p/a\"}\n\n");
    let elsewhere = Marks::new([], [("project", PathBuf::from("/tmp/q"))]);
    assert_eq!(elsewhere.expand(&marked), "data: {\"text\":\"see /tmp/q/a\"}\n\n");
}

#[test]
fn keys_with_quotes_are_found_inside_json_and_json_inside_json() {
    let key = "quo\"ted\\key";
    let inner = json!({"command": key}).to_string();
    let outer = json!({"arguments": inner}).to_string();
    for text in [key, &inner, &outer] {
        let marked = marks().text(text).into_owned();
        assert!(marked.contains("{baton:key:B_KEY}") && !marked.contains("ted"), "{marked}");
    }
    let kept = marks().message(&Message { role: Role::Assistant, content: vec![Block::text(key)] });
    assert_eq!(kept, Message::assistant("{baton:key:B_KEY}"));
}

#[test]
fn words_are_no_keys() {
    let marks = Marks::new([("K".to_owned(), "ollama".to_owned())], [("project", PathBuf::from("/"))]);
    assert_eq!(marks.text("ollama in / is ollama"), "ollama in / is ollama");
}

#[tokio::test]
async fn an_answer_that_cannot_be_cleaned_is_withheld() {
    // Two halves in pieces of different kinds: only the parser puts them together.
    let (one, two) = KEY.split_at(9);
    let body = [
        json!({"choices":[{"index":0,"delta":{"content":one}}]}),
        json!({"choices":[{"index":0,"delta":{"content":[{"type":"text","text":two}]}}]}),
        json!({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}),
    ];
    let body: String = body.map(|data| format!("data: {data}\n\n")).concat();
    let tape = record(Wire::Chat, vec![(request(vec![Message::user("go")]), vec![body.into_bytes()])]).await;
    assert!(!tape.contains(one) && !tape.contains(two), "{tape}");
    assert!(tape.contains("a key could be read in it"), "{tape}");
    let garbage = [b"\xff\xfe".as_slice(), KEY.as_bytes()].concat();
    let tape = record(Wire::Chat, vec![(request(vec![Message::user("go")]), vec![garbage])]).await;
    assert!(tape.contains("a key could be read in it"), "{tape}");
}

#[tokio::test]
async fn bytes_that_are_no_text_come_back_as_they_were() {
    let garbage = vec![b"data: \xff\xfe\n".to_vec(), b"\x80".to_vec()];
    let asked = request(vec![Message::user("go")]);
    let tape = record(Wire::Gemini, vec![(asked.clone(), garbage.clone())]).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tape.jsonl");
    std::fs::write(&file, tape).unwrap();
    let tape = Replay::open(&file, marks(), Arc::new(SequentialIds::default())).unwrap();
    let Ok(mut reply) = tape.send(&asked).await else { panic!("not sent") };
    assert_eq!(reply.body.next().await.unwrap().unwrap(), garbage.concat());
    assert_eq!(reply.body.next().await, Ok(None));
}

#[tokio::test]
async fn a_cassette_grows_with_the_conversation_and_not_with_its_square() {
    let mut messages = vec![Message::user("go ".repeat(100))];
    let mut exchanges = Vec::new();
    for step in 0..40 {
        exchanges.push((request(messages.clone()), vec![event(Wire::Chat, "ok", false).into_bytes()]));
        messages.push(Message::assistant(format!("{step}: {}", "x".repeat(300))));
        let result = ToolResult::ok(CallId::new("c"), "y".repeat(300));
        messages.push(Message { role: Role::User, content: vec![Block::ToolResult(result)] });
    }
    // Another agent in between: it has a history of its own.
    exchanges.insert(7, (request(vec![Message::user("something else")]), vec![b"x".to_vec()]));
    let tape = record(Wire::Chat, exchanges.clone()).await;
    assert!(tape.len() < 41 * 1_200, "{}", tape.len());
    let cassette = Cassette::parse(tape.as_bytes()).unwrap();
    assert_eq!(cassette.len(), 41);
    for (at, (request, _)) in exchanges.iter().enumerate() {
        assert!(cassette.fits(at, &Asked::new(request, &marks())), "exchange {}", at + 1);
    }
}

const HEADER: &str = r#"{"baton_cassette":1,"model":"p/m","wire":"chat"}"#;

#[test]
fn what_is_wrong_with_a_cassette_is_said_with_its_line() {
    let exchange =
        |number: u32, more: &str| format!("{{\"exchange\":{number},\"at\":\"2026-03-04T05:06:07Z\"{more}}}\n");
    let wrong = |text: &str| Cassette::parse(text.as_bytes()).unwrap_err().to_string();
    assert!(wrong("").starts_with("line 1: this is no cassette"));
    assert!(wrong(&HEADER.replace(":1,", ":2,")).ends_with("reads version 1, not 2"));
    assert_eq!(wrong(&format!("{HEADER}\n{}", exchange(2, ""))), "line 2: exchange 2 stands where exchange 1 belongs");
    for after in [0, 1, 7] {
        let text = format!("{HEADER}\n{}", exchange(1, &format!(",\"after\":{after}")));
        assert_eq!(wrong(&text), format!("line 2: exchange 1 cannot come after exchange {after}"));
    }
    assert!(wrong(&format!("{HEADER}\n\n{}", exchange(1, ""))).starts_with("line 2: "));
    let torn = format!("{HEADER}\n{}{}", exchange(1, ""), "{\"exchange\":2,\"at\":\"20");
    let cassette = Cassette::parse(torn.as_bytes()).unwrap();
    assert_eq!((cassette.len(), cassette.torn), (1, Some(3)));
}

#[tokio::test]
async fn a_difference_is_shown_where_it_is_and_cut_to_size() {
    let asked = |text: &str| request(vec![Message::user("go"), Message::assistant("ok"), Message::user(text)]);
    let long = format!("{}needle{}", "x".repeat(5_000), "y".repeat(5_000));
    let tape = record(Wire::Chat, vec![(asked(&long), vec![b"x".to_vec()])]).await;
    let cassette = Cassette::parse(tape.as_bytes()).unwrap();
    let explain = |request: &Request| super::diff::explain(&cassette, 0, &Asked::new(request, &marks()));
    let shown = explain(&asked(&long.replace("needle", "noodle")));
    assert!(shown.starts_with("message 3 differs (- recorded, + now):\n@@"), "{shown}");
    assert!(shown.contains("needle") && shown.contains("noodle") && shown.len() < 1_500, "{shown}");
    let everything: Vec<String> = (0..5_000).map(|line| line.to_string()).collect();
    let shown = explain(&asked(&everything.join("\n")));
    assert!(shown.lines().count() < 50 && shown.contains("more lines"), "{shown}");
    assert!(explain(&request(vec![Message::user("go")])).starts_with("message 2 is missing ("));
    assert!(explain(&Request { system: "Be bad.".to_owned(), ..asked("x") }).contains("-Be good.\n+Be bad."));
}
