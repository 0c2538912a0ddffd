//! OpenAI Responses, without server-side state: reasoning travels encrypted in the history.

use baton_core::{
    Block, CallId, Foreign, Image, Message, Role, Signature, StopReason, ToolResult, ToolSpec, ToolUse, Usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::assemble::{self, Assembly, End, Format, count};
use super::filled;
use crate::request::{Effort, Request, Search, Source};

#[cfg(test)]
mod tests;

/// The token of a signature of this format is the whole reasoning item, as JSON.
const WIRE: &str = "responses";

/// The status of an error whose code is not known: most codes tell what is wrong with the request
/// (a dozen with pictures alone), and sending that again would only cost time.
const UNKNOWN: u16 = 400;

/// The path below the base URL.
pub(super) fn path() -> String {
    "/responses".to_owned()
}

/// The body of a request.
pub(super) fn encode(request: &Request) -> Value {
    let mut body = json!({
        "model": request.model,
        "instructions": request.system,
        "input": null,
        "store": false,
        "stream": true,
        "max_output_tokens": request.output_max,
        "prompt_cache_key": request.cache_key,
    });
    body = filled(body, "input", request.messages.iter().flat_map(items).collect());
    let search = request.web_search.then(|| json!({"type": "web_search"}));
    if !request.tools.is_empty() || search.is_some() {
        body["tools"] = request.tools.iter().map(tool).chain(search).collect();
        body["tool_choice"] = json!("auto");
        body["parallel_tool_calls"] = json!(true);
    }
    // Models that cannot think refuse to be asked for encrypted reasoning.
    let reasoning = request.abilities.thinking.then_some("reasoning.encrypted_content");
    let sources = request.web_search.then_some("web_search_call.action.sources");
    let include: Vec<_> = reasoning.into_iter().chain(sources).collect();
    if !include.is_empty() {
        body["include"] = json!(include);
    }
    if let Some(effort) = request.effort {
        body["reasoning"] = json!({"effort": effort_name(effort, &request.model), "summary": "auto"});
    }
    body
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": false,
    })
}

/// How the least effort is called depends on the model; `low` is known to all.
fn effort_name(effort: Effort, model: &str) -> &'static str {
    match effort {
        Effort::Minimal if model.contains("codex") => "low",
        Effort::Minimal if model.starts_with("gpt-5.") => "none",
        Effort::Minimal if model.starts_with("gpt-5") => "minimal",
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "xhigh",
    }
}

/// The items of a message: text and pictures that stand together are one, results of tools come first.
fn items(message: &Message) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for block in &message.content {
        match block {
            Block::Text { text } if text.is_empty() => {}
            Block::Text { text } => {
                let kind = if message.role == Role::User { "input_text" } else { "output_text" };
                say(&mut items, message.role, json!({"type": kind, "text": text}));
            }
            Block::Image(picture) => say(&mut items, message.role, image(picture)),
            Block::Thinking { signature: Some(Signature { wire, token }), .. } if wire == WIRE => {
                items.extend(serde_json::from_str::<Value>(token));
            }
            Block::ToolUse(ToolUse { id, tool, input, .. }) => items
                .push(json!({"type": "function_call", "call_id": id, "name": tool, "arguments": input.to_string()})),
            Block::ToolResult(result) => items.push(tool_result(result)),
            Block::Foreign(Foreign { wire, raw }) if wire == WIRE => items.push(raw.clone()),
            Block::Thinking { .. } | Block::Foreign(_) => {}
        }
    }
    items.sort_by_key(|item| item["type"] != "function_call_output");
    // An answer that was cut off while thinking: reasoning must not come last.
    while items.pop_if(|item| item["type"] == "reasoning").is_some() {}
    items
}

fn say(items: &mut Vec<Value>, role: Role, part: Value) {
    let last = items.last_mut().filter(|item| item["type"] == "message");
    if let Some(content) = last.and_then(|item| item["content"].as_array_mut()) {
        content.push(part);
    } else {
        items.push(filled(json!({"type": "message", "role": role, "content": null}), "content", vec![part]));
    }
}

fn tool_result(result: &ToolResult) -> Value {
    let output = if result.images.is_empty() {
        json!(result.text)
    } else {
        let text = json!({"type": "input_text", "text": result.text});
        std::iter::once(text).chain(result.images.iter().map(image)).collect()
    };
    json!({"type": "function_call_output", "call_id": result.id, "output": output})
}

fn image(image: &Image) -> Value {
    json!({"type": "input_image", "image_url": format!("data:{};base64,{}", image.media_type, image.data)})
}

/// A decoder. Blocks are the items of the output.
pub(super) type Decoder = assemble::Decoder<Responses>;

impl Decoder {
    /// A decoder for one response.
    pub(super) fn new() -> Self {
        Self::of(Responses { refused: false, usage: Usage::default() })
    }
}

