//! Damage of every kind: whole entries are kept, the rest is reported once with its bytes, and nothing that stood in the
//! file is changed. What is whole is found here by comparing bytes with the original, and by nothing that reads sessions.

mod sample;

use std::collections::HashSet;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use baton_core::{Block, EventBody, Message, SessionId, Timestamp};
use baton_session::{Backward, Cause, Damage, Forward, Loaded, Log, Piece, load};
use memchr::memmem;

use sample::{Sample, Shape, joined, sample};

const PLAIN: Shape = Shape { turns: 2, output_bytes: 40, is_compacted: false };
const COMPACTED: Shape = Shape { turns: 3, output_bytes: 40, is_compacted: true };
/// Longer than what is read at once.
const LONG: Shape = Shape { turns: 12, output_bytes: 14_000, is_compacted: false };

/// A place for damaged files.
struct Bench {
    dir: tempfile::TempDir,
    cases: usize,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), cases: 0 }
    }

    fn sample(&self, shape: Shape) -> Sample {
        sample(self.dir.path(), shape)
    }

    /// Damages a file so, and looks at everything that is promised about it.
    fn check(&mut self, name: &str, sample: &Sample, damaged: &[u8]) {
        self.cases += 1;
        let name = format!("case {}, {name}", self.cases);
        let file = self.dir.path().join("case").with_extension("jsonl");
        fs::write(&file, damaged).unwrap();
        check(&name, self.dir.path(), sample, damaged);
        fs::remove_file(&file).unwrap();
    }
}

/// Where each line of the original stands, and where it stands once more.
struct Found {
    first: Vec<Option<Range<usize>>>,
    again: Vec<Range<usize>>,
}

fn find(sample: &Sample, damaged: &[u8]) -> Found {
    let mut found = Found { first: Vec::new(), again: Vec::new() };
    for line in &sample.lines {
        let mut places = memmem::find_iter(damaged, line).map(|at| at..at + line.len());
        found.first.push(places.next());
        found.again.extend(places);
    }
    found
}

