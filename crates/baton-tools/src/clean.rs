//! Cleaning: a terminal's bytes, in pieces, become the text a reader would see.
//!
//! Escape sequences go, a line that was overwritten after a carriage return shows its last state, invalid UTF-8 becomes
//! U+FFFD, and control characters are dropped or made visible.

use std::mem;
use std::str;

/// A line longer than this is passed on before it ends, and can no longer be overwritten.
const LINE_HELD_MAX: usize = 16 * 1024;

#[derive(Default)]
pub(crate) struct Cleaner {
    state: State,
    /// The beginning of a character whose end has not come yet.
    split: Vec<u8>,
    /// The line that is being written.
    line: String,
    /// Whether a part of that line was passed on.
    passed_on: bool,
    /// Whether a carriage return was the last thing on that line.
    returned: bool,
    /// The last state of a line that was overwritten in the last piece.
    overwritten: String,
}

#[derive(Default, Clone, Copy)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In `ESC [ ...`, up to its final byte.
    Control,
    /// In a string (`ESC ] ...` and the like), up to BEL or `ESC \`.
    String,
    /// After ESC in a string.
    StringEscape,
}

impl Cleaner {
    /// Takes the next bytes; whole lines are added to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.overwritten.clear();
        if self.split.is_empty() {
            self.take(bytes, out);
        } else {
            let joined = [&mem::take(&mut self.split), bytes].concat();
            self.take(&joined, out);
        }
    }

    /// The line that is being written.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    /// The last state of a line that was overwritten in the last piece, if there was one.
    pub(crate) fn overwritten(&self) -> &str {
        &self.overwritten
    }

    /// Adds what there is of the line that is being written; it can no longer be overwritten.
    pub(crate) fn flush(&mut self, out: &mut String) {
        if !self.line.is_empty() {
            out.push_str(&self.line);
            self.line.clear();
            self.passed_on = true;
        }
    }

    /// Adds the last line, which no line break ended.
    pub(crate) fn finish(mut self, out: &mut String) {
        if !self.split.is_empty() {
            self.write("\u{FFFD}", out);
        }
        out.push_str(&self.line);
    }

    fn take(&mut self, mut bytes: &[u8], out: &mut String) {
        while let Some(&byte) = bytes.first() {
            match self.state {
                State::Text => {
                    let end = first_control(bytes);
                    if end > 0 {
                        self.text(&bytes[..end], end == bytes.len(), out);
                        bytes = &bytes[end..];
                        continue;
                    }
                    self.control(byte, out);
                }
                // A line break is in no sequence: this one was broken off, and what follows is text again.
                _ if byte == b'\n' => {
                    self.state = State::Text;
                    continue;
                }
                State::Escape => {
                    self.state = match byte {
                        b'[' => State::Control,
                        b']' | b'P' | b'X' | b'^' | b'_' => State::String,
                        b' '..=b'/' | 0x1b => State::Escape,
                        _ => State::Text,
                    }
                }
                State::Control => match byte {
                    0x40..=0x7e => self.state = State::Text,
                    0x1b => self.state = State::Escape,
                    _ => {}
                },
                State::String => match byte {
                    0x07 => self.state = State::Text,
                    0x1b => self.state = State::StringEscape,
                    _ => {}
                },
                State::StringEscape => {
                    self.state = State::Escape;
                    if byte != b'\\' {
                        continue;
                    }
                    self.state = State::Text;
                }
            }
            bytes = &bytes[1..];
        }
    }

    fn control(&mut self, byte: u8, out: &mut String) {
        match byte {
            0x1b => self.state = State::Escape,
            b'\r' => self.returned = true,
            0x08 => drop(self.line.pop()),
            0 => self.write("\u{2400}", out),
            _ => {}
        }
    }

    fn text(&mut self, mut bytes: &[u8], more_may_come: bool, out: &mut String) {
        loop {
            match str::from_utf8(bytes) {
                Ok(text) => return self.write(text, out),
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    // Checked just before; lossy conversion borrows and cannot change it.
                    self.write(&String::from_utf8_lossy(valid), out);
                    match error.error_len() {
                        None if more_may_come => {
                            self.split = rest.to_vec();
                            return;
                        }
                        None => return self.write("\u{FFFD}", out),
                        Some(len) => {
                            self.write("\u{FFFD}", out);
                            bytes = &rest[len..];
                        }
                    }
                }
            }
        }
    }

    fn write(&mut self, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        if mem::take(&mut self.returned) && !text.starts_with('\n') {
            if self.passed_on {
                out.push_str(&self.line);
                out.push('\n');
                self.passed_on = false;
            } else {
                mem::swap(&mut self.overwritten, &mut self.line);
            }
            self.line.clear();
        }
        match text.rfind('\n') {
            Some(at) => {
                out.push_str(&self.line);
                out.push_str(&text[..=at]);
                self.line.clear();
                self.line.push_str(&text[at + 1..]);
                self.passed_on = false;
            }
            None => self.line.push_str(text),
        }
        if self.line.len() > LINE_HELD_MAX {
            out.push_str(&self.line);
            self.line.clear();
            self.passed_on = true;
        }
    }
}

/// Where the first control character is that needs care. Looks at blocks first, which the compiler can vectorise.
fn first_control(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let special = |byte: u8| (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f;
    let clean = bytes.chunks(BLOCK).take_while(|block| !block.iter().fold(false, |any, byte| any | special(*byte)));
    let from = (clean.count() * BLOCK).min(bytes.len());
    bytes[from..].iter().position(|byte| special(*byte)).map_or(bytes.len(), |at| from + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(bytes: &[u8], piece: usize) -> String {
        let mut cleaner = Cleaner::default();
        let mut out = String::new();
        for piece in bytes.chunks(piece) {
            cleaner.push(piece, &mut out);
        }
        cleaner.finish(&mut out);
        out
    }

    #[test]
    fn shows_what_a_reader_would_see() {
        for (bytes, seen) in [
            (&b"plain\ttext\n"[..], "plain\ttext\n"),
            (b"\x1b[1;31merror\x1b[0m: x\x1b[K\n", "error: x\n"),
            (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
            (b"\x1b(Bcharset \x1b7saved", "charset saved"),
            (b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
            (b"50%\r\x1b[K60%\r", "60%"),
            (b"abc\x08\x08d", "ad"),
            (b"a\0b\x07c", "a\u{2400}bc"),
            (b"caf\xc3\xa9 \xff \xc3", "caf\u{e9} \u{fffd} \u{fffd}"),
            (b"broken \x1b]off\nshown", "broken \nshown"),
        ] {
            for piece in [1, 2, 3, 1000] {
                assert_eq!(clean(bytes, piece), seen, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn long_lines_are_passed_on() {
        let mut cleaner = Cleaner::default();
        let mut out = String::new();
        for _ in 0..1_000 {
            cleaner.push(&[b'x'; 1_000], &mut out);
        }
        assert!(cleaner.line.len() <= LINE_HELD_MAX && out.len() > 900_000);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(b'\r'), Just(b'\n')], 0..300), piece in 1..50usize) {
            prop_assert_eq!(clean(&bytes, piece), clean(&bytes, 1000));
        }

        #[test]
        fn plain_text_is_untouched(text in "[a-zé☃\\n\\t ]{0,300}", piece in 1..50usize) {
            prop_assert_eq!(clean(text.as_bytes(), piece), text);
        }
    }
}
