//! Looking at what counts in a repository: a handful of paths, read within bounds, following nothing that leads out.

use std::fmt::Write;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Item, Survey, hex};
use crate::git;

/// The largest file, and the most in all, that can be trusted.
const FILE_BYTES_MAX: u64 = 16 << 20;
const BYTES_MAX: u64 = 64 << 20;
/// How many files, and how deep.
const ITEMS_MAX: usize = 2_000;
const DEPTH_MAX: usize = 12;
/// The longest content that is kept to be shown.
const SHOWN_BYTES_MAX: usize = 128 * 1024;

/// What counts, besides what git obeys. A directory counts with everything in it.
const PLACES: [&str; 9] = [
    ".baton",
    ".agents/skills",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".mcp.json",
    ".claude/hooks",
];
/// What Baton itself writes there, and nobody obeys.
const WRITTEN: [&str; 2] = [".baton/runs", ".baton/.gitignore"];

/// Whether contents are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Hashes are enough.
    Hashes,
    /// Contents, to be shown to a person.
    Contents,
}

/// Looks at everything in `root` (links resolved) that would make Baton or git do something.
pub fn survey(root: &Path, keep: Keep) -> Survey {
    let mut look = Look { root, keep, items: Vec::new(), bytes: 0 };
    for place in PLACES {
        // One question for a directory that is not there answers for all below it.
        look.place(&root.join(place), place.to_owned(), 0);
    }
    look.git(root, "");
    for child in git::children(root) {
        let name = shown(child.file_name().unwrap_or_default().as_bytes());
        look.git(&child, &format!("{name}/"));
    }
    Survey::new(look.items)
}

struct Look<'a> {
    root: &'a Path,
    keep: Keep,
    items: Vec<Item>,
    bytes: u64,
}

