//! Pruning: when the disk is full of what nobody will ask for, the oldest sessions go, whole and with a trace.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::json;

use super::blobs::Blobs;
use super::git::Mirror;
use super::log::{self, Extent, Log};
use super::manifest::Manifest;
use super::state::Hash;

/// How often is looked.
const EVERY: Duration = Duration::from_hours(6);

/// Removes the oldest sessions until all that is kept fits into so many bytes. What goes wrong is tried again later: no
/// work waits for it.
pub(super) fn prune(dir: &Path, current: &str, bytes_max: u64) {
    let mark = dir.join("pruned.jsonl");
    let age = mark.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age < EVERY) {
        return;
    }
    // Others see by its time that somebody has looked.
    let Ok(mut trace) = File::options().create(true).append(true).open(&mark) else { return };
    drop(trace.set_modified(SystemTime::now()));
    let blobs = Blobs::new(dir.join("blobs"));
    let all = blobs.all();
    if all.iter().map(|(_, bytes)| bytes).sum::<u64>() <= bytes_max {
        return;
    }
    let known = known_to_manifests(dir);
    let mut sessions: Vec<_> = log::sessions(dir).into_iter().filter(|session| session != current).collect();
    sessions.sort_by_key(|session| age_of(dir, session));
    let mut needed: Vec<(String, HashSet<Hash>)> =
        sessions.into_iter().map(|session| (session.clone(), needed_by(dir, &session))).collect();
    let own = needed_by(dir, current);
    let fits = |needed: &[(String, HashSet<Hash>)]| {
        let is_needed = |hash: &Hash| {
            known.contains(hash) || own.contains(hash) || needed.iter().any(|(_, hashes)| hashes.contains(hash))
        };
        all.iter().filter(|(hash, _)| is_needed(hash)).map(|(_, bytes)| bytes).sum::<u64>() <= bytes_max
    };
    while !needed.is_empty() && !fits(&needed) {
        let (session, _) = needed.remove(0);
        // One that is open stays.
        if !matches!(Log::open(dir, &session), Ok(Some(_))) || log::remove(dir, &session).is_err() {
            continue;
        }
        drop(writeln!(trace, "{}", json!({ "at": Timestamp::now(), "session": session, "why": "the disk budget" })));
    }
    let kept: HashSet<Hash> = needed.into_iter().flat_map(|(_, hashes)| hashes).chain(known).chain(own).collect();
    for (hash, _) in all.iter().filter(|(hash, _)| !kept.contains(hash)) {
        blobs.remove(*hash);
    }
    let objects: HashSet<_> = log::sessions(dir).iter().flat_map(|session| objects_of(dir, session)).collect();
    Mirror::prune(&dir.join("objects"), |name| objects.contains(name));
}

fn age_of(dir: &Path, session: &str) -> Option<SystemTime> {
    dir.join("log").join(format!("{session}.jsonl")).metadata().and_then(|metadata| metadata.modified()).ok()
}

fn known_to_manifests(dir: &Path) -> HashSet<Hash> {
    let files = fs::read_dir(dir.join("manifest")).into_iter().flatten().flatten();
    let manifests = files.filter_map(|file| Manifest::read(&file.path(), u64::MAX).ok());
    manifests.flat_map(|manifest| manifest.seen.into_values().filter_map(|seen| seen.state.hash())).collect()
}

/// The bytes that a session's log refers to.
fn needed_by(dir: &Path, session: &str) -> HashSet<Hash> {
    let mut needed = HashSet::new();
    for call in log::read(dir, session).unwrap_or_default() {
        if let Extent::Paths(held) = &call.begin.scope {
            needed.extend(held.iter().filter_map(|held| held.state.hash()));
        }
        let changes = call.end.iter().flat_map(|end| &end.changes);
        needed.extend(changes.flat_map(|change| [change.before.hash(), change.after.hash()]).flatten());
    }
    needed
}

fn objects_of(dir: &Path, session: &str) -> Vec<std::path::PathBuf> {
    let ends = log::read(dir, session).unwrap_or_default().into_iter().filter_map(|call| call.end);
    ends.flat_map(|end| end.objects.into_values().flatten().map(|name| name.0)).collect()
}
