//! The codec: entries to lines and back, big texts as blobs.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::blobs::{BlobRef, Blobs};
use crate::entry::Entry;
use crate::line::seal;

/// A longer line is looked through for texts to keep apart.
const LINE_PLAIN_MAX: usize = 32 * 1024;

/// An entry as bytes.
pub(crate) struct Encoded {
    /// Its line, with the line break.
    pub(crate) line: Vec<u8>,
    /// Blobs that were written for it.
    pub(crate) blobs: Vec<PathBuf>,
}

/// The line of an entry; its big texts are kept as blobs first.
pub(crate) fn encode(entry: &Entry, blobs: &Blobs) -> io::Result<Encoded> {
    let object = entry.to_object()?;
    let plain = serde_json::to_vec(&object)?;
    if plain.len() <= LINE_PLAIN_MAX {
        return Ok(Encoded { line: seal(&plain), blobs: Vec::new() });
    }
    let mut value = Value::Object(object);
    let (refs, written) = blobs.take_out(&mut value)?;
    value["refs"] = serde_json::to_value(refs)?;
    Ok(Encoded { line: seal(&serde_json::to_vec(&value)?), blobs: written })
}

/// Reads an entry; also whether all that it speaks of is there.
pub(crate) fn decode(line: &[u8], blobs: &Blobs) -> Result<(Entry, bool), String> {
    let mut object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    object.shift_remove("n");
    object.shift_remove("crc");
    let refs = object.shift_remove("refs").map(serde_json::from_value::<Vec<BlobRef>>);
    let Some(refs) = refs.transpose().map_err(|error| error.to_string())? else {
        return Ok((Entry::from_object(object)?, true));
    };
    let mut value = Value::Object(object);
    let is_whole = blobs.put_back(&mut value, &refs);
    let Value::Object(object) = value else { return Err("it is no object".to_owned()) };
    Ok((Entry::from_object(object)?, is_whole))
}

/// Reads an entry whose big texts need not be whole: of each, at most `max` bytes are there.
pub(crate) fn decode_heads(line: &[u8], blobs: &Blobs, max: usize) -> Result<Entry, String> {
    let mut object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let refs = object.shift_remove("refs").and_then(|refs| serde_json::from_value::<Vec<BlobRef>>(refs).ok());
    let mut value = Value::Object(object);
    for blob in refs.unwrap_or_default() {
        if let (Some(spot), Ok(head)) = (value.pointer_mut(&blob.place), blobs.head(&blob.sha256, max)) {
            *spot = head.into();
        }
    }
    let Value::Object(mut object) = value else { return Err("it is no object".to_owned()) };
    object.shift_remove("n");
    object.shift_remove("crc");
    Entry::from_object(object)
}

/// The texts of an entry that are kept apart.
pub(crate) fn refs(line: &[u8]) -> Vec<BlobRef> {
    #[derive(Deserialize)]
    struct Refs {
        #[serde(default)]
        refs: Vec<BlobRef>,
    }
    serde_json::from_slice::<Refs>(line).map(|read| read.refs).unwrap_or_default()
}

/// What is known of an entry without reading all of it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) parent: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
}

/// Reads the first fields of an entry, which are written in a fixed order; if they are in another one, all of it.
pub(crate) fn peek(line: &[u8]) -> Option<Head<'_>> {
    quick(line).or_else(|| serde_json::from_slice(line).ok())
}

fn quick(line: &[u8]) -> Option<Head<'_>> {
    const ID: &[u8] = b"\"id\":";
    const PARENT: &[u8] = b"\"parent\":";
    const KIND: &[u8] = b"\"kind\":";
    const NAMES: [&[u8]; 5] = [ID, PARENT, b"\"at\":", b"\"item\":", KIND];
    let mut rest = line.strip_prefix(b"{")?;
    let (mut id, mut parent) = (None, None);
    loop {
        let (name, after) = NAMES.into_iter().find_map(|name| Some((name, rest.strip_prefix(name)?)))?;
        let (value, after) = quoted(after)?;
        let text = || std::str::from_utf8(value).ok().map(Cow::Borrowed);
        match name {
            ID => id = Some(text()?),
            PARENT => parent = Some(text()?),
            KIND => return Some(Head { id: id?, parent, kind: text()? }),
            _ => {}
        }
        rest = after.strip_prefix(b",")?;
    }
}

/// The bytes of a string without escapes, and what follows it.
fn quoted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = bytes.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', inner)?;
    (inner[end] == b'"').then_some((&inner[..end], &inner[end + 1..]))
}
