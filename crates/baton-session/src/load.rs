//! Loading: the entries that a conversation needs, without reading the rest of its file.
//!
//! The file is read from its end: an entry names the one before it, and at the last compaction everything that is needed
//! is there. What cannot be so (damage, entries out of order) makes the whole file be read once, and nothing is lost.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use baton_core::{CallId, EventBody, EventId, Message};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::blobs::Blobs;
use crate::carried::Carried;
use crate::codec::{Head, decode, peek};
use crate::entry::{Entry, EntryBody, Header, Own, Span, VERSION};
use crate::history::History;
use crate::scan::{Backward, Cause, Damage, Forward, Piece};
use crate::tree::Tree;

/// The most bytes of lines that are loaded: more than any model can be told.
const LOAD_MAX: u64 = 8 * 1024 * 1024;
/// How much of a file is looked at for its header.
const HEADER_MAX: u64 = 64 * 1024;

/// What was loaded of a session.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The first entry of the file, if it is there.
    pub header: Option<Header>,
    /// The path from where the model's memory begins to the last entry.
    pub path: Vec<Entry>,
    /// The last entry.
    pub leaf: Option<EventId>,
    /// What was carried up to the first entry of `path`, if that is not where the conversation began.
    pub before: Option<Carried>,
    /// Bytes that are no entries, as far as was read.
    pub damage: Vec<Damage>,
    /// Texts that were kept apart and are gone.
    pub missing: u64,
}

impl Loaded {
    /// What it means for the model.
    pub fn history(&self) -> History {
        let Some(before) = &self.before else { return History::of(&self.path) };
        // Older than any model's memory: what the person said is carried, and the rest can be searched.
        let mut history = History::after(before.clone());
        let starts = |entry: &Entry| {
            matches!(
                &entry.body,
                EntryBody::Event(EventBody::TurnStarted { .. } | EventBody::MessageEnded { stop: Some(_), .. })
            )
        };
        let first = self.path.iter().position(starts).unwrap_or(self.path.len());
        self.path[..first].iter().for_each(|entry| history.carried.note(&entry.id, &entry.body));
        history.fold(&self.path[first..]);
        history
    }
}

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// A newer version of Baton has written it.
    #[error("a newer Baton has written it (form {0}; this one knows {VERSION})")]
    TooNew(u32),
}

/// Loads what a conversation needs.
pub fn load(file: &File, blobs: &Blobs) -> Result<Loaded, LoadError> {
    let header = header(file, blobs)?;
    if let Some(newer) = header.as_ref().filter(|header| header.v > VERSION) {
        return Err(LoadError::TooNew(newer.v));
    }
    let loaded = match from_end(file, blobs)? {
        Some(loaded) => loaded,
        None => whole(file, blobs)?,
    };
    Ok(Loaded { header, ..loaded })
}

