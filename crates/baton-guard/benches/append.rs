//! What an audit entry costs, beside one plain write of the same length.
//!
//! `cargo bench -p baton-guard --bench append` prints the median in microseconds and the ratio.

use std::fs::File;
use std::io::Write;
use std::time::Instant;

use baton_guard::audit::{Audit, Decision, Record};
use baton_guard::secrets::Redactor;
use jiff::Timestamp;

fn main() {
    // Started by `cargo test`, it only shows that it still works.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 2000 } else { 10 };
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::new(dir.path(), "bench", Redactor::new());
    let record = || Record {
        kind: "command".into(),
        actor: "main".into(),
        what: "cargo test --workspace".into(),
        decision: Some(Decision::Allowed),
    };
    let appends = median(rounds, || drop(audit.append(Timestamp::UNIX_EPOCH, record()).unwrap()));
    let mut file = File::create(dir.path().join("plain")).unwrap();
    let writes = median(rounds, || file.write_all(&[b'x'; 350]).unwrap());
    assert!(audit.verify().unwrap().is_intact());
    println!("append {appends:.1} µs, plain write {writes:.1} µs: {:.0}x", appends / writes);
}

fn median(rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}
