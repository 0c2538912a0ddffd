//! Cutting a request down to what its model can take, for all formats alike.

use std::borrow::Cow;

use baton_core::{Block, Message, ToolResult};

use crate::request::Request;

/// What stands in the place of a picture.
const NO_PICTURE: &str = "[picture left out: this model sees none]";

/// The request as its model can take it. A model that cannot think is not told how hard to, and gets
/// no reasoning of another model back: OpenAI and Mistral refuse a request for either.
pub(super) fn fit(request: &Request) -> Cow<'_, Request> {
    let mut blocks = request.messages.iter().flat_map(|message| &message.content);
    if blocks.all(|block| takes(request, block)) && (request.abilities.thinking || request.effort.is_none()) {
        return Cow::Borrowed(request);
    }
    let messages = request.messages.iter().map(|message| {
        let content = message.content.iter().filter_map(|block| fit_block(request, block)).collect();
        Message { role: message.role, content }
    });
    Cow::Owned(Request {
        messages: messages.collect(),
        effort: request.effort.filter(|_| request.abilities.thinking),
        ..request.without_messages()
    })
}

/// Whether the model can take a block as it is.
fn takes(request: &Request, block: &Block) -> bool {
    match block {
        Block::Thinking { .. } => request.abilities.thinking,
        Block::Image(_) => request.abilities.images,
        Block::ToolResult(result) => request.abilities.images || result.images.is_empty(),
        Block::Text { .. } | Block::ToolUse(_) | Block::Foreign(_) => true,
    }
}

fn fit_block(request: &Request, block: &Block) -> Option<Block> {
    match block {
        _ if takes(request, block) => Some(block.clone()),
        Block::ToolResult(ToolResult { id, text, images, is_error }) => {
            let mut text = text.clone();
            for _ in images {
                let line_break = if text.is_empty() { "" } else { "\n" };
                text += line_break;
                text += NO_PICTURE;
            }
            Some(Block::ToolResult(ToolResult { id: id.clone(), text, images: Vec::new(), is_error: *is_error }))
        }
        Block::Image(_) => Some(Block::text(NO_PICTURE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use baton_core::{CallId, Image, Role};
    use serde_json::Value;

    use super::*;
    use crate::request::{Abilities, Effort};
    use crate::wire::Wire;
    use crate::wire::assemble::testing::{conversation, request};

    const WIRES: [(Wire, &str); 4] = [
        (Wire::Anthropic, "claude-sonnet-4-5"),
        (Wire::Responses, "gpt-5.2"),
        (Wire::Chat, "deepseek-chat"),
        (Wire::Gemini, "gemini-3-flash"),
    ];

    #[test]
    fn a_request_that_fits_is_not_touched() {
        let whole = conversation("m");
        assert!(matches!(fit(&whole), Cow::Borrowed(_)));
        let plain = Request {
            abilities: Abilities { images: false, thinking: false },
            ..request("m", vec![Message::user("Go")])
        };
        assert!(matches!(fit(&plain), Cow::Borrowed(_)));
    }

    #[test]
    fn a_model_that_sees_no_pictures_gets_a_note_for_each() {
        for (wire, model) in WIRES {
            let blind = Abilities { images: false, thinking: true };
            let body = wire.encode(&Request { abilities: blind, ..conversation(model) }).to_string();
            assert!(!body.contains("iVBORw0KGgo"), "{wire:?}: {body}");
            assert!(!body.contains("image"), "{wire:?}: {body}");
            assert!(!body.contains("Pictures of"), "{wire:?}: {body}");
            assert_eq!(body.matches(NO_PICTURE).count(), 2, "{wire:?}: {body}");
            let sees = wire.encode(&conversation(model)).to_string();
            assert_eq!(sees.matches("iVBORw0KGgo").count(), 2, "{wire:?}: {sees}");
        }
    }

    #[test]
    fn a_note_follows_the_text_of_a_result() {
        let picture = || Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
        let noted = |text: &str, images| {
            let result = ToolResult { images, ..ToolResult::error(CallId::new("c"), text) };
            let message = Message { role: Role::User, content: vec![Block::ToolResult(result)] };
            let blind = Abilities { images: false, thinking: true };
            let fitted = fit(&Request { abilities: blind, ..request("m", vec![message]) }).into_owned();
            let Block::ToolResult(result) = fitted.messages[0].content[0].clone() else { panic!("no result") };
            assert!(result.is_error && result.images.is_empty());
            result.text
        };
        assert_eq!(noted("a.png", vec![picture()]), format!("a.png\n{NO_PICTURE}"));
        assert_eq!(noted("", vec![picture(), picture()]), format!("{NO_PICTURE}\n{NO_PICTURE}"));
        assert_eq!(noted("text", vec![]), "text");
    }

    #[test]
    fn a_model_that_cannot_think_is_not_asked_to() {
        for (wire, model) in WIRES {
            let dull = Abilities { images: true, thinking: false };
            let request = Request { abilities: dull, effort: Some(Effort::High), ..conversation(model) };
            let body = wire.encode(&request);
            for field in ["thinking", "output_config", "reasoning", "include", "reasoning_effort"] {
                assert_eq!(body.get(field), None, "{wire:?}");
            }
            assert_eq!(body.pointer("/generationConfig/thinkingConfig"), None::<&Value>, "{wire:?}");
            let body = body.to_string();
            for token in ["sigA", "redactedA", "enc1", "reasoning_content", "sigG"] {
                assert!(!body.contains(token), "{wire:?} {token}: {body}");
            }
        }
    }
}
