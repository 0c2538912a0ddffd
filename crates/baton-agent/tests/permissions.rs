//! What a person is asked before a call runs, and what their answers change.

mod scene;

use std::sync::{Arc, Mutex};

use baton_agent::{Permissions, Record, RuleBook, RuleNews, SystemClock};
use baton_core::{Answer, EventBody, PermissionMode, TurnReason};
use baton_guard::audit::{Audit, Filter};
use baton_guard::secrets::Redactor;
use baton_guard::{Origin, PermissionSettings, Rules};

use scene::{Scene, prompt};

const WRITES: &str = r#"{"call":[{"tool":"write","input":{"path":"a","content":"1"}},{"tool":"write","input":{"path":"a","content":"2"}}]}
                        {"call":[{"tool":"write","input":{"path":"b","content":"3"}}]}
                        {"say":"done"}"#;

#[derive(Default)]
struct Book(Mutex<Vec<String>>);

impl RuleBook for Book {
    fn allow(&self, rules: &[String]) -> Result<String, String> {
        self.0.lock().unwrap().extend_from_slice(rules);
        Ok("the book".to_owned())
    }
}

#[tokio::test]
async fn once_is_once_and_always_is_kept() {
    let book = Arc::new(Book::default());
    let rule_book: Option<Arc<dyn RuleBook>> = Some(book.clone());
    let mut scene = Scene::with(WRITES, Permissions { rule_book, ..Permissions::of(PermissionMode::Ask) });
    scene.say(prompt, "go").await;
    let (approval, what, rules) = scene.asked().await;
    assert_eq!((what.as_str(), rules), ("a", vec!["Edit(./a)".to_owned()]));
    scene.answer(approval, Answer::Once).await;
    let (approval, ..) = scene.asked().await;
    assert!(book.0.lock().unwrap().is_empty());
    scene.answer(approval, Answer::Always).await;
    let notice = scene.until(|body| matches!(body, EventBody::Noticed { .. })).await;
    assert!(matches!(notice, EventBody::Noticed { text } if text.contains("Edit(./a)") && text.contains("the book")));
    // Another file is another question.
    let (approval, what, _) = scene.asked().await;
    assert_eq!(what, "b");
    scene.answer(approval, Answer::Session).await;
    assert_eq!(scene.end().await.0, TurnReason::Done);
    assert_eq!(*book.0.lock().unwrap(), ["Edit(./a)"]);
    assert_eq!(std::fs::read_to_string(scene.dir.path().join("a")).unwrap(), "2");
}

#[tokio::test]
async fn a_rejection_is_told_and_ends_what_is_left_of_the_answer() {
    let script = r#"{"call":[{"tool":"write","input":{"path":"a","content":"1"}},{"tool":"write","input":{"path":"b","content":"2"}}]}
                    {"when":"(?s)refused by the person: not there.*rejected another call","say":"understood"}"#;
    let mut scene = Scene::with(script, Permissions::of(PermissionMode::Ask));
    scene.say(prompt, "go").await;
    let (approval, ..) = scene.asked().await;
    scene.answer(approval, Answer::Reject { reason: Some("not there".to_owned()) }).await;
    assert_eq!(scene.end().await, (TurnReason::Done, "understood".to_owned()));
    assert!(!scene.dir.path().join("a").exists() && !scene.dir.path().join("b").exists());
}

/// Two calls that are asked about at the same time: one file outside, read twice.
fn reads(file: &std::path::Path) -> String {
    let read = |from: u32| format!(r#"{{"tool":"read","input":{{"path":"{}","offset":{from}}}}}"#, file.display());
    format!("{{\"call\":[{},{}]}}\n{{\"say\":\"done\"}}", read(1), read(2))
}

#[tokio::test]
async fn one_answer_settles_what_it_answers() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().canonicalize().unwrap().join("notes");
    std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
    let mut scene = Scene::with(&reads(&file), Permissions::of(PermissionMode::Ask));
    scene.say(prompt, "go").await;
    let (first, ..) = scene.asked().await;
    scene.asked().await;
    scene.answer(first, Answer::Session).await;
    assert!(scene.tool_output().await.contains("two"));
    assert!(scene.tool_output().await.contains("three"));
    assert_eq!(scene.end().await.0, TurnReason::Done);
}

#[tokio::test]
async fn a_rejection_ends_the_questions_that_wait() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().canonicalize().unwrap().join("notes");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let mut scene = Scene::with(&reads(&file), Permissions::of(PermissionMode::Ask));
    scene.say(prompt, "go").await;
    let (first, ..) = scene.asked().await;
    scene.asked().await;
    scene.answer(first, Answer::Reject { reason: None }).await;
    assert!(scene.tool_output().await.starts_with("refused by the person"));
    assert!(scene.tool_output().await.starts_with("refused by the person"));
    assert_eq!(scene.end().await.0, TurnReason::Done);
}

