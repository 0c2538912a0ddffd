//! Gemini `streamGenerateContent`.

use std::collections::HashMap;

use baton_core::{Block, CallId, Foreign, Image, Message, Role, Signature, StopReason, ToolSpec, ToolUse, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::assemble::{self, Assembly, End, Format, count};
use super::filled;
use crate::request::{Effort, Request, Search, Source};

#[cfg(test)]
mod tests;

/// A signature that came with the part after the reasoning, and goes back with it.
const WIRE: &str = "gemini";
/// A signature that came with an empty text of its own, which is no block.
const WIRE_ALONE: &str = "gemini-alone";

/// What the provider takes in place of the signature of a call that another model made.
const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The path below the base URL.
pub(super) fn path(model: &str) -> String {
    format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")
}

/// The body of a request.
pub(super) fn encode(request: &Request) -> Value {
    let mut names = HashMap::new();
    let mut contents = Vec::new();
    for message in &request.messages {
        names.extend(message.tool_uses().map(|call| (&call.id, call.tool.as_str())));
        let mut parts = parts(message, &names);
        let role = match message.role {
            Role::User => {
                parts.sort_by_key(|part| part.get("functionResponse").is_none());
                "user"
            }
            Role::Assistant => {
                if takes_levels(&request.model) {
                    sign_foreign_call(&mut parts);
                }
                "model"
            }
        };
        if !parts.is_empty() {
            contents.push(filled(json!({"role": role, "parts": null}), "parts", parts));
        }
    }
    let mut body = json!({"contents": null, "generationConfig": {"maxOutputTokens": request.output_max}});
    body = filled(body, "contents", contents);
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
    }
    let mut tools = Vec::new();
    if !request.tools.is_empty() {
        let functions: Vec<_> = request.tools.iter().map(function).collect();
        tools.push(filled(json!({}), "functionDeclarations", functions));
    }
    if request.web_search && (tools.is_empty() || mixes_tools(&request.model)) {
        tools.push(json!({"googleSearch": {}}));
        if !request.tools.is_empty() {
            body["toolConfig"] = json!({"includeServerSideToolInvocations": true});
        }
    }
    if !tools.is_empty() {
        body["tools"] = Value::Array(tools);
    }
    if let Some(effort) = request.effort {
        body["generationConfig"]["thinkingConfig"] = thinking(effort, &request.model);
    }
    body
}

fn function(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema})
}

/// Since Gemini 3 effort is a level, and calls must be signed.
fn takes_levels(model: &str) -> bool {
    !model.starts_with("gemini-1") && !model.starts_with("gemini-2")
}

/// Since Gemini 3 a request may have functions and a search of the web; before, the provider refuses it.
pub(super) fn mixes_tools(model: &str) -> bool {
    takes_levels(model)
}

/// Levels and budgets are chosen so that every model of their generation takes them.
fn thinking(effort: Effort, model: &str) -> Value {
    if takes_levels(model) {
        let level = match effort {
            Effort::Minimal if model.contains("flash") => "minimal",
            Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::Max => "high",
        };
        return json!({"includeThoughts": true, "thinkingLevel": level});
    }
    let budget = match effort {
        Effort::Minimal => 512,
        Effort::Low => 4096,
        Effort::Medium => 8192,
        Effort::High | Effort::Max => 24_576,
    };
    json!({"includeThoughts": true, "thinkingBudget": budget})
}

/// The first call of an answer carries the signature of all its calls; one that Gemini did not make
/// has none, and would be refused.
fn sign_foreign_call(parts: &mut [Value]) {
    if let Some(call) = parts.iter_mut().find(|part| part.get("functionCall").is_some())
        && call.get("thoughtSignature").is_none()
    {
        call["thoughtSignature"] = json!(FOREIGN_SIGNATURE);
    }
}

fn parts(message: &Message, names: &HashMap<&CallId, &str>) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut pending = None;
    for block in &message.content {
        let mut part = match block {
            Block::Text { text } if text.is_empty() => continue,
            Block::Text { text } => json!({"text": text}),
            Block::Thinking { signature: Some(Signature { wire, token }), .. } if wire == WIRE => {
                pending = Some(token);
                continue;
            }
            Block::Thinking { signature: Some(Signature { wire, token }), .. } if wire == WIRE_ALONE => {
                json!({"text": "", "thoughtSignature": token})
            }
            Block::ToolUse(ToolUse { id, tool, input, .. }) => {
                json!({"functionCall": {"id": id, "name": tool, "args": input}})
            }
            Block::ToolResult(result) => {
                let name = names.get(&result.id).copied().unwrap_or("unknown");
                let field = if result.is_error { "error" } else { "output" };
                parts.extend(result.images.iter().map(image));
                json!({"functionResponse": {"id": result.id, "name": name, "response": {field: result.text}}})
            }
            Block::Image(picture) => image(picture),
            Block::Foreign(Foreign { wire, raw }) if wire == WIRE => {
                parts.push(raw.clone());
                continue;
            }
            Block::Thinking { .. } | Block::Foreign(_) => continue,
        };
        if let Some(token) = pending.take() {
            part["thoughtSignature"] = json!(token);
        }
        parts.push(part);
    }
    parts
}

fn image(image: &Image) -> Value {
    json!({"inlineData": {"mimeType": image.media_type, "data": image.data}})
}

/// A decoder. The answer is whole when a finish reason came and then the end.
pub(super) type Decoder = assemble::Decoder<Gemini>;

