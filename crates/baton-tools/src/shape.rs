//! Output shaping: as much of a text as a model should read, and an honest word about the rest.

use std::fmt::Write;
use std::mem;
use std::sync::LazyLock;
use std::time::Duration;

use memchr::{memchr, memchr_iter, memrchr, memrchr_iter};
use regex::bytes::Regex;

/// No result has more lines.
pub(crate) const LINES_MAX: usize = 2_000;
/// No result has more bytes.
pub(crate) const BYTES_MAX: usize = 50 * 1024;

/// What a shaped text leaves free for notes around it (`[exit 1]`, the path of the full output).
const NOTES: Size = Size { lines: 20, bytes: 3 * 1024 };
/// Shown whole up to this size.
const WHOLE: Size = Size { lines: LINES_MAX - NOTES.lines, bytes: BYTES_MAX - NOTES.bytes };
/// Beyond it, this much of the beginning...
const HEAD: Size = Size { lines: 700, bytes: 13 * 1024 };
/// ... this much of the end, where commands put their conclusions...
const TAIL: Size = Size { lines: 1_200, bytes: 24 * 1024 };
/// ... and this many lines in between that look like errors.
const ERRORS_MAX: usize = 40;
const ERROR_BYTES_MAX: usize = 200;

struct Size {
    lines: usize,
    bytes: usize,
}

/// Whether a text may go to the model as it is.
pub(crate) fn within_limits(text: &str) -> bool {
    text.len() <= BYTES_MAX && breaks(text.as_bytes()) <= LINES_MAX
}

/// The line, cut if it is longer than `max` bytes.
pub(crate) fn cut_line(line: &str, max: usize) -> std::borrow::Cow<'_, str> {
    if line.len() <= max {
        return line.into();
    }
    let shown = &line[..line.floor_char_boundary(max)];
    format!("{shown}... [{} bytes cut]", line.len() - shown.len()).into()
}

/// A time as it is told.
pub(crate) fn in_words(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds if seconds >= 600 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// The beginning of a list of lines, as far as a result may reach.
#[derive(Default)]
pub(crate) struct Head {
    text: String,
    lines: usize,
}

impl Head {
    /// Adds a line (without its line break), unless there is no room.
    pub(crate) fn push(&mut self, line: &str) -> bool {
        let fits = self.lines < WHOLE.lines && self.text.len() + line.len() < WHOLE.bytes;
        if fits {
            self.text.push_str(line);
            self.text.push('\n');
            self.lines += 1;
        }
        fits
    }

    /// How many lines it has.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// The lines, and after them the note, if it says something.
    pub(crate) fn finish(mut self, note: &str) -> String {
        self.text.push_str(note);
        self.text.truncate(self.text.trim_end_matches('\n').len());
        self.text
    }
}

/// The beginning and the end of a stream, with what looks like an error in between. Holds a few hundred kilobytes at
/// most, however long the stream is.
#[derive(Default)]
pub(crate) struct HeadTail {
    /// Everything, until it is too much; then the beginning.
    head: String,
    /// The last of what came after the head; its front is dropped now and then.
    tail: String,
    errors: Errors,
    cut: bool,
    bytes: usize,
    breaks: usize,
}

/// What a stream became.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shaped {
    /// What the model reads.
    pub(crate) text: String,
    /// Whether something was left out.
    pub(crate) cut: bool,
}