/// The state of one response.
pub(super) struct Responses {
    refused: bool,
    usage: Usage,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: u64, item: Item },
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: u64, item: Item },
    #[serde(rename = "response.output_text.delta")]
    Text { output_index: u64, delta: String },
    #[serde(rename = "response.refusal.delta")]
    Refusal { output_index: u64, delta: String },
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryPart { output_index: u64, summary_index: u64 },
    #[serde(rename = "response.reasoning_summary_text.delta", alias = "response.reasoning_text.delta")]
    Thinking { output_index: u64, delta: String },
    #[serde(rename = "response.function_call_arguments.delta")]
    Arguments { output_index: u64, delta: String },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone { output_index: u64, arguments: String },
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    #[serde(rename = "response.failed")]
    Failed { response: Response },
    #[serde(rename = "error")]
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        #[serde(default)]
        content: Vec<Part>,
    },
    Reasoning {
        id: Option<String>,
        summary: Option<Vec<Value>>,
        content: Option<Vec<Value>>,
        encrypted_content: Option<String>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        #[serde(default)]
        arguments: String,
    },
    WebSearchCall,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    OutputText {
        text: String,
        #[serde(default)]
        annotations: Vec<Value>,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    usage: Value,
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

impl Format for Responses {
    type Key = u64;

    fn event(&mut self, data: &str, answer: &mut Assembly<u64>) -> serde_json::Result<Option<End>> {
        match serde_json::from_str(data)? {
            Event::ItemAdded { output_index, item } => begin(output_index, &item, answer),
            Event::ItemDone { output_index, item } => {
                begin(output_index, &item, answer);
                if matches!(item, Item::WebSearchCall) {
                    searched(output_index, data, answer)?;
                }
                self.settle(output_index, item, answer);
                answer.close(output_index);
            }
            Event::Text { output_index, delta } => answer.text(output_index, &delta),
            Event::Refusal { output_index, delta } => {
                self.refused = true;
                answer.text(output_index, &delta);
            }
            Event::SummaryPart { output_index, summary_index } if summary_index > 0 => {
                answer.thinking(output_index, "\n\n");
            }
            Event::Thinking { output_index, delta } => answer.thinking(output_index, &delta),
            Event::Arguments { output_index, delta } => answer.arguments(output_index, &delta),
            Event::ArgumentsDone { output_index, arguments } => answer.whole_arguments(output_index, &arguments),
            Event::Completed { response } => {
                self.usage = usage(&response.usage);
                let stop = if self.refused { StopReason::Refusal } else { StopReason::EndTurn };
                return Ok(Some(End::Complete(stop)));
            }
            Event::Incomplete { response } => {
                self.usage = usage(&response.usage);
                let reason = response.incomplete_details.and_then(|details| details.reason);
                let filtered = reason.as_deref() == Some("content_filter");
                let stop = if filtered { StopReason::Refusal } else { StopReason::MaxTokens };
                return Ok(Some(End::Complete(stop)));
            }
            Event::Failed { response } => {
                self.usage = usage(&response.usage);
                return Ok(Some(End::problem(&response.error, UNKNOWN)));
            }
            Event::Error => {
                // Documented flat, seen nested.
                let event: Value = serde_json::from_str(data)?;
                return Ok(Some(End::problem(event.get("error").unwrap_or(&event), UNKNOWN)));
            }
            Event::SummaryPart { .. } | Event::Other => {}
        }
        Ok(None)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

fn begin(index: u64, item: &Item, answer: &mut Assembly<u64>) {
    match item {
        Item::Message { .. } => answer.text(index, ""),
        Item::Reasoning { .. } => answer.thinking(index, ""),
        Item::FunctionCall { call_id, name, .. } => answer.call(index, CallId::new(call_id), name),
        Item::WebSearchCall | Item::Other => {}
    }
}

/// A search of the web. Without it the provider would refuse the reasoning that led to it.
fn searched(index: u64, data: &str, answer: &mut Assembly<u64>) -> serde_json::Result<()> {
    let item = serde_json::from_str::<Value>(data)?["item"].take();
    let action = &item["action"];
    let query = ["query", "url"].iter().find_map(|field| action[field].as_str()).map(str::to_owned);
    let found = action["sources"].as_array().into_iter().flatten();
    let sources = found.filter_map(|source| Source::of(source, "url")).collect();
    let problem = (item["status"] == "failed").then(|| "failed".to_owned());
    answer.searched(Search { query, sources, problem });
    answer.foreign(index, WIRE, item);
    Ok(())
}

impl Responses {
    /// The item as it is in the end has the last word.
    fn settle(&mut self, index: u64, item: Item, answer: &mut Assembly<u64>) {
        match item {
            Item::Message { content } => {
                let (mut whole, mut cited) = (String::new(), Vec::new());
                for part in &content {
                    match part {
                        Part::OutputText { text, annotations } => {
                            whole.push_str(text);
                            cited.extend(annotations.iter().filter_map(|note| Source::of(note, "url")));
                        }
                        Part::Refusal { refusal } => {
                            self.refused = true;
                            whole.push_str(refusal);
                        }
                        Part::Other => {}
                    }
                }
                answer.whole_text(index, &whole);
                if !cited.is_empty() {
                    answer.searched(Search { sources: cited, ..Search::default() });
                }
            }
            Item::Reasoning { id, summary, content, encrypted_content } => {
                let summary = summary.unwrap_or_default();
                let parts = summary.iter().chain(content.iter().flatten());
                let texts: Vec<_> = parts.filter_map(|part| part["text"].as_str()).collect();
                answer.whole_thinking(index, &texts.join("\n\n"));
                // Without it the provider would look the item up, and it was told not to store any.
                if let Some(encrypted) = encrypted_content {
                    let item =
                        json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted});
                    answer.sign(index, WIRE, item.to_string());
                }
            }
            Item::FunctionCall { arguments, .. } => answer.whole_arguments(index, &arguments),
            Item::WebSearchCall | Item::Other => {}
        }
    }
}

fn usage(usage: &Value) -> Usage {
    let cached = count(usage, "/input_tokens_details/cached_tokens");
    Usage {
        input_tokens: count(usage, "/input_tokens").saturating_sub(cached),
        output_tokens: count(usage, "/output_tokens"),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        reasoning_tokens: count(usage, "/output_tokens_details/reasoning_tokens"),
    }
}
