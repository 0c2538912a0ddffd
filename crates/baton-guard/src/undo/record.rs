//! Recording: keeps what is there before a call, and writes down what it has changed afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::blobs::Blobs;
use super::git;
use super::manifest::{Manifest, Seen, Stamp, now};
use super::named::{Ignored, Named, Summary, Target};
use super::state::{Change, FileState, State};
use super::survey::{Limits, Survey, size};
use super::{FILE_BYTES_MAX, IGNORED_BYTES_MAX, IGNORED_ENTRIES_MAX, SNAPSHOT_BYTES_MAX};
use crate::path::wildcard;

/// How many directories are taken for places that something is copied or moved to.
const DESTINATIONS_MAX: usize = 16;

/// Where is looked, and where not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) roots: Vec<PathBuf>,
    pub(super) own: Vec<PathBuf>,
}

/// What a path holds now; the bytes of a file are kept.
pub(super) fn look(path: &Path, blobs: &Blobs) -> io::Result<State> {
    match there(path) {
        Ok(metadata) => state(path, &metadata, blobs, &mut u64::MAX.clone()),
        Err(error) if is_absent(&error) => Ok(State::Absent),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What is known about a path without reading it. What is only there by a link above it is not there: it is elsewhere.
fn there(path: &Path) -> io::Result<Metadata> {
    let metadata = path.symlink_metadata()?;
    match path.parent() {
        Some(dir) if dir.canonicalize()? != dir => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(metadata),
    }
}

/// What a path holds; the bytes of a file are kept as long as there is room for them.
fn state(path: &Path, metadata: &Metadata, blobs: &Blobs, room: &mut u64) -> io::Result<State> {
    let mode = metadata.permissions().mode() & 0o7777;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return Ok(State::Link { to: fs::read_link(path)? });
    }
    if kind.is_dir() {
        return Ok(State::Dir { mode });
    }
    if !kind.is_file() {
        return Ok(State::Other);
    }
    if metadata.len() > FILE_BYTES_MAX.min(*room) || *room == 0 {
        let written = Some(Stamp::of(metadata).written());
        return Ok(State::File(FileState { hash: None, len: metadata.len(), mode, sense: None, written }));
    }
    let (hash, written, bytes) = blobs.keep_file(path)?;
    *room = room.saturating_sub(written);
    let is_index = path.file_name().is_some_and(|name| name == "index");
    let sense = bytes.as_deref().filter(|_| is_index).and_then(git::index).map(|index| index.sense);
    Ok(State::File(FileState { hash: Some(hash), len: metadata.len(), mode, sense, written: None }))
}

/// The files that each index knows, as long as it is the same.
pub(super) type Tracked = HashMap<PathBuf, (Stamp, Vec<PathBuf>)>;

/// What could not be kept.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) summary: Summary,
    /// Where repositories have their objects.
    pub(super) objects: Vec<PathBuf>,
}

/// Brings the manifest up to what is there, before a command that names something.
pub(super) fn before(
    manifest: &mut Manifest,
    place: &Place,
    blobs: &Blobs,
    named: &Named,
    tracked: &mut Tracked,
) -> io::Result<Snapshot> {
    let mut survey = Survey::new(&place.roots, &place.own);
    let mut snapshot = Snapshot { objects: survey.objects.clone(), ..Snapshot::default() };
    snapshot.summary.is_cut = survey.found.len() >= super::survey::ENTRIES_MAX;
    add_tracked(&mut survey, tracked);
    let absent = add_named(&mut survey, named, &mut snapshot.summary);

    let gone: Vec<PathBuf> = manifest.seen.keys().filter(|path| !survey.found.contains_key(*path)).cloned().collect();
    for path in gone {
        manifest.forget(&path);
    }
    let mut room = SNAPSHOT_BYTES_MAX;
    for (path, metadata) in survey.found {
        let stamp = Stamp::of(&metadata);
        if manifest.seen.get(&path).is_some_and(|seen| seen.holds(stamp)) {
            continue;
        }
        let at = now();
        match state(&path, &metadata, blobs, &mut room) {
            Ok(state) => {
                if let State::File(FileState { hash: None, len, .. }) = state {
                    snapshot.summary.large.push((path.clone(), len));
                }
                manifest.learn(path, Seen::new(stamp, state, at));
            }
            // The disk is full, or worse: nothing can be kept.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
            // It went meanwhile, or cannot be read: then it cannot be told what becomes of it.
            Err(_) => {
                manifest.forget(&path);
                survey.skipped.insert(path);
            }
        }
    }
    let stamp = place.roots.first().and_then(|root| root.symlink_metadata().ok()).map(|root| Stamp::of(&root));
    for path in absent {
        if let Some(stamp) = stamp {
            manifest.learn(path, Seen::new(stamp, State::Absent, i64::MIN));
        }
    }
    manifest.skip(survey.skipped);
    snapshot.summary.large.sort();
    Ok(snapshot)
}

