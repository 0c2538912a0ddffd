//! Speed of the tools that edit, on the corpus of edits as models write them, beside reading and writing the same files.
//!
//! `cargo bench --bench edits` makes 36 edits in each of 1,000 files and checks every byte of them, which is more than the
//! tests do. What is printed is the median time of an edit, by what came of it, and its ratio to what the disk needs.

#[path = "../crates/baton-tools/tests/edit_corpus/mod.rs"]
mod edit_corpus;
mod figures;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use baton_core::{CallId, ToolUse};
use baton_tools::{Executor, Outcome, Progress, Reach, Registry, Workspace};
use figures::{median, timed};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const FILES: usize = 1_000;

fn main() {
    let files = if figures::is_full() { FILES } else { 20 };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("work");
    fs::create_dir(&root).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let workspace = Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap();
    let executor = Executor::new(Registry::builtin(), Arc::new(workspace));

    let mut edits: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let (mut plain, mut renamed) = (Vec::new(), Vec::new());
    for case in edit_corpus::cases(files, 1) {
        let file = root.join(&case.path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        if let Some(seen) = &case.seen {
            fs::write(&file, seen).unwrap();
            call(&runtime, &executor, "read", json!({"path": case.path}));
        }
        fs::write(&file, &case.contents).unwrap();
        let (ms, outcome) = timed(|| call(&runtime, &executor, case.tool, case.input.clone()));
        let verdict = case.verdict(&outcome.text, outcome.is_error, &fs::read(&file).unwrap());
        let verdict = verdict.unwrap_or_else(|wrong| panic!("{wrong}"));
        edits.entry(format!("{} {verdict}", case.tool)).or_default().push(ms * 1000.0);
        // Files as fresh as the one that was edited: what was written twice waits for the disk.
        let twin = |name: &str| {
            let twin = file.with_extension(name);
            fs::write(&twin, &case.contents).unwrap();
            twin
        };
        let (one, other) = (twin("plain"), twin("renamed"));
        plain.push(timed(|| fs::write(&one, fs::read(&one).unwrap()).unwrap()).0 * 1000.0);
        renamed.push(timed(|| rewrite(&other)).0 * 1000.0);
    }

    let all: Vec<f64> = edits.values().flatten().copied().collect();
    let per_second = 1_000_000.0 * f64::from(u32::try_from(all.len()).unwrap()) / all.iter().sum::<f64>();
    println!("{} edits of {files} files, none in a wrong place: {per_second:.0} edits a second\n", all.len());
    let limit = median(renamed.clone());
    let print = |name: &str, times: Vec<f64>| {
        let (count, time) = (times.len(), median(times));
        println!("{name:82} {count:>6} {:>18}", format!("{time:.0} µs ({:.1}x)", time / limit));
    };
    println!("{:82} {:>6} {:>18}", "", "", "median");
    for (name, times) in edits {
        print(&name, times);
    }
    print("all edits", all);
    print("reading and writing the file", plain);
    print("reading it, writing a new one beside it, renaming that: as an edit must", renamed);
}

fn call(runtime: &Runtime, executor: &Executor, tool: &str, input: Value) -> Outcome {
    let call = ToolUse { id: CallId::new("call"), tool: tool.to_owned(), input, malformed: None };
    runtime.block_on(executor.run(&call, CancellationToken::new(), Progress::none()))
}

/// The least that a change needs which is made as a whole or not at all.
fn rewrite(file: &Path) {
    let beside = file.with_extension("new");
    fs::write(&beside, fs::read(file).unwrap()).unwrap();
    fs::rename(beside, file).unwrap();
}
