//! What the tests of all formats share: a rich conversation, and promises that hold for any stream.

use baton_core::{AgentRole, Block, CallId, Image, Message, Role, Signature, ToolResult, ToolSpec, ToolUse};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::request::{Abilities, Answer, Delta, Effort, Request};
use crate::wire::{Wire, WireEvent, WireFailure, WireFailureKind};

/// Decodes pieces of a stream.
pub(in crate::wire) fn decode<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<WireEvent> {
    let mut fresh = 0;
    let mut decoder = wire.decoder(Box::new(move || {
        fresh += 1;
        CallId::new(format!("fresh_{fresh}"))
    }));
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut out);
    }
    decoder.finish(&mut out);
    out
}

/// The answer of a stream, and its deltas.
#[track_caller]
pub(in crate::wire) fn answer(wire: Wire, stream: &str) -> (Answer, Vec<Delta>) {
    let mut events = decode(wire, [stream.as_bytes()]);
    let Some(WireEvent::Ended(answer)) = events.pop() else { panic!("no answer: {events:?}") };
    (answer, deltas(events))
}

/// The failure of a stream.
#[track_caller]
pub(in crate::wire) fn failure(wire: Wire, stream: &str) -> WireFailure {
    match decode(wire, [stream.as_bytes()]).pop() {
        Some(WireEvent::Failed(failure)) => failure,
        other => panic!("no failure: {other:?}"),
    }
}

#[track_caller]
fn deltas(events: Vec<WireEvent>) -> Vec<Delta> {
    let delta = |event| match event {
        WireEvent::Delta(delta) => delta,
        other => panic!("not the last event: {other:?}"),
    };
    events.into_iter().map(delta).collect()
}

pub(in crate::wire) fn text_delta(text: &str) -> Delta {
    Delta::Text(text.to_owned())
}

pub(in crate::wire) fn thinking_delta(text: &str) -> Delta {
    Delta::Thinking(text.to_owned())
}

pub(in crate::wire) fn call_delta(id: &str, tool: &str) -> Delta {
    Delta::ToolCall { id: CallId::new(id), tool: tool.to_owned() }
}

pub(in crate::wire) fn call(id: &str, tool: &str, input: Value) -> Block {
    Block::ToolUse(ToolUse { id: CallId::new(id), tool: tool.to_owned(), input, malformed: None })
}

pub(in crate::wire) fn malformed(id: &str, tool: &str, raw: &str) -> Block {
    let malformed = Some(raw.to_owned());
    Block::ToolUse(ToolUse { id: CallId::new(id), tool: tool.to_owned(), input: json!({}), malformed })
}

pub(in crate::wire) fn thinking(text: &str, wire: &str, token: &str) -> Block {
    let signature = Some(Signature { wire: wire.to_owned(), token: token.to_owned() });
    Block::Thinking { text: text.to_owned(), signature }
}

/// A request without system prompt, tools or effort.
pub(in crate::wire) fn request(model: &str, messages: Vec<Message>) -> Request {
    Request {
        model: model.to_owned(),
        system: String::new(),
        tools: Vec::new(),
        messages,
        output_max: 32_000,
        effort: None,
        web_search: false,
        abilities: Abilities { images: true, thinking: true },
        cache_key: "ses_1".to_owned(),
        role: AgentRole::default(),
        failures: 0,
        past: crate::request::Past::default(),
    }
}

/// The body of the request that follows an answer.
pub(in crate::wire) fn sent_back(wire: Wire, model: &str, answer: Answer) -> Value {
    wire.encode(&request(model, vec![Message::user("Go"), answer.message, Message::user("Go on")]))
}

/// A request with one of everything; its reasoning comes from all formats.
pub(in crate::wire) fn conversation(model: &str) -> Request {
    let picture = || Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
    let tool = |name: &str, field: &str| ToolSpec {
        name: name.to_owned(),
        description: format!("The tool {name}."),
        input_schema: json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}),
    };
    let item = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"enc1"}"#;
    let messages = vec![
        Message { role: Role::User, content: vec![Block::text("What is in this picture?"), Block::Image(picture())] },
        Message {
            role: Role::Assistant,
            content: vec![
                thinking("Anthropic thought.", "anthropic", "sigA"),
                thinking("", "anthropic-redacted", "redactedA"),
                thinking("OpenAI thought.", "responses", item),
                thinking("DeepSeek thought.", "chat", "reasoning_content"),
                Block::Thinking { text: "Nobody's thought.".to_owned(), signature: None },
                Block::text("Let me look."),
                thinking("Gemini thought.", "gemini", "sigG"),
                call("functions.bash:0", "bash", json!({"command": "ls -l", "big": u64::MAX})),
                malformed("call_2", "read", r#"{"path": "a"#),
            ],
        },
        Message {
            role: Role::User,
            content: vec![
                Block::text("Hurry up."),
                Block::ToolResult(ToolResult {
                    images: vec![picture()],
                    ..ToolResult::ok(CallId::new("functions.bash:0"), "total 0")
                }),
                Block::ToolResult(ToolResult::error(CallId::new("call_2"), "The input is not a JSON object.")),
            ],
        },
        // Nothing of this is fit to be sent.
        Message {
            role: Role::Assistant,
            content: vec![Block::Thinking { text: "Cut".to_owned(), signature: None }, Block::text("")],
        },
        Message::user("Are you there?"),
        Message::assistant("Nothing is in it."),
        Message::user("Thanks."),
    ];
    Request {
        system: "You are Baton.".to_owned(),
        tools: vec![tool("bash", "command"), tool("read", "path")],
        effort: Some(Effort::High),
        ..request(model, messages)
    }
}

