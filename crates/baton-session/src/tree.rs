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

/// How many entries before one whose parent is lost are tried as its parent, where lines were moved.
const BEFORE_MAX: usize = 64;

/// The entries of a file. A million of them take some fifty megabytes.
pub(crate) struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<u64, u32>,
    last: Option<u32>,
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
        let mut tree = Self { nodes: Vec::new(), by_id: HashMap::new(), last: None, damage: Vec::new() };
        let mut orphans: Vec<(u32, u64)> = Vec::new();
        let mut reader = file;
        reader.seek(SeekFrom::Start(0))?;
        let mut pieces = Forward::new(reader, 0);
        while let Some(piece) = pieces.next()? {
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
            let named = head.parent.as_ref().map(|parent| self::key(parent));
            let parent = named.and_then(|named| tree.by_id.get(&named).copied());
            orphans.extend(named.filter(|_| parent.is_none()).map(|named| (number, named)));
            tree.by_id.insert(key, number);
            tree.nodes.push(Node { parent, at, length: u32::try_from(line.len()).map_err(io::Error::other)? });
        }
        tree.settle(&orphans);
        Ok(tree)
    }

    /// Finds parents for entries that stand before them, or whose parents are lost; and then the last entry.
    fn settle(&mut self, orphans: &[(u32, u64)]) {
        let later = |named: &u64| self.by_id.get(named).copied();
        let (moved, lost): (Vec<_>, Vec<_>) =
            orphans.iter().map(|(number, named)| (*number, later(named))).partition(|(_, parent)| parent.is_some());
        for (number, parent) in &moved {
            self.nodes[*number as usize].parent = *parent;
        }
        for (number, _) in lost {
            let mut before = (0..number).rev().take(BEFORE_MAX);
            self.nodes[number as usize].parent = if moved.is_empty() {
                before.next()
            } else {
                before.find(|before| !self.path(*before as usize).contains(&(number as usize)))
            };
        }
        self.last = u32::try_from(self.nodes.len()).ok().and_then(|count| count.checked_sub(1));
        if !moved.is_empty() {
            // What stands at the end may have been followed by something that stands before it.
            let followed_by = (0..).zip(&self.nodes).filter_map(|(number, node)| Some((node.parent?, number)));
            let followed_by: HashMap<u32, u32> = followed_by.collect();
            let next = |last: &u32| followed_by.get(last).copied();
            self.last =
                self.last.and_then(|last| std::iter::successors(Some(last), next).take(self.nodes.len()).last());
        }
    }

    /// The entry that the conversation came to at last: that at the end of the file, unless lines were moved.
    pub(crate) fn last(&self) -> Option<usize> {
        self.last.map(|last| last as usize)
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
        // No more than there are: a file that somebody has made may lead in a circle.
        let up = std::iter::successors(Some(node), |node| self.parent(*node)).take(self.nodes.len());
        let mut path: Vec<usize> = up.collect();
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
