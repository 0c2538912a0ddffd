//! What an undo costs a command that changes something in a project of 10,000 files: before it and after it, the first
//! time and then, beside what `git status` needs to look through the same files.
//!
//! Run with `cargo bench -p baton-guard --bench undo`.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use baton_guard::undo::{Changed, History, How, Named, Undo, Which};

fn main() {
    // Started by `cargo test`, it only shows that it still works.
    let is_full = std::env::args().any(|arg| arg == "--bench");
    let (files, rounds) = if is_full { (10_000, 21) } else { (50, 2) };
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap().join("project");
    fill(&root, files);
    git(&root, &["init", "-q"]);
    git(&root, &["add", "-A"]);
    if is_full {
        // Stamps of just now are not relied on.
        std::thread::sleep(Duration::from_secs(1));
    }
    let dir = temp.path().join("undo");
    let session = |name| {
        let undo = Undo::new(&dir, name, vec![root.clone()], Vec::new());
        undo.begin_turn();
        undo
    };
    let named = Named::default();
    let undo = session("one");
    let first = timed(|| drop(undo.before_command("touch a", &named).unwrap()));
    undo.after().unwrap();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        before.push(timed(|| drop(undo.before_command("touch a", &named).unwrap())));
        fs::write(root.join("a"), round.to_string()).unwrap();
        after.push(timed(|| assert!(undo.after().unwrap() > 0)));
    }
    drop(undo);
    let undo = session("two");
    let next = timed(|| drop(undo.before_command("touch a", &named).unwrap()));
    fs::remove_dir_all(root.join("d0")).unwrap();
    undo.after().unwrap();
    drop(undo);
    let how = How { changed: Changed::Refuse, skips: false, is_dry: false };
    let back = timed(|| drop(History::read(&dir).unwrap().undo(&Which::Last, how).unwrap()));
    assert!(root.join("d0").is_dir());
    let status = median((0..rounds).map(|_| timed(|| git(&root, &["status", "--porcelain"]))).collect());
    let copy = timed(|| {
        let copied = Command::new("cp").arg("-a").arg(&root).arg(temp.path().join("copy")).status().unwrap();
        assert!(copied.success());
    });
    let (before, after) = (median(before), median(after));
    println!("{files} files: git status {status:.1} ms, cp -a {copy:.0} ms");
    println!("the first time {first:.0} ms: {:.1}x cp -a; in the next session {next:.0} ms", first / copy);
    println!("before a command {before:.1} ms, after it {after:.1} ms: {:.1}x git status", (before + after) / status);
    println!("the undo of a deleted directory {back:.0} ms");
}

fn fill(root: &Path, files: usize) {
    for n in 0..files {
        let dir = root.join(format!("d{}/e{}", n % 100, n % 10));
        fs::create_dir_all(&dir).unwrap();
        let mut text = String::new();
        for line in 0..(n * 7919) % 200 {
            writeln!(text, "line {line} of the file {n}").unwrap();
        }
        fs::write(dir.join(format!("f{n}.rs")), text).unwrap();
    }
    fs::write(root.join(".gitignore"), "target/\n*.log\n").unwrap();
}

fn git(root: &Path, args: &[&str]) {
    assert!(Command::new("git").current_dir(root).args(args).output().unwrap().status.success());
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
