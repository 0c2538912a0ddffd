//! The history: what the entries of a path mean for the model. Pure.

use std::collections::{BTreeMap, HashMap};

use baton_core::{Area, Block, CallId, EventBody, EventId, Message, Role, ToolResult, ToolUse, TurnReason};
use serde_json::Value;

use crate::carried::Carried;
use crate::compaction;
use crate::entry::{Entry, EntryBody, Own};

/// A conversation as its session has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// What the model has been told and has said, valid as it stands.
    pub messages: Vec<Message>,
    /// The entry that began each message; nothing where a history cannot be cut.
    pub began: Vec<Option<EventId>>,
    /// What must not be left to prose.
    pub carried: Carried,
    /// Where the model's provider was when the history was last compacted, for each role.
    pub places: BTreeMap<String, Value>,
    /// How many answers among the messages are older than that.
    pub counted: usize,
    /// How many attempts at the next answer have failed.
    pub failures: u32,
    /// The model of the last session.
    pub model: Option<String>,
    /// The session's name.
    pub title: Option<String>,
    /// Whether its last turn came to an end of its own, and was not broken off.
    pub is_resting: bool,
    /// The calls of the last answer that have no result.
    open: Vec<ToolUse>,
    results: HashMap<CallId, ToolResult>,
    started: HashMap<CallId, EventId>,
    /// An answer that broke off.
    partial: Option<(EventId, Message)>,
}

impl History {
    /// What these entries mean, the oldest first.
    pub fn of(entries: &[Entry]) -> Self {
        let mut history = Self::default();
        history.fold(entries);
        history
    }

    /// A history whose beginning is not there any more.
    pub(crate) fn after(carried: Carried) -> Self {
        let gone = "The beginning of the conversation is too long ago to be shown; `history` finds it.";
        let messages = vec![compaction::message(&[], &carried, gone)];
        Self { messages, began: vec![None], carried, ..Self::default() }
    }

    /// Takes note of entries, and answers what is open at their end.
    pub(crate) fn fold(&mut self, entries: &[Entry]) {
        let is_compacted = |entry: &Entry| matches!(&entry.body, EntryBody::Own(Own::Compacted(_)));
        let last = entries.iter().rposition(is_compacted);
        for (at, entry) in entries.iter().enumerate() {
            self.carried.note(&entry.id, &entry.body);
            // What the last compaction keeps may be older than the one before it: only the last one counts.
            if !is_compacted(entry) || Some(at) == last {
                self.note(entry);
            }
        }
        self.flush();
        self.carried.stopped();
    }

    fn note(&mut self, entry: &Entry) {
        match &entry.body {
            EntryBody::Event(event) => self.note_event(&entry.id, event),
            EntryBody::Own(Own::Said { content, .. }) => {
                let mut all = self.take_results();
                let began = all.is_empty().then_some(&entry.id);
                all.extend(content.iter().cloned());
                self.push(began, Message { role: Role::User, content: all });
            }
            EntryBody::Own(Own::Compacted(compacted)) => {
                self.flush();
                let is_kept = |began: &Option<EventId>| began.is_some() && *began == compacted.kept;
                let gone = self.began.iter().position(is_kept).unwrap_or(self.messages.len());
                self.messages.splice(..gone, [compacted.message.clone()]);
                self.began.splice(..gone, [None]);
                self.places.clone_from(&compacted.places);
                self.counted = self.messages.iter().filter(|message| message.role == Role::Assistant).count();
            }
            EntryBody::Own(Own::Titled { title }) => self.title = Some(title.clone()),
            EntryBody::Own(Own::Header(_) | Own::Moved | Own::Damage { .. }) | EntryBody::Unknown(_) => {}
        }
    }

    fn note_event(&mut self, id: &EventId, event: &EventBody) {
        match event {
            EventBody::SessionStarted { model, .. } => self.model = Some(model.clone()),
            EventBody::TurnStarted { message, .. } => {
                self.flush();
                self.push(Some(id), message.clone());
                self.is_resting = false;
            }
            EventBody::MessageEnded { message, stop: Some(_) } => {
                self.flush();
                self.open = message.tool_uses().cloned().collect();
                self.push(Some(id), message.clone());
                (self.failures, self.partial) = (0, None);
            }
            EventBody::MessageEnded { message, stop: None } => self.partial = Some((id.clone(), message.clone())),
            EventBody::ToolStarted { call, .. } => {
                self.started.insert(call.clone(), id.clone());
            }
            EventBody::ToolEnded { call, output, images, is_error, .. } => {
                let result =
                    ToolResult { id: call.clone(), text: output.clone(), images: images.clone(), is_error: *is_error };
                self.results.insert(call.clone(), result);
            }
            // What broke off is not part of the conversation: the model answers anew.
            EventBody::Retrying { .. } => (self.failures, self.partial) = (self.failures + 1, None),
            EventBody::Failed(fault) if fault.area == Area::Provider => self.failures += 1,
            EventBody::TurnEnded { reason, .. } => {
                self.flush();
                self.is_resting = matches!(reason, TurnReason::Done | TurnReason::Failed);
                // What the person has read stays part of the conversation when they, or its time, end the turn.
                if let (Some((id, message)), TurnReason::Cancelled | TurnReason::Time) = (self.partial.take(), reason)
                    && !message.content.is_empty()
                {
                    self.push(Some(&id), message);
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, began: Option<&EventId>, message: Message) {
        self.began.push(began.cloned());
        self.messages.push(message);
    }

    /// Makes a message of the results, if calls wait for them.
    fn flush(&mut self) {
        let content = self.take_results();
        if !content.is_empty() {
            self.push(None, Message { role: Role::User, content });
        }
    }

    /// The results of the last answer's calls, in the order of the calls.
    fn take_results(&mut self) -> Vec<Block> {
        let (mut results, started) = (std::mem::take(&mut self.results), std::mem::take(&mut self.started));
        let answered = |call: ToolUse| {
            let result = results.remove(&call.id);
            Block::ToolResult(
                result.unwrap_or_else(|| ToolResult::stopped(call.id.clone(), started.contains_key(&call.id))),
            )
        };
        std::mem::take(&mut self.open).into_iter().map(answered).collect()
    }
}
