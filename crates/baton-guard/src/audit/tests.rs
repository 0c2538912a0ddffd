use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

fn record(n: u64) -> Record {
    Record {
        kind: "command".into(),
        actor: "main".into(),
        what: format!("cargo test {n}"),
        decision: Some(Decision::Allowed),
    }
}

struct World {
    dir: tempfile::TempDir,
    audit: Audit,
}

fn world(entries: u64) -> World {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::new(dir.path(), "p-1", Redactor::new());
    for n in 0..entries {
        audit.append(Timestamp::from_second(1_800_000_000 + i64::try_from(n).unwrap()).unwrap(), record(n)).unwrap();
    }
    World { dir, audit }
}

impl World {
    fn lines(&self) -> Vec<String> {
        fs::read_to_string(self.audit.file()).unwrap().lines().map(str::to_owned).collect()
    }

    fn set(&self, lines: &[String]) {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        fs::write(self.audit.file(), text).unwrap();
    }
}

#[test]
fn what_was_appended_is_read_back_and_intact() {
    let world = world(10);
    assert_eq!(world.audit.verify().unwrap(), Report { entries: 10, findings: vec![], torn_bytes: 0 });
    let mut found = Vec::new();
    let filter = Filter { contains: Some("test 3".into()), kind: Some("command".into()), ..Filter::default() };
    world.audit.query(&filter, |entry, _| found.push(entry.seq)).unwrap();
    assert_eq!(found, [4]);
    let empty = Audit::new(world.dir.path(), "other", Redactor::new());
    assert!(empty.verify().unwrap().is_intact());
    for file in [world.audit.file(), &world.audit.key, &world.audit.checkpoint] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn secrets_do_not_get_in() {
    let world = world(0);
    let what = format!("curl -u ci:{} https://h", concat!("hT7k", "q92xLm"));
    world.audit.append(Timestamp::UNIX_EPOCH, Record { what, ..record(1) }).unwrap();
    assert!(!world.lines()[0].contains("q92xLm"), "{:?}", world.lines());
}

#[test]
fn a_line_whose_writer_was_killed_is_told_and_is_no_tampering() {
    let world = world(5);
    let mut log = OpenOptions::new().append(true).open(world.audit.file()).unwrap();
    log.write_all(b"{\"seq\":6,\"at\":\"2027").unwrap();
    let report = world.audit.verify().unwrap();
    assert!(report.is_intact() && report.torn_bytes == 19, "{report:?}");
    world.audit.append(Timestamp::UNIX_EPOCH, record(9)).unwrap();
    let report = world.audit.verify().unwrap();
    assert_eq!((report.is_intact(), report.entries, report.torn_bytes), (true, 7, 0));
    assert!(world.lines()[5].contains("audit.repair"));
}

#[test]
fn an_entry_that_was_written_and_not_sealed_is_kept() {
    let world = world(5);
    let checkpoint = fs::read(&world.audit.checkpoint).unwrap();
    world.audit.append(Timestamp::UNIX_EPOCH, record(9)).unwrap();
    fs::write(&world.audit.checkpoint, checkpoint).unwrap();
    assert!(world.audit.verify().unwrap().is_intact());
    world.audit.append(Timestamp::UNIX_EPOCH, record(10)).unwrap();
    assert_eq!(world.audit.verify().unwrap(), Report { entries: 7, findings: vec![], torn_bytes: 0 });
}

#[test]
fn several_writers_make_one_chain() {
    let world = world(0);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let audit = world.audit.clone();
            scope.spawn(move || {
                (0..50).for_each(|n| drop(audit.append(Timestamp::UNIX_EPOCH, record(writer * 100 + n)).unwrap()));
            });
        }
    });
    assert_eq!(world.audit.verify().unwrap(), Report { entries: 200, findings: vec![], torn_bytes: 0 });
    world.audit.sync().unwrap();
    assert!(world.audit.verify().unwrap().is_intact());
}