/// The first entry, if it says whose session this is.
pub(crate) fn header(file: &File, blobs: &Blobs) -> io::Result<Option<Header>> {
    let mut start = Vec::new();
    let mut reader = file;
    reader.seek(SeekFrom::Start(0))?;
    reader.take(HEADER_MAX).read_to_end(&mut start)?;
    let mut scan = Forward::new(start.as_slice(), 0);
    while let Some(piece) = scan.next()? {
        let Piece::Whole(_, line) = piece else { continue };
        if let Ok((Entry { body: EntryBody::Own(Own::Header(header)), .. }, _)) = decode(&line, blobs) {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

/// Reads from the end. Nothing if the file is not as it would be if nobody but Baton had touched it.
fn from_end(file: &File, blobs: &Blobs) -> io::Result<Option<Loaded>> {
    let end = file.metadata()?.len();
    let mut scan = Backward::new(file, end);
    let mut loaded = Loaded::default();
    let mut wanted: Option<String> = None;
    let mut kept: Option<EventId> = None;
    let mut known: Vec<Span> = Vec::new();
    let mut later: Option<String> = None;
    let mut bytes = 0;
    let mut is_complete = false;
    while let Some(piece) = scan.next()? {
        let line = match piece {
            Piece::Whole(_, line) => line,
            // Cut off while it was written, and nothing lost but that: the usual end of a process that was killed.
            Piece::Damage(damage) if damage.cause == Cause::Torn && loaded.path.is_empty() => {
                loaded.damage.push(damage);
                continue;
            }
            Piece::Damage(damage) if known.contains(&damage.span) => continue,
            Piece::Damage(_) => return Ok(None),
        };
        let Some(head) = peek(&line) else { return Ok(None) };
        if later.as_deref().is_some_and(|later| *head.id >= *later) {
            return Ok(None);
        }
        later = Some(head.id.clone().into_owned());
        if wanted.as_ref().is_some_and(|wanted| **wanted != *head.id) {
            continue;
        }
        let Ok((entry, is_whole)) = decode(&line, blobs) else { return Ok(None) };
        bytes += line.len() as u64;
        loaded.missing += u64::from(!is_whole);
        let is_kept = kept.as_ref() == Some(&entry.id);
        if let EntryBody::Own(Own::Damage { found }) = &entry.body {
            known.extend(found);
        }
        let compacted = match &entry.body {
            EntryBody::Own(Own::Compacted(compacted)) if kept.is_none() => Some(compacted.kept.clone()),
            _ => None,
        };
        wanted = entry.parent.as_ref().map(|parent| parent.as_str().to_owned());
        loaded.path.push(entry);
        match compacted {
            Some(None) => is_complete = true,
            Some(kept_from) => kept = kept_from,
            None => {}
        }
        if wanted.is_none() || is_kept {
            is_complete = true;
        }
        if is_complete || bytes > LOAD_MAX {
            break;
        }
    }
    if !is_complete && !loaded.path.is_empty() && bytes <= LOAD_MAX {
        return Ok(None);
    }
    if is_complete && !begins_here(&mut scan, later.as_deref())? {
        return Ok(None);
    }
    loaded.path.reverse();
    loaded.leaf = loaded.path.last().map(|entry| entry.id.clone());
    if !is_complete {
        loaded.before = Some(carried_before(file, blobs, loaded.path.first().map(|entry| &entry.id))?);
    }
    Ok(Some(loaded))
}

/// Whether what stands before the first entry of a path is older, as it must be: a copy of an old entry at the end of a
/// file is not where the conversation begins. Only a header may be younger: that of a copy stands before what was copied.
fn begins_here(scan: &mut Backward<'_>, first: Option<&str>) -> io::Result<bool> {
    let Some(Piece::Whole(_, line)) = scan.next()? else { return Ok(true) };
    let is_older = |head: Head<'_>| head.kind == "session" || first.is_none_or(|first| *head.id < *first);
    Ok(peek(&line).is_some_and(is_older))
}

/// What was carried up to an entry, folded over the file in its order.
fn carried_before(file: &File, blobs: &Blobs, first: Option<&EventId>) -> io::Result<Carried> {
    let mut carried = Carried::default();
    let mut reader = file;
    reader.seek(SeekFrom::Start(0))?;
    let mut scan = Forward::new(reader, 0);
    while let Some(line) = scan.next_whole()? {
        let Some(Head { id, kind, .. }) = peek(line) else { continue };
        if first.is_some_and(|first| first.as_str() == id) {
            break;
        }
        if !CARRYING.contains(&&*kind) || lean(&mut carried, &id, &kind, line).is_some() {
            continue;
        }
        if let Ok((entry, _)) = decode(line, blobs) {
            carried.note(&entry.id, &entry.body);
        }
    }
    Ok(carried)
}

/// Takes note of one of the entries that most of a file is made of, and of no more of it than is carried. Nothing if that
/// does not do: texts of it are kept apart, its form is another one, or what it says decides.
fn lean(carried: &mut Carried, id: &str, kind: &str, line: &[u8]) -> Option<()> {
    #[derive(Deserialize)]
    struct Turn {
        message: Message,
        #[serde(default)]
        context: u32,
        refs: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Started {
        call: CallId,
        tool: String,
        input: Value,
        refs: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Ended {
        call: CallId,
        is_error: bool,
        #[serde(default)]
        meta: Map<String, Value>,
        refs: Option<IgnoredAny>,
    }
    if !matches!(kind, "turn.start" | "tool.start" | "tool.end") {
        return None;
    }
    // Checked once here, and not string by string.
    let line = std::str::from_utf8(line).ok()?;
    match kind {
        "turn.start" => {
            let Turn { message, context, refs: None } = serde_json::from_str(line).ok()? else { return None };
            carried.note_event(&EventId::new(id), &EventBody::TurnStarted { message, context });
        }
        "tool.start" => {
            let Started { call, tool, input, refs: None } = serde_json::from_str(line).ok()? else { return None };
            carried.tool_started(call, tool, input);
        }
        _ => {
            // Of one that failed, its words tell whether it ran.
            let Ended { call, is_error: false, meta, refs: None } = serde_json::from_str(line).ok()? else {
                return None;
            };
            carried.tool_ended(&call, false, &meta, "");
        }
    }
    Some(())
}

/// The kinds that something is carried from.
const CARRYING: [&str; 7] =
    ["turn.start", "said", "compacted", "tool.start", "tool.end", "approval.asked", "approval.answered"];

/// Reads the whole file, and then the path to its last entry.
fn whole(file: &File, blobs: &Blobs) -> io::Result<Loaded> {
    let mut tree = Tree::read(file, blobs)?;
    let mut loaded = Loaded { damage: std::mem::take(&mut tree.damage), ..Loaded::default() };
    let mut next = tree.last();
    let (mut kept, mut bytes, mut is_complete) = (None::<EventId>, 0, false);
    while let Some(node) = next {
        let line = tree.line(file, node)?;
        next = tree.parent(node);
        let Ok((entry, is_whole)) = decode(&line, blobs) else { continue };
        bytes += line.len() as u64;
        loaded.missing += u64::from(!is_whole);
        is_complete |= kept.as_ref() == Some(&entry.id) || next.is_none();
        if let (EntryBody::Own(Own::Compacted(compacted)), None) = (&entry.body, &kept) {
            kept.clone_from(&compacted.kept);
            is_complete |= kept.is_none();
        }
        loaded.path.push(entry);
        if is_complete || bytes > LOAD_MAX {
            break;
        }
    }
    loaded.path.reverse();
    loaded.leaf = loaded.path.last().map(|entry| entry.id.clone());
    if !is_complete && !loaded.path.is_empty() {
        loaded.before = Some(carried_before(file, blobs, loaded.path.first().map(|entry| &entry.id))?);
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use baton_core::{Answer, ApprovalId, Block, Timestamp};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::codec::encode;

    fn body() -> impl Strategy<Value = EventBody> {
        let call = || (0..4u32).prop_map(|number| CallId::new(format!("call_{number}")));
        let text = || prop::sample::select(vec!["", "not run: no", "refused", "a \"quoted\"\nline", "ü\u{2028}"]);
        let input = prop::sample::select(vec![
            json!({"command": "make \"all\""}),
            json!({"path": "src/a.rs"}),
            json!({"items": [{"text": "one"}]}),
            json!({"plan": "first this"}),
            json!("no object"),
        ]);
        let meta = prop::sample::select(vec![
            json!({}),
            json!({"exit_code": 1}),
            json!({"changes": [{"path": "b.rs"}, {"path": "c.rs"}]}),
            json!({"approved": true}),
        ]);
        let tool = || prop::sample::select(vec!["bash", "read", "todo", "plan", "edit"]);
        prop_oneof![
            (text(), 0..3u32).prop_map(|(text, context)| {
                let content = vec![Block::text("facts"), Block::text(text), Block::text("more")];
                EventBody::TurnStarted { message: Message { role: baton_core::Role::User, content }, context }
            }),
            (call(), tool(), input).prop_map(|(call, tool, input)| EventBody::ToolStarted {
                call,
                tool: tool.to_owned(),
                input
            }),
            (call(), tool(), text(), any::<bool>(), meta).prop_map(|(call, tool, output, is_error, meta)| {
                let meta = meta.as_object().cloned().unwrap_or_default();
                let (tool, output) = (tool.to_owned(), output.to_owned());
                EventBody::ToolEnded { call, tool, output, images: vec![], is_error, duration_ms: 1, meta }
            }),
            Just(EventBody::ApprovalAnswered { approval: ApprovalId::new("apr_1"), answer: Answer::Once }),
        ]
    }

    proptest! {
        #[test]
        fn a_lean_look_carries_what_a_whole_one_does(bodies in prop::collection::vec(body(), 0..30)) {
            let dir = tempfile::tempdir().unwrap();
            let blobs = Blobs::new(dir.path().to_owned());
            let (mut by_look, mut by_all) = (Carried::default(), Carried::default());
            for (number, body) in bodies.into_iter().enumerate() {
                let id = EventId::new(format!("evt_{number:04}"));
                let at = Timestamp::from_second(1_700_000_000).unwrap();
                by_all.note_event(&id, &body);
                let entry = Entry { id, parent: None, at, item: None, body: EntryBody::Event(body) };
                let line = encode(&entry, &blobs).unwrap().line;
                let Head { id, kind, .. } = peek(&line[..line.len() - 1]).unwrap();
                if lean(&mut by_look, &id, &kind, &line).is_none() {
                    let (entry, _) = decode(&line, &blobs).unwrap();
                    by_look.note(&entry.id, &entry.body);
                }
            }
            prop_assert_eq!(by_look, by_all);
        }
    }
}
