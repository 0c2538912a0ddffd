//! Wire formats: however the bytes are cut apart the events are the same, and exactly one of them is the last.

use baton_core::{AgentRole, CallId, Message};
use baton_llm::wire::{Wire, WireEvent};
use baton_llm::{Abilities, Delta, Request};

use super::dice;

/// How often an answer is also sent back: once in so many cases, for it takes long.
const SENT_BACK_EVERY: u32 = 16;

pub(super) fn check(wire: Wire, bytes: &[u8]) {
    let mut dice = dice(bytes);
    let whole = decode(wire, [bytes]);
    let most = if dice.bool() { 16 } else { bytes.len().max(1) };
    let mut rest = bytes;
    let pieces = std::iter::from_fn(|| {
        let (piece, after) = rest.split_at(dice.usize(1..=most).min(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(decode(wire, pieces), whole, "other pieces, other events");

    let (last, deltas) = whole.split_last().expect("there is always a last event");
    let mut said = String::new();
    for event in deltas {
        match event {
            WireEvent::Delta(Delta::Text(text)) => said.push_str(text),
            WireEvent::Delta(_) => {}
            other => panic!("not the last event: {other:?}"),
        }
    }
    let message = match last {
        WireEvent::Ended(answer) => &answer.message,
        WireEvent::Failed(failure) => &failure.partial,
        WireEvent::Delta(delta) => panic!("the last event is a delta: {delta:?}"),
    };
    let texts = message.content.iter().filter_map(|block| match block {
        baton_core::Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    check_said(wire, &said, &texts.collect::<String>());
    if dice.u32(..SENT_BACK_EVERY) == 0 {
        send_back(message);
    }
}

/// What was told piece by piece is what was said in all. Texts may grow by turns, so their order is not compared.
/// OpenAI repeats a whole item at its end, which then counts, whatever the pieces were.
fn check_said(wire: Wire, pieces: &str, whole: &str) {
    let sorted = |text: &str| {
        let mut chars: Vec<char> = text.chars().collect();
        chars.sort_unstable();
        chars
    };
    assert!(wire == Wire::Responses || sorted(pieces) == sorted(whole), "{pieces:?} was told, {whole:?} was said");
}

fn decode<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<WireEvent> {
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

/// Whatever came out can be part of the next request, in every format.
fn send_back(message: &Message) {
    let request = Request {
        model: "m".to_owned(),
        system: String::new(),
        tools: Vec::new(),
        messages: vec![Message::user("Go"), message.clone(), Message::user("Go on")],
        output_max: 1_000,
        effort: None,
        web_search: true,
        abilities: Abilities { images: true, thinking: true },
        cache_key: String::new(),
        role: AgentRole::default(),
        failures: 0,
        past: baton_llm::Past::default(),
    };
    for wire in [Wire::Anthropic, Wire::Responses, Wire::Chat, Wire::Gemini] {
        assert!(wire.encode(&request).is_object());
    }
}
