//! Anthropic Messages.

use std::borrow::Cow;

use baton_core::{
    Block, CallId, Foreign, Image, Message, Role, Signature, StopReason, Tokens, ToolResult, ToolSpec, ToolUse, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::assemble::{self, Assembly, End, Format};
use crate::request::{Effort, Request, Search, Source};

#[cfg(test)]
mod tests;

const WIRE: &str = "anthropic";
/// Reasoning that the provider hides: the token is its encrypted form.
const WIRE_REDACTED: &str = "anthropic-redacted";

/// The first version of Claude that decides by itself how long to think.
const ADAPTIVE_SINCE: (u64, u64) = (4, 6);
const BUDGET_MIN: u64 = 1024;

/// The most searches of the web in one answer.
const SEARCHES_MAX: u32 = 8;
/// Citations are a block of their own here, with a key of its own, behind the text that they belong to.
const CITATIONS: u64 = 1 << 32;

/// The path below the base URL.
pub(super) fn path() -> String {
    "/v1/messages".to_owned()
}

/// The body of a request.
pub(super) fn encode(request: &Request) -> Body<'_> {
    let mut messages: Vec<Said<'_>> = request.messages.iter().filter_map(message).collect();
    // The previous request ended at the user message before the last. Its mark stays, because the
    // provider looks for a cached prefix only some 20 blocks back from each mark.
    for message in messages.iter_mut().filter(|message| message.role == Role::User).rev().take(2) {
        mark(message.content.last_mut());
    }
    let mut system: Vec<Part<'_>> = Vec::new();
    if !request.system.is_empty() {
        system.push(What::Text { text: &request.system }.into());
        mark(system.last_mut());
    }
    let search = request
        .web_search
        .then(|| json!({"type": "web_search_20250305", "name": "web_search", "max_uses": SEARCHES_MAX}));
    let tools = request.tools.iter().map(Part::tool);
    let mut tools: Vec<Part<'_>> = tools.chain(search.map(|search| What::Raw(Cow::Owned(search)).into())).collect();
    mark(tools.last_mut());
    let (output_config, thinking) = request.effort.map(|effort| think(effort, request)).unwrap_or_default();
    let (model, max_tokens) = (request.model.as_str(), request.output_max);
    Body { model, max_tokens, stream: true, messages, system, tools, output_config, thinking }
}

/// A body. It is written as it stands: a tree of values would be made anew of the whole history with each request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: Tokens,
    stream: bool,
    messages: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
}

#[derive(Serialize)]
struct Said<'a> {
    role: Role,
    content: Vec<Part<'a>>,
}