fn check(name: &str, dir: &Path, sample: &Sample, damaged: &[u8]) {
    let (session, ids) = (SessionId::new("case"), sample.source.ids());
    let found = find(sample, damaged);
    let path = dir.join("case.jsonl");
    let forward = both_ways(name, &path);
    assert_eq!(whole_ids(&forward).len(), found.first.iter().flatten().count() + found.again.len(), "{name}");

    let open = || Log::open(dir, sample.blobs.clone(), &session, Timestamp::UNIX_EPOCH, ids).unwrap();
    let (mut log, loaded) = open();
    let expected = expected_path(sample, &found);
    let ids_of = |loaded: &Loaded| loaded.path.iter().map(|entry| entry.id.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(ids_of(&loaded), expected, "{name}: all that is whole is kept, in its order");
    assert_eq!(loaded.missing, 0, "{name}");
    // Where the conversation begins: what stands before that was not read.
    let from = expected.first().map_or(0, |id| {
        let at = sample.ids.iter().position(|one| one == id).unwrap();
        memmem::rfind(damaged, &sample.lines[at]).unwrap() + sample.lines[at].len()
    });
    damage_is_told(name, damaged, &found, &loaded.damage, from);
    is_valid(name, &loaded.history().messages);

    // Nobody has written to it so far; what is written now stands behind all that was there.
    assert_eq!(fs::read(&path).unwrap(), damaged, "{name}: opening changes nothing");
    let more = [EventBody::TurnStarted { message: Message::user("go on"), context: 0 }, EventBody::MessageStarted];
    let more = more.map(|body| sample.source.lone(body));
    for event in &more {
        log.append(event).unwrap();
    }
    drop(log);
    assert!(fs::read(&path).unwrap().starts_with(damaged), "{name}: what was there stays");
    let (_log, again) = open();
    assert!(again.damage.is_empty(), "{name}: reported a second time: {:?}", again.damage);
    let after = ids_of(&again);
    assert!(after.starts_with(&expected), "{name}: {after:?}");
    let new: Vec<&str> = after[expected.len()..].iter().map(String::as_str).collect();
    let report = usize::from(!loaded.damage.is_empty());
    assert_eq!(new[report..], more.each_ref().map(|event| event.stamp.id.as_str()), "{name}");
    is_valid(name, &again.history().messages);
    both_ways(name, &path);
}

/// The pieces of a file, read from its beginning, which must be those that are read from its end.
fn both_ways(name: &str, path: &Path) -> Vec<Piece> {
    let file = File::open(path).unwrap();
    let mut scan = Forward::new(&file, 0);
    let forward: Vec<Piece> = std::iter::from_fn(|| scan.next().unwrap()).collect();
    let mut scan = Backward::new(&file, file.metadata().unwrap().len());
    let mut backward: Vec<Piece> = std::iter::from_fn(|| scan.next().unwrap()).collect();
    backward.reverse();
    assert!(
        forward == backward,
        "{name}: {} pieces from the beginning, {} from the end",
        forward.len(),
        backward.len()
    );
    forward
}

fn whole_ids(pieces: &[Piece]) -> Vec<&[u8]> {
    pieces
        .iter()
        .filter_map(|piece| if let Piece::Whole(_, line) = piece { Some(line.as_slice()) } else { None })
        .collect()
}

/// What has to be loaded: everything, or what the compaction leaves if that can be read. Entries name the one before, so
/// their order is that of the original, whatever their place.
fn expected_path(sample: &Sample, found: &Found) -> Vec<String> {
    let is_there = |at: usize| found.first[at].is_some();
    let first = match sample.compacted {
        Some((at, kept)) if is_there(at) && is_there(kept) => kept,
        _ => 0,
    };
    (first..sample.ids.len()).filter(|at| is_there(*at)).map(|at| sample.ids[at].clone()).collect()
}

/// Every byte that belongs to no entry is reported, and no other one. Before what had to be read nothing has to be.
fn damage_is_told(name: &str, damaged: &[u8], found: &Found, told: &[Damage], read_from: usize) {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Entry,
        Break,
        Lost,
    }
    let mut kinds = vec![Kind::Lost; damaged.len()];
    for range in found.first.iter().flatten() {
        kinds[range.clone()].fill(Kind::Entry);
    }
    for (at, byte) in damaged.iter().enumerate() {
        let ends_line = *byte == b'\r' && damaged.get(at + 1).is_none_or(|next| *next == b'\n');
        if kinds[at] == Kind::Lost && (*byte == b'\n' || ends_line) {
            kinds[at] = Kind::Break;
        }
    }
    let mut is_told = vec![false; damaged.len()];
    for damage in told {
        let from = usize::try_from(damage.span.from).unwrap();
        let range = from..from + usize::try_from(damage.span.bytes).unwrap();
        assert!(!is_told[range.clone()].contains(&true), "{name}: told twice: {damage}");
        assert!(!kinds[range.clone()].contains(&Kind::Entry), "{name}: an entry is whole: {damage}");
        let is_again = found.again.contains(&range);
        assert_eq!(damage.cause == Cause::Twice, is_again, "{name}: {damage}");
        is_told[range].fill(true);
    }
    let has_to_be_told = (read_from..damaged.len()).any(|at| kinds[at] == Kind::Lost) && !told.is_empty();
    let all_from = if has_to_be_told && told.iter().any(|damage| damage.cause != Cause::Torn) { 0 } else { read_from };
    for at in all_from..damaged.len() {
        assert!(kinds[at] != Kind::Lost || is_told[at], "{name}: byte {at} is not told about: {told:?}");
    }
}

/// Whether every call is answered by the message after it, and every answer has its call.
fn is_valid(name: &str, messages: &[Message]) {
    let mut asked: HashSet<String> = HashSet::new();
    for message in messages {
        let answered: HashSet<String> = message
            .content
            .iter()
            .filter_map(|block| if let Block::ToolResult(result) = block { Some(result.id.to_string()) } else { None })
            .collect();
        assert_eq!(answered, asked, "{name}: {messages:?}");
        asked = message.tool_uses().map(|call| call.id.to_string()).collect();
    }
    assert!(asked.is_empty(), "{name}: {messages:?}");
}

#[test]
fn two_thousand_damaged_files() {
    let mut bench = Bench::new();
    cut(&mut bench);
    lines(&mut bench);
    blocks(&mut bench);
    by_chance(&mut bench);
    println!("{} damaged files", bench.cases);
    assert!(bench.cases >= 2_000, "{}", bench.cases);
}