/// What a command names that could not be kept.
pub(super) fn foresee(place: &Place, named: &Named) -> Summary {
    let mut survey = Survey::new(&place.roots, &place.own);
    let mut summary = Summary { is_cut: survey.found.len() >= super::survey::ENTRIES_MAX, ..Summary::default() };
    add_named(&mut survey, named, &mut summary);
    let paths: Vec<PathBuf> = named.targets.iter().flat_map(expanded).collect();
    let is_named = |path: &Path| paths.iter().any(|named| path.starts_with(named));
    let large = survey
        .found
        .iter()
        .filter(|(path, metadata)| metadata.is_file() && metadata.len() > FILE_BYTES_MAX && is_named(path));
    summary.large = large.map(|(path, metadata)| (path.clone(), metadata.len())).collect();
    summary.large.sort();
    summary
}

/// Files that git knows although they are ignored.
fn add_tracked(survey: &mut Survey, tracked: &mut Tracked) {
    for repository in &survey.repositories {
        let Some(stamp) = survey.found.get(&repository.index).map(Stamp::of) else { continue };
        if tracked.get(&repository.index).is_none_or(|(known, _)| *known != stamp) {
            let index = fs::read(&repository.index).ok().and_then(|bytes| git::index(&bytes));
            let names = index.map(|index| index.names).unwrap_or_default();
            let paths = names.into_iter().map(|name| repository.work_dir.join(name)).collect();
            tracked.insert(repository.index.clone(), (stamp, paths));
        }
        let Some((_, paths)) = tracked.get(&repository.index) else { continue };
        for path in paths.iter().filter(|path| !survey.found.contains_key(*path)).cloned().collect::<Vec<_>>() {
            if let Ok(metadata) = path.symlink_metadata()
                && !metadata.is_dir()
            {
                survey.found.insert(path, metadata);
            }
        }
    }
}

/// Adds ignored files that a command is about to delete or overwrite, the small ones first, as many as may be kept. What it
/// names and is not there.
fn add_named(survey: &mut Survey, named: &Named, summary: &mut Summary) -> Vec<PathBuf> {
    let mut absent = Vec::new();
    let mut wanted: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for target in &named.targets {
        for path in expanded(target) {
            match path.symlink_metadata() {
                Ok(_) => *wanted.entry(path).or_default() |= target.is_deleted,
                Err(_) => absent.push(path),
            }
        }
    }
    // What is copied or moved into a directory takes its name along. Where to is said by one of the last words.
    let last = named.targets.iter().rev().map(|target| &target.path).take(DESTINATIONS_MAX);
    for dir in last.filter(|path| path.is_dir()) {
        let others = wanted.keys().filter(|path| path.parent() != Some(dir)).filter_map(|path| path.file_name());
        absent.extend(others.map(|name| dir.join(name)).filter(|path| path.symlink_metadata().is_err()));
    }
    for path in survey.ignored.iter().filter(|_| named.ignored > Ignored::None) {
        let is_dir = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if !is_dir || named.ignored == Ignored::All {
            *wanted.entry(path.clone()).or_default() |= is_dir;
        }
    }
    // A directory stands for what is ignored below it: each of that is kept or left out as a whole.
    let mut pieces: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for (path, is_deleted) in wanted {
        let is_ignored = survey.ignored.iter().any(|ignored| path.starts_with(ignored));
        if is_deleted && !is_ignored {
            pieces.extend(
                survey.ignored.iter().filter(|ignored| ignored.starts_with(&path)).map(|path| (path.clone(), true)),
            );
        }
        if !survey.found.contains_key(&path) {
            *pieces.entry(path).or_default() |= is_deleted;
        }
    }
    let mut sized: Vec<_> = pieces
        .into_iter()
        .map(|(path, is_deleted)| {
            let entries_max = if is_deleted { 2 * IGNORED_ENTRIES_MAX } else { 1 };
            (size(&path, entries_max), path, is_deleted)
        })
        .collect();
    sized.sort();
    let mut limits = Limits { bytes: IGNORED_BYTES_MAX, entries: IGNORED_ENTRIES_MAX };
    for ((bytes, _), path, is_deleted) in sized {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        let mut left = limits;
        let is_kept = left.take(&metadata) && (!is_deleted || !metadata.is_dir() || survey.add_all(&path, &mut left));
        if is_kept {
            limits = left;
            // All that is there is known, so what comes is new.
            if is_deleted || !metadata.is_dir() {
                survey.skipped.remove(&path);
            }
            survey.found.insert(path, metadata);
        } else {
            summary.ignored.push((path, bytes));
        }
    }
    absent
}

/// The paths that a target stands for.
fn expanded(target: &Target) -> Vec<PathBuf> {
    const PATHS_MAX: usize = 10_000;
    // A variable can hold wildcards that are only seen for what they are when it is used.
    let is_glob = target.is_glob || target.path.as_os_str().as_encoded_bytes().contains(&b'*');
    if !is_glob {
        return vec![target.path.clone()];
    }
    let mut paths = vec![PathBuf::new()];
    for part in target.path.components() {
        let name = part.as_os_str().to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            for path in &mut paths {
                path.push(part);
            }
            continue;
        }
        let below = |dir: &PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let fits = |path: &PathBuf| path.file_name().is_some_and(|found| wildcard(&name, &found.to_string_lossy()));
        paths = paths.iter().flat_map(below).filter(fits).take(PATHS_MAX).collect();
    }
    paths
}