/// A block, or a tool.
#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    what: What<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum What<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: &'a Value,
    },
    ToolResult {
        tool_use_id: String,
        content: Answered<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: Picture<'a>,
    },
    #[serde(untagged)]
    Tool {
        name: &'a str,
        description: &'a str,
        input_schema: &'a Value,
    },
    /// As the provider has sent it, or takes it.
    #[serde(untagged)]
    Raw(Cow<'a, Value>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answered<'a> {
    Text(&'a str),
    Blocks(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "base64")]
struct Picture<'a> {
    media_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
struct CacheControl {}

impl<'a> From<What<'a>> for Part<'a> {
    fn from(what: What<'a>) -> Self {
        Self { what, citations: None, cache_control: None }
    }
}

impl<'a> Part<'a> {
    fn tool(ToolSpec { name, description, input_schema, .. }: &'a ToolSpec) -> Self {
        What::Tool { name, description, input_schema }.into()
    }

    fn is_reasoning(&self) -> bool {
        matches!(self.what, What::Thinking { .. } | What::RedactedThinking { .. })
    }
}

/// Marks the end of a prefix that is worth caching. A request may have four marks.
fn mark(last: Option<&mut Part<'_>>) {
    if let Some(last) = last {
        last.cache_control = Some(CacheControl {});
    }
}

/// Newer models decide by themselves how long to think and take an effort; for older models, and for
/// other makers' models behind this format, a budget is set.
fn think(effort: Effort, request: &Request) -> (Option<Value>, Option<Value>) {
    if is_adaptive(&request.model) {
        let level = if effort == Effort::Minimal { "low" } else { effort.name() };
        let thinking = json!({"type": "adaptive", "display": "summarized"});
        return (Some(json!({"effort": level})), (effort != Effort::Minimal).then_some(thinking));
    }
    let wanted = match effort {
        Effort::Minimal => 0,
        Effort::Low => 4_000,
        Effort::Medium => 10_000,
        Effort::High => 32_000,
        Effort::Max => u64::MAX,
    };
    // The budget is part of the output: a quarter is left for the answer itself.
    let budget = wanted.min(request.output_max - request.output_max / 4);
    (None, (budget >= BUDGET_MIN).then(|| json!({"type": "enabled", "budget_tokens": budget})))
}

/// Whether a model takes an effort: any Claude but the old ones. Where it is hosted changes what
/// stands around its name (`us.anthropic.claude-opus-4-1-20250805-v1:0`, `claude-sonnet-4@20250514`),
/// and its generation decides whether the version comes before or after the family.
fn is_adaptive(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let Some((_, name)) = model.split_once("claude") else { return false };
    // Longer numbers are dates.
    let number = |word: &str| word.parse().ok().filter(|_| word.len() <= 2);
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let Some(major) = words.find_map(number) else { return true };
    let minor = words.next().and_then(number).unwrap_or(0);
    (major, minor) >= ADAPTIVE_SINCE
}

/// A message; consecutive ones of one role are joined by the provider itself. Some messages come to
/// nothing, and the provider takes no empty ones.
fn message(message: &Message) -> Option<Said<'_>> {
    let mut content: Vec<Part<'_>> = Vec::new();
    for block in &message.content {
        match (citations(block), content.last_mut()) {
            (Some(citations), Some(text)) => text.citations = Some(citations),
            (Some(_), None) => {}
            (None, _) => content.extend(part(block)),
        }
    }
    match message.role {
        Role::User => content.sort_by_key(|part| !matches!(part.what, What::ToolResult { .. })),
        // An answer that was cut off while thinking: reasoning must not come last.
        Role::Assistant => while content.pop_if(|part| part.is_reasoning()).is_some() {},
    }
    (!content.is_empty()).then_some(Said { role: message.role, content })
}

/// The citations that belong to the text before, if a block is that.
fn citations(block: &Block) -> Option<&Value> {
    let Block::Foreign(Foreign { wire, raw }) = block else { return None };
    raw.get("citations").filter(|_| wire == WIRE && raw.get("type").is_none())
}

fn part(block: &Block) -> Option<Part<'_>> {
    let what = match block {
        Block::Text { text } if text.trim().is_empty() => return None,
        Block::Text { text } => What::Text { text },
        Block::Thinking { text, signature: Some(Signature { wire, token }) } => match wire.as_str() {
            WIRE => What::Thinking { thinking: text, signature: token },
            WIRE_REDACTED => What::RedactedThinking { data: token },
            _ => return None,
        },
        Block::ToolUse(ToolUse { id, tool, input, .. }) => What::ToolUse { id: portable(id), name: tool, input },
        Block::ToolResult(result) => tool_result(result),
        Block::Image(picture) => image(picture),
        Block::Foreign(Foreign { wire, raw }) if wire == WIRE && raw.is_object() => What::Raw(Cow::Borrowed(raw)),
        Block::Thinking { signature: None, .. } | Block::Foreign(_) => return None,
    };
    Some(what.into())
}

fn tool_result(ToolResult { id, text, images, is_error }: &ToolResult) -> What<'_> {
    let content = if images.is_empty() {
        Answered::Text(text)
    } else {
        let text = Some(What::Text { text }).filter(|_| !text.trim().is_empty());
        Answered::Blocks(text.into_iter().chain(images.iter().map(image)).map(Part::from).collect())
    };
    What::ToolResult { tool_use_id: portable(id), content, is_error: *is_error }
}

fn image(Image { media_type, data, .. }: &Image) -> What<'_> {
    What::Image { source: Picture { media_type, data } }
}

