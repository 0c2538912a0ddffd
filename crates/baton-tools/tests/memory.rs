//! Memory: however much there is to read, search or print, little of it is held. One test, since it measures its process.

mod scene;

use std::fs;

use futures_util::future::join_all;
use scene::Scene;
use serde_json::json;

const MEBIBYTE: usize = 1 << 20;
/// Less where the compiler does not optimise, so that it does not take half a minute.
const FLOOD: usize = if cfg!(debug_assertions) { 100 } else { 500 };
const FLOOD_BYTES: usize = FLOOD * MEBIBYTE;

/// The largest this process has ever been, in MiB.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1_024
}

#[tokio::test]
async fn floods_take_no_memory() {
    let scene = Scene::new();
    for n in 0..4 {
        scene.file(&format!("{n}.txt"), "some line\n".repeat(8 * MEBIBYTE / 10));
    }

    let before = peak();
    let reads = join_all((0..4).map(|n| scene.ok("read", json!({"path": format!("{n}.txt"), "limit": 1})))).await;
    assert!(reads.iter().all(|text| text.starts_with("     1\tsome line\n")), "{reads:?}");
    let grown = peak() - before;
    assert!(grown < 20, "four parallel reads of 8 MiB: {grown} MiB");

    // One line that never ends; what is searched must be in memory, so it is searched only up to there.
    scene
        .ok("bash", json!({"command": format!("(echo yes; tr '\\0' x </dev/zero | head -c {FLOOD_BYTES}) >line.log")}))
        .await;
    assert_eq!(
        scene.ok("grep", json!({"pattern": "y", "path": "line.log"})).await,
        "line.log:1:yes\n[not searched to the end: 1 files, for lines longer than 8 MiB or because they never end]"
    );
    let text = scene.ok("read", json!({"path": "line.log"})).await;
    assert!(text.ends_with(&format!("[{} bytes cut]", FLOOD_BYTES - 2_000)), "{text}");
    let grown = peak() - before;
    assert!(grown < FLOOD / 2, "a file with one line of {FLOOD} MiB: {grown} MiB");

    for source in ["cat line.log", "yes some longer line of output"] {
        let text = scene.ok("bash", json!({"command": format!("{source} | head -c {FLOOD_BYTES}")})).await;
        assert!(text.len() <= 50 * 1024 && text.contains("output: "), "{text}");
    }
    // Nobody reads it, and it goes on to its end.
    for id in 1..=2 {
        let command = format!("yes some longer line of output | head -c {FLOOD_BYTES}; touch through");
        scene.ok("bash_background", json!({"command": command, "keep": id == 2, "wait": 0})).await;
        while !scene.root.join("through").exists() {
            tokio::task::yield_now().await;
        }
        fs::remove_file(scene.root.join("through")).unwrap();
        let text = scene.ok("bash_background", json!({"id": id, "wait": 60})).await;
        assert!(text.len() <= 50 * 1024 && text.contains("output: "), "{text}");
    }
    let grown = peak() - before;
    assert!(grown < FLOOD / 2, "{FLOOD} MiB of output: {grown} MiB");
    println!("grown by {grown} MiB");
}