impl Decoder {
    /// A decoder for one response; `call_ids` names the calls that come without an id.
    pub(super) fn new(call_ids: Box<dyn FnMut() -> CallId + Send>) -> Self {
        Self::of(Gemini {
            call_ids,
            current: None,
            blocks: 0,
            stop: None,
            usage: Usage::default(),
            told: Search::default(),
        })
    }
}

/// The state of one response.
pub(super) struct Gemini {
    call_ids: Box<dyn FnMut() -> CallId + Send>,
    /// What the newest block is, if more of it may come. The format numbers no blocks: parts of one
    /// kind in a row are one block.
    current: Option<Kind>,
    blocks: u64,
    stop: Option<StopReason>,
    usage: Usage,
    /// What was told of searches last: chunks repeat it.
    told: Search,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Thinking,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    grounding_metadata: Option<Value>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: String,
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

impl Format for Gemini {
    type Key = u64;

    fn event(&mut self, data: &str, answer: &mut Assembly<u64>) -> serde_json::Result<Option<End>> {
        let chunk: Chunk = serde_json::from_str(data)?;
        if let Some(counts) = chunk.usage_metadata {
            self.usage = usage(&counts);
        }
        if let Some(error) = chunk.error {
            return Ok(Some(End::problem(&error, 500)));
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            let key = self.key(None);
            answer.text(key, &format!("The provider blocked the prompt: {reason}"));
            self.stop = Some(StopReason::Refusal);
        }
        let Some(candidate) = chunk.candidates.into_iter().flatten().next() else { return Ok(None) };
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            // What the provider did by itself goes back as it came, its signature included.
            if part.get("toolCall").is_some() || part.get("toolResponse").is_some() {
                let key = self.key(None);
                answer.foreign(key, WIRE, part);
                answer.close(key);
            } else {
                self.part(Part::deserialize(part)?, answer);
            }
        }
        if let Some(grounding) = candidate.grounding_metadata {
            self.searched(&grounding, answer);
        }
        let Some(reason) = candidate.finish_reason else { return Ok(None) };
        self.stop = Some(match reason.as_str() {
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => {
                self.malformed_call(&reason, &candidate.finish_message.unwrap_or_default(), answer);
                StopReason::ToolUse
            }
            // Filters of many names (`SAFETY`, `RECITATION`...), and `OTHER`: something cut it off.
            _ => StopReason::Refusal,
        });
        Ok(None)
    }

    fn eof(&self) -> Option<End> {
        self.stop.map(End::Complete)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

impl Gemini {
    fn searched(&mut self, grounding: &Value, answer: &mut Assembly<u64>) {
        let list = |field: &str| grounding[field].as_array().cloned().unwrap_or_default();
        let queries: Vec<_> =
            list("webSearchQueries").iter().filter_map(|query| query.as_str().map(str::to_owned)).collect();
        let sources = list("groundingChunks").iter().filter_map(|chunk| Source::of(&chunk["web"], "uri")).collect();
        let query = (!queries.is_empty()).then(|| queries.join(", "));
        let search = Search { query, sources, problem: None };
        if search != self.told && search != Search::default() {
            answer.searched(search.clone());
            self.told = search;
        }
    }

    fn part(&mut self, part: Part, answer: &mut Assembly<u64>) {
        let text = part.text.unwrap_or_default();
        let signed = part.thought_signature.is_some();
        if part.thought {
            let key = self.key(Some(Kind::Thinking));
            answer.thinking(key, &text);
        }
        if let Some(signature) = part.thought_signature {
            let alone = text.is_empty() && part.function_call.is_none();
            let key = self.key(Some(Kind::Thinking));
            answer.sign(key, if alone { WIRE_ALONE } else { WIRE }, signature);
            self.current = None;
        }
        if !part.thought && !text.is_empty() {
            // Signed text is a block of its own: the signature must find its very part again.
            let key = self.key((!signed).then_some(Kind::Text));
            answer.text(key, &text);
        }
        if let Some(FunctionCall { id, name, args }) = part.function_call {
            let key = self.key(None);
            let id = answer.usable_id(id.as_deref()).unwrap_or_else(&mut self.call_ids);
            answer.call(key, id, name);
            answer.arguments(key, &args.map(|args| args.to_string()).unwrap_or_default());
            answer.close(key);
        }
    }

    /// Gemini swallows a call it could not parse and only tells of it. It becomes a malformed call
    /// nevertheless, so that the model hears what was wrong in the way it hears of every other.
    fn malformed_call(&mut self, reason: &str, told: &str, answer: &mut Assembly<u64>) {
        let key = self.key(None);
        answer.call(key, (self.call_ids)(), tool_in(told).unwrap_or("malformed_call"));
        answer.arguments(key, &format!("{reason}: {told}"));
        answer.close(key);
    }

    /// The key of the block that a part belongs to: the newest one if it is of the same kind, or a
    /// new one. `None` begins one that will not go on.
    fn key(&mut self, kind: Option<Kind>) -> u64 {
        if kind.is_none() || self.current != kind {
            self.blocks += 1;
        }
        self.current = kind;
        self.blocks
    }
}

/// The tool in a message like `Malformed function call: print(default_api.bash(...`.
fn tool_in(told: &str) -> Option<&str> {
    let (_, rest) = told.split_once("default_api.")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn usage(usage: &Value) -> Usage {
    let cached = count(usage, "/cachedContentTokenCount");
    let thoughts = count(usage, "/thoughtsTokenCount");
    Usage {
        input_tokens: count(usage, "/promptTokenCount").saturating_sub(cached),
        output_tokens: count(usage, "/candidatesTokenCount").saturating_add(thoughts),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        reasoning_tokens: thoughts,
    }
}
