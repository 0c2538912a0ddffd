//! Recording: every exchange with a server is written to a file by a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use baton_core::{Area, CallId, Clock, Fault, Message, Tier, Timestamp, ToolSpec};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{Entry, Header, Marks, Recorded, VERSION};
use crate::error::LlmError;
use crate::model_ref::ModelRef;
use crate::request::Request;
use crate::transport::{Body, Reply, Transport, Unsent};
use crate::wire::{Wire, WireEvent};

/// The most that is kept of one reply; no answer is that long.
const BODY_BYTES_MAX: usize = 128 << 20;
/// How many conversations are remembered, so that their requests need not be written again.
const THREADS_MAX: usize = 64;
/// How long the last lines may take.
const FINISH_MAX: Duration = Duration::from_secs(30);

/// A cassette that is being recorded. One that is empty in the end is removed.
#[derive(Debug)]
pub struct Recording {
    file: PathBuf,
    jobs: mpsc::Sender<Job>,
    written: Arc<AtomicUsize>,
}

/// Hands exchanges to the thread that writes.
#[derive(Clone)]
pub(crate) struct Recorder(mpsc::Sender<Job>);

enum Job {
    Write(Box<Exchanged>),
    Finish(oneshot::Sender<Option<String>>),
}

/// An exchange as it was.
struct Exchanged {
    at: Timestamp,
    request: Request,
    answer: Recorded,
    body: Vec<u8>,
}

impl Recording {
    /// Makes the file and writes its first line.
    pub(crate) fn create(file: &Path, model: ModelRef, wire: Wire, marks: Marks) -> Result<(Self, Recorder), LlmError> {
        let unusable = |error: io::Error| {
            let cannot = LlmError::input(format!("cannot record to {}: {error}", file.display()));
            match error.kind() {
                io::ErrorKind::AlreadyExists => cannot.hint("remove it first, or name another file"),
                _ => cannot.hint("name a file in a directory that is there and can be written to"),
            }
        };
        // A conversation is nobody else's business.
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(unusable)?;
        let header = Header { baton_cassette: VERSION, model, wire };
        let line = serde_json::to_string(&header).map_err(io::Error::other).map_err(unusable)?;
        let (jobs, todo) = mpsc::channel();
        let written = Arc::<AtomicUsize>::default();
        let recording = Self { file: file.to_owned(), jobs: jobs.clone(), written: Arc::clone(&written) };
        out.write_all(format!("{line}\n").as_bytes()).map_err(unusable)?;
        let mut writer = Writer { out, wire, marks, written, failed: None, threads: Vec::new() };
        std::thread::Builder::new().name("cassette".to_owned()).spawn(move || writer.run(&todo)).map_err(unusable)?;
        Ok((recording, Recorder(jobs)))
    }

    /// Waits until everything is written, and says if something could not be.
    pub async fn finish(self) -> Result<(), Fault> {
        let (done, finished) = oneshot::channel();
        let failed = match self.jobs.send(Job::Finish(done)) {
            Err(_) => Some("the thread that writes it is gone".to_owned()),
            Ok(()) => match tokio::time::timeout(FINISH_MAX, finished).await {
                Ok(Ok(failed)) => failed,
                Ok(Err(_)) => Some("the thread that writes it is gone".to_owned()),
                Err(_) => Some(format!("it took longer than {FINISH_MAX:?}")),
            },
        };
        let Some(why) = failed else { return Ok(()) };
        let message = format!("the recording {} is not whole: {why}", self.file.display());
        Err(Fault::new(Area::Workspace, Tier::UserFixable, message)
            .hint("make room for it, remove it and record again"))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.written.load(Ordering::Acquire) == 0 {
            // Left in place it would only stand in the way of the next recording.
            drop(std::fs::remove_file(&self.file));
        }
    }
}

/// A transport whose exchanges are recorded.
pub(crate) struct Tee<T> {
    pub(crate) inner: T,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Arc<dyn Clock>,
}

#[async_trait]
impl<T: Transport> Transport for Tee<T> {
    async fn send(&self, request: &Request) -> Result<Reply, Unsent> {
        let at = self.clock.now();
        let request_kept = request.clone();
        let exchanged = |at, answer| Exchanged { at, request: request_kept, answer, body: Vec::new() };
        let mut reply = match self.inner.send(request).await {
            Ok(reply) => reply,
            Err(Unsent::Unreachable(cause)) => {
                let answer = Recorded { unreachable: Some(cause.clone()), ..Recorded::default() };
                self.recorder.keep(exchanged(at, answer));
                return Err(Unsent::Unreachable(cause));
            }
            Err(failed) => return Err(failed),
        };
        let answer = Recorded { status: reply.status, headers: reply.headers.clone(), ..Recorded::default() };
        let calls = Arc::<Mutex<Vec<CallId>>>::default();
        let named = Arc::clone(&calls);
        let mut name = reply.call_ids;
        reply.call_ids = Box::new(move || {
            let id = name();
            named.lock().unwrap_or_else(PoisonError::into_inner).push(id.clone());
            id
        });
        let exchanged = Some(Box::new(exchanged(reply.at, answer)));
        reply.body = Box::new(TeeBody { inner: reply.body, exchanged, calls, recorder: self.recorder.clone() });
        Ok(reply)
    }
}

impl Recorder {
    fn keep(&self, exchanged: Exchanged) {
        // A thread that is gone is told of when the recording is finished.
        drop(self.0.send(Job::Write(Box::new(exchanged))));
    }
}

