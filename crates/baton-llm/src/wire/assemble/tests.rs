//! Tests of what all formats share: limits, empty answers, and what a broken answer has used.

use baton_core::{StopReason, Usage};

use super::ANSWER_BYTES_MAX;
use super::testing::{answer, failure};
use crate::wire::{Wire, WireEvent, WireFailureKind};

const ANTHROPIC_TEXT: &str = include_str!("../../../tests/streams/anthropic_text.sse");
const RESPONSES_TEXT: &str = include_str!("../../../tests/streams/responses_text.sse");
const CHAT_TEXT: &str = include_str!("../../../tests/streams/chat_text.sse");
const GEMINI_TEXT: &str = include_str!("../../../tests/streams/gemini_text.sse");
const TEXTS: [(Wire, &str); 4] = [
    (Wire::Anthropic, ANTHROPIC_TEXT),
    (Wire::Responses, RESPONSES_TEXT),
    (Wire::Chat, CHAT_TEXT),
    (Wire::Gemini, GEMINI_TEXT),
];

/// The sample with another text.
fn saying(stream: &str, text: &str) -> String {
    stream.replace("Grüße, Welt 🦀!", text).replace("Grüße, ", text).replace("Welt 🦀!", text)
}

#[test]
fn an_answer_without_text_or_call_is_empty_but_not_free() {
    for (wire, stream) in TEXTS {
        for text in ["", " ", "\\n"] {
            let empty = failure(wire, &saying(stream, text));
            assert_eq!(empty.kind, WireFailureKind::Empty, "{wire:?} {text:?}");
            assert_eq!(empty.usage, answer(wire, stream).0.usage, "{wire:?}");
        }
        assert_eq!(answer(wire, &saying(stream, "x")).0.stop, StopReason::EndTurn, "{wire:?}");
    }
}

#[test]
fn thinking_alone_is_no_answer() {
    let stream = CHAT_TEXT.replace(r#""content":"#, r#""reasoning":"#);
    let empty = failure(Wire::Chat, &stream);
    assert_eq!(empty.kind, WireFailureKind::Empty);
    assert_eq!(empty.partial.content.len(), 1, "the thinking is kept: {:?}", empty.partial);
}

#[test]
fn an_answer_that_stopped_for_a_reason_may_be_empty() {
    for (wire, stream) in [
        (Wire::Anthropic, ANTHROPIC_TEXT.replace("end_turn", "refusal")),
        (Wire::Anthropic, ANTHROPIC_TEXT.replace("end_turn", "max_tokens")),
        (Wire::Anthropic, ANTHROPIC_TEXT.replace("end_turn", "pause_turn")),
        (Wire::Chat, CHAT_TEXT.replace(r#""stop""#, r#""length""#)),
        (Wire::Gemini, GEMINI_TEXT.replace("STOP", "SAFETY")),
    ] {
        let (answer, _) = answer(wire, &saying(&stream, ""));
        assert!(answer.message.content.is_empty() && answer.stop != StopReason::EndTurn, "{wire:?}: {answer:?}");
    }
}

#[test]
fn an_endless_answer_is_given_up() {
    let piece = "x".repeat(4 << 20);
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n");
    let mut decoder = Wire::Chat.decoder(Box::new(|| unreachable!("no calls")));
    let mut pushed = 0;
    let failure = loop {
        let mut out = Vec::new();
        decoder.push(event.as_bytes(), &mut out);
        pushed += piece.len();
        match out.pop() {
            Some(WireEvent::Delta(_)) => {}
            Some(WireEvent::Failed(failure)) => break failure,
            other => panic!("after {pushed} bytes: {other:?}"),
        }
    };
    assert_eq!(pushed, ANSWER_BYTES_MAX, "a block counts a little too");
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (WireFailureKind::Malformed, "the answer is larger than 64 MiB")
    );
}

#[test]
fn what_is_known_of_the_usage_is_known_at_any_time() {
    let mut decoder = Wire::Anthropic.decoder(Box::new(|| unreachable!("no calls")));
    assert_eq!(decoder.usage(), Usage::default());
    let (start, _) = ANTHROPIC_TEXT.split_once("event: content_block_start").expect("a block");
    let mut out = Vec::new();
    decoder.push(start.as_bytes(), &mut out);
    assert_eq!((decoder.usage().input_tokens, decoder.usage().cache_read_tokens), (25, 2000));
    decoder.finish(&mut out);
    let Some(WireEvent::Failed(cut)) = out.pop() else { panic!("no failure: {out:?}") };
    assert_eq!((cut.kind, cut.usage), (WireFailureKind::Cut, decoder.usage()));
    assert_eq!(cut.partial.content, []);
}
