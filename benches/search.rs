//! Speed of the tools `grep` and `glob` beside ripgrep, which other agents start for every search.
//!
//! `cargo bench --bench search` makes a tree of 50,000 files and searches it for what agents search for. Both must find the
//! same. What is printed is the median of several runs on files that the kernel has in memory, and its ratio to Baton's.

mod figures;
#[path = "search/tree.rs"]
mod tree;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use baton_core::{CallId, ToolUse};
use baton_tools::{Executor, Outcome, Progress, Reach, Registry, Workspace};
use figures::{median, timed};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const FILES: usize = 50_000;
const RUNS: usize = 7;
/// Matches that a search shows. Whoever asks for a common word gets no more, and nobody reads more.
const SHOWN: usize = 200;

/// A search, as both are asked for it.
struct Search {
    name: &'static str,
    tool: &'static str,
    input: Value,
    /// With the place: without one, it reads its input.
    rg: &'static [&'static str],
    /// Whether there is more than is shown.
    is_common: bool,
}

fn searches() -> Vec<Search> {
    let files = |name, pattern: &str, rg| {
        let input = json!({"pattern": pattern, "files_only": true, "limit": 1_000});
        Search { name, tool: "grep", input, rg, is_common: false }
    };
    let insensitive = json!({"pattern": "retry_policy", "files_only": true, "limit": 1_000, "ignore_case": true});
    // Not with `-g`, which also finds what is ignored.
    let glob = |name, pattern: &str, rg| Search {
        name,
        tool: "glob",
        input: json!({"pattern": pattern}),
        rg,
        is_common: false,
    };
    vec![
        files("grep a rare word", "needle_in_the_haystack", &["-l", "needle_in_the_haystack", "./"]),
        files("grep a regex", r"Retry_\w+::backoff\(\d+\)", &["-l", r"Retry_\w+::backoff\(\d+\)", "./"]),
        Search {
            name: "grep in any case",
            tool: "grep",
            input: insensitive,
            rg: &["-li", "retry_policy", "./"],
            is_common: false,
        },
        files("grep what is not there", "no_such_word_anywhere", &["-l", "no_such_word_anywhere", "./"]),
        Search {
            name: "grep a common word",
            tool: "grep",
            input: json!({"pattern": "session"}),
            rg: &["-n", "session", "./"],
            is_common: true,
        },
        glob("glob *.rs", "*.rs", &["--files", "-trust", "./"]),
        glob("glob one directory", "crates/c0/**/*.md", &["--files", "-tmd", "crates/c0"]),
    ]
}

fn main() {
    let (runs, files) = if figures::is_full() { (RUNS, FILES) } else { (1, 3_000) };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    tree::make(&root, files);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let workspace = Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap();
    let executor = Executor::new(Registry::builtin(), Arc::new(workspace));
    let has_rg =
        Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !has_rg {
        println!("rg is not installed (Debian: ripgrep) and left out");
    }
    println!("median of {runs} runs, {files} files; ratio to Baton in brackets\n");
    println!("{:24} {:>8} {:>12} {:>20}", "", "found", "baton", "rg");
    for search in searches() {
        let (mut ours, mut theirs, mut found) = (Vec::new(), Vec::new(), 0);
        // The first run only warms up, and checks.
        for run in 0..=runs {
            let (ms, outcome) = timed(|| call(&runtime, &executor, &search));
            found = search.found(&outcome);
            ours.push(ms);
            if has_rg {
                theirs.push(timed(|| search.rg(&root)).0);
            }
            if run == 0 {
                ours.clear();
                theirs.clear();
                if has_rg {
                    search.check(&outcome, &root);
                }
            }
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let theirs = if has_rg { format!("{theirs:.1} ms ({:.2}x)", theirs / ours) } else { "-".to_owned() };
        println!("{:24} {found:>8} {:>12} {theirs:>20}", search.name, format!("{ours:.1} ms"));
    }
}

fn call(runtime: &Runtime, executor: &Executor, search: &Search) -> Outcome {
    let call =
        ToolUse { id: CallId::new("call"), tool: search.tool.to_owned(), input: search.input.clone(), malformed: None };
    let outcome = runtime.block_on(executor.run(&call, CancellationToken::new(), Progress::none()));
    assert!(!outcome.is_error, "{}", outcome.text);
    outcome
}

impl Search {
    /// How much Baton found, as it says itself.
    fn found(&self, outcome: &Outcome) -> u64 {
        let what = if self.is_common { "matches" } else { "files" };
        outcome.meta[what].as_u64().unwrap()
    }

    fn command(&self, root: &Path) -> Command {
        let mut rg = Command::new("rg");
        rg.arg("--no-config").args(self.rg).current_dir(root).stdin(Stdio::null());
        rg
    }

    /// The lines that ripgrep says, as many as an agent would take.
    fn rg(&self, root: &Path) -> Vec<String> {
        let max = if self.is_common { SHOWN } else { usize::MAX };
        let mut child = self.command(root).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = lines.take(max).map(|line| line.unwrap().trim_start_matches("./").to_owned()).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        lines
    }

    /// Both must find the same files; of a common word, the same first lines.
    fn check(&self, outcome: &Outcome, root: &Path) {
        let Self { name, .. } = self;
        if self.is_common {
            let output = self.command(root).args(["--sort", "path"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let theirs = text.lines().take(SHOWN).map(|line| line.trim_start_matches("./").trim_end());
            let ours = outcome.text.lines().take(usize::try_from(self.found(outcome)).unwrap());
            assert!(ours.clone().count() > 100 && ours.zip(theirs).all(|(ours, theirs)| ours == theirs), "{name}");
            return;
        }
        let mut theirs = self.rg(root);
        assert_eq!(self.found(outcome), theirs.len() as u64, "{name}: Baton and rg found different files");
        if outcome.meta["truncated"] == json!(false) {
            let mut ours: Vec<_> = outcome.text.lines().take(theirs.len()).map(str::to_owned).collect();
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs, "{name}");
        }
    }
}
