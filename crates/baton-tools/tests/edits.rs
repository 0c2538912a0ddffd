//! The edit corpus through the tools: every edit is made in its one place or refused with the reason, by the byte.

mod edit_corpus;
mod scene;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use edit_corpus::Case;
use scene::Scene;
use serde_json::json;

const FILES: usize = 1_000;
/// There are 192 styles, so that with a fifth of 1,000 files each habit still meets each of them. The bench makes all edits.
const SHARE: usize = 5;

async fn play(case: &Case, scene: &Scene) -> Result<String, String> {
    if let Some(seen) = &case.seen {
        scene.file(&case.path, seen);
        scene.ok("read", json!({"path": case.path})).await;
    }
    scene.file(&case.path, &case.contents);
    let outcome = scene.run(case.tool, case.input.clone()).await;
    case.verdict(&outcome.text, outcome.is_error, &scene.contents(&case.path))
}

#[test]
fn every_edit_is_in_its_place_or_refused_with_the_reason() {
    let cases: Vec<Case> = edit_corpus::cases(FILES, SHARE).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let play_some = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let scene = Scene::new();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = runtime.block_on(play(case, &scene));
            results.lock().unwrap().push((case.habit, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(play_some);
        }
    });
    let mut table = BTreeMap::new();
    let mut wrong = Vec::new();
    for (habit, result) in results.into_inner().unwrap() {
        let verdict = result.unwrap_or_else(|why| {
            wrong.push(why);
            "WRONG".to_owned()
        });
        *table.entry((habit, verdict)).or_insert(0) += 1;
    }
    println!("{} edits of {FILES} files", cases.len());
    for ((habit, verdict), count) in &table {
        println!("{:26} {count:>5} {verdict}", format!("{habit:?}"));
    }
    assert!(wrong.is_empty(), "{} wrong, among them:\n{}", wrong.len(), wrong[..wrong.len().min(3)].join("\n\n"));
}