#[tokio::test]
async fn nothing_runs_that_is_denied_and_nobody_is_asked() {
    let mut permissions = Permissions::of(PermissionMode::Yolo);
    let settings = PermissionSettings { deny: vec!["Edit(./a)".to_owned()], ..PermissionSettings::default() };
    permissions.rules.add(&settings, Origin::Trusted).unwrap();
    let mut scene = Scene::with(WRITES, permissions);
    scene.say(prompt, "go").await;
    assert!(scene.tool_output().await.contains("[Edit(./a)]"));
    assert_eq!(scene.end().await.0, TurnReason::Done);
    assert!(!scene.dir.path().join("a").exists() && scene.dir.path().join("b").exists());
}

#[tokio::test]
async fn what_cannot_be_put_on_record_does_not_run() {
    let state = tempfile::tempdir().unwrap();
    let record = |audit: Audit| Some(Record::new(audit, Arc::new(SystemClock), "main".to_owned()));
    let audit = Audit::new(state.path(), "p", Redactor::new());
    let mut scene =
        Scene::with(WRITES, Permissions { record: record(audit.clone()), ..Permissions::of(PermissionMode::Yolo) });
    scene.say(prompt, "go").await;
    assert_eq!(scene.end().await.0, TurnReason::Done);
    let mut kinds = Vec::new();
    audit.query(&Filter::default(), |entry, _| kinds.push(entry.record.kind.clone())).unwrap();
    assert_eq!(kinds, ["tool"; 3]);

    // Somebody cuts the log: the next entry cannot be added to it.
    std::fs::write(audit.file(), "").unwrap();
    let mut scene = Scene::with(WRITES, Permissions { record: record(audit), ..Permissions::of(PermissionMode::Yolo) });
    scene.say(prompt, "go").await;
    assert!(scene.tool_output().await.contains("audit log"));
    assert!(scene.tool_output().await.starts_with("not run: the turn was ended"));
    assert_eq!(scene.end().await.0, TurnReason::Error);
    assert!(!scene.dir.path().join("a").exists());
}

/// Rules that the test hands out, turn by turn.
struct News(Vec<Option<Result<Rules, String>>>);

impl RuleNews for News {
    fn look(&mut self) -> Option<Result<Rules, String>> {
        self.0.remove(0)
    }
}

#[tokio::test]
async fn rules_that_change_count_from_the_next_turn_and_answers_stay() {
    const SCRIPT: &str = r#"{"when":"one","call":[{"tool":"write","input":{"path":"a","content":"1"}},{"tool":"write","input":{"path":"b","content":"1"}}]}
                            {"say":"end"}
                            {"when":"two","call":[{"tool":"write","input":{"path":"a","content":"2"}},{"tool":"write","input":{"path":"b","content":"2"}},{"tool":"grep","input":{"pattern":"."}}]}
                            {"say":"end"}
                            {"when":"three","call":[{"tool":"write","input":{"path":"a","content":"3"}}]}
                            {"say":"end"}
                            {"when":"four","call":[{"tool":"grep","input":{"pattern":"."}}]}
                            {"say":"end"}"#;
    let rules = |allow: &[&str], deny: &[&str]| {
        let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
        let mut rules = Rules::none();
        let settings = PermissionSettings { allow: list(allow), deny: list(deny), ..PermissionSettings::default() };
        rules.add(&settings, Origin::Trusted).unwrap();
        rules
    };
    let changed = rules(&[], &["Edit(./a)", "Read(./secret)"]);
    let news = News(vec![None, Some(Ok(changed)), Some(Err("line 3".to_owned())), Some(Ok(Rules::none()))]);
    let permissions = Permissions {
        rules: rules(&["Edit(./a)"], &[]),
        news: Some(Box::new(news)),
        ..Permissions::of(PermissionMode::Ask)
    };
    let mut scene = Scene::with(SCRIPT, permissions);
    std::fs::write(scene.dir.path().join("secret"), "hidden words").unwrap();
    scene.say(prompt, "one").await;
    let (approval, what, _) = scene.asked().await;
    assert_eq!(what, "b", "what the settings allow is not asked for");
    scene.answer(approval, Answer::Session).await;
    scene.end().await;

    scene.say(prompt, "two").await;
    let notice = scene.until(|body| matches!(body, EventBody::Noticed { .. })).await;
    assert!(matches!(notice, EventBody::Noticed { text } if text.contains("count from here on")));
    assert!(scene.tool_output().await.contains("the rule `Edit(./a)` denies it"));
    assert!(!scene.tool_output().await.contains("refused"), "the answer for the session still counts");
    assert!(!scene.tool_output().await.contains("hidden words"), "tools heed the new rules, too");
    scene.end().await;

    scene.say(prompt, "three").await;
    let notice = scene.until(|body| matches!(body, EventBody::Noticed { .. })).await;
    assert!(matches!(notice, EventBody::Noticed { text } if text.contains("stay as they were: line 3")));
    assert!(scene.tool_output().await.contains("the rule `Edit(./a)` denies it"));
    scene.end().await;

    scene.say(prompt, "four").await;
    assert!(scene.tool_output().await.contains("hidden words"));
    scene.end().await;
}