#[test]
fn an_append_that_cannot_be_sealed_fails() {
    let world = world(3);
    fs::remove_file(&world.audit.key).unwrap();
    assert!(world.audit.append(Timestamp::UNIX_EPOCH, record(1)).unwrap_err().to_string().contains("key"));
    assert_eq!(world.audit.verify().unwrap().findings, [Finding::NoKey]);
    let other = self::world(3);
    other.set(&other.lines()[..1]);
    assert!(matches!(other.audit.append(Timestamp::UNIX_EPOCH, record(1)), Err(AuditError::Changed { .. })));
    let third = self::world(1);
    fs::remove_file(third.audit.file()).unwrap();
    fs::create_dir(third.audit.file()).unwrap();
    assert!(matches!(third.audit.append(Timestamp::UNIX_EPOCH, record(1)), Err(AuditError::Io { .. })));
}

/// What somebody may do who can write the log and knows how it is made, but has not the key.
#[derive(Debug, Clone)]
enum Attack {
    Edit {
        line: usize,
        at: usize,
        byte: u8,
    },
    Delete {
        line: usize,
        count: usize,
    },
    Swap {
        a: usize,
        b: usize,
    },
    Double {
        line: usize,
    },
    Cut {
        keep: usize,
    },
    CutBytes {
        bytes: usize,
    },
    /// Another time or text, with all hashes made anew from there on.
    Restamp {
        line: usize,
        rehash_all: bool,
    },
    Append {
        rehash: bool,
    },
    Rewrite {
        keep: usize,
    },
    Empty,
    Remove,
    RemoveCheckpoint,
    EditCheckpoint {
        at: usize,
        byte: u8,
    },
    CutBoth {
        keep: usize,
    },
}

/// The hashes made anew from a line on; the seals of old are kept, for want of a key.
fn rehash(lines: &mut [String], from: usize) {
    let mut prev = String::new();
    for (n, line) in lines.iter_mut().enumerate() {
        let at = line.find(",\"hash\":\"").unwrap();
        let seal = line[line.find("\"seal\":\"").unwrap()..].to_owned();
        let mut body = line[..at].to_owned();
        if n >= from {
            let start = body.find("\"prev\":\"").unwrap();
            body = format!("{}\"prev\":\"{prev}\"", &body[..start]);
        }
        let digits = Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
        let hash = digits.concat();
        *line = format!("{body},\"hash\":\"{hash}\",{seal}");
        prev = hash;
    }
}

fn attack() -> impl Strategy<Value = Attack> {
    let n = || any::<usize>();
    prop_oneof![
        4 => (n(), n(), any::<u8>()).prop_map(|(line, at, byte)| Attack::Edit { line, at, byte }),
        2 => (n(), 1..5_usize).prop_map(|(line, count)| Attack::Delete { line, count }),
        2 => (n(), n()).prop_map(|(a, b)| Attack::Swap { a, b }),
        1 => n().prop_map(|line| Attack::Double { line }),
        2 => n().prop_map(|keep| Attack::Cut { keep }),
        2 => n().prop_map(|bytes| Attack::CutBytes { bytes }),
        3 => (n(), any::<bool>()).prop_map(|(line, rehash_all)| Attack::Restamp { line, rehash_all }),
        1 => any::<bool>().prop_map(|rehash| Attack::Append { rehash }),
        1 => n().prop_map(|keep| Attack::Rewrite { keep }),
        1 => Just(Attack::Empty),
        1 => Just(Attack::Remove),
        1 => Just(Attack::RemoveCheckpoint),
        1 => (n(), any::<u8>()).prop_map(|(at, byte)| Attack::EditCheckpoint { at, byte }),
        1 => n().prop_map(|keep| Attack::CutBoth { keep }),
    ]
}

