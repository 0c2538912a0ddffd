//! Long answers as the four formats stream them: half of it text, half of it the input of a call.

use baton_llm::wire::Wire;
use serde_json::{Value, json};

/// A response, and what is in it.
pub struct Stream {
    pub bytes: Vec<u8>,
    pub lines: usize,
    pub events: usize,
    /// What a decoder tells of it: every piece of text, and that there is a call.
    pub deltas: usize,
}

/// Pieces as models send them: a few tokens each, with what JSON has to escape.
const PIECES: [&str; 6] = [
    "The function ",
    "`parse_line` returns ",
    "an \"Option\"; its caller\n",
    "ignores `None`, — so ",
    "the last line\tis lost. ",
    "C:\\temp\\日本語 ",
];

/// An answer of about this many bytes.
pub fn stream(wire: Wire, bytes: usize) -> Stream {
    let mut stream = Stream { bytes: Vec::with_capacity(bytes + 4096), lines: 0, events: 0, deltas: 0 };
    stream.extend(head(wire));
    let mut pieces = PIECES.iter().cycle();
    while stream.bytes.len() < bytes / 2 {
        stream.push(&text(wire, pieces.next().unwrap()));
        stream.deltas += 1;
    }
    stream.extend(call(wire));
    stream.deltas += 1;
    if wire == Wire::Gemini {
        // It sends the whole input at once.
        let input = PIECES.concat().repeat(bytes / 2 / PIECES.concat().len());
        let call = json!({"functionCall": {"name": "write", "args": {"path": "a", "content": input}}});
        stream.push(&json!({"candidates": [{"content": {"role": "model", "parts": [call]}}]}));
    } else {
        stream.push(&input(wire, r#"{"path":"a","content":""#));
        while stream.bytes.len() < bytes {
            let piece = Value::from(*pieces.next().unwrap()).to_string();
            stream.push(&input(wire, piece.trim_matches('"')));
        }
        stream.push(&input(wire, "\"}"));
    }
    stream.extend(tail(wire));
    stream
}

impl Stream {
    fn extend(&mut self, events: Vec<Value>) {
        for event in events {
            self.push(&event);
        }
    }

    fn push(&mut self, event: &Value) {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n"));
        let text = format!("{}data: {event}\n\n", name.as_deref().unwrap_or_default());
        self.lines += 2 + usize::from(name.is_some());
        self.events += 1;
        self.bytes.extend(text.into_bytes());
    }
}

fn chunk(delta: &Value, finish: &Value) -> Value {
    json!({"id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG", "object": "chat.completion.chunk", "created": 1_741_570_283,
        "model": "gpt-5-mini", "service_tier": "default", "system_fingerprint": "fp_44709d6fcb",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]})
}

fn head(wire: Wire) -> Vec<Value> {
    match wire {
        Wire::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ],
        Wire::Responses => vec![
            json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1"}}),
            json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {"id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}}),
        ],
        Wire::Chat => vec![chunk(&json!({"role": "assistant", "content": "", "refusal": null}), &Value::Null)],
        Wire::Gemini => Vec::new(),
    }
}

fn text(wire: Wire, piece: &str) -> Value {
    match wire {
        Wire::Anthropic => {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
        }
        Wire::Responses => {
            json!({"type": "response.output_text.delta", "sequence_number": 7, "item_id": "msg_67c9fdcf37fc8190ba82116e33fb28c5",
                "output_index": 0, "content_index": 0, "delta": piece, "logprobs": []})
        }
        Wire::Chat => chunk(&json!({"content": piece}), &Value::Null),
        Wire::Gemini => json!({"candidates": [{"content": {"parts": [{"text": piece}], "role": "model"}, "index": 0}],
            "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 73, "totalTokenCount": 84},
            "modelVersion": "gemini-2.5-flash", "responseId": "mAitaLmkHPPlz7IPvtfUqQ4"}),
    }
}

fn call(wire: Wire) -> Vec<Value> {
    match wire {
        Wire::Anthropic => vec![
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}}),
        ],
        Wire::Responses => vec![
            json!({"type": "response.output_item.added", "sequence_number": 8, "output_index": 1, "item": {"id": "fc_1", "type": "function_call", "status": "in_progress", "arguments": "", "call_id": "call_1", "name": "write"}}),
        ],
        Wire::Chat => vec![chunk(
            &json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "write", "arguments": ""}}]}),
            &Value::Null,
        )],
        Wire::Gemini => Vec::new(),
    }
}

fn input(wire: Wire, piece: &str) -> Value {
    match wire {
        Wire::Anthropic => {
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": piece}})
        }
        Wire::Responses => {
            json!({"type": "response.function_call_arguments.delta", "sequence_number": 9,
                "item_id": "fc_67ca09c6bedc8190a7abfec07b1a1332", "output_index": 1, "delta": piece})
        }
        Wire::Chat => chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}), &Value::Null),
        Wire::Gemini => Value::Null,
    }
}

fn tail(wire: Wire) -> Vec<Value> {
    match wire {
        Wire::Anthropic => vec![
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ],
        Wire::Responses => vec![
            json!({"type": "response.completed", "sequence_number": 10, "response": {"id": "resp_1", "status": "completed", "output": [], "usage": {"input_tokens": 9, "output_tokens": 9}}}),
        ],
        Wire::Chat => vec![chunk(&json!({}), &json!("tool_calls"))],
        Wire::Gemini => {
            vec![json!({"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}]})]
        }
    }
}
