//! The journal with a real file: what was committed is there, in its order, and nothing else.

use std::collections::BTreeMap;

use baton_core::Timestamp;
use baton_store::{Beginning, Commit, Journal, Settled, Store, StoreError};
use baton_workflow::{Caps, Definition, Event, EventBody, Params, Run, RunId, Sources, WorkflowName, step};
use serde_json::json;

const HELLO: &str = include_str!("../../../workflows/hello.star");

fn definition() -> Definition {
    let files = [("hello.star".to_owned(), HELLO.to_owned())].into();
    let sources = Sources { files, ..Sources::default() };
    Definition::load(&sources, &WorkflowName::parse("hello").unwrap()).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// The first event of a run.
fn begun(definition: &Definition, id: &str) -> Commit {
    let workflow = WorkflowName::parse("hello").unwrap();
    let run = Run::new(RunId::new(id), definition, &workflow, at(0)).unwrap();
    let body = EventBody::Started { params: Params::default(), players: BTreeMap::default(), caps: Caps::default() };
    let event = Event { at: at(1), body };
    let (run, owes) = step(definition, &run, &event).unwrap();
    let begins = Beginning { pin: definition.pin().clone(), parent: None, facts: json!({"model": "script/x"}) };
    Commit { after: 0, event, run, owes, settles: Vec::new(), metrics: Vec::new(), begins: Some(begins) }
}

/// A person stops the run.
fn stopped(definition: &Definition, before: &Commit) -> Commit {
    let event = Event { at: at(2), body: EventBody::Stopped { reason: "enough".into() } };
    let (run, owes) = step(definition, &before.run, &event).unwrap();
    let settles =
        before.owes.iter().map(|effect| Settled { effect: effect.id.clone(), receipt: "stopped".into() }).collect();
    Commit { after: before.after + 1, event, run, owes, settles, metrics: Vec::new(), begins: None }
}

#[test]
fn what_was_committed_is_there_after_the_file_was_closed() {
    let (dir, definition) = (tempfile::tempdir().unwrap(), definition());
    let file = dir.path().join("baton.db");
    let first = begun(&definition, "run_1");
    let second = stopped(&definition, &first);
    {
        let store = Store::open(&file).unwrap();
        store.commit(vec![first.clone()]).unwrap();
        let owed = store.owed().unwrap();
        assert_eq!(owed.iter().map(|debt| &debt.effect).collect::<Vec<_>>(), first.owes.iter().collect::<Vec<_>>());
        assert!(owed.iter().all(|debt| !debt.is_begun));
        store.begin(&first.owes[0].id).unwrap();
        assert!(store.owed().unwrap()[0].is_begun);
        store.commit(vec![second.clone()]).unwrap();
    }
    let store = Store::read(&file).unwrap().unwrap();
    let standing = store.run(&RunId::new("run_1")).unwrap().unwrap();
    assert_eq!((standing.run, standing.events), (second.run.clone(), 2));
    assert_eq!(standing.facts, json!({"model": "script/x"}));
    let events: Vec<_> = store.events(&RunId::new("run_1"), 1, 10).unwrap().into_iter().map(|one| one.event).collect();
    assert_eq!(events, [first.event, second.event]);
    assert_eq!(
        store.owed().unwrap().iter().map(|debt| &debt.effect).collect::<Vec<_>>(),
        second.owes.iter().collect::<Vec<_>>()
    );
    assert_eq!(store.pin(definition.hash()).unwrap().as_ref(), Some(definition.pin()));
    assert_eq!(store.runs(None).unwrap()[0].phase, "ended");
    store.check().unwrap();
}

#[test]
fn a_commit_that_comes_too_late_changes_nothing_and_takes_nothing_with_it() {
    let (dir, definition) = (tempfile::tempdir().unwrap(), definition());
    let store = Store::open(&dir.path().join("baton.db")).unwrap();
    let (one, other) = (begun(&definition, "run_1"), begun(&definition, "run_2"));
    store.commit(vec![one.clone()]).unwrap();
    // The second of the two is a copy, so neither is written.
    let refused = store.commit(vec![other.clone(), one.clone()]).unwrap_err();
    assert!(matches!(refused, StoreError::Conflict { expected: 0, found: 1, .. }), "{refused}");
    assert!(store.run(&RunId::new("run_2")).unwrap().is_none());
    store.commit(vec![other]).unwrap();
    assert_eq!(store.runs(None).unwrap().len(), 2);
}

#[test]
fn many_threads_commit_together() {
    let (dir, definition) = (tempfile::tempdir().unwrap(), definition());
    let store = Store::open(&dir.path().join("baton.db")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (store, definition) = (&store, &definition);
            scope.spawn(move || {
                for number in 0..10 {
                    store.commit(vec![begun(definition, &format!("run_{thread}_{number}"))]).unwrap();
                }
            });
        }
    });
    assert_eq!(store.runs(None).unwrap().len(), 80);
}

#[test]
fn one_process_writes_and_others_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.db");
    assert!(Store::read(&file).unwrap().is_none());
    let store = Store::open(&file).unwrap();
    let refused = Store::open(&file).err().unwrap();
    assert!(matches!(&refused, StoreError::Held { pid: Some(pid), .. } if *pid == std::process::id()), "{refused}");
    assert!(Store::read(&file).unwrap().is_some());
    assert_eq!(Store::holder(&file).unwrap().and_then(|holder| holder.pid), Some(std::process::id()));
    drop(store);
    assert_eq!(Store::holder(&file).unwrap(), None);
    // A process that was killed leaves the file of its lock, and holds nothing.
    std::fs::write(file.with_extension("lock"), "1").unwrap();
    assert_eq!(Store::holder(&file).unwrap(), None);
    Store::open(&file).unwrap();
}

#[test]
fn a_newer_or_foreign_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (newer, foreign, text) =
        (dir.path().join("newer.db"), dir.path().join("foreign.db"), dir.path().join("text.db"));
    drop(Store::open(&newer).unwrap());
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (id)").unwrap();
    std::fs::write(&text, "not a database, but long enough to be looked at as if it were one\n".repeat(20)).unwrap();
    assert!(matches!(Store::open(&newer).err().unwrap(), StoreError::Newer { found: 99, .. }));
    assert!(matches!(Store::open(&foreign).err().unwrap(), StoreError::Foreign(_)));
    assert!(matches!(Store::open(&text).err().unwrap(), StoreError::Foreign(_)));
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("not a database"));
}

#[test]
fn blobs_are_kept_once_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.db");
    let store = Store::open(&file).unwrap();
    let hash = store.put(b"output").unwrap();
    assert_eq!(store.put(b"output").unwrap(), hash);
    assert_eq!(store.get(&hash).unwrap(), b"output");
    drop(store);
    rusqlite::Connection::open(&file).unwrap().execute("UPDATE blobs SET bytes = x'00'", []).unwrap();
    let store = Store::read(&file).unwrap().unwrap();
    assert!(matches!(store.get(&hash).unwrap_err(), StoreError::Blob(_)));
}

#[test]
fn a_copy_is_whole_while_others_write() {
    let (dir, definition) = (tempfile::tempdir().unwrap(), definition());
    let store = Store::open(&dir.path().join("baton.db")).unwrap();
    store.commit(vec![begun(&definition, "run_1")]).unwrap();
    let copy = dir.path().join("copy.db");
    store.back_up(&copy).unwrap();
    store.commit(vec![begun(&definition, "run_2")]).unwrap();
    let copy = Store::read(&copy).unwrap().unwrap();
    copy.check().unwrap();
    assert_eq!(copy.runs(None).unwrap().len(), 1);
}
