//! Speed of the four wire parsers on long streams, beside what any reader of such a stream must do.
//!
//! `cargo bench --bench parsers` feeds 20 MB of text and of tool input, in small deltas as models send them, in chunks as
//! networks deliver them. The limits are finding the ends of lines (memchr), and reading every event into a JSON value
//! (serde_json). What is printed is the median of several runs, and its ratio to the decoder with large chunks.

mod figures;
#[path = "parsers/streams.rs"]
mod streams;

use baton_core::CallId;
use baton_llm::wire::{Wire, WireEvent};
use figures::{median, timed};
use serde_json::Value;

const BYTES: usize = 20_000_000;
const RUNS: usize = 5;
/// An event of a model that is not in a hurry, and what a busy connection gives at once.
const CHUNKS: [usize; 2] = [16 * 1024, 256];

fn main() {
    let (runs, bytes) = if figures::is_full() { (RUNS, BYTES) } else { (1, 200_000) };
    println!("median of {runs} runs, {} KB each; ratio to Baton in brackets\n", bytes / 1000);
    println!(
        "{:10} {:>22} {:>22} {:>22} {:>24}",
        "", "baton, 16 KiB chunks", "256 B chunks", "serde_json Value", "memchr lines"
    );
    for wire in [Wire::Anthropic, Wire::Responses, Wire::Chat, Wire::Gemini] {
        let stream = streams::stream(wire, bytes);
        let speed = |work: &dyn Fn() -> usize, expected: usize| {
            let times = (0..runs).map(|_| {
                let (ms, count) = timed(work);
                assert_eq!(count, expected, "{wire:?}");
                ms
            });
            f64::from(u32::try_from(stream.bytes.len()).unwrap()) / 1000.0 / median(times.collect())
        };
        let [large, small] = CHUNKS.map(|chunk| speed(&|| decode(wire, &stream.bytes, chunk), stream.deltas));
        let values = speed(&|| values(&stream.bytes), stream.events);
        let lines = speed(&|| memchr::memchr_iter(b'\n', &stream.bytes).count(), stream.lines);
        let cell = |speed: f64| format!("{speed:.0} MB/s ({:.2}x)", speed / large);
        println!(
            "{:10} {:>22} {:>22} {:>22} {:>24}",
            format!("{wire:?}").to_lowercase(),
            cell(large),
            cell(small),
            cell(values),
            cell(lines)
        );
    }
}

/// Decodes the stream; how many deltas came out of it. The answer must be whole.
fn decode(wire: Wire, stream: &[u8], chunk: usize) -> usize {
    let mut ids = 0;
    let mut decoder = wire.decoder(Box::new(move || {
        ids += 1;
        CallId::new(format!("call_{ids}"))
    }));
    let (mut deltas, mut out) = (0, Vec::new());
    let mut has_ended = false;
    let mut take = |out: &mut Vec<WireEvent>| {
        for event in out.drain(..) {
            match event {
                WireEvent::Delta(_) => deltas += 1,
                WireEvent::Ended(_) => has_ended = true,
                WireEvent::Failed(failure) => panic!("{wire:?}: {failure:?}"),
            }
        }
    };
    for chunk in stream.chunks(chunk) {
        decoder.push(chunk, &mut out);
        take(&mut out);
    }
    decoder.finish(&mut out);
    take(&mut out);
    assert!(has_ended, "{wire:?}");
    deltas
}

/// Reads every event into a value; how many there are.
fn values(stream: &[u8]) -> usize {
    let lines = stream.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
    lines.map(|data| serde_json::from_slice::<Value>(data).unwrap()).filter(|value| !value.is_null()).count()
}
