//! Patches: what is read can be applied or is refused; what a patch keeps stays, what it adds comes in.

use std::collections::HashMap;

use baton_tools::patch::{Action, Hunk, Line, apply, parse};

use super::parts;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A case is a file and a patch.
pub(super) fn check(case: &[u8]) {
    let [contents, patch] = parts(case);
    let patch = String::from_utf8_lossy(patch);
    let Ok(sections) = parse(&patch) else { return };
    assert!(!sections.is_empty());
    for section in sections {
        assert!(!section.path.is_empty() && patch.contains(section.path));
        match section.action {
            Action::Add(lines) => assert!(lines.iter().all(|line| !line.contains('\n'))),
            Action::Delete => {}
            Action::Update { to, hunks } => {
                assert!(to.is_some() || !hunks.is_empty());
                check_hunks(contents, &hunks);
            }
        }
    }
}

fn check_hunks(contents: &[u8], hunks: &[Hunk]) {
    let Ok(applied) = apply(contents, hunks) else { return };
    let after = applied.contents;
    let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
    let added: Vec<&str> =
        lines.clone().filter_map(|line| if let Line::Add(text) = line { Some(*text) } else { None }).collect();
    let removed = lines.clone().filter(|line| matches!(line, Line::Remove(_))).count();
    if added.is_empty() && removed == 0 {
        assert_eq!(after, contents, "nothing was to change");
    }
    let (old, new) = (split(contents), split(&after));
    // An empty last line without a line break is no line.
    let expected = old.len() + added.len() - removed;
    assert!(new.len() == expected || new.len() + 1 == expected, "{} lines for {expected}", new.len());
    assert_eq!(contents.starts_with(BOM), after.starts_with(BOM));
    assert!(str::from_utf8(contents).is_err() || str::from_utf8(&after).is_ok(), "it is no text any more");
    // A line that is kept is the same by the byte: what is new was added, what is gone was removed.
    assert!(missing(&new, &old) <= added.len(), "more is new than was added");
    assert!(missing(&old, &new) <= removed, "more is gone than was removed");
}

/// How many of these lines are not among the others, each counted as often as it is there.
fn missing(lines: &[&[u8]], others: &[&[u8]]) -> usize {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    for other in others {
        *counts.entry(other).or_default() += 1;
    }
    let is_missing = |line: &&&[u8]| match counts.get_mut(**line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    lines.iter().filter(is_missing).count()
}

/// The lines without their line breaks, which the last one may lack.
fn split(text: &[u8]) -> Vec<&[u8]> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).collect()
}