/// The last record is cut at every byte of it, whatever it is.
fn cut(bench: &mut Bench) {
    for (shape, kind) in [
        (PLAIN, "turn.end"),
        (PLAIN, "tool.end"),
        (PLAIN, "message.end"),
        (COMPACTED, "compacted"),
        (COMPACTED, "said"),
    ] {
        let sample = bench.sample(shape).up_to(kind);
        let bytes = sample.bytes();
        let last = bytes.len() - 1 - sample.lines.last().unwrap().len();
        for end in last..=bytes.len() {
            bench.check(&format!("{kind} cut at {end}"), &sample, &bytes[..end]);
        }
    }
}

/// Whole lines are lost, doubled, moved, joined, or end otherwise.
fn lines(bench: &mut Bench) {
    let sample = bench.sample(PLAIN);
    let count = sample.lines.len();
    for at in 0..count {
        let (line, all) = (sample.lines[at].clone(), sample.lines.clone());
        let but = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut all = all.clone();
            change(&mut all);
            joined(&all)
        };
        bench.check(&format!("line {at} is missing"), &sample, &but(&|all| drop(all.remove(at))));
        bench.check(&format!("line {at} is there twice"), &sample, &but(&|all| all.insert(at, line.clone())));
        bench.check(&format!("line {at} comes again at the end"), &sample, &but(&|all| all.push(line.clone())));
        if at + 1 < count {
            bench.check(&format!("lines {at} and {} are swapped", at + 1), &sample, &but(&|all| all.swap(at, at + 1)));
            let other = count - 1 - at;
            bench.check(&format!("lines {at} and {other} are swapped"), &sample, &but(&|all| all.swap(at, other)));
            let join = |with: &[u8]| [&joined(&all[..at])[..], &line, with, &joined(&all[at + 1..])].concat();
            for with in [&b""[..], "\u{2028}".as_bytes(), b"\r", b"\0", b"\x0b", b"\x85", b" "] {
                bench.check(&format!("lines {at} and {} are joined by {with:?}", at + 1), &sample, &join(with));
            }
        }
        let torn = |lines: &[Vec<u8>]| [joined(&lines[..at]), line[..line.len() / 2].to_vec()].concat();
        let twice = [torn(&all), b"\n".to_vec(), joined(&all[at + 1..]), line[..line.len() / 3].to_vec()].concat();
        bench.check(&format!("line {at} is torn, and one after the last"), &sample, &twice);
        let stuck = [torn(&all), joined(&all[at + 1..])].concat();
        bench.check(&format!("line {at} is torn, and the next stands behind it"), &sample, &stuck);
    }
    let all = joined(&sample.lines);
    bench.check("nothing is there", &sample, b"");
    bench.check("everything is there twice", &sample, &[&all[..], &all].concat());
    bench.check("all lines end as in Windows", &sample, &sample.lines.join(&b"\r\n"[..]));
    bench.check("all lines are one", &sample, &sample.lines.concat());
    bench.check("all lines end as nowhere", &sample, &sample.lines.join("\u{2028}".as_bytes()));
    bench.check("there are empty lines", &sample, &sample.lines.join(&b"\n\n\r\n"[..]));
    let backwards: Vec<Vec<u8>> = sample.lines.iter().rev().cloned().collect();
    bench.check("the last line comes first", &sample, &joined(&backwards));
}

/// Blocks of something else, as file systems and people leave them.
fn blocks(bench: &mut Bench) {
    for shape in [PLAIN, LONG] {
        let sample = bench.sample(shape);
        let bytes = sample.bytes();
        let text: Vec<u8> = "junk {\"id\":\"x\"} ".bytes().cycle().take(2 << 20).collect();
        let broken: Vec<u8> = [0xFF, 0xC3, 0x28, b'\n', 0xE2, 0x80].into_iter().cycle().take(5_000).collect();
        let nuls = vec![0; 4096];
        let almost = br#","n":12,"crc":"00000000"}{"id":"evt_0","n":13,"crc":"ffffffff"}"#;
        let blocks =
            [("2 MB of text", &text[..]), ("bad UTF-8", &broken), ("NULs", &nuls), ("almost an entry", almost)];
        for (name, block) in blocks {
            // Long files take long.
            let is_long = bytes.len() + block.len() > 1 << 20;
            let all = [bytes.len() / 2, 0, 1, bytes.len() / 3, bytes.len() - 1, bytes.len()];
            for at in all.into_iter().take(if is_long { 1 } else { 6 }) {
                let inserted = [&bytes[..at], block, &bytes[at..]].concat();
                bench.check(&format!("{name} at {at}"), &sample, &inserted);
                let lined = [&bytes[..at], b"\n", block, b"\n", &bytes[at..]].concat();
                bench.check(&format!("{name} on lines of their own at {at}"), &sample, &lined);
                let mut over = bytes.clone();
                let end = over.len().min(at + block.len());
                over[at..end].copy_from_slice(&block[..end - at]);
                bench.check(&format!("{name} over what is at {at}"), &sample, &over);
            }
        }
    }
}