/// Carries the attack out; says whether it changed anything.
fn carry_out(world: &World, attack: &Attack) -> bool {
    let log = world.audit.file();
    let before = (fs::read(log).unwrap(), fs::read(&world.audit.checkpoint).unwrap());
    let mut lines = world.lines();
    let count = lines.len();
    match attack.clone() {
        Attack::Edit { line, at, byte } => {
            let mut bytes = lines[line % count].clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let mut all: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
            all[line % count] = bytes;
            let text: Vec<u8> = all.into_iter().flat_map(|line| [line, b"\n".to_vec()].concat()).collect();
            fs::write(log, text).unwrap();
        }
        Attack::Delete { line, count: many } => {
            let line = line % count;
            lines.drain(line..(line + many).min(count));
            world.set(&lines);
        }
        Attack::Swap { a, b } => {
            lines.swap(a % count, b % count);
            world.set(&lines);
        }
        Attack::Double { line } => {
            lines.insert(line % count, lines[line % count].clone());
            world.set(&lines);
        }
        Attack::Cut { keep } => world.set(&lines[..keep % count]),
        Attack::CutBytes { bytes } => {
            let length = before.0.len() - 1 - bytes % before.0.len();
            fs::write(log, &before.0[..length]).unwrap();
        }
        Attack::Restamp { line, rehash_all } => {
            let line = line % count;
            lines[line] =
                lines[line].replacen("\"at\":\"20", "\"at\":\"19", 1).replacen("cargo test", "cargo clean", 1);
            if rehash_all {
                rehash(&mut lines, line);
            } else {
                let mut one = vec![lines[line].clone()];
                rehash(&mut one, 1);
                lines[line] = one.remove(0);
            }
            world.set(&lines);
        }
        Attack::Append { rehash: is_chained } => {
            lines.push(lines[count - 1].replacen(&format!("\"seq\":{count}"), &format!("\"seq\":{}", count + 1), 1));
            if is_chained {
                rehash(&mut lines, count);
            }
            world.set(&lines);
        }
        Attack::Rewrite { keep } => {
            // A log of one's own making, sealed with a key of one's own.
            let other = self::world((keep % count) as u64 + 1);
            fs::copy(other.audit.file(), log).unwrap();
            fs::copy(&other.audit.checkpoint, &world.audit.checkpoint).unwrap();
        }
        Attack::Empty => fs::write(log, "").unwrap(),
        Attack::Remove => fs::remove_file(log).unwrap(),
        Attack::RemoveCheckpoint => fs::remove_file(&world.audit.checkpoint).unwrap(),
        Attack::EditCheckpoint { at, byte } => {
            let mut bytes = before.1.clone();
            let at = at % bytes.len();
            bytes[at] = byte;
            fs::write(&world.audit.checkpoint, bytes).unwrap();
        }
        Attack::CutBoth { keep } => {
            world.set(&lines[..keep % count]);
            fs::remove_file(&world.audit.checkpoint).unwrap();
        }
    }
    let is_removed = matches!(attack, Attack::CutBoth { keep } if keep % count == 0);
    // Nothing left at all looks like nothing written yet; everything else must be found.
    !is_removed && (fs::read(log).unwrap_or_default(), fs::read(&world.audit.checkpoint).unwrap_or_default()) != before
}

#[test]
fn a_thousand_attacks_are_all_found() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut tried, mut found, mut missed) = (0, 0, Vec::new());
    let world = world(30);
    let clean = (fs::read(world.audit.file()).unwrap(), fs::read(&world.audit.checkpoint).unwrap());
    while tried < 1000 {
        let attack = attack().new_tree(&mut runner).unwrap().current();
        if carry_out(&world, &attack) {
            tried += 1;
            if world.audit.verify().unwrap().is_intact() { missed.push(attack) } else { found += 1 }
        }
        fs::write(world.audit.file(), &clean.0).unwrap();
        fs::write(&world.audit.checkpoint, &clean.1).unwrap();
    }
    println!("{found} of {tried} attacks found");
    assert!(world.audit.verify().unwrap().is_intact());
    assert!(missed.is_empty(), "{missed:?}");
}
