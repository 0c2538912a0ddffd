//! The scripted model as an HTTP server that speaks all four wire formats, so that tests and
//! benches take the same road as with a real provider.
//!
//! Which line of the script answers is worked out from the request alone, as everywhere
//! ([`Script::pick`]). The one thing a request does not carry is how many attempts at it have
//! failed: the server counts the failing lines that it served for an identical request, and
//! forgets the count when a line answers it.

mod anthropic;
mod append_only;
mod chat;
mod gemini;
mod read;
mod respond;
mod responses;
mod sse;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use axum::serve::ListenerExt;
use baton_core::{AgentRole, Message, Role, StopReason, ToolUse, Usage};
use baton_llm::ROLE_HEADER;
use baton_llm::script::{Ending, Failure, Line, Script};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::append_only::AppendOnly;
use self::respond::{json_response, respond};

/// The longest request body.
const BODY_BYTES_MAX: usize = 256 << 20;

const AUTH_HEADERS: [&str; 3] = ["authorization", "x-api-key", "x-goog-api-key"];
const LOGGED_HEADERS: [&str; 6] =
    ["accept", "anthropic-beta", "anthropic-version", "content-type", "user-agent", ROLE_HEADER];

const ROUTES: [&str; 9] = [
    "POST /v1/messages",
    "POST /v1/responses",
    "POST /responses",
    "POST /v1/chat/completions",
    "POST /chat/completions",
    "POST /v1beta/models/{model}:streamGenerateContent?alt=sse",
    "POST /v1beta/models/{model}:generateContent",
    "GET /v1/models",
    "GET /v1beta/models",
];

/// What to serve, and how.
#[derive(Debug)]
pub struct Options {
    /// The answers.
    pub script: Script,
    /// The port on 127.0.0.1; 0 is any that is free.
    pub port: u16,
    /// A file that gets one JSON line for every model call, before it is answered.
    pub log: Option<PathBuf>,
    /// Refuse a request that does not extend the one before it in its conversation.
    pub append_only: bool,
}

/// A server that has its port.
#[derive(Debug)]
pub struct ModelServer {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    started: Instant,
    hasher: RandomState,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    /// How many failing lines were served, by hash of the request.
    failures: HashMap<u64, u32>,
    append_only: Option<AppendOnly>,
    log: Option<File>,
}

/// A wire format, from the server's side.
trait Format: Sync {
    /// The field of the body that holds the conversation.
    fn history(&self) -> &'static str;
    /// The conversation without system messages and pictures. `Err` says what is wrong with the body.
    fn messages(&self, body: &Value) -> Result<Vec<Message>, String>;
    /// The server-sent events of a reply, up to where it breaks off.
    fn stream(&self, reply: &Reply<'_>) -> String;
    /// A reply as one object.
    fn whole(&self, reply: &Reply<'_>) -> Value;
    /// The body of an error.
    fn error(&self, status: u16, message: &str) -> Value;
}

/// What a line says to one request.
struct Reply<'a> {
    request: &'a Value,
    line: &'a Line,
    /// The number of answers before this one; makes ids unique in a conversation.
    position: usize,
    message: Message,
    usage: Usage,
}

/// What a request is about.
enum Route {
    /// The models on offer.
    Models(Value),
    /// The model is asked.
    Ask {
        format: &'static dyn Format,
        /// Whether the path says that the answer is streamed; elsewhere the body says it.
        streams: Option<bool>,
    },
}

/// A line of the log.
#[derive(Serialize)]
struct Record<'a> {
    /// Since the server started.
    at_ms: u128,
    method: &'a str,
    path: &'a str,
    headers: HashMap<&'a str, &'a str>,
    /// The header that carries the key. Its value is never logged.
    auth: Option<&'a str>,
    body: Option<&'a Value>,
    /// The script's line that answers.
    line: Option<usize>,
    /// Why none does.
    error: Option<&'a str>,
}

