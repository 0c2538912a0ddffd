//! Blobs: texts that are too big for a line, kept once under their hash.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A longer text is kept apart from its entry.
const TEXT_MAX: usize = 16 * 1024;

/// A directory of blobs.
#[derive(Debug, Clone)]
pub struct Blobs {
    dir: PathBuf,
}

/// A text that is kept apart from its entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// Where it belongs: a JSON pointer into the entry.
    pub place: String,
    /// Its SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// How long it is.
    pub bytes: u64,
}

impl Blobs {
    /// The blobs in this directory, which need not exist yet.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where the blob of a hash is kept.
    pub fn path(&self, sha256: &str) -> PathBuf {
        let (first, rest) = sha256.split_at_checked(2).unwrap_or(("", sha256));
        self.dir.join(first).join(rest)
    }

    /// Where blobs are kept.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves the big texts of a value out of it; also the files that were written.
    pub(crate) fn take_out(&self, value: &mut Value) -> io::Result<(Vec<BlobRef>, Vec<PathBuf>)> {
        let (mut refs, mut written) = (Vec::new(), Vec::new());
        self.take(value, &mut String::new(), &mut refs, &mut written)?;
        Ok((refs, written))
    }

    fn take(
        &self,
        value: &mut Value,
        place: &mut String,
        refs: &mut Vec<BlobRef>,
        written: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let length = place.len();
        match value {
            Value::String(text) if text.len() > TEXT_MAX => {
                let sha256 = hash(text.as_bytes());
                written.extend(self.put(&sha256, text.as_bytes())?);
                refs.push(BlobRef { place: place.clone(), sha256, bytes: text.len() as u64 });
                text.clear();
            }
            Value::Array(values) => {
                for (at, value) in values.iter_mut().enumerate() {
                    *place += "/";
                    *place += &at.to_string();
                    self.take(value, place, refs, written)?;
                    place.truncate(length);
                }
            }
            Value::Object(object) => {
                for (key, value) in object {
                    *place += "/";
                    *place += &key.replace('~', "~0").replace('/', "~1");
                    self.take(value, place, refs, written)?;
                    place.truncate(length);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Puts the texts back where they were. What cannot be read is said in its place; whether everything could be.
    pub(crate) fn put_back(&self, value: &mut Value, refs: &[BlobRef]) -> bool {
        let mut is_whole = true;
        for BlobRef { place, sha256, bytes } in refs {
            let Some(spot) = value.pointer_mut(place) else { continue };
            *spot = match self.get(sha256) {
                Ok(text) => text.into(),
                Err(error) => {
                    is_whole = false;
                    format!("[{bytes} bytes that were kept apart are gone: {error}]").into()
                }
            };
        }
        is_whole
    }

    /// The text of a hash, if it is still what it was.
    pub fn get(&self, sha256: &str) -> io::Result<String> {
        if !is_hash(sha256) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "that is no hash"));
        }
        let bytes = fs::read(self.path(sha256))?;
        if hash(&bytes) != sha256 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its bytes have changed"));
        }
        String::from_utf8(bytes).map_err(io::Error::other)
    }

    /// How the text of a hash begins: at most `max` bytes, and a few more or less.
    pub(crate) fn head(&self, sha256: &str, max: usize) -> io::Result<String> {
        if !is_hash(sha256) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "that is no hash"));
        }
        let mut bytes = Vec::new();
        File::open(self.path(sha256))?.take(max as u64).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Keeps bytes under their hash; the file, if it is new.
    fn put(&self, sha256: &str, bytes: &[u8]) -> io::Result<Option<PathBuf>> {
        let path = self.path(sha256);
        if fs::metadata(&path).is_ok_and(|known| known.len() == bytes.len() as u64) {
            // Used again: it must not be taken for one that nobody needs any more.
            drop(File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now())));
            return Ok(None);
        }
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(Some(path))
    }
}

/// Makes files and their names survive power loss.
pub(crate) fn sync(files: &[PathBuf]) -> io::Result<()> {
    for file in files {
        match File::open(file) {
            Ok(open) => open.sync_all()?,
            // Pruned since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        if let Some(dir) = file.parent() {
            File::open(dir)?.sync_all()?;
        }
    }
    Ok(())
}

/// Whether this can be the name of a blob.
pub(crate) fn is_hash(sha256: &str) -> bool {
    sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |text, byte| text + &format!("{byte:02x}"))
}
