use std::fs;
use std::io::Write;
use std::path::Path;

use baton_core::{
    EventBody, EventId, EventSource, FixedClock, Message, SequentialIds, SessionId, StopReason, Timestamp,
};

use proptest::prelude::*;

use super::*;
use crate::entry::Own;
use crate::log::Log;

/// A session with a prompt and an answer.
fn session(sessions: &Sessions, id: &str, prompt: &str, answer: &str) -> Log {
    let ids = std::sync::Arc::new(SequentialIds::default());
    let at = Timestamp::from_second(1_700_000_000).unwrap();
    let id = SessionId::new(id);
    let mut log = sessions.create(id.clone(), Path::new("/p"), at, &*ids);
    let source = EventSource::new(id, std::sync::Arc::new(FixedClock(at)), ids);
    let bodies = [
        EventBody::TurnStarted { message: Message::user(prompt), context: 0 },
        EventBody::MessageEnded { message: Message::assistant(answer), stop: Some(StopReason::EndTurn) },
    ];
    for body in bodies {
        log.append(&source.lone(body)).unwrap();
    }
    log
}

fn open(sessions: &Sessions) -> Index {
    Index::open(sessions, &mut |_, _| {}).unwrap()
}

fn in_temp(check: impl FnOnce(&Sessions)) {
    let temp = tempfile::tempdir().unwrap();
    check(&Sessions::new(temp.path()));
}

#[test]
fn sessions_are_listed_and_found_by_their_words() {
    in_temp(|sessions| {
        drop(session(sessions, "ses_A", "mend the parser\nplease", "The Lexer was wrong."));
        drop(session(sessions, "ses_B", "write a poem", &"A very long answer. ".repeat(3000)));
        let index = open(sessions);
        assert_eq!(index.why_unkept(), None);
        let listed = index.list(None).unwrap();
        assert_eq!(listed.len(), 2);
        let first = index.get(&SessionId::new("ses_A")).unwrap().unwrap();
        assert_eq!((first.title.as_str(), first.turns, first.entries, first.damage), ("mend the parser", 1, 3, 0));
        assert_eq!(first.cwd.as_deref(), Some("/p"));
        let found = index.search("LEX wrong", 10).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].session.as_str(), found[0].who.as_str()), ("ses_A", "agent"));
        assert!(found[0].excerpt.contains("\u{2}Lexer\u{3}"), "{:?}", found[0]);
        assert_eq!(index.search("\" OR *", 10).unwrap(), []);
        assert_eq!(index.search("long", 10).unwrap().len(), 1);
        assert_eq!(index.blobs().unwrap().len(), 1);
    });
}

#[test]
fn only_what_was_appended_is_read() {
    in_temp(|sessions| {
        let mut log = session(sessions, "ses_A", "one", "first");
        assert_eq!(open(sessions).list(None).unwrap()[0].entries, 3);
        let at = Timestamp::from_second(1_700_000_100).unwrap();
        log.append_own(EventId::new("evt_9"), at, Own::Titled { title: "named".to_owned() }).unwrap();
        // What stands before is not looked at again: nobody has noticed that it is another letter.
        let path = sessions.path(&SessionId::new("ses_A"));
        let bytes = fs::read(&path).unwrap();
        let at = memchr::memmem::find(&bytes, b"one").unwrap();
        let mut changed = bytes.clone();
        changed[at] = b'O';
        fs::write(&path, &changed).unwrap();
        let index = open(sessions);
        let listed = index.list(None).unwrap();
        assert_eq!((listed[0].title.as_str(), listed[0].entries), ("named", 4));
        assert_eq!(listed[0].prompt.as_deref(), Some("one"));
        // A file that is another one by now is read from its beginning.
        fs::write(&path, &changed[..changed.len() - 40]).unwrap();
        let listed = open(sessions).list(None).unwrap();
        assert_eq!((listed[0].entries, listed[0].damage), (2, 2));
        fs::remove_file(&path).unwrap();
        assert_eq!(open(sessions).list(None).unwrap(), []);
        assert_eq!(open(sessions).search("first", 10).unwrap(), []);
    });
}