/// Ids of other providers may have characters that this one refuses.
fn portable(id: &CallId) -> String {
    id.as_str().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// A decoder. The answer is whole only with `message_stop`: a stop reason without it is a cut stream.
pub(super) type Decoder = assemble::Decoder<Anthropic>;

impl Decoder {
    /// A decoder for one response.
    pub(super) fn new() -> Self {
        Self::of(Anthropic {
            stop: StopReason::EndTurn,
            usage: Usage::default(),
            step: None,
            query: None,
            citations: Vec::new(),
        })
    }
}

/// The state of one response.
pub(super) struct Anthropic {
    stop: StopReason,
    usage: Usage,
    /// What the provider does by itself just now, and its input so far.
    step: Option<(u64, Value, String)>,
    /// What it searched for last.
    query: Option<String>,
    /// The citations of the text that is being written.
    citations: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Value,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Change,
        #[serde(default)]
        usage: Value,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockStart {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    ServerToolUse,
    WebSearchToolResult,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    CitationsDelta {
        citation: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Change {
    stop_reason: Option<String>,
}

impl Format for Anthropic {
    type Key = u64;

    fn event(&mut self, data: &str, answer: &mut Assembly<u64>) -> serde_json::Result<Option<End>> {
        match serde_json::from_str(data)? {
            Event::MessageStart { message } => self.count(&message.usage),
            Event::ContentBlockStart { index, content_block } => match BlockStart::deserialize(&content_block)? {
                BlockStart::Text { text } => answer.text(index, &text),
                BlockStart::Thinking { thinking } => answer.thinking(index, &thinking),
                BlockStart::RedactedThinking { data } => answer.sign(index, WIRE_REDACTED, data),
                BlockStart::ToolUse { id, name } => answer.call(index, CallId::new(id), name),
                BlockStart::ServerToolUse => self.step = Some((index, content_block, String::new())),
                BlockStart::WebSearchToolResult => {
                    answer.searched(search(self.query.take(), &content_block["content"]));
                    answer.foreign(index, WIRE, content_block);
                }
                BlockStart::Other => {}
            },
            Event::ContentBlockDelta { index, delta } => match delta {
                BlockDelta::TextDelta { text } => answer.text(index, &text),
                BlockDelta::ThinkingDelta { thinking } => answer.thinking(index, &thinking),
                BlockDelta::SignatureDelta { signature } => answer.sign(index, WIRE, signature),
                BlockDelta::InputJsonDelta { partial_json } => match &mut self.step {
                    Some((step, _, input)) if *step == index => {
                        input.push_str(&partial_json);
                        answer.weigh(partial_json.len());
                    }
                    _ => answer.arguments(index, &partial_json),
                },
                BlockDelta::CitationsDelta { citation } => {
                    answer.weigh(citation.to_string().len());
                    self.citations.push(citation);
                }
                BlockDelta::Other => {}
            },
            Event::ContentBlockStop { index } => {
                answer.close(index);
                self.end_step(index, answer);
                if !self.citations.is_empty() {
                    let citations = std::mem::take(&mut self.citations);
                    let key = CITATIONS.saturating_add(index);
                    answer.foreign(key, WIRE, json!({"citations": citations}));
                    answer.close(key);
                }
            }
            Event::MessageDelta { delta, usage } => {
                self.count(&usage);
                if let Some(reason) = delta.stop_reason {
                    self.stop = stop_reason(&reason);
                }
            }
            Event::MessageStop => return Ok(Some(End::Complete(self.stop))),
            Event::Error { error } => return Ok(Some(End::problem(&error, 500))),
            Event::Other => {}
        }
        Ok(None)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

impl Anthropic {
    /// What the provider did by itself has its whole input.
    fn end_step(&mut self, index: u64, answer: &mut Assembly<u64>) {
        let Some((_, mut raw, input)) = self.step.take_if(|(step, ..)| *step == index) else { return };
        if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
            raw["input"] = input;
        }
        self.query = raw["input"]["query"].as_str().map(str::to_owned);
        answer.foreign(index, WIRE, raw);
        answer.close(index);
    }

    /// Takes running totals; what is absent has not changed.
    fn count(&mut self, counts: &Value) {
        let update = |tokens: &mut Tokens, name: &str| *tokens = counts[name].as_u64().unwrap_or(*tokens);
        update(&mut self.usage.input_tokens, "input_tokens");
        update(&mut self.usage.output_tokens, "output_tokens");
        update(&mut self.usage.cache_read_tokens, "cache_read_input_tokens");
        update(&mut self.usage.cache_write_tokens, "cache_creation_input_tokens");
    }
}

/// What a search found; instead of results there may be an error.
fn search(query: Option<String>, content: &Value) -> Search {
    let results = content.as_array().into_iter().flatten();
    let sources = results.filter_map(|result| Source::of(result, "url")).collect();
    Search { query, sources, problem: content["error_code"].as_str().map(str::to_owned) }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "pause_turn" => StopReason::Pause,
        "refusal" => StopReason::Refusal,
        // `end_turn`, `stop_sequence`, and reasons yet to come.
        _ => StopReason::EndTurn,
    }
}
