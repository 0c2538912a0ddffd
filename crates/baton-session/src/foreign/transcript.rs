//! A conversation as it is told by another agent's file: prompts, answers and results in, entries out.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton_core::{
    Block, CallId, EventBody, EventId, Image, ItemId, Message, Role, StopReason, Timestamp, ToolUse, TurnReason, Usage,
    Usd,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use super::{Converted, session_id};
use crate::blobs::Blobs;
use crate::codec::encode;
use crate::entry::{Entry, EntryBody, Header, Own, VERSION};
use crate::merge::Staged;

/// A conversation that is being told.
pub(super) struct Transcript {
    blobs: Blobs,
    staging: PathBuf,
    out: Option<BufWriter<File>>,
    staged: Option<Staged>,
    /// Names the conversation where its file does not.
    name: String,
    /// Whose conversation it is, once that is known.
    pub(super) origin: Option<String>,
    /// Where that agent worked.
    pub(super) cwd: Option<String>,
    /// The model that answers.
    pub(super) model: Option<String>,
    /// When what is told now happened.
    at: Timestamp,
    /// When the last piece of the answer was told, which is written down later.
    answer_at: Timestamp,
    /// When what was last written down happened.
    written_at: Timestamp,
    last: Option<EventId>,
    last_ulid: u128,
    /// Places that may be gone back to; nothing where an answer is not written down yet.
    marks: Vec<Option<EventId>>,
    title: Option<String>,
    answer: Vec<Block>,
    usage: Usage,
    calls: HashMap<CallId, String>,
    turn: Option<Turn>,
    turns: u64,
    skipped: BTreeMap<String, u64>,
}

/// A turn that has not ended yet.
struct Turn {
    began: Timestamp,
    steps: u32,
    usage: Usage,
    text: String,
    reason: TurnReason,
}

impl Transcript {
    pub(super) fn new(staging: &Path, blobs: Blobs, name: String) -> Self {
        Self {
            blobs,
            staging: staging.to_owned(),
            out: None,
            staged: None,
            name,
            origin: None,
            cwd: None,
            model: None,
            at: Timestamp::UNIX_EPOCH,
            answer_at: Timestamp::UNIX_EPOCH,
            written_at: Timestamp::UNIX_EPOCH,
            last: None,
            last_ulid: 0,
            marks: Vec::new(),
            title: None,
            answer: Vec::new(),
            usage: Usage::default(),
            calls: HashMap::new(),
            turn: None,
            turns: 0,
            skipped: BTreeMap::new(),
        }
    }

    /// Counts something that is left out.
    pub(super) fn skip(&mut self, what: &str) {
        // Whatever the file says is a kind: only so many are told apart.
        let what = if self.skipped.len() < 50 { what } else { "other lines" };
        let short = &what[..what.floor_char_boundary(60)];
        *self.skipped.entry(short.to_owned()).or_default() += 1;
    }

    /// What comes next happened at this moment.
    pub(super) fn at(&mut self, timestamp: &Value) {
        if let Some(at) = timestamp.as_str().and_then(|text| text.parse().ok()) {
            self.at = at;
        }
    }

    /// Marks what has been told so far.
    pub(super) fn mark(&mut self) -> usize {
        self.marks.push(self.last.clone().filter(|_| self.answer.is_empty()));
        self.marks.len() - 1
    }

    /// The last entry of what had been told when this mark was made.
    pub(super) fn marked(&self, mark: usize) -> Option<EventId> {
        self.marks.get(mark).cloned().flatten()
    }

    /// How many prompts there were.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// The conversation got a name.
    pub(super) fn titled(&mut self, title: &str) -> io::Result<()> {
        if self.out.is_some() {
            return self.own(Own::Titled { title: title.to_owned() });
        }
        self.title = Some(title.to_owned());
        Ok(())
    }

    /// The person said something: a turn begins, after this entry if that is not the last one.
    pub(super) fn prompt(&mut self, content: Vec<Block>, after: Option<EventId>) -> io::Result<()> {
        self.end_turn()?;
        self.begin()?;
        if after.is_some() {
            self.last = after;
        }
        self.turns += 1;
        self.event(None, EventBody::TurnStarted { message: Message { role: Role::User, content }, context: 0 })?;
        let reason = TurnReason::Done;
        self.turn = Some(Turn { began: self.at, steps: 0, usage: Usage::default(), text: String::new(), reason });
        Ok(())
    }

    /// Something was said to the model that is no prompt.
    pub(super) fn said(&mut self, content: Vec<Block>) -> io::Result<()> {
        self.end_answer()?;
        if self.turn.is_none() {
            return Ok(());
        }
        self.own(Own::Said { content, by_person: false })
    }