/// However the bytes are cut apart, the events are the same.
#[track_caller]
pub(in crate::wire) fn check_splits(wire: Wire, samples: &[&str]) {
    for stream in samples {
        let whole = decode(wire, [stream.as_bytes()]);
        assert_eq!(decode(wire, stream.as_bytes().chunks(1)), whole, "byte by byte: {stream}");
        let crlf = stream.replace('\n', "\r\n");
        assert_eq!(decode(wire, crlf.as_bytes().chunks(7)), whole, "with CRLF: {stream}");
        proptest!(ProptestConfig::with_cases(32), |(at in 0..stream.len(), size in 1..300_usize)| {
            let (head, tail) = stream.as_bytes().split_at(at);
            prop_assert_eq!(&decode(wire, head.chunks(size).chain([tail])), &whole);
        });
    }
}

/// However early the bytes end, there is one last event; if it is no answer then it tells of a cut,
/// and every call that is in it is one of the whole answer.
#[track_caller]
pub(in crate::wire) fn check_cuts(wire: Wire, stream: &str) {
    let whole = answer(wire, stream).0.message;
    for end in 0..stream.len() {
        let mut events = decode(wire, [&stream.as_bytes()[..end]]);
        match events.pop() {
            Some(WireEvent::Ended(answer)) => assert_eq!(answer.message, whole, "cut at {end}"),
            Some(WireEvent::Failed(WireFailure { kind, partial, .. })) => {
                assert_eq!(kind, WireFailureKind::Cut, "cut at {end}");
                let calls: Vec<_> = whole.tool_uses().collect();
                assert!(partial.tool_uses().all(|call| calls.contains(&call)), "cut at {end}: {partial:?}");
                assert!(whole.text().starts_with(&partial.text()), "cut at {end}: {partial:?}");
            }
            other => panic!("cut at {end}: {other:?}"),
        }
        deltas(events);
    }
}

/// After the last event nothing follows, whatever the bytes; and no bytes make a decoder panic.
pub(in crate::wire) fn check_noise(wire: Wire, samples: &[&'static str]) {
    for stream in samples {
        let doubled = [*stream, stream].concat();
        let last = |events: &[WireEvent]| events.iter().filter(|event| !matches!(event, WireEvent::Delta(_))).count();
        assert_eq!(last(&decode(wire, [doubled.as_bytes()])), 1, "{stream}");
    }
    proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..400))| {
        decode(wire, [&bytes[..]]);
    });
    // Noise that is more like the real thing: samples with bytes overwritten.
    let sample = prop::sample::select(samples.to_vec());
    proptest!(|(sample in sample, at in any::<prop::sample::Index>(), byte in any::<u8>())| {
        let mut bytes = sample.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        decode(wire, [&bytes[..]]);
    });
}

/// A conversation that goes on leaves what was sent before as it was. `list` names the messages of
/// the body; `mark` takes away what may move.
#[track_caller]
pub(in crate::wire) fn check_prefix(wire: Wire, model: &str, list: &str, mark: fn(&mut Value)) {
    let whole = conversation(model);
    let encode = |n: usize| {
        let mut body = wire.encode(&Request { messages: whole.messages[..n].to_vec(), ..whole.clone() });
        mark(&mut body);
        let messages = body[list].take();
        (body, messages.as_array().expect("a list").clone())
    };
    let (rest, all) = encode(whole.messages.len());
    for n in 0..whole.messages.len() {
        let (body, messages) = encode(n);
        assert_eq!(body, rest, "besides the messages");
        assert!(all.starts_with(&messages), "the first {n} messages");
    }
}

/// What the snapshots show.
pub(in crate::wire) fn pretty(body: &Value) -> String {
    serde_json::to_string_pretty(body).expect("JSON is printable")
}

/// The tests that every format has to pass: `$samples` are all its streams, `$whole` those that come to their end.
macro_rules! every_format {
    ($wire:expr, $model:expr, $samples:expr, $whole:expr) => {
        #[test]
        fn splits() {
            check_splits($wire, &$samples);
        }

        #[test]
        fn cuts() {
            for stream in $whole {
                check_cuts($wire, stream);
            }
        }

        #[test]
        fn noise() {
            check_noise($wire, &$samples);
        }

        #[test]
        fn a_conversation() {
            insta::assert_snapshot!(pretty(&$wire.encode(&conversation($model))));
        }
    };
}

pub(in crate::wire) use every_format;
