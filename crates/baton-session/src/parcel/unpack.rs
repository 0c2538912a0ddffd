//! Unpacking a parcel into a directory of its own. Every name and every hash is checked before anything of it is used.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tar::Archive;

use super::{Item, MANIFEST, Manifest, PARCEL_VERSION, ParcelError, Place};
use crate::blobs::Blobs;
use crate::load::header;
use crate::merge::{Definition, Staged};

/// The longest list that is read: a million files.
const MANIFEST_MAX: u64 = 256 * 1024 * 1024;

/// Unpacks a parcel into an empty directory.
pub fn unpack(parcel: impl Read, into: &Path) -> Result<(Vec<Staged>, Vec<Definition>), ParcelError> {
    let mut archive = Archive::new(parcel);
    let mut entries = archive.entries()?;
    let manifest = match entries.next() {
        Some(Ok(mut first)) if first.path_bytes().as_ref() == MANIFEST.as_bytes() => {
            if first.size() > MANIFEST_MAX {
                return Err(ParcelError::Foreign("its list is too long"));
            }
            let mut text = Vec::new();
            first.read_to_end(&mut text)?;
            manifest(&text)?
        }
        Some(Ok(_)) => return Err(ParcelError::Foreign("its first file is not `manifest.json`")),
        Some(Err(_)) | None => return Err(ParcelError::Foreign("it is no tar file")),
    };
    let mut expected: HashMap<&str, &Item> = manifest.files.iter().map(|item| (item.path.as_str(), item)).collect();
    if expected.len() != manifest.files.len() {
        return Err(ParcelError::Foreign("its list has a name twice"));
    }
    let blobs = Blobs::new(into.join("blobs"));
    let (mut sessions, mut definitions) = (Vec::new(), Vec::new());
    for entry in entries {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let wrong = |why| ParcelError::Wrong { path: path.clone(), why };
        if !entry.header().entry_type().is_file() {
            return Err(wrong("a parcel has plain files and nothing else"));
        }
        let place = Place::of(&path).ok_or_else(|| wrong("a parcel has no such file"))?;
        let item = expected.remove(path.as_str()).ok_or_else(|| wrong("it is not in the list, or was there before"))?;
        if entry.size() != item.bytes {
            return Err(wrong("it is not as long as the list says"));
        }
        let file = match &place {
            Place::Session(id) => into.join(format!("{id}.jsonl")),
            Place::Blob(sha256) if *sha256 == item.sha256 => blobs.path(sha256),
            Place::Blob(_) => return Err(wrong("its name is not its hash")),
            Place::Definition(name) => into.join("definitions").join(name),
        };
        if copied(&mut entry, &file)? != item.sha256 {
            return Err(wrong("its bytes are not what the list says"));
        }
        match place {
            Place::Session(id) => {
                let used = entry.header().mtime().map(Duration::from_secs).unwrap_or_default();
                let open = File::options().read(true).append(true).open(&file)?;
                open.set_modified(SystemTime::UNIX_EPOCH + used)?;
                match header(&open, &blobs)? {
                    Some(header) if header.session != id => return Err(wrong("it is of another session")),
                    Some(header) if header.v > crate::VERSION => return Err(ParcelError::TooNew(header.v)),
                    _ => {}
                }
                sessions.push(Staged { id, path: file });
            }
            Place::Blob(_) => {}
            Place::Definition(name) => definitions.push(Definition { name, path: file }),
        }
    }
    match expected.into_keys().next() {
        Some(path) => Err(ParcelError::Wrong { path: path.to_owned(), why: "it is missing: the parcel is cut off" }),
        None => Ok((sessions, definitions)),
    }
}

fn manifest(text: &[u8]) -> Result<Manifest, ParcelError> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let unreadable = |_| ParcelError::Foreign("its list cannot be read");
    // A newer form may have anything else in it.
    let Version { version } = serde_json::from_slice(text).map_err(unreadable)?;
    if version > PARCEL_VERSION {
        return Err(ParcelError::TooNew(version));
    }
    serde_json::from_slice(text).map_err(unreadable)
}

/// Copies a file, and says what its hash is.
fn copied(from: &mut impl Read, to: &PathBuf) -> Result<String, ParcelError> {
    if let Some(dir) = to.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut file = File::create_new(to)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        hasher.update(&chunk[..read]);
        file.write_all(&chunk[..read])?;
    }
    Ok(hasher.finalize().iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}")))
}
