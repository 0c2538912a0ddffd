//! Server-sent events: bytes at any split become the data of whole events.
//!
//! The names of events are not kept: where a format has them, it repeats them inside the data.

use std::mem;

/// The most bytes that one event may have. No model says that much at once.
const EVENT_BYTES_MAX: usize = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An incremental decoder.
#[derive(Default)]
pub(super) struct Events {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data lines of the event that has not ended yet, each with a line break.
    data: Vec<u8>,
    /// Whether the last byte was a CR: then a LF belongs to it.
    after_cr: bool,
    /// Whether the first line is over: only it can begin with a byte order mark.
    begun: bool,
}

/// An event is larger than any answer can be.
#[derive(Debug, PartialEq)]
pub(super) struct TooLong;

impl Events {
    /// Takes the next bytes; appends the data of the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<String>) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            if mem::take(&mut self.after_cr) && piece == b"\n" {
                continue;
            }
            let (text, end) = match piece {
                [text @ .., end @ (b'\n' | b'\r')] => (text, Some(*end)),
                text => (text, None),
            };
            self.line.extend_from_slice(text);
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(TooLong);
            }
            if let Some(end) = end {
                self.after_cr = end == b'\r';
                out.extend(self.end_line());
            }
        }
        Ok(())
    }

    /// The bytes have ended. Some servers leave out the blank line after their last event; it counts
    /// unless it was cut in the middle of a line.
    pub(super) fn finish(&mut self) -> Option<String> {
        if self.line.is_empty() { self.end_event() } else { None }
    }

    fn end_line(&mut self) -> Option<String> {
        let mut line = self.line.as_slice();
        if !mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let blank = line.is_empty();
        if let Some(value) = line.strip_prefix(b"data:") {
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.data.push(b'\n');
        }
        self.line.clear();
        if blank { self.end_event() } else { None }
    }

    fn end_event(&mut self) -> Option<String> {
        let data = mem::take(&mut self.data);
        let data = data.strip_suffix(b"\n").unwrap_or(&data);
        (!data.trim_ascii().is_empty()).then(|| String::from_utf8_lossy(data).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut events = Events::default();
        let mut out = Vec::new();
        for piece in pieces {
            events.push(piece, &mut out).expect("short enough");
        }
        out.extend(events.finish());
        out
    }

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        assert_eq!(decode([stream.as_bytes()]), expected);
        assert_eq!(decode(stream.as_bytes().chunks(1)), expected, "byte by byte");
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\r\n\ndata: b\n\r", &["a", "b"]);
    }

    #[test]
    fn data_lines_of_one_event_are_joined() {
        check("data: a\ndata:b\ndata:  c\n\n", &["a\nb\n c"]);
        check("data: a\r\ndata: b\r\n\r\n", &["a\nb"]);
    }

    #[test]
    fn comments_other_fields_and_empty_events_are_ignored() {
        check(": ping\n\nevent: x\nid: 1\nretry: 5\ndatabase: no\ndata: a\n\n: bye\n\ndata:\n\nevent: y\n\n", &["a"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_start_only() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"]);
    }

    #[test]
    fn the_last_blank_line_may_be_missing_but_no_part_of_a_line() {
        check("data: a\n", &["a"]);
        check("data: a", &[]);
        check("data: a\ndata: b", &[]);
    }

    #[test]
    fn broken_utf8_is_replaced() {
        assert_eq!(decode([&b"data: a\xff\n\n"[..]]), ["a\u{fffd}"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        let mut out = Vec::new();
        let refused = (0..=EVENT_BYTES_MAX >> 20).find(|_| events.push(&piece, &mut out).is_err());
        assert_eq!(refused, Some(EVENT_BYTES_MAX >> 20));
        assert!(out.is_empty());
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(stream in "(data: ?[a-zé🦀]{0,3}|: x|event: y|\n|\r\n|\r){0,20}", size in 1..9_usize) {
            prop_assert_eq!(decode(stream.as_bytes().chunks(size)), decode([stream.as_bytes()]));
        }
    }
}
