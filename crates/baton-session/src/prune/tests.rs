use std::path::Path;

use baton_core::{EventBody, EventSource, FixedClock, Message, SequentialIds};

use super::*;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + day * 86_400).unwrap()
}

/// Makes a session with a text that is kept apart, and lets it be of some day.
fn session(sessions: &Sessions, id: &str, day: i64, text: &str) {
    let ids = std::sync::Arc::new(SequentialIds::default());
    let id = SessionId::new(id);
    let mut log = sessions.create(id.clone(), Path::new("/p"), at(day), &*ids);
    let source = EventSource::new(id.clone(), std::sync::Arc::new(FixedClock(at(day))), ids);
    let message = Message::user(text.repeat(10_000));
    log.append(&source.lone(EventBody::TurnStarted { message, context: 0 })).unwrap();
    drop(log);
    old(&sessions.path(&id), day);
}

fn old(path: &Path, day: i64) {
    File::options().append(true).open(path).unwrap().set_modified(at(day).into()).unwrap();
}

fn made(sessions: &Sessions) {
    for number in 0..12 {
        session(sessions, &format!("ses_{number:02}"), number, &format!("text {} ", number % 11));
    }
    // Texts are of the same day as what refers to them.
    for blob in sessions.blob_files().unwrap() {
        old(&blob.path, 0);
    }
}

fn done(pruned: &[Pruned]) -> Vec<(Done, &str)> {
    pruned.iter().map(|one| (one.done, if one.done == Done::Blob { "" } else { one.what.as_str() })).collect()
}

#[test]
fn sessions_go_to_the_trash_and_then_for_good_and_their_texts_with_them() {
    let temp = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(temp.path());
    made(&sessions);
    let settings = SessionSettings::default();
    assert_eq!(sessions.prunable(&settings, at(80)).unwrap(), []);
    let would = sessions.prunable(&settings, at(200)).unwrap();
    assert_eq!(done(&would), [(Done::Discarded, "ses_00"), (Done::Discarded, "ses_01")]);
    assert_eq!(sessions.files().unwrap().len(), 12);
    let pruned = sessions.prune(&settings, at(200)).unwrap();
    assert_eq!(pruned, would);
    assert_eq!((sessions.files().unwrap().len(), sessions.trash().unwrap().len()), (10, 2));
    // What the trash refers to stays: it can come back.
    assert_eq!(sessions.blob_files().unwrap().len(), 11);
    sessions.restore("01").unwrap();
    sessions.discard(&SessionId::new("ses_01"), at(210)).unwrap();
    let pruned = sessions.prune(&settings, at(215)).unwrap();
    // ses_11 has the same text as ses_00: that stays, whoever goes.
    assert_eq!(done(&pruned), [(Done::Deleted, "ses_00")]);
    let pruned = sessions.prune(&settings, at(230)).unwrap();
    assert_eq!(done(&pruned), [(Done::Deleted, "ses_01"), (Done::Blob, "")]);
    assert_eq!(sessions.blob_files().unwrap().len(), 10);
    for file in sessions.files().unwrap() {
        assert_eq!(sessions.load(&file.id).unwrap().missing, 0);
    }
    let lines = fs::read_to_string(temp.path().join("pruned.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 5, "{lines}");
}

#[test]
fn what_is_open_is_not_pruned() {
    let temp = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(temp.path());
    made(&sessions);
    let ids = SequentialIds::default();
    let open = sessions.open(&SessionId::new("ses_00"), at(200), &ids).unwrap();
    let pruned = sessions.prune(&SessionSettings::default(), at(200)).unwrap();
    assert_eq!(done(&pruned), [(Done::Discarded, "ses_01")]);
    let refused = sessions.discard(&SessionId::new("ses_00"), at(200)).unwrap_err();
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    drop(open);
    assert!(sessions.discard(&SessionId::new("ses_00"), at(200)).is_ok());
}

#[test]
fn once_a_day_is_enough() {
    let temp = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(temp.path());
    let settings = SessionSettings::default();
    assert!(!sessions.prune_daily(&settings, at(200)).unwrap());
    made(&sessions);
    assert!(sessions.prune_daily(&settings, at(200)).unwrap());
    assert_eq!(sessions.files().unwrap().len(), 10);
    assert!(!sessions.prune_daily(&settings, at(200)).unwrap());
    old(&temp.path().join("pruned"), 0);
    assert!(sessions.prune_daily(&settings, at(200)).unwrap());
}
