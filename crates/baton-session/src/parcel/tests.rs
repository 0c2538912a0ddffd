use std::fs;
use std::path::PathBuf;

use baton_core::{EventBody, EventSource, FixedClock, IdSource, Message, SequentialIds, StopReason};
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::changing::ChangeError;
use crate::log::OpenError;
use crate::merge::{Definition, Merged, Outcome, Staged};
use crate::sessions::Sessions;

fn at() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

struct Side {
    temp: tempfile::TempDir,
    ids: std::sync::Arc<SequentialIds>,
}

impl Side {
    fn new(first: u64) -> Self {
        let ids = std::sync::Arc::new(SequentialIds::default());
        (0..first).for_each(|_| assert!(ids.fresh().0 > 0));
        Self { temp: tempfile::tempdir().unwrap(), ids }
    }

    fn sessions(&self) -> Sessions {
        Sessions::new(&self.temp.path().join("state"))
    }

    /// One more turn of a session, which is made if it is not there.
    fn turn(&self, id: &str, prompt: &str) {
        let (sessions, id) = (self.sessions(), SessionId::new(id));
        let mut log = match sessions.open(&id, at(), &*self.ids) {
            Ok((log, _)) => log,
            Err(_) => sessions.create(id.clone(), Path::new("/p"), at(), &*self.ids),
        };
        let source = EventSource::new(id, std::sync::Arc::new(FixedClock(at())), self.ids.clone());
        let answer = Message::assistant(format!("answer to {prompt}"));
        for body in [
            EventBody::TurnStarted { message: Message::user(prompt), context: 0 },
            EventBody::MessageEnded { message: answer, stop: Some(StopReason::EndTurn) },
        ] {
            log.append(&source.lone(body)).unwrap();
        }
    }

    fn pack(&self, definitions: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut ids: Vec<_> = self.sessions().files().unwrap().into_iter().map(|file| file.id).collect();
        ids.sort();
        let mut out = Vec::new();
        pack(&self.sessions(), &ids, definitions, "test", at(), &mut out).unwrap();
        out
    }

    fn baton_dir(&self) -> PathBuf {
        self.temp.path().join("project/.baton")
    }

    fn import(&self, parcel: &[u8], replaces: bool) -> Result<Vec<Merged>, String> {
        let sessions = self.sessions();
        let staging = sessions.staging().unwrap();
        let unpacked: Result<(Vec<Staged>, Vec<Definition>), _> = unpack(parcel, staging.path());
        let (staged, definitions) = unpacked.map_err(|error| error.to_string())?;
        let merged = sessions.merge(staged, &definitions, &self.baton_dir(), replaces, at());
        merged.map_err(|error| match error {
            ChangeError::Open(OpenError::Held(_)) => "held".to_owned(),
            error => error.to_string(),
        })
    }

    fn prompts(&self, id: &str) -> Vec<String> {
        let history = self.sessions().load(&SessionId::new(id)).unwrap().history();
        history.carried.said.into_iter().map(|words| words.text).collect()
    }
}

fn outcomes(merged: &[Merged]) -> Vec<Outcome> {
    merged.iter().map(|one| one.outcome.clone()).collect()
}