/// Keeps what passes, and hands it over when nobody reads any further: an answer is over before its bytes are.
struct TeeBody {
    inner: Box<dyn Body>,
    exchanged: Option<Box<Exchanged>>,
    calls: Arc<Mutex<Vec<CallId>>>,
    recorder: Recorder,
}

#[async_trait]
impl Body for TeeBody {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        let next = self.inner.next().await;
        if let Some(exchanged) = &mut self.exchanged {
            match &next {
                Ok(Some(bytes)) if exchanged.body.len() + bytes.len() > BODY_BYTES_MAX => {
                    exchanged.answer.withheld = Some(format!("it is larger than {} MiB", BODY_BYTES_MAX >> 20));
                }
                Ok(Some(bytes)) => exchanged.body.extend_from_slice(bytes),
                Ok(None) => {}
                Err(cause) => exchanged.answer.cut = Some(cause.clone()),
            }
        }
        next
    }
}

impl Drop for TeeBody {
    fn drop(&mut self) {
        if let Some(mut exchanged) = self.exchanged.take() {
            exchanged.answer.calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
            self.recorder.keep(*exchanged);
        }
    }
}

/// The thread that writes.
struct Writer {
    out: File,
    wire: Wire,
    marks: Marks,
    written: Arc<AtomicUsize>,
    failed: Option<String>,
    threads: Vec<Thread>,
}

/// A conversation as far as it is written.
struct Thread {
    exchange: usize,
    system: String,
    tools: Vec<ToolSpec>,
    messages: Vec<Message>,
}

impl Writer {
    fn run(&mut self, todo: &mpsc::Receiver<Job>) {
        for job in todo {
            match job {
                // Later exchanges refer to earlier ones, so nothing follows what could not be written.
                Job::Write(_) if self.failed.is_some() => {}
                Job::Write(exchanged) => self.failed = self.write(*exchanged).err().map(|error| error.to_string()),
                Job::Finish(done) => drop(done.send(self.failed.clone())),
            }
        }
    }

    fn write(&mut self, exchanged: Exchanged) -> io::Result<()> {
        let mut entry = self.entry(exchanged);
        let mut line = serde_json::to_string(&entry)?;
        if self.marks.has_key(&line) || self.shows_key(&entry.answer) {
            let withheld = Some("a key could be read in it".to_owned());
            entry.answer = Recorded { withheld, ..Recorded::default() };
            line = serde_json::to_string(&entry)?;
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn entry(&mut self, exchanged: Exchanged) -> Entry {
        let Exchanged { at, request, answer, body } = exchanged;
        let exchange = self.written.load(Ordering::Acquire) + 1;
        let Request { system, tools, mut messages, effort, role, .. } = request;
        let known = self
            .threads
            .iter_mut()
            .find(|thread| thread.system == system && thread.tools == tools && messages.starts_with(&thread.messages));
        let marks = &self.marks;
        let base = Entry {
            exchange,
            at,
            after: None,
            role,
            effort,
            system: None,
            tools: None,
            messages: Vec::new(),
            answer: keep(answer, body, marks),
        };
        let marked = |messages: &[Message]| messages.iter().map(|message| marks.message(message)).collect();
        if let Some(thread) = known {
            let new = messages.split_off(thread.messages.len());
            let after = std::mem::replace(&mut thread.exchange, exchange);
            let entry = Entry { after: Some(after), messages: marked(&new), ..base };
            thread.messages.extend(new);
            return entry;
        }
        let entry = Entry {
            system: Some(marks.text(&system).into_owned()),
            tools: Some(tools.iter().map(|tool| marks.tool(tool)).collect()),
            messages: marked(&messages),
            ..base
        };
        if self.threads.len() == THREADS_MAX {
            self.threads.remove(0);
        }
        self.threads.push(Thread { exchange, system, tools, messages });
        entry
    }

    /// Whether the parser would put a key together from what is about to be written.
    fn shows_key(&self, answer: &Recorded) -> bool {
        let mut decoder = self.wire.decoder(Box::new(|| CallId::new("call")));
        let mut events = Vec::new();
        match BASE64_STANDARD.decode(&answer.body_base64) {
            Ok(bytes) if !bytes.is_empty() => decoder.push(&bytes, &mut events),
            _ => decoder.push(answer.body.as_bytes(), &mut events),
        }
        decoder.finish(&mut events);
        let said = match events.pop() {
            Some(WireEvent::Ended(answer)) => answer.message,
            Some(WireEvent::Failed(failure)) => failure.partial,
            Some(WireEvent::Delta(_)) | None => decoder.partial(),
        };
        serde_json::to_string(&said).is_ok_and(|said| self.marks.has_key(&said))
    }
}

/// What came back, in the form in which it is written.
fn keep(mut answer: Recorded, body: Vec<u8>, marks: &Marks) -> Recorded {
    let mark = |text: &mut Option<String>| *text = text.take().map(|text| marks.text(&text).into_owned());
    mark(&mut answer.unreachable);
    mark(&mut answer.cut);
    for value in answer.headers.values_mut() {
        *value = marks.text(value).into_owned();
    }
    match String::from_utf8(body) {
        _ if answer.withheld.is_some() => {}
        Ok(text) => answer.body = marks.stream(&text),
        Err(other) if marks.has_key(&String::from_utf8_lossy(other.as_bytes())) => {
            answer.withheld = Some("a key could be read in it".to_owned());
        }
        Err(other) => answer.body_base64 = BASE64_STANDARD.encode(other.as_bytes()),
    }
    answer
}
