//! Edits: what is replaced is what was meant, and nothing else is touched by a byte.

use baton_tools::edit_match::{Edited, Forgiven, Places, edit};

use super::parts;

/// A case is a file, the text to replace, and its replacement.
pub(super) fn check(case: &[u8]) {
    let [contents, old, new] = parts(case);
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let exact = positions(contents, old.as_bytes());
    if let Ok(edited) = edit(contents, &old, &new, Places::One) {
        let Edited { contents: after, count, first, forgiven } = &edited;
        assert_eq!(*count, 1);
        let tail = after.len() - first.end;
        assert!(first.start + tail <= contents.len(), "more is left than there was");
        assert_eq!(after[..first.start], contents[..first.start], "what comes before");
        assert_eq!(after[first.end..], contents[contents.len() - tail..], "what comes after");
        let place = &contents[first.start..contents.len() - tail];
        if forgiven.is_empty() {
            assert_eq!(place, old.as_bytes());
            assert_eq!(exact, [first.start], "it is the only one");
            let lines = |text: &[u8]| String::from_utf8_lossy(text).replace('\r', "");
            assert_eq!(lines(&after[first.clone()]), lines(new.as_bytes()), "what is there now");
        } else {
            assert!(exact.is_empty(), "what is there exactly needs no forgiving");
        }
        // Line numbers are no part of the file, so there is nothing to compare them with.
        if !forgiven.contains(&Forgiven::LineNumbers) {
            assert_eq!(essence(place), essence(old.as_bytes()), "{forgiven:?}");
            assert_eq!(essence(&after[first.clone()]), essence(new.as_bytes()), "{forgiven:?}");
            if forgiven.iter().all(|forgiven| *forgiven < Forgiven::Indentation) {
                assert_eq!(indents(place), indents(old.as_bytes()), "{forgiven:?}");
            }
        }
        check_text(contents, after);
    }
    if let Ok(edited) = edit(contents, &old, &new, Places::All) {
        assert!(edited.count >= 1);
        check_text(contents, &edited.contents);
        if edited.forgiven.is_empty() && !contents.contains(&b'\r') {
            let text = String::from_utf8_lossy(contents);
            if text.as_bytes() == contents {
                assert_eq!(edited.contents, text.replace(&*old, &new).into_bytes(), "all of them");
            }
        }
    }
}

/// Text stays text.
fn check_text(before: &[u8], after: &[u8]) {
    assert!(str::from_utf8(before).is_err() || str::from_utf8(after).is_ok(), "it is no text any more");
}

fn positions(text: &[u8], needle: &[u8]) -> Vec<usize> {
    if needle.is_empty() {
        return Vec::new();
    }
    let windows = text.windows(needle.len()).enumerate();
    windows.filter(|(_, window)| *window == needle).map(|(at, _)| at).collect()
}

/// What is left when everything is taken away that may ever be forgiven.
fn essence(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in text.utf8_chunks() {
        let plain = chunk.valid().chars().map(|c| match c {
            '\u{2018}'..='\u{201B}' | '\u{2032}' => '\'',
            '\u{201C}'..='\u{201F}' | '\u{2033}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            c if c.is_whitespace() => ' ',
            c => c,
        });
        out.extend(plain.filter(|c| *c != ' ').collect::<String>().into_bytes());
        out.extend(chunk.invalid());
    }
    out
}

/// How far the lines that have words are indented, but for the first, of which `old` may hold only the end.
fn indents(text: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(text);
    let lines = text.split('\n').skip(1).filter(|line| !line.trim().is_empty());
    lines.map(|line| line.chars().take_while(|c| c.is_whitespace()).count()).collect()
}
