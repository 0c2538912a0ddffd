//! Speed of redaction on text as tools print it, beside a plain copy and a search for one word.
//!
//! `cargo bench -p baton-guard --bench redact` prints MB/s and the ratio to the copy for a build log, a log with secrets
//! in every tenth line, source code, and one long line.

use std::hint::black_box;
use std::time::Instant;

use baton_guard::secrets::Redactor;

const BYTES: usize = 16 * 1024 * 1024;

fn main() {
    // Started by `cargo test`, it only shows that it still works.
    let bytes = if std::env::args().any(|arg| arg == "--bench") { BYTES } else { 64 * 1024 };
    let log = "2026-11-16T10:00:00.123Z INFO  server::http request id=7f3a9c method=GET path=/api/users/42 status=200 took=12ms\n\
        Compiling serde_json v1.0.145 (https://github.com/rust-lang/crates.io-index)\n\
        test parser::tokens::a_token_is_read_to_its_end ... ok\n\
        warning: unused variable: `key` at src/keyboard.rs:42:9, the password field is hidden\n";
    let secret = format!("{}DB_PASSWORD=hT7kq92xLm token ghp_{}\n", log.repeat(2), "aB3kQ9zLx7".repeat(4));
    let code = include_str!("../src/secrets/scan.rs");
    let line = code.replace('\n', " ");
    println!("{:12} {:>10} {:>10} {:>10} {:>16}", "", "copy", "one word", "redacted", "ratio to copy");
    for (name, text) in [("log", log), ("secrets", &secret), ("source", code), ("one line", &line)] {
        let text = text.repeat(bytes / text.len() + 1).into_bytes();
        let mut out = Vec::with_capacity(text.len());
        let copy = speed(&text, || out.extend_from_slice(black_box(&text)));
        let word = speed(&text, || assert_eq!(memchr::memmem::find_iter(&text, b"zzpassword").count(), 0));
        let redactor = Redactor::knowing(["some-key-of-a-provider-0123456789"]);
        let redacted = speed(&text, || {
            let (mut stream, mut out) = (redactor.stream(), Vec::with_capacity(text.len()));
            text.chunks(8192).for_each(|chunk| stream.push(chunk, &mut out));
            stream.finish(&mut out);
            black_box(out);
        });
        println!("{name:12} {copy:>10.0} {word:>10.0} {redacted:>10.0} {:>15.0}x", copy / redacted);
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn speed(text: &[u8], work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    text.len() as f64 / start.elapsed().as_secs_f64() / 1e6
}
