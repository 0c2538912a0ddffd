//! Packing a parcel. Sessions may be written meanwhile: what is packed is what is whole when it is first read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::SystemTime;

use baton_core::{SessionId, Timestamp};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use super::{Item, MANIFEST, Manifest, PARCEL_VERSION};
use crate::prune::referred;
use crate::sessions::Sessions;

/// What was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// How many sessions.
    pub sessions: usize,
    /// How many texts that are kept apart.
    pub blobs: usize,
    /// How many definitions, with the settings.
    pub definitions: usize,
    /// How many texts that a session speaks of are gone.
    pub missing: usize,
}

/// Packs sessions with what belongs to them, and definitions: names below `.baton`, and contents.
pub fn pack(
    sessions: &Sessions,
    ids: &[SessionId],
    definitions: &[(String, Vec<u8>)],
    made_by: &str,
    at: Timestamp,
    out: impl Write,
) -> io::Result<Packed> {
    let mut items = Vec::new();
    let mut blobs = BTreeSet::new();
    for id in ids {
        let path = sessions.path(id);
        let (bytes, sha256) = hashed(&path)?;
        blobs.extend(referred(&path)?);
        items.push((Item { path: format!("sessions/{id}.jsonl"), bytes, sha256 }, Source::File(path)));
    }
    let mut missing = 0;
    let count = blobs.len();
    for sha256 in blobs {
        // What has changed is as good as gone.
        let Ok(text) = sessions.blobs().get(&sha256) else {
            missing += 1;
            continue;
        };
        let path = format!("blobs/{}/{}", &sha256[..2], &sha256[2..]);
        let source = Source::File(sessions.blobs().path(&sha256));
        items.push((Item { path, bytes: text.len() as u64, sha256 }, source));
    }
    for (path, content) in definitions {
        let item = Item {
            path: format!("definitions/{path}"),
            bytes: content.len() as u64,
            sha256: crate::blobs::hash(content),
        };
        items.push((item, Source::Bytes(content)));
    }
    let files = items.iter().map(|(item, _)| item.clone()).collect();
    let manifest = Manifest { version: PARCEL_VERSION, made_by: made_by.to_owned(), at, files };
    let mut tar = Builder::new(out);
    let manifest = serde_json::to_vec_pretty(&manifest)?;
    let seconds = u64::try_from(at.as_second()).unwrap_or_default();
    tar.append_data(&mut header(manifest.len() as u64, seconds), MANIFEST, manifest.as_slice())?;
    for (item, source) in &items {
        match source {
            Source::Bytes(content) => tar.append_data(&mut header(item.bytes, seconds), &item.path, *content)?,
            Source::File(path) => {
                let file = File::open(path)?;
                let used =
                    file.metadata()?.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
                let mut rest = file.take(item.bytes);
                let used = used.map_or(seconds, |used| used.as_secs());
                tar.append_data(&mut header(item.bytes, used), &item.path, &mut rest)?;
                if rest.limit() > 0 {
                    return Err(io::Error::other(format!("{} got shorter while it was read", path.display())));
                }
            }
        }
    }
    tar.into_inner()?.flush()?;
    Ok(Packed { sessions: ids.len(), blobs: count - missing, definitions: definitions.len(), missing })
}

enum Source<'a> {
    File(std::path::PathBuf),
    Bytes(&'a [u8]),
}

fn header(bytes: u64, mtime: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_mtime(mtime);
    header
}

/// How long a session is up to its last whole line, and the hash of that.
fn hashed(path: &Path) -> io::Result<(u64, String)> {
    let mut file = fs::File::open(path)?;
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let (mut pending, mut chunk) = (Vec::new(), vec![0; 256 * 1024]);
    loop {
        let read = match file.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        let whole = memchr::memrchr(b'\n', &chunk[..read]).map_or(0, |at| at + 1);
        if whole > 0 {
            hasher.update(&pending);
            hasher.update(&chunk[..whole]);
            bytes += (pending.len() + whole) as u64;
            pending.clear();
        }
        pending.extend_from_slice(&chunk[whole..read]);
    }
    let digits = hasher.finalize().iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}"));
    Ok((bytes, digits))
}
