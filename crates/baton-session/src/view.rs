//! Looking at a session: all of its entries, those of its path, and what of the file is no entry. Nothing is changed.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use baton_core::{EventId, SessionId};

use crate::blobs::Blobs;
use crate::codec::{decode, peek};
use crate::entry::{Entry, Header, VERSION};
use crate::load::{LoadError, header};
use crate::scan::Damage;
use crate::sessions::{FindError, Sessions};
use crate::tree::Tree;

/// A session file to look at. Somebody may be writing it: what is appended later is not seen.
pub struct View {
    file: File,
    blobs: Blobs,
    header: Option<Header>,
    tree: Tree,
    damage: Vec<Damage>,
}

/// An entry and its place in the tree.
pub struct Placed {
    /// The entry.
    pub entry: Entry,
    /// Whether the conversation goes on from it, or from what follows it.
    pub is_on_path: bool,
    /// Whether it follows another entry than the one before it in the file.
    pub is_branch: bool,
    /// Whether all that it speaks of is there.
    pub is_whole: bool,
}

impl View {
    /// Reads where the entries of a session are.
    pub fn open(sessions: &Sessions, session: &SessionId) -> Result<Self, LoadError> {
        let file = File::open(sessions.path(session))?;
        let header = header(&file, sessions.blobs())?;
        if let Some(newer) = header.as_ref().filter(|header| header.v > VERSION) {
            return Err(LoadError::TooNew(newer.v));
        }
        let mut tree = Tree::all(&file)?;
        let damage = std::mem::take(&mut tree.damage);
        Ok(Self { file, blobs: sessions.blobs().clone(), header, tree, damage })
    }

    /// The first entry of the file, if it is there.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// All bytes that are no entries, reported before or not.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Passes the entries of the conversation, the first one first.
    pub fn path<E: From<io::Error>>(&self, mut each: impl FnMut(Entry) -> Result<(), E>) -> Result<(), E> {
        let Some(last) = self.tree.last() else { return Ok(()) };
        for node in self.tree.path(last) {
            if let Ok((entry, _)) = decode(&self.tree.line(&self.file, node)?, &self.blobs) {
                each(entry)?;
            }
        }
        Ok(())
    }

    /// Passes all entries, in the order of the file.
    pub fn entries<E: From<io::Error>>(&self, mut each: impl FnMut(Placed) -> Result<(), E>) -> Result<(), E> {
        let Some(last) = self.tree.last() else { return Ok(()) };
        let path: HashSet<usize> = self.tree.path(last).into_iter().collect();
        for node in 0..=last {
            let Ok((entry, is_whole)) = decode(&self.tree.line(&self.file, node)?, &self.blobs) else { continue };
            let is_branch = node > 0 && self.tree.parent(node) != Some(node - 1);
            each(Placed { entry, is_on_path: path.contains(&node), is_branch, is_whole })?;
        }
        Ok(())
    }

    /// The entry that is meant: its id, or an end of it that no other has.
    pub fn find(&self, name: &str) -> Result<EventId, FindError> {
        let name = name.trim();
        let plain = name.trim_start_matches("evt_").to_ascii_uppercase();
        let mut meant = Vec::new();
        for node in 0..self.tree.last().map_or(0, |last| last + 1) {
            let line = self.tree.line(&self.file, node).map_err(FindError::Entries)?;
            let Some(head) = peek(&line) else { continue };
            let id = head.id.trim_start_matches("evt_").to_ascii_uppercase();
            if id == plain {
                return Ok(EventId::new(head.id));
            }
            if !plain.is_empty() && id.ends_with(&plain) {
                meant.push(EventId::new(head.id));
            }
        }
        match meant.as_slice() {
            [] => Err(FindError::NoEntry(name.to_owned())),
            [one] => Ok(one.clone()),
            several => Err(FindError::SeveralEntries(name.to_owned(), several.len())),
        }
    }
}