/// Brings the manifest up to what is there after a command; what that has changed.
pub(super) fn after(manifest: &mut Manifest, place: &Place, blobs: &Blobs) -> Vec<Change> {
    let mut survey = Survey::new(&place.roots, &place.own);
    let ignored = std::mem::take(&mut survey.ignored);
    // A repository that is new is new with all its objects: they go with it.
    for repository in survey.repositories.clone() {
        if !manifest.seen.contains_key(&repository.dir) {
            survey.add_objects(&repository.dir);
        }
    }
    // Of repositories that were there before, although they may not look like it any more.
    let has_head = |dir: &&PathBuf| manifest.seen.contains_key(&dir.with_file_name("HEAD"));
    let objects: Vec<PathBuf> =
        manifest.seen.keys().filter(|path| path.ends_with("objects")).filter(has_head).cloned().collect();
    let is_object = |path: &Path| {
        objects.iter().any(|dir| path != dir && path.starts_with(dir) && !path.starts_with(dir.join("info")))
    };
    let (mut changes, mut room) = (Vec::new(), SNAPSHOT_BYTES_MAX);
    let missing: Vec<PathBuf> =
        manifest.seen.keys().filter(|path| !survey.found.contains_key(*path)).cloned().collect();
    for path in missing {
        match there(&path) {
            // Ignored by now, but known: it is looked at with the others.
            Ok(metadata) => drop(survey.found.insert(path, metadata)),
            // A directory above it was closed, which is a change of its own.
            Err(error) if !is_absent(&error) => {}
            Err(_) => {
                let before = manifest.seen.get(&path).map_or(State::Absent, |seen| seen.state.clone());
                manifest.forget(&path);
                if before != State::Absent {
                    changes.push(Change { path, before, after: State::Absent });
                }
            }
        }
    }
    let was_skipped = |manifest: &Manifest, path: &Path| path.ancestors().any(|dir| manifest.skipped.contains(dir));
    for (path, metadata) in survey.found {
        let stamp = Stamp::of(&metadata);
        let known = manifest.seen.get(&path);
        if known.is_some_and(|seen| seen.holds(stamp)) {
            continue;
        }
        if known.is_none() && (was_skipped(manifest, &path) || is_object(&path)) {
            continue;
        }
        let at = now();
        // Bytes that cannot be kept are not needed to take them back.
        let after = state(&path, &metadata, blobs, &mut room).or_else(|_| state(&path, &metadata, blobs, &mut 0));
        let Ok(after) = after else { continue };
        let before = known.map_or(State::Absent, |seen| seen.state.clone());
        if before != after {
            changes.push(Change { path: path.clone(), before, after: after.clone() });
        }
        manifest.learn(path, Seen::new(stamp, after, at));
    }
    changes.extend(ignored_but_new(&ignored, &changes));
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

/// What is ignored, and new all the same, since the directory that it is in is new. Its bytes are nothing that was there.
fn ignored_but_new(ignored: &BTreeSet<PathBuf>, changes: &[Change]) -> Vec<Change> {
    let is_new = |change: &&Change| change.before == State::Absent && matches!(change.after, State::Dir { .. });
    let new_dirs: BTreeSet<&Path> = changes.iter().filter(is_new).map(|change| change.path.as_path()).collect();
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut waiting: Vec<PathBuf> = Vec::new();
    for path in ignored {
        if new_dirs.contains(path.as_path()) {
            waiting.extend(below(path));
        } else if path.parent().is_some_and(|dir| new_dirs.contains(dir)) {
            waiting.push(path.clone());
        }
    }
    let mut found = Vec::new();
    while let Some(path) = waiting.pop().filter(|_| found.len() < IGNORED_ENTRIES_MAX) {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            waiting.extend(below(&path));
        }
        // Without room for bytes, only their number is noted.
        if let Ok(after) = state(&path, &metadata, &Blobs::new(PathBuf::new()), &mut 0) {
            found.push(Change { path, before: State::Absent, after });
        }
    }
    found
}

/// What has become of paths.
pub(super) fn compare(held: &[(PathBuf, State)], blobs: &Blobs) -> Vec<Change> {
    let changed = |(path, before): &(PathBuf, State)| {
        let after = look(path, blobs).ok()?;
        (after != *before).then(|| Change { path: path.clone(), before: before.clone(), after })
    };
    held.iter().filter_map(changed).collect()
}

/// A path and the directories above it that are missing: whoever makes the file makes them.
pub(super) fn with_missing_dirs(path: &Path) -> BTreeSet<PathBuf> {
    let missing = path.ancestors().skip(1).take_while(|dir| dir.symlink_metadata().is_err());
    missing.map(Path::to_owned).chain([path.to_owned()]).collect()
}