/// Whatever comes to mind, several times over.
fn by_chance(bench: &mut Bench) {
    let mut dice = fastrand::Rng::with_seed(5);
    let samples = [bench.sample(PLAIN), bench.sample(COMPACTED)];
    for round in 0..400 {
        let sample = &samples[round % 2];
        let mut bytes = sample.bytes();
        for _ in 0..dice.usize(1..4) {
            let at = dice.usize(..bytes.len());
            let end = bytes.len().min(at + dice.usize(1..600));
            match dice.u8(..6) {
                0 => bytes.truncate(at.max(1)),
                // Another case of a letter may make another checksum that is as right.
                1 => bytes[at] ^= 1 << dice.u8(..5),
                2 => bytes[at..end].fill(0),
                3 => drop(bytes.drain(at..end)),
                4 => drop(bytes.splice(at..at, (at..end).map(|_| dice.u8(..)).collect::<Vec<_>>())),
                _ => bytes[at..end].fill(b'\n'),
            }
        }
        bench.check(&format!("round {round}"), sample, &bytes);
    }
}

#[test]
fn a_hole_that_is_longer_than_any_entry_is_passed_over() {
    let bench = Bench::new();
    let sample = bench.sample(PLAIN);
    let path = bench.dir.path().join("hole.jsonl");
    let (head, tail) = (joined(&sample.lines[..5]), joined(&sample.lines[5..]));
    let hole = 70 << 20;
    for (name, before, after) in [("alone", &b""[..], &b"\n"[..]), ("in a line", b"x", b"y"), ("at the end", b"", b"")]
    {
        let file = File::create(&path).unwrap();
        let start = [&head[..], before].concat();
        file.write_all_at(&start, 0).unwrap();
        file.set_len(start.len() as u64 + hole).unwrap();
        if name != "at the end" {
            file.write_all_at(&[after, b"\n", &tail].concat(), start.len() as u64 + hole).unwrap();
        }
        let pieces = both_ways(name, &path);
        let is_long = |piece: &&Piece| matches!(piece, Piece::Damage(Damage { cause: Cause::TooLong, .. }));
        assert_eq!(pieces.iter().filter(is_long).count(), 1, "{name}");
        let loaded = load(&File::open(&path).unwrap(), &sample.blobs).unwrap();
        let whole = if name == "at the end" { 5 } else { sample.lines.len() };
        assert_eq!((loaded.path.len(), loaded.damage.len()), (whole, 1), "{name}");
    }
}

#[test]
fn a_text_that_was_kept_apart_and_is_gone_is_said_to_be() {
    let bench = Bench::new();
    let sample = bench.sample(Shape { turns: 1, output_bytes: 40_000, is_compacted: false });
    let path = bench.dir.path().join("blobs.jsonl");
    fs::write(&path, sample.bytes()).unwrap();
    let loaded = || load(&File::open(&path).unwrap(), &sample.blobs).unwrap();
    assert_eq!(loaded().missing, 0);
    let blobs: Vec<_> = walk(sample.blobs.dir());
    assert_eq!(blobs.len(), 2, "one for each call");
    fs::write(&blobs[0], "something else").unwrap();
    fs::remove_file(&blobs[1]).unwrap();
    let loaded = loaded();
    assert_eq!((loaded.missing, loaded.damage.len(), loaded.path.len()), (2, 0, sample.lines.len()));
    let text = format!("{:?}", loaded.history().messages);
    assert!(text.contains("its bytes have changed") && text.contains("No such file"), "{text}");
    is_valid("blobs", &loaded.history().messages);
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