    /// The person stopped the turn.
    pub(super) fn stopped(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.reason = TurnReason::Cancelled;
        }
    }

    /// The model said something more.
    pub(super) fn answer(&mut self, block: Block) {
        self.answer.push(block);
        self.answer_at = self.at;
    }

    /// What the answer used.
    pub(super) fn used(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// A call has its result.
    pub(super) fn result(&mut self, call: &str, output: String, images: Vec<Image>, is_error: bool) -> io::Result<()> {
        self.end_answer()?;
        let call = CallId::new(call);
        let Some(tool) = self.calls.remove(&call) else {
            self.skip("results without a call");
            return Ok(());
        };
        let item = item(&call);
        let meta = Map::new();
        self.event(Some(item), EventBody::ToolEnded { call, tool, output, images, is_error, duration_ms: 0, meta })
    }

    /// Writes the answer down that has been told so far.
    pub(super) fn end_answer(&mut self) -> io::Result<()> {
        let content = std::mem::take(&mut self.answer);
        let usage = std::mem::take(&mut self.usage);
        // Without a prompt there is no turn for it.
        if content.is_empty() || self.turn.is_none() {
            return Ok(());
        }
        let now = std::mem::replace(&mut self.at, self.answer_at);
        let message = Message { role: Role::Assistant, content };
        let calls: Vec<ToolUse> = message.tool_uses().cloned().collect();
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        if let Some(turn) = &mut self.turn {
            turn.steps += 1;
            turn.usage += usage;
            turn.text = message.text();
        }
        self.event(None, EventBody::MessageEnded { message, stop: Some(stop) })?;
        if let Some(model) = self.model.clone() {
            self.event(None, EventBody::UsageReported { model, usage, cost_usd: None })?;
        }
        for ToolUse { id: call, tool, input, .. } in calls {
            self.calls.insert(call.clone(), tool.clone());
            self.event(Some(item(&call)), EventBody::ToolStarted { call, tool, input })?;
        }
        self.at = now;
        let last = self.last.clone();
        self.marks.iter_mut().rev().take_while(|mark| mark.is_none()).for_each(|mark| mark.clone_from(&last));
        Ok(())
    }

    fn end_turn(&mut self) -> io::Result<()> {
        self.end_answer()?;
        self.calls.clear();
        let Some(Turn { began, steps, usage, text, reason }) = self.turn.take() else { return Ok(()) };
        // It ended with the last thing in it: what is told now may be of another day.
        let now = std::mem::replace(&mut self.at, self.written_at);
        let duration_ms = u64::try_from(self.at.duration_since(began).as_millis()).unwrap_or_default();
        let ended = EventBody::TurnEnded { reason, text, answer: None, usage, cost_usd: Usd::ZERO, steps, duration_ms };
        self.event(None, ended)?;
        self.at = now;
        Ok(())
    }

    /// Ends the conversation.
    pub(super) fn finish(mut self, used: Option<SystemTime>) -> io::Result<Converted> {
        self.end_answer()?;
        // A turn that may still go on has no end yet: the next time, more of it is read.
        if self.calls.is_empty() && self.turn.as_ref().is_some_and(|turn| !turn.text.is_empty()) {
            self.end_turn()?;
        }
        if let Some(out) = self.out.take() {
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            if let Some(used) = used {
                file.set_modified(used)?;
            }
        }
        Ok(Converted {
            staged: self.staged,
            origin: self.origin.unwrap_or_default(),
            cwd: self.cwd,
            turns: self.turns,
            skipped: self.skipped,
        })
    }

    /// Begins the file, when the first prompt is there.
    fn begin(&mut self) -> io::Result<()> {
        if self.out.is_some() {
            return Ok(());
        }
        let origin = self.origin.get_or_insert_with(|| self.name.clone()).clone();
        let millis = u64::try_from(self.at.as_millisecond()).unwrap_or_default();
        let session = session_id(&origin, millis);
        let path = self.staging.join(format!("{session}.jsonl"));
        self.out = Some(BufWriter::new(File::create(&path)?));
        self.staged = Some(Staged { id: session.clone(), path });
        let cwd = self.cwd.clone().unwrap_or_default();
        self.own(Own::Header(Header { v: VERSION, session, cwd, forked: None, imported: Some(origin) }))?;
        match self.title.take() {
            Some(title) => self.own(Own::Titled { title }),
            None => Ok(()),
        }
    }

    fn own(&mut self, own: Own) -> io::Result<()> {
        self.write(None, EntryBody::Own(own))
    }

    fn event(&mut self, item: Option<ItemId>, body: EventBody) -> io::Result<()> {
        self.write(item, EntryBody::Event(body))
    }

    fn write(&mut self, item: Option<ItemId>, body: EntryBody) -> io::Result<()> {
        let id = self.next_id();
        self.written_at = self.at;
        let entry = Entry { id: id.clone(), parent: self.last.replace(id), at: self.at, item, body };
        let line = encode(&entry, &self.blobs)?.line;
        match &mut self.out {
            Some(out) => out.write_all(&line),
            None => Ok(()),
        }
    }

    /// Ids follow from the conversation and the order of its entries, and sort like them.
    fn next_id(&mut self) -> EventId {
        let millis = u64::try_from(self.at.as_millisecond()).unwrap_or_default();
        let seed = format!("{}/{}", self.origin.as_deref().unwrap_or_default(), self.last_ulid);
        self.last_ulid = derived(millis, &seed).0.max(self.last_ulid + 1);
        EventId::new(format!("evt_{}", Ulid(self.last_ulid)))
    }
}

/// An id of this time that follows from a text.
pub(super) fn derived(millis: u64, text: &str) -> Ulid {
    let hash = Sha256::digest(text.as_bytes());
    Ulid::from_parts(millis, hash[..10].iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
}

fn item(call: &CallId) -> ItemId {
    ItemId::new(format!("itm_{call}"))
}