impl Look<'_> {
    fn place(&mut self, path: &Path, name: String, depth: usize) {
        if WRITTEN.contains(&name.as_str()) || self.items.len() > ITEMS_MAX {
            return;
        }
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return,
            Err(error) => return self.refuse(name, b"unreadable", format!("cannot be read: {error}")),
        };
        if self.items.len() == ITEMS_MAX || depth > DEPTH_MAX {
            let why = format!("there are more than {ITEMS_MAX} files, or directories deeper than {DEPTH_MAX}");
            return self.refuse(name, b"too many", why);
        }
        if meta.is_symlink() {
            return self.link(path, name, depth);
        }
        self.entry(path, name, &meta, b"", depth);
    }

    fn link(&mut self, path: &Path, name: String, depth: usize) {
        let target = fs::read_link(path).unwrap_or_default();
        let bytes = [b"link ", target.as_os_str().as_bytes(), b"\0"].concat();
        // Settings are read from where they are, and nowhere else.
        if matches!(name.as_str(), ".baton" | ".baton/config.jsonc" | ".baton/local.jsonc") {
            return self.refuse(name, &bytes, format!("is a link to {}", shown(target.as_os_str().as_bytes())));
        }
        match path.canonicalize().and_then(|real| Ok((fs::metadata(&real)?, real))) {
            Ok((meta, real)) if real.starts_with(self.root) => self.entry(&real, name, &meta, &bytes, depth),
            Ok(_) => {
                self.refuse(
                    name,
                    &bytes,
                    format!("leads out of the project to {}", shown(target.as_os_str().as_bytes())),
                );
            }
            Err(error) => self.refuse(name, &bytes, format!("is a link that leads nowhere: {error}")),
        }
    }

    fn entry(&mut self, path: &Path, name: String, meta: &Metadata, link: &[u8], depth: usize) {
        if meta.is_dir() {
            if !link.is_empty() {
                self.add(name.clone(), link, b"directory");
            }
            match fs::read_dir(path) {
                Ok(entries) => {
                    let mut below: Vec<PathBuf> =
                        entries.flatten().map(|entry| entry.path()).take(ITEMS_MAX + 1).collect();
                    below.sort();
                    for path in below {
                        let inner = format!("{name}/{}", shown(path.file_name().unwrap_or_default().as_bytes()));
                        self.place(&path, inner, depth + 1);
                    }
                }
                Err(error) => self.refuse(name, link, format!("cannot be read: {error}")),
            }
        } else if !meta.is_file() {
            self.refuse(name, &[link, b"special"].concat(), "is neither a file nor a directory".to_owned());
        } else if meta.len() > FILE_BYTES_MAX || self.bytes + meta.len() > BYTES_MAX {
            let size = meta.len();
            self.refuse(
                name,
                &[link, &size.to_be_bytes()].concat(),
                format!("is too large to be trusted: {size} bytes"),
            );
        } else {
            self.bytes += meta.len();
            match read(path, self.keep) {
                Ok(Content { hash, kept, is_executable }) => {
                    let tag: &[u8] = if is_executable { b"program\0" } else { b"file\0" };
                    self.add_kept(name, &[link, tag].concat(), &hash, kept);
                }
                Err(error) => self.refuse(name, link, format!("cannot be read: {error}")),
            }
        }
    }

    /// What git obeys in the repository at `dir`, under names that begin with `prefix`.
    fn git(&mut self, dir: &Path, prefix: &str) {
        let control = git::control(dir);
        if control.is_unknown {
            self.refuse(format!("{prefix}.git/config"), b"unknown", "cannot be read, or is too large".to_owned());
        }
        let named = git::programs_named(&control);
        if !named.is_empty() {
            let hash = Sha256::digest(named.as_bytes());
            self.add_kept(format!("{prefix}.git/config"), b"git\0", &hash, Some(named.into_bytes()));
        }
        for hook in control.hooks {
            let inside =
                hook.canonicalize().ok().and_then(|real| real.strip_prefix(self.root).map(Path::to_owned).ok());
            // Those of a repository that lies elsewhere, or of a directory that is the person's own.
            let name = match inside {
                Some(inside) => shown(inside.as_os_str().as_bytes()),
                None => format!("(git hooks) {prefix}{}", shown(hook.file_name().unwrap_or_default().as_bytes())),
            };
            match fs::metadata(&hook) {
                Ok(meta) => self.entry(&hook, name, &meta, b"hook\0", 0),
                Err(error) => self.refuse(name, b"hook", format!("cannot be read: {error}")),
            }
        }
    }

    fn refuse(&mut self, path: String, what: &[u8], problem: String) {
        let hash = hash(b"refused\0", what);
        self.items.push(Item { path, hash, problem: Some(problem), content: None });
    }

    fn add(&mut self, path: String, tag: &[u8], what: &[u8]) {
        self.items.push(Item { path, hash: hash(tag, what), problem: None, content: None });
    }

    fn add_kept(&mut self, path: String, tag: &[u8], what: &[u8], content: Option<Vec<u8>>) {
        let content = content.filter(|_| self.keep == Keep::Contents);
        self.items.push(Item { path, hash: hash(tag, what), problem: None, content });
    }
}

fn hash(tag: &[u8], what: &[u8]) -> String {
    let digest = Sha256::new().chain_update((tag.len() as u64).to_be_bytes()).chain_update(tag).chain_update(what);
    hex(&digest.finalize())
}

struct Content {
    hash: [u8; 32],
    kept: Option<Vec<u8>>,
    is_executable: bool,
}

/// Hashes a file, and keeps what it holds if that was asked for and is not long.
fn read(path: &Path, keep: Keep) -> io::Result<Content> {
    // What was a file a moment ago may be a pipe by now, which is not waited for.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut hasher = Sha256::new();
    let mut kept = (keep == Keep::Contents).then(Vec::new);
    let (mut reader, mut chunk, mut length) = (file.take(FILE_BYTES_MAX + 1), vec![0; 64 * 1024], 0);
    loop {
        let count = reader.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        length += count as u64;
        hasher.update(&chunk[..count]);
        if let Some(bytes) = &mut kept {
            bytes.extend(&chunk[..count]);
        }
        if kept.as_ref().is_some_and(|bytes| bytes.len() > SHOWN_BYTES_MAX) {
            kept = None;
        }
    }
    if length > FILE_BYTES_MAX {
        return Err(io::Error::other("it is too large"));
    }
    Ok(Content { hash: hasher.finalize().into(), kept, is_executable: meta.permissions().mode() & 0o111 != 0 })
}

/// A name that can be shown and stored: what is not plain text is written out, and so is the sign that writes it out.
pub(super) fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c == '\n' || c == '\t' || crate::path::is_hidden(c) {
                out.extend(c.escape_unicode());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}
