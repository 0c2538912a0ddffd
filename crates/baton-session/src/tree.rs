//! The tree: where the entries of a whole file are, and which follows which.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use baton_core::EventId;

use crate::blobs::Blobs;
use crate::codec::{decode, peek};
use crate::entry::{Entry, EntryBody, Own, Span};
use crate::scan::{Cause, Damage, Forward, Piece};

/// The entries of a file. A million of them take some fifty megabytes.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<u64, u32>,
    /// Bytes that are no entries and have not been reported yet.
    pub(crate) damage: Vec<Damage>,
}

struct Node {
    parent: Option<u32>,
    at: u64,
    length: u32,
}

impl Tree {
    /// Reads a file. Every entry that is whole is found; one whose parent is lost follows the one before it.
    pub(crate) fn read(file: &File, blobs: &Blobs) -> io::Result<Self> {
        let mut known: HashSet<Span> = HashSet::new();
        let mut tree = Self::scan(file, |kind, line| {
            if kind == "damage"
                && let Ok((Entry { body: EntryBody::Own(Own::Damage { found }), .. }, _)) = decode(line, blobs)
            {
                known.extend(found);
            }
        })?;
        tree.damage.retain(|damage| !known.contains(&damage.span));
        Ok(tree)
    }

    /// The same, with all damage, reported before or not.
    pub(crate) fn all(file: &File) -> io::Result<Self> {
        Self::scan(file, |_, _| {})
    }

    fn scan(file: &File, mut see: impl FnMut(&str, &[u8])) -> io::Result<Self> {
        let mut tree = Self { nodes: Vec::new(), by_id: HashMap::new(), damage: Vec::new() };
        let mut reader = file;
        reader.seek(SeekFrom::Start(0))?;
        let mut scan = Forward::new(reader, 0);
        while let Some(piece) = scan.next()? {
            let (at, line) = match piece {
                Piece::Whole(at, line) => (at, line),
                Piece::Damage(damage) => {
                    tree.damage.push(damage);
                    continue;
                }
            };
            let Some(head) = peek(&line) else { continue };
            let key = key(&head.id);
            if tree.by_id.contains_key(&key) {
                let span = Span { from: at, bytes: line.len() as u64 };
                tree.damage.push(Damage { span, cause: Cause::Twice });
                continue;
            }
            see(&head.kind, &line);
            let number = u32::try_from(tree.nodes.len()).map_err(io::Error::other)?;
            let parent = head.parent.as_ref().map(|parent| tree.by_id.get(&self::key(parent)).copied());
            let parent = match parent {
                Some(Some(parent)) => Some(parent),
                Some(None) => number.checked_sub(1),
                None => None,
            };
            tree.by_id.insert(key, number);
            tree.nodes.push(Node { parent, at, length: u32::try_from(line.len()).map_err(io::Error::other)? });
        }
        Ok(tree)
    }

    /// The last entry of the file.
    pub(crate) fn last(&self) -> Option<usize> {
        self.nodes.len().checked_sub(1)
    }

    /// The entry of an id.
    pub(crate) fn find(&self, id: &EventId) -> Option<usize> {
        self.by_id.get(&key(id.as_str())).map(|number| *number as usize)
    }

    /// What an entry follows.
    pub(crate) fn parent(&self, node: usize) -> Option<usize> {
        self.nodes.get(node)?.parent.map(|parent| parent as usize)
    }

    /// The entries from the first to this one.
    pub(crate) fn path(&self, node: usize) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(Some(node), |node| self.parent(*node)).collect();
        path.reverse();
        path
    }

    /// The line of an entry, without its break.
    pub(crate) fn line(&self, file: &File, node: usize) -> io::Result<Vec<u8>> {
        let Some(node) = self.nodes.get(node) else { return Ok(Vec::new()) };
        let mut line = vec![0; node.length as usize];
        file.read_exact_at(&mut line, node.at)?;
        Ok(line)
    }
}

fn key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
