//! Figures: what the benches have in common.

use std::time::Instant;

/// The middle of the sorted values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How long this takes, in milliseconds, and what comes of it.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = Instant::now();
    let result = work();
    (started.elapsed().as_secs_f64() * 1000.0, result)
}

/// Whether all of it shall be measured. Started by `cargo test`, a bench only shows that it still works.
pub fn is_full() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}