#[test]
fn a_line_that_is_being_written_counts_when_it_is_whole() {
    in_temp(|sessions| {
        drop(session(sessions, "ses_A", "one", "first"));
        let path = sessions.path(&SessionId::new("ses_A"));
        let bytes = fs::read(&path).unwrap();
        let (half, rest) = bytes.split_at(bytes.len() - 10);
        fs::write(&path, half).unwrap();
        let listed = open(sessions).list(None).unwrap();
        assert_eq!((listed[0].entries, listed[0].damage), (2, 1));
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(rest).unwrap();
        let index = open(sessions);
        assert_eq!((index.list(None).unwrap()[0].entries, index.list(None).unwrap()[0].damage), (3, 0));
        assert_eq!(index.search("first", 10).unwrap().len(), 1);
    });
}

#[test]
fn an_index_that_is_damaged_or_of_another_form_is_made_anew() {
    in_temp(|sessions| {
        drop(session(sessions, "ses_A", "one", "first"));
        drop(open(sessions));
        let file = sessions.state_dir().join("index.db");
        let whole = fs::read(&file).unwrap();
        let mut middle = whole.clone();
        for byte in &mut middle[4096..] {
            *byte = 0xAA;
        }
        for bad in [b"no database at all, and long enough to look at".repeat(100), middle, Vec::new()] {
            fs::write(&file, bad).unwrap();
            let index = open(sessions);
            assert_eq!((index.list(None).unwrap().len(), index.why_unkept()), (1, None));
        }
        let db = Connection::open(&file).unwrap();
        db.execute_batch("PRAGMA user_version = 99; DROP TABLE said;").unwrap();
        drop(db);
        assert_eq!(open(sessions).search("first", 10).unwrap().len(), 1);
    });
}

#[test]
fn without_a_place_for_the_index_there_is_a_list_all_the_same() {
    in_temp(|sessions| {
        drop(session(sessions, "ses_A", "one", "first"));
        // Nobody can make a file of that name, not even whoever may do everything.
        fs::create_dir(sessions.state_dir().join("index.db")).unwrap();
        let index = open(sessions);
        assert!(index.why_unkept().is_some());
        assert_eq!(index.list(None).unwrap().len(), 1);
        assert_eq!(index.search("first", 10).unwrap().len(), 1);
    });
}

#[test]
fn several_at_once_agree() {
    in_temp(|sessions| {
        for number in 0..40 {
            drop(session(sessions, &format!("ses_{number}"), "one", "first"));
        }
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(|| open(sessions).list(None).unwrap().len())).collect();
            for one in all {
                assert_eq!(one.join().unwrap(), 40);
            }
        });
        let index = open(sessions);
        assert_eq!((index.count().unwrap(), index.search("first", 100).unwrap().len()), (40, 40));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// However a file grows, and whatever is wrong with it, reading it in pieces finds the same as reading it at once.
    #[test]
    fn reading_in_pieces_is_reading_all(
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 1..6),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let (source, whole, parts) = (temp.path().join("0"), temp.path().join("1"), temp.path().join("2"));
        let sessions = Sessions::new(&source);
        let mut log = session(&sessions, "ses_A", "one", "first");
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        for number in 10..16 {
            log.append_own(EventId::new(format!("evt_{number}")), at, Own::Titled { title: format!("t{number}") }).unwrap();
        }
        let id = SessionId::new("ses_A");
        let mut bytes = fs::read(sessions.path(&id)).unwrap();
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let fresh = |dir: &Path| {
            let sessions = Sessions::new(dir);
            fs::create_dir_all(sessions.dir()).unwrap();
            sessions
        };
        let (whole, parts) = (fresh(&whole), fresh(&parts));
        fs::write(whole.path(&id), &bytes).unwrap();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        for end in ends {
            fs::write(parts.path(&id), &bytes[..end]).unwrap();
            drop(open(&parts));
        }
        let seen = |sessions: &Sessions| {
            let index = open(sessions);
            let listed = index.list(None).unwrap().remove(0);
            let found = index.search("first", 9).unwrap().len();
            (Summary { used: at, ..listed }, found)
        };
        prop_assert_eq!(seen(&whole), seen(&parts));
    }
}
