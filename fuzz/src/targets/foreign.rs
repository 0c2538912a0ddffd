//! Conversations of other agents: whatever is in them, what they become is a session that is whole, and the same each time.

use std::fs;

use baton_session::{Sessions, convert};

pub(super) fn check(case: &[u8]) {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("conversation.jsonl");
    fs::write(&file, case).expect("a file");
    let staged = |name: &str| {
        let dir = place.path().join(name).join("sessions");
        fs::create_dir_all(&dir).expect("a directory");
        (Sessions::new(&place.path().join(name)), convert(&file, &dir, &|_| None).expect("a file can be read"))
    };
    let (sessions, Some(first)) = staged("first") else { return };
    let Some(session) = first.staged else { return };
    let loaded = sessions.load(&session.id).expect("what was written can be read");
    assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    let history = loaded.history();
    assert!(!history.messages.is_empty());
    let Some(second) = staged("second").1.and_then(|converted| converted.staged) else { panic!("it is gone") };
    assert_eq!(session.id, second.id);
    assert!(fs::read(&session.path).expect("a file") == fs::read(&second.path).expect("a file"), "it differs");
}
