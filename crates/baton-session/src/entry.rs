//! Entries: what a session file holds. Most are the events that were shown; the rest is what only the session needs.

use std::collections::BTreeMap;

use baton_core::{Block, Event, EventBody, EventId, EventStamp, ItemId, Message, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::carried::Carried;

/// The version of the form of a session file.
pub const VERSION: u32 = 1;

/// One entry. Entries form a tree by their parents; a conversation is a path in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// This entry; the same as the event's, if it is one.
    pub id: EventId,
    /// What it follows; nothing for the first.
    pub parent: Option<EventId>,
    /// When it was made.
    pub at: Timestamp,
    /// The group of an event.
    pub item: Option<ItemId>,
    /// What it says.
    pub body: EntryBody,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// Something that only the session needs.
    Own(Own),
    /// An event that was shown.
    Event(EventBody),
    /// A kind that a newer version has written: it is kept, and otherwise passed over.
    Unknown(Map<String, Value>),
}

/// What only the session needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Own {
    /// The first entry of a file.
    #[serde(rename = "session")]
    Header(Header),
    /// The person, or Baton on their behalf, said something to a running turn. It follows the results of the calls before.
    #[serde(rename = "said")]
    Said {
        /// What was said.
        content: Vec<Block>,
        /// Whether the person said it.
        #[serde(default)]
        by_person: bool,
    },
    /// What came before became one message.
    #[serde(rename = "compacted")]
    Compacted(Box<Compacted>),
    /// The session got a name.
    #[serde(rename = "titled")]
    Titled {
        /// Its name.
        title: String,
    },
    /// The conversation goes on from the parent of this entry; what came after that one stays in the file.
    #[serde(rename = "moved")]
    Moved,
    /// Bytes that are no entries were found in this file, and reported.
    #[serde(rename = "damage")]
    Damage {
        /// Where they are.
        found: Vec<Span>,
    },
}

/// The first entry of a file: whose session it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the form of the file.
    pub v: u32,
    /// The session.
    pub session: SessionId,
    /// Where the agent worked at first.
    pub cwd: String,
    /// The entry that it was forked at, in another file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Origin>,
    /// What it was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
}

/// A place in another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The session.
    pub session: SessionId,
    /// The entry.
    pub entry: EventId,
}

/// How a history begins after a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// The message that stands for all that is gone.
    pub message: Message,
    /// The first entry whose message is kept; nothing if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<EventId>,
    /// What must not be left to prose.
    pub carried: Carried,
    /// Where the model's provider was, for each role, if it keeps count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, Value>,
}

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first.
    pub from: u64,
    /// How many.
    pub bytes: u64,
}

/// Whether an event is kept. What grows piece by piece is kept when it is whole.
pub fn is_durable(body: &EventBody) -> bool {
    !matches!(body, EventBody::MessageDelta { .. } | EventBody::ThinkingDelta { .. } | EventBody::ToolUpdated { .. })
}

impl Entry {
    /// The entry of an event that follows another one.
    pub fn of_event(event: &Event, parent: Option<EventId>) -> Self {
        let EventStamp { id, item, at, .. } = event.stamp.clone();
        Self { id, parent, at, item: Some(item), body: EntryBody::Event(event.body.clone()) }
    }

    /// The event that this entry is of.
    pub fn event(&self, session: &SessionId) -> Option<Event> {
        let EntryBody::Event(body) = &self.body else { return None };
        let item = self.item.clone().unwrap_or_else(|| ItemId::new(self.id.as_str()));
        let stamp = EventStamp { v: 1, id: self.id.clone(), session: session.clone(), item, at: self.at };
        Some(Event { stamp, body: body.clone() })
    }

    /// As one JSON object: the fields that readers look for first come first.
    pub(crate) fn to_object(&self) -> serde_json::Result<Map<String, Value>> {
        let mut object = Map::new();
        object.insert("id".to_owned(), self.id.as_str().into());
        if let Some(parent) = &self.parent {
            object.insert("parent".to_owned(), parent.as_str().into());
        }
        object.insert("at".to_owned(), serde_json::to_value(self.at)?);
        if let Some(item) = &self.item {
            object.insert("item".to_owned(), item.as_str().into());
        }
        let body = match &self.body {
            EntryBody::Own(own) => serde_json::to_value(own)?,
            EntryBody::Event(body) => serde_json::to_value(body)?,
            EntryBody::Unknown(body) => Value::Object(body.clone()),
        };
        if let Value::Object(body) = body {
            object.extend(body);
        }
        Ok(object)
    }

    /// Reads one JSON object. A body that does not have the form of its kind is of a kind that is not known.
    pub(crate) fn from_object(mut object: Map<String, Value>) -> Result<Self, String> {
        fn field<T: serde::de::DeserializeOwned>(
            object: &mut Map<String, Value>,
            name: &str,
        ) -> Result<Option<T>, String> {
            let read = |value| serde_json::from_value(value).map_err(|error| format!("`{name}`: {error}"));
            object.shift_remove(name).map(read).transpose()
        }
        let id = field(&mut object, "id")?.ok_or("it has no `id`")?;
        let parent = field(&mut object, "parent")?;
        let at = field(&mut object, "at")?.ok_or("it has no `at`")?;
        let item = field(&mut object, "item")?;
        let kind = object.get("kind").and_then(Value::as_str).ok_or("it has no `kind`")?;
        let is_own = !kind.contains('.') && OWN_KINDS.contains(&kind);
        let body = Value::Object(object);
        let read = if is_own {
            Own::deserialize(&body).map(EntryBody::Own)
        } else {
            EventBody::deserialize(&body).map(EntryBody::Event)
        };
        let body = match (read, body) {
            (Ok(read), _) => read,
            (Err(_), Value::Object(object)) => EntryBody::Unknown(object),
            (Err(error), _) => return Err(error.to_string()),
        };
        Ok(Self { id, parent, at, item, body })
    }
}

/// The kinds that are no events.
const OWN_KINDS: [&str; 6] = ["session", "said", "compacted", "titled", "moved", "damage"];