impl ModelServer {
    /// Opens the log and takes the port.
    pub async fn bind(options: Options) -> io::Result<Self> {
        let log = options.log.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let append_only = options.append_only.then(AppendOnly::default);
        let memory = Mutex::new(Memory { failures: HashMap::new(), append_only, log });
        let shared = Shared { script: options.script, started: Instant::now(), hasher: RandomState::new(), memory };
        Ok(Self { listener, address, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown`; does not wait for answers that are still delayed.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        // An answer may leave in several writes: none should wait for the client to acknowledge the one before.
        // A socket that refuses the option is only slower.
        let listener = self.listener.tap_io(|socket| drop(socket.set_nodelay(true)));
        let router =
            Router::new().fallback(handle).layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(self.shared);
        tokio::select! {
            result = axum::serve(listener, router) => result,
            () = shutdown => Ok(()),
        }
    }
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    let (format, streams) = match route(&method, &uri) {
        Some(Route::Ask { format, streams }) => (format, streams),
        Some(Route::Models(models)) => return json_response(StatusCode::OK, &models),
        None => {
            let message = format!("this server has no {method} {uri}");
            return json_response(StatusCode::NOT_FOUND, &json!({"error": {"message": message, "routes": ROUTES}}));
        }
    };
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let role = header(ROLE_HEADER).map_or_else(AgentRole::default, AgentRole::new);
    let body: Result<Value, _> = serde_json::from_slice(&bytes);
    let reply = match &body {
        Ok(body) => shared.reply(format, &role, body, bytes.len()),
        Err(error) => Err(format!("the body is not JSON: {error}")),
    };
    let logged = shared.log(&Record {
        at_ms: shared.started.elapsed().as_millis(),
        method: method.as_str(),
        path: uri.path(),
        headers: LOGGED_HEADERS.into_iter().filter_map(|name| Some((name, header(name)?))).collect(),
        auth: AUTH_HEADERS.into_iter().find(|name| headers.contains_key(*name)),
        body: body.as_ref().ok(),
        line: reply.as_ref().ok().map(|reply| reply.line.number),
        error: reply.as_ref().err().map(String::as_str),
    });
    match (logged, reply) {
        (Err(error), _) => json_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format.error(500, &format!("cannot write the log: {error}")),
        ),
        // A request that cannot be answered will not get better: no client should try again.
        (Ok(()), Err(problem)) => json_response(StatusCode::BAD_REQUEST, &format.error(400, &problem)),
        (Ok(()), Ok(reply)) => {
            // Even a sleep of nothing may last until the timer's next millisecond.
            if !reply.line.delay.is_zero() {
                tokio::time::sleep(reply.line.delay).await;
            }
            let streams = streams.unwrap_or_else(|| reply.request["stream"] == true);
            respond(format, &reply, streams)
        }
    }
}

fn route(method: &Method, uri: &Uri) -> Option<Route> {
    let ask = |format, streams| Some(Route::Ask { format, streams });
    match (method.as_str(), uri.path()) {
        ("GET", "/v1/models") => {
            let model = json!({"id": "script", "object": "model", "type": "model", "display_name": "script"});
            Some(Route::Models(json!({"object": "list", "data": [model], "has_more": false})))
        }
        ("GET", "/v1beta/models") => {
            let methods = ["generateContent", "streamGenerateContent"];
            let model = json!({"name": "models/script", "supportedGenerationMethods": methods});
            Some(Route::Models(json!({"models": [model]})))
        }
        ("POST", "/v1/messages") => ask(&anthropic::Anthropic, None),
        ("POST", "/v1/responses" | "/responses") => ask(&responses::Responses, None),
        ("POST", "/v1/chat/completions" | "/chat/completions") => ask(&chat::Chat, None),
        ("POST", path) => {
            let (_model, verb) = path.strip_prefix("/v1beta/models/")?.split_once(':')?;
            let is_sse = uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "alt=sse"));
            match verb {
                "generateContent" => ask(&gemini::Gemini, Some(false)),
                "streamGenerateContent" if is_sse => ask(&gemini::Gemini, Some(true)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Shared {
    /// Decides what answers this request.
    fn reply<'a>(
        &'a self,
        format: &dyn Format,
        role: &AgentRole,
        request: &'a Value,
        prompt_bytes: usize,
    ) -> Result<Reply<'a>, String> {
        let messages = format.messages(request)?;
        let mut memory = self.memory();
        if let Some(append_only) = &mut memory.append_only {
            append_only.check(role, format.history(), &messages, request)?;
        }
        let key = self.hasher.hash_one((role, request));
        let failures = memory.failures.get(&key).copied().unwrap_or(0);
        let line = self.script.pick(role, &messages, failures).map_err(|error| error.to_string())?;
        if line.fails() {
            memory.failures.insert(key, failures + 1);
        } else {
            memory.failures.remove(&key);
        }
        Ok(Reply::new(request, line, &messages, prompt_bytes))
    }

    fn log(&self, record: &Record<'_>) -> io::Result<()> {
        match &mut self.memory().log {
            // One write for each line, so that lines stay whole whoever else writes to the file.
            Some(file) => file.write_all(format!("{}\n", serde_json::to_string(record)?).as_bytes()),
            None => Ok(()),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Reply<'a> {
    fn new(request: &'a Value, line: &'a Line, messages: &[Message], prompt_bytes: usize) -> Self {
        Self {
            request,
            line,
            position: messages.iter().filter(|message| message.role == Role::Assistant).count(),
            message: line.message(messages),
            usage: line.usage(prompt_bytes),
        }
    }

    /// The model that was asked for; Gemini has it in the path.
    fn model(&self) -> &str {
        self.request["model"].as_str().unwrap_or("script")
    }

    /// Why it stops, where it does.
    fn stop(&self) -> StopReason {
        match self.line.ending {
            Ending::Complete(stop) => stop,
            Ending::Cut | Ending::Failed(_) => StopReason::EndTurn,
        }
    }
}

/// The argument text of a call, as the model wrote it.
fn arguments(call: &ToolUse) -> String {
    call.malformed.clone().unwrap_or_else(|| call.input.to_string())
}

/// The provider's words in a failure.
fn failure_message(failure: &Failure) -> String {
    failure.body_text().unwrap_or_else(|| format!("the script fails with status {}", failure.status))
}