impl HeadTail {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, text: &str) {
        self.bytes += text.len();
        self.breaks += breaks(text.as_bytes());
        if self.cut {
            self.follow(text);
            return;
        }
        self.head.push_str(text);
        let lines = self.breaks + usize::from(!self.head.ends_with('\n'));
        if self.head.len() > WHOLE.bytes || lines > WHOLE.lines {
            self.cut = true;
            let rest = self.head.split_off(head_end(&self.head));
            self.errors.line = breaks(self.head.as_bytes()) + 1;
            self.follow(&rest);
        }
    }

    /// Whether something came in.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How many lines came in.
    pub(crate) fn lines(&self) -> usize {
        self.breaks
    }

    /// What is held, in order; there may be a gap after the first piece.
    pub(crate) fn held(&self) -> [&str; 2] {
        [&self.head, &self.tail]
    }

    /// Whether something will be left out.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    fn follow(&mut self, text: &str) {
        self.errors.scan(text);
        self.tail.push_str(text);
        if self.tail.len() > 8 * TAIL.bytes {
            self.tail.drain(..self.tail.ceil_char_boundary(self.tail.len() - 2 * TAIL.bytes));
        }
    }

    /// The shaped text.
    pub(crate) fn finish(self) -> Shaped {
        if !self.cut {
            return Shaped { text: self.head, cut: false };
        }
        let tail = &self.tail[tail_start(&self.tail)..];
        let before_tail = self.breaks - breaks(tail.as_bytes());
        let lines = before_tail - breaks(self.head.as_bytes());
        let bytes = self.bytes - self.head.len() - tail.len();
        let errors: Vec<_> = self.errors.found.iter().filter(|(line, _)| *line <= before_tail).collect();

        let mut text = self.head;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let amount = if lines == 0 {
            format!("{bytes} bytes of this line left out")
        } else {
            format!("{lines} lines ({bytes} bytes) left out")
        };
        // Writing to a string cannot fail.
        if errors.is_empty() {
            let _ = writeln!(text, "[... {amount} ...]");
        } else {
            let _ = writeln!(text, "[... {amount}; among them, with line numbers, these look like errors:");
            for (line, error) in errors {
                let _ = writeln!(text, "{line}: {error}");
            }
            text.push_str("...]\n");
        }
        text.push_str(tail);
        Shaped { text, cut: true }
    }
}

/// Where the head ends: after a line if one ends in reach, else within it.
fn head_end(text: &str) -> usize {
    let end = text.floor_char_boundary(HEAD.bytes);
    let bytes = &text.as_bytes()[..end];
    if let Some(at) = memchr_iter(b'\n', bytes).nth(HEAD.lines - 1) {
        return at + 1;
    }
    memrchr(b'\n', bytes).filter(|at| *at >= end / 2).map_or(end, |at| at + 1)
}

/// Where the tail starts: with a line if one begins in reach, else within it.
fn tail_start(text: &str) -> usize {
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL.bytes));
    let bytes = &text.as_bytes()[start..];
    let last = bytes.len().saturating_sub(1);
    if let Some(at) = memrchr_iter(b'\n', &bytes[..last]).nth(TAIL.lines - 1) {
        return start + at + 1;
    }
    if start == 0 || text.as_bytes()[start - 1] == b'\n' {
        return start;
    }
    memchr(b'\n', bytes).filter(|at| *at < TAIL.bytes / 2).map_or(start, |at| start + at + 1)
}

fn breaks(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes).count()
}

/// Lines that look like errors, found in pieces that need not end where lines do.
#[derive(Default)]
struct Errors {
    /// The number of the line in which the next piece begins.
    line: usize,
    /// The beginning of that line.
    begun: String,
    found: Vec<(usize, String)>,
}

static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i-u)\b[a-z]*error\b|\bfail(?:ed|ure)?\b|\bpanic(?:ked)?\b|\bfatal\b|[a-z]*exception\b|\.[a-z]+:\d+:\d+")
});
/// The words of a good summary: `0 failed`, `no errors`.
static ALL_WELL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i-u)\b(?:0|no) (?:error|fail)[a-z]*\b"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("a constant pattern, covered by tests: {error}"))
}

impl Errors {
    fn scan(&mut self, text: &str) {
        if self.found.len() == ERRORS_MAX {
            return;
        }
        let (Some(first), Some(last)) = (memchr(b'\n', text.as_bytes()), memrchr(b'\n', text.as_bytes())) else {
            self.begin(text);
            return;
        };
        self.begin(&text[..first]);
        let begun = mem::take(&mut self.begun);
        if ERROR.is_match(begun.as_bytes()) {
            self.keep(self.line, &begun);
        }
        self.line += 1;
        self.scan_lines(&text[first + 1..=last]);
        self.begin(&text[last + 1..]);
    }

    /// Searches many lines at once: looking at each by itself would be several times slower.
    fn scan_lines(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut from = 0;
        while self.found.len() < ERRORS_MAX
            && let Some(hit) = ERROR.find_at(bytes, from)
        {
            let start = memrchr(b'\n', &bytes[..hit.start()]).map_or(0, |at| at + 1);
            let end = memchr(b'\n', &bytes[hit.start()..]).map_or(bytes.len(), |at| hit.start() + at);
            self.line += breaks(&bytes[from..start]);
            self.keep(self.line, &text[start..end]);
            from = (end + 1).min(bytes.len());
            self.line += 1;
        }
        self.line += breaks(&bytes[from..]);
    }

