//! What a decision of the guard costs: per command of the corpus, for 200 in a chain, and for the largest command; and
//! what it costs at every start to see whether a repository is trusted.
//!
//! Run with `cargo bench -p baton-guard --bench guard`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_core::PermissionMode;
use baton_guard::trust::{Keep, survey};
use baton_guard::{Call, Context, Rules, Scope, evaluate};

const COMMANDS: &str = include_str!("../crates/baton-guard/tests/corpus/commands.tsv");
const ROUNDS: usize = 50;

fn main() {
    let root = PathBuf::from("/home/dev/proj");
    let scope = Scope { root: root.clone(), cwd: root, home: "/home/dev".into(), ..Scope::default() };
    let context = Context { scope, sandboxed: false, hosts: Vec::new() };
    let judge = |command: &str| {
        let started = Instant::now();
        std::hint::black_box(evaluate(
            &Call::Command(command.to_owned()),
            PermissionMode::Ask,
            &Rules::none(),
            &context,
        ));
        started.elapsed()
    };
    let commands: Vec<&str> = COMMANDS.lines().skip(1).filter_map(|line| line.splitn(3, '\t').nth(2)).collect();
    println!("first decision, with reading the table: {:?}", judge("ls"));
    let mut times: Vec<Duration> = (0..ROUNDS).flat_map(|_| commands.iter().map(|command| judge(command))).collect();
    times.sort();
    let at = |share: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank"
        )]
        let rank = (times.len() as f64 * share) as usize;
        times[rank.min(times.len() - 1)]
    };
    println!("one decision, {} samples: p50 {:?}, p99 {:?}, max {:?}", times.len(), at(0.5), at(0.99), at(1.0));
    for filler in ["git log --oneline -5 src/main.rs", "cargo build --release", "cat a.txt | sort | uniq -c"] {
        let chain = vec![filler; 200].join(" && ");
        let best = (0..20).map(|_| judge(&chain)).min().unwrap_or_default();
        println!("200 x `{filler}`: {best:?} (limit 20 ms)");
    }
    let largest = format!("{}rm -rf ~", ": ; ".repeat(30_000));
    println!("{} bytes of commands: {:?}", largest.len(), judge(&largest));
    trust();
}

/// The least of many, for a repository like most, and for one with twenty files to trust.
fn trust() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |path: &str, text: &str| {
        let file = dir.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(file, text).expect("a file");
    };
    write(".git/config", "[core]\nbare = false\n[remote \"origin\"]\nurl = https://example.com/x\n");
    (0..14).for_each(|n| write(&format!(".git/hooks/{n}.sample"), "#!/bin/sh\n"));
    (0..30).for_each(|n| write(&format!("dir{n}/file"), "x"));
    let best = || {
        let once = || {
            let started = Instant::now();
            std::hint::black_box(survey(dir.path(), Keep::Hashes));
            started.elapsed()
        };
        (0..200).map(|_| once()).min().unwrap_or_default()
    };
    println!("nothing to trust: {:?} (limit 0.2 ms)", best());
    (0..20).for_each(|n| write(&format!(".baton/agents/{n}.md"), &"text ".repeat(400)));
    println!("20 files to trust: {:?}", best());
}