#[test]
fn sessions_are_carried_with_all_that_belongs_to_them() {
    let (here, there) = (Side::new(0), Side::new(1000));
    let long = "long ".repeat(20_000);
    here.turn("ses_A", "one");
    here.turn("ses_A", &long);
    let definitions = [("agents/a.md".to_owned(), b"an agent".to_vec()), ("config.jsonc".to_owned(), b"{}".to_vec())];
    let parcel = here.pack(&definitions);
    let merged = there.import(&parcel, false).unwrap();
    assert_eq!(outcomes(&merged), [Outcome::Added, Outcome::Added, Outcome::Added]);
    let loaded = there.sessions().load(&SessionId::new("ses_A")).unwrap();
    assert_eq!((loaded.missing, loaded.damage.len()), (0, 0));
    assert_eq!(loaded.history().messages[2].text(), long);
    assert_eq!(fs::read(there.baton_dir().join("agents/a.md")).unwrap(), b"an agent");
    // The second time there is nothing to do, and what is another one here stays.
    fs::write(there.baton_dir().join("agents/a.md"), "mine").unwrap();
    let merged = there.import(&parcel, false).unwrap();
    assert_eq!(outcomes(&merged), [Outcome::Skipped, Outcome::Kept, Outcome::Skipped]);
    assert_eq!(fs::read(there.baton_dir().join("agents/a.md")).unwrap(), b"mine");
    there.import(&parcel, true).unwrap();
    assert_eq!(fs::read(there.baton_dir().join("agents/a.md")).unwrap(), b"an agent");
    let left: Vec<_> = fs::read_dir(there.baton_dir().join("agents")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_longer_one_wins_and_what_went_another_way_is_a_fork() {
    let (here, there) = (Side::new(0), Side::new(1000));
    here.turn("ses_A", "one");
    let short = here.pack(&[]);
    here.turn("ses_A", "two");
    let long = here.pack(&[]);
    assert_eq!(outcomes(&there.import(&short, false).unwrap()), [Outcome::Added]);
    assert_eq!(outcomes(&there.import(&long, false).unwrap()), [Outcome::Extended]);
    assert_eq!(there.prompts("ses_A"), ["one", "two"]);
    assert_eq!(outcomes(&there.import(&short, false).unwrap()), [Outcome::Skipped]);
    assert_eq!(there.sessions().trash().unwrap().len(), 1);
    // Both sides go on by themselves.
    here.turn("ses_A", "here");
    there.turn("ses_A", "there");
    let other = here.pack(&[]);
    let merged = there.import(&other, false).unwrap();
    assert_eq!(outcomes(&merged), [Outcome::Forked(SessionId::new("ses_A"))]);
    assert_eq!(there.prompts("ses_A"), ["one", "two", "there"]);
    let fork = merged[0].what.clone();
    assert_eq!(there.prompts(&fork), ["one", "two", "here"]);
    let header = there.sessions().load(&SessionId::new(&*fork)).unwrap().header.unwrap();
    assert_eq!((header.session.as_str(), header.forked.unwrap().session.as_str()), (&*fork, "ses_A"));
    assert_eq!(outcomes(&there.import(&other, false).unwrap()), [Outcome::Skipped]);
    there.turn(&fork, "more");
    assert_eq!(outcomes(&there.import(&other, false).unwrap()), [Outcome::Skipped]);
    assert_eq!(there.sessions().files().unwrap().len(), 2);
    assert_eq!(outcomes(&there.import(&other, true).unwrap()), [Outcome::Replaced]);
    assert_eq!(there.prompts("ses_A"), ["one", "two", "here"]);
}

#[test]
fn if_one_session_is_open_nothing_is_merged() {
    let (here, there) = (Side::new(0), Side::new(1000));
    for id in ["ses_A", "ses_B", "ses_C"] {
        here.turn(id, "one");
    }
    let short = here.pack(&[]);
    there.import(&short, false).unwrap();
    for id in ["ses_A", "ses_B", "ses_C"] {
        here.turn(id, "two");
    }
    let open = there.sessions().open(&SessionId::new("ses_C"), at(), &*there.ids).unwrap();
    assert_eq!(there.import(&here.pack(&[]), false), Err("held".to_owned()));
    drop(open);
    for id in ["ses_A", "ses_B", "ses_C"] {
        assert_eq!(there.prompts(id), ["one"]);
    }
    assert_eq!(there.sessions().trash().unwrap(), []);
    let left: Vec<_> =
        fs::read_dir(there.sessions().state_dir()).unwrap().flatten().map(|one| one.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("import-")), "{left:?}");
}

/// A parcel whose list is right and whose files are these.
fn forged(files: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let items = files.iter().map(|(path, _, content)| Item {
        path: (*path).to_owned(),
        bytes: content.len() as u64,
        sha256: crate::blobs::hash(content),
    });
    let manifest = Manifest { version: 1, made_by: "x".to_owned(), at: at(), files: items.collect() };
    let list = serde_json::to_vec(&manifest).unwrap();
    let mut tar = Builder::new(Vec::new());
    let all = [("manifest.json", EntryType::Regular, list.as_slice())];
    for (path, kind, content) in all.iter().chain(files) {
        let mut header = Header::new_gnu();
        // Not through `set_path`, which would refuse what has to be refused by the reader.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_entry_type(*kind);
        if *kind != EntryType::Regular {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn what_leads_elsewhere_or_is_not_what_it_says_is_refused() {
    let there = Side::new(0);
    let names = [
        "definitions/agents/../../../evil",
        "/etc/evil",
        "sessions/../evil.jsonl",
        "sessions/a/b.jsonl",
        "definitions/hooks/x",
        "definitions/agents/.git/config",
        "blobs/aa/bb",
        "other",
    ];
    for name in names {
        let error = there.import(&forged(&[(name, EntryType::Regular, b"x")]), false).unwrap_err();
        assert!(error.contains("no such file"), "{name}: {error}");
    }
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Char] {
        let error = there.import(&forged(&[("sessions/ses_A.jsonl", kind, b"")]), false).unwrap_err();
        assert!(error.contains("plain files"), "{kind:?}: {error}");
    }
    let name = format!("blobs/aa/{}", "b".repeat(62));
    let error = there.import(&forged(&[(&name, EntryType::Regular, b"x")]), false).unwrap_err();
    assert!(error.contains("its hash"), "{error}");
    let twice = [("sessions/ses_A.jsonl", EntryType::Regular, &b"x\n"[..]); 2];
    assert!(there.import(&forged(&twice), false).unwrap_err().contains("twice"));
    assert!(there.import(b"no tar", false).is_err());
    assert_eq!(there.sessions().files().unwrap(), []);
    assert!(!there.temp.path().join("evil").exists());
}

#[test]
fn a_newer_form_is_refused() {
    let there = Side::new(0);
    let mut tar = Builder::new(Vec::new());
    let list = br#"{"version": 2, "anything": []}"#;
    let mut header = Header::new_gnu();
    header.set_size(list.len() as u64);
    tar.append_data(&mut header, "manifest.json", list.as_slice()).unwrap();
    let error = there.import(&tar.into_inner().unwrap(), false).unwrap_err();
    assert!(error.contains("newer Baton"), "{error}");
}

#[test]
fn a_link_in_the_project_leads_nothing_out_of_it() {
    let (here, there) = (Side::new(0), Side::new(1000));
    here.turn("ses_A", "one");
    let elsewhere = there.temp.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(there.baton_dir()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, there.baton_dir().join("agents")).unwrap();
    let parcel = here.pack(&[("agents/a.md".to_owned(), b"x".to_vec())]);
    assert!(there.import(&parcel, false).unwrap_err().contains("is a link"));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // Not even the session, which was merged before.
    assert_eq!(there.sessions().files().unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_damaged_parcel_is_taken_as_a_whole_or_not_at_all(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let (here, there) = (Side::new(0), Side::new(1000));
        here.turn("ses_A", "one");
        here.turn("ses_B", "two");
        let mut parcel = here.pack(&[]);
        let at = at.index(parcel.len());
        parcel[at] = byte;
        if let Ok(merged) = there.import(&parcel, false) {
            prop_assert_eq!(merged.len(), 2);
            prop_assert_eq!(there.prompts("ses_A"), ["one"]);
            prop_assert_eq!(there.prompts("ses_B"), ["two"]);
        } else {
            prop_assert_eq!(there.sessions().files().unwrap(), vec![]);
        }
        let cut = there.import(&here.pack(&[])[..at.max(1)], true);
        if let Ok(merged) = cut {
            prop_assert_eq!(merged.len(), 2);
        }
    }
}