    fn begin(&mut self, text: &str) {
        let room = ERROR_BYTES_MAX.saturating_sub(self.begun.len());
        self.begun.push_str(&text[..text.floor_char_boundary(room)]);
    }

    fn keep(&mut self, line: usize, text: &str) {
        if self.found.len() < ERRORS_MAX && !ALL_WELL.is_match(text.as_bytes()) {
            self.found.push((line, text[..text.floor_char_boundary(ERROR_BYTES_MAX)].trim_end().to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(text: &str, piece: usize) -> Shaped {
        let mut shaper = HeadTail::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (next, more) = rest.split_at(rest.ceil_char_boundary(piece));
            shaper.push(next);
            rest = more;
        }
        shaper.finish()
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat()
    }

    #[test]
    fn what_fits_is_untouched() {
        let text = numbered(WHOLE.lines);
        assert_eq!(shape(&text, 1000), Shaped { text, cut: false });
    }

    #[test]
    fn one_line_too_many_leaves_a_counted_gap() {
        let total = WHOLE.lines + 1;
        let shaped = shape(&numbered(total), 777);
        let left_out = total - HEAD.lines - TAIL.lines;
        assert!(shaped.text.contains(&format!("line {}\n[... {left_out} lines (", HEAD.lines)), "{}", shaped.text);
        assert!(shaped.text.ends_with(&format!("line {total}\n")));
    }

    #[test]
    fn errors_in_the_gap_are_kept_with_their_numbers() {
        let mut lines: Vec<_> = (1..=9_000).map(|line| format!("line {line}")).collect();
        lines[9] = "error: in the head".into();
        lines[4_000] = "src/main.rs:3:7 mismatched types".into();
        lines[4_001] = "test result: ok. 10 passed; 0 failed".into();
        lines[5_000] = "thread 'main' panicked".into();
        lines[5_001] = "TypeError: x is not a function".into();
        lines[5_002] = "a terrorist's errand, prefailing".into();
        lines[8_990] = "error: in the tail".into();
        for piece in [13, 4096, usize::MAX / 2] {
            let text = shape(&lines.join("\n"), piece).text;
            assert!(text.contains("errors:\n4001: src/main.rs:3:7 mismatched types\n5001: thread 'main' panicked\n5002: TypeError: x is not a function\n...]\n"), "{text}");
            assert_eq!(text.matches("in the head").count(), 1);
            assert_eq!(text.matches("in the tail").count(), 1);
        }
    }

    #[test]
    fn an_enormous_line_is_cut() {
        let shaped = shape(&"x".repeat(10_000_000), 65_536);
        let left_out = 10_000_000 - HEAD.bytes - TAIL.bytes;
        assert!(shaped.text.contains(&format!("\n[... {left_out} bytes of this line left out ...]\n")));
    }

    #[test]
    fn memory_stays_bounded() {
        let mut shaper = HeadTail::default();
        let piece = "some output, error: and so on\n".repeat(2_000);
        for _ in 0..2_000 {
            shaper.push(&piece);
        }
        let held = shaper.head.capacity() + shaper.tail.capacity() + shaper.errors.begun.capacity();
        assert!(held < 1 << 20, "{held}");
        assert!(within_limits(&shaper.finish().text));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_line_is_shown_once_or_counted(
            widths in prop::collection::vec(prop_oneof![8 => 0..3usize, 8 => 0..60usize, 1 => 5_000..60_000usize], 0..200),
            repeat in 1..12usize,
            piece in 1..70_000usize,
            last_break: bool,
        ) {
            let mut text: String = widths.iter().cycle().take(widths.len() * repeat).map(|width| "é".repeat(*width) + "\n").collect();
            if !last_break { text.pop(); }
            let shaped = shape(&text, piece);
            prop_assert_eq!(&shaped, &shape(&text, 1 << 30));
            prop_assert!(within_limits(&shaped.text));
            if shaped.cut {
                let (head, rest) = shaped.text.split_once("[... ").unwrap();
                let (gap, tail) = rest.split_once(" ...]\n").unwrap();
                let numbers: Vec<usize> = gap.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
                let head = if text.starts_with(head) { head } else { &head[..head.len() - 1] };
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                let left_out = &text[head.len()..text.len() - tail.len()];
                prop_assert_eq!(*numbers.last().unwrap(), left_out.len());
                prop_assert_eq!(if numbers.len() == 2 { numbers[0] } else { 0 }, left_out.matches('\n').count());
            } else {
                prop_assert_eq!(shaped.text, text);
            }
        }
    }
}
