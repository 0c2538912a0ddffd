//! Lines: an entry as bytes, with its length and checksum, so that what is whole is known to be. Pure.
//!
//! A line is one JSON object whose last two fields speak of the bytes before them: `,"n":LENGTH,"crc":"CHECKSUM"}`. Whole
//! entries are therefore found in any bytes, also where line breaks were lost or something was written into the middle.

use std::ops::Range;

use memchr::memmem;

/// What stands between the body and its length.
const LENGTH: &[u8] = b",\"n\":";
/// What stands between the length and the checksum.
const CHECKSUM: &[u8] = b",\"crc\":\"";
/// What stands at the end.
const END: &[u8] = b"\"}";
/// A checksum in hexadecimal digits.
const DIGITS: usize = 8;

/// The line of a JSON object, with its line break.
pub(crate) fn seal(object: &[u8]) -> Vec<u8> {
    let body = object.strip_suffix(b"}").unwrap_or(object);
    let tail = format!(",\"n\":{},\"crc\":\"{:08x}\"}}\n", body.len(), crc32fast::hash(body));
    let mut line = Vec::with_capacity(body.len() + tail.len());
    line.extend_from_slice(body);
    line.extend_from_slice(tail.as_bytes());
    line
}

/// Whether these bytes, without their line break, are one whole entry.
pub(crate) fn is_whole(line: &[u8]) -> bool {
    let Some(start) = line.len().checked_sub(CHECKSUM.len() + DIGITS + END.len()) else { return false };
    entry_at(line, start) == Some(0..line.len())
}

/// The whole entries in bytes that are none themselves, in order.
pub(crate) fn salvage(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in memmem::find_iter(bytes, CHECKSUM) {
        let free = found.last().map_or(0, |last| last.end);
        found.extend(entry_at(bytes, at).filter(|range| range.start >= free));
    }
    found
}

/// The entry whose checksum begins at `at`, if it is whole.
fn entry_at(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let digits_end = at + CHECKSUM.len() + DIGITS;
    let end = digits_end + END.len();
    let tail = bytes.get(at..end)?;
    if !tail.starts_with(CHECKSUM) || !tail.ends_with(END) {
        return None;
    }
    let hex = std::str::from_utf8(&bytes[at + CHECKSUM.len()..digits_end]).ok()?;
    let crc = u32::from_str_radix(hex, 16).ok()?;
    let digits = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(&bytes[at - digits..at]).ok()?.parse().ok()?;
    let body_end = (at - digits).checked_sub(LENGTH.len())?;
    if &bytes[body_end..at - digits] != LENGTH {
        return None;
    }
    let start = body_end.checked_sub(length)?;
    let body = &bytes[start..body_end];
    (body.first() == Some(&b'{') && crc32fast::hash(body) == crc).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> Vec<u8> {
        let object = serde_json::to_vec(&serde_json::json!({ "text": text })).unwrap();
        seal(&object)
    }

    #[test]
    fn a_line_is_json_and_knows_that_it_is_whole() {
        let sealed = line("a\u{2028}b");
        assert!(sealed.ends_with(b"}\n") && is_whole(&sealed[..sealed.len() - 1]));
        let value: serde_json::Value = serde_json::from_slice(&sealed).unwrap();
        assert_eq!(value["text"], "a\u{2028}b");
        for cut in 0..sealed.len() - 1 {
            assert!(!is_whole(&sealed[..cut]), "{cut}");
        }
    }

    #[test]
    fn a_line_that_quotes_another_one_is_one_entry() {
        let inner = String::from_utf8(line("inner")).unwrap();
        let outer = line(&inner);
        assert!(is_whole(&outer[..outer.len() - 1]));
        // Even where raw bytes of one stand in another, what is found does not overlap.
        let mut raw = line("first");
        raw.pop();
        raw.extend(line("second"));
        assert_eq!(salvage(&raw).len(), 2);
    }

    proptest! {
        #[test]
        fn whole_entries_are_found_between_anything(texts in prop::collection::vec(".{0,40}", 0..6), junk in prop::collection::vec(any::<u8>(), 0..50)) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for text in &texts {
                bytes.extend(&junk);
                let mut one = line(text);
                one.pop();
                expected.push(bytes.len()..bytes.len() + one.len());
                bytes.extend(one);
            }
            bytes.extend(&junk);
            prop_assert_eq!(salvage(&bytes), expected);
        }

        #[test]
        fn one_flipped_bit_is_noticed(text in ".{0,60}", at in any::<prop::sample::Index>(), bit in 0..8u8) {
            let mut sealed = line(&text);
            sealed.pop();
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            // Digits of the checksum may be written in either case.
            prop_assume!(!sealed[at].is_ascii_hexdigit() || bit != 5);
            prop_assert!(!is_whole(&sealed));
        }
    }
}
