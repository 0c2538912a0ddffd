//! A model server that answers at once, and notes when requests came and answers were written.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

/// The formats that it speaks.
#[derive(Clone, Copy)]
pub enum Wire {
    Anthropic,
    Responses,
    Chat,
}

pub struct InstantModel {
    pub url: String,
    turns: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// One request of the conversation.
struct Seen {
    came: Instant,
    answered: Instant,
}

impl InstantModel {
    /// Serves `turns` shell commands, then a last word.
    pub fn start(wire: Wire, shell: (&'static str, &'static str), turns: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, wire, shell, turns, &seen));
            }
        });
        Self { url, turns, seen }
    }

    /// Milliseconds from the start to the first request, and from each answer to the next request.
    pub fn finish(self, started: Instant) -> Option<(f64, Vec<f64>)> {
        let seen = self.seen.lock().unwrap();
        if seen.len() != self.turns + 1 {
            return None;
        }
        let ms = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1000.0;
        let gaps = seen.windows(2).map(|pair| ms(pair[0].answered, pair[1].came)).collect();
        Some((ms(started, seen[0].came), gaps))
    }
}

fn serve(mut stream: TcpStream, wire: Wire, shell: (&str, &str), turns: usize, seen: &Mutex<Vec<Seen>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let came = Instant::now();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        // Requests without tools are not part of the conversation: titles, lists of models.
        let has_tools = serde_json::from_slice::<Value>(&body).is_ok_and(|body| body["tools"].is_array());
        let turn = seen.lock().unwrap().len();
        let command =
            (has_tools && turn < turns).then(|| (shell.0, json!({shell.1: format!("printf step-{turn}")}).to_string()));
        let text = answer(wire, turn, command);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", text.len());
        stream.write_all((head + &text).as_bytes()).ok()?;
        if has_tools {
            seen.lock().unwrap().push(Seen { came, answered: Instant::now() });
        }
    }
}

fn answer(wire: Wire, turn: usize, call: Option<(&str, String)>) -> String {
    let events = match wire {
        Wire::Anthropic => anthropic(turn, call),
        Wire::Responses => responses(turn, call),
        Wire::Chat => chat(turn, call),
    };
    events.iter().fold(String::new(), |text, event| {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
        text + &format!("{name}data: {event}\n\n")
    })
}

fn anthropic(turn: usize, call: Option<(&str, String)>) -> Vec<Value> {
    let (block, delta, stop) = match call {
        Some((tool, input)) => (
            json!({"type": "tool_use", "id": format!("toolu_{turn}"), "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": input}),
            "tool_use",
        ),
        None => (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": "Done."}), "end_turn"),
    };
    vec![
        json!({"type": "message_start", "message": {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn responses(turn: usize, call: Option<(&str, String)>) -> Vec<Value> {
    let item = match call {
        Some((tool, input)) => {
            json!({"type": "function_call", "id": format!("fc_{turn}"), "call_id": format!("call_{turn}"), "name": tool, "arguments": input, "status": "completed"})
        }
        None => {
            json!({"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Done.", "annotations": []}]})
        }
    };
    let usage = json!({"input_tokens": 9, "output_tokens": 9, "total_tokens": 18});
    vec![
        json!({"type": "response.created", "response": {"id": "resp"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": "resp", "output": [], "usage": usage}}),
    ]
}

fn chat(turn: usize, call: Option<(&str, String)>) -> Vec<Value> {
    let (delta, finish) = match call {
        Some((tool, input)) => {
            let call = json!({"index": 0, "id": format!("call_{turn}"), "type": "function", "function": {"name": tool, "arguments": input}});
            (json!({"role": "assistant", "tool_calls": [call]}), "tool_calls")
        }
        None => (json!({"role": "assistant", "content": "Done."}), "stop"),
    };
    let chunk = |choices: Value, usage: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage});
    vec![
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null),
        chunk(json!([]), json!({"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18})),
    ]
}
