//! Session files: whatever the bytes are, both directions find the same, nothing is lost between, and what is whole stays.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use baton_session::{Backward, Blobs, Damage, Forward, Piece, load};

/// A file that nothing has happened to.
const KNOWN: &[u8] = include_bytes!("../../seeds/session/plain");

pub(super) fn check(case: &[u8]) {
    let file = file_of(case);
    let forward = pieces(case);
    let mut scan = Backward::new(&file, case.len() as u64);
    let mut backward = Vec::new();
    while let Some(piece) = scan.next().expect("a file can be read") {
        backward.push(piece);
    }
    backward.reverse();
    assert!(forward == backward, "{forward:?}\n{backward:?}");
    nothing_is_between(case, &forward);

    let loaded = load(&file, &Blobs::new(PathBuf::from("/nowhere")));
    if let Ok(loaded) = loaded {
        let whole = forward.iter().filter(|piece| matches!(piece, Piece::Whole(..))).count();
        assert!(loaded.path.len() <= whole);
        loaded.history();
    }
    survives(case);
}

fn file_of(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().expect("a temporary file");
    file.write_all_at(bytes, 0).expect("room in it");
    file
}

fn pieces(bytes: &[u8]) -> Vec<Piece> {
    let mut scan = Forward::new(bytes, 0);
    let mut pieces = Vec::new();
    while let Some(piece) = scan.next().expect("bytes can be read") {
        pieces.push(piece);
    }
    pieces
}

/// Pieces stand one after the other, with nothing but ends of lines between them.
fn nothing_is_between(case: &[u8], pieces: &[Piece]) {
    let mut end = 0;
    let places = pieces.iter().map(|piece| match piece {
        Piece::Whole(at, line) => (*at, line.len() as u64),
        Piece::Damage(Damage { span, .. }) => (span.from, span.bytes),
    });
    for (from, bytes) in places.chain([(case.len() as u64, 0)]) {
        let between = usize::try_from(end).unwrap_or(0)..usize::try_from(from).unwrap_or(usize::MAX);
        assert!(case[between].iter().all(|byte| b"\r\n".contains(byte)), "{pieces:?}");
        end = from + bytes;
    }
}

/// The entries of a file in whose middle this was written are all there.
fn survives(case: &[u8]) {
    let half = KNOWN.iter().take(KNOWN.len() / 2).rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let all = [&KNOWN[..half], case, b"\n", &KNOWN[half..]].concat();
    let found = pieces(&all);
    for line in KNOWN.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        assert!(found.iter().any(|piece| matches!(piece, Piece::Whole(_, found) if found == line)), "{found:?}");
    }
}
