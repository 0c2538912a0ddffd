//! What a patch may look like, where its hunks go, and what is refused.

use proptest::prelude::*;
use similar::{ChangeTag, TextDiff};

use super::*;

fn hunks(body: &str) -> String {
    format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch")
}

fn patched(contents: &str, body: &str) -> Result<String, String> {
    let patch = hunks(body);
    let sections = parse(&patch)?;
    let Action::Update { hunks, .. } = &sections[0].action else { panic!("{sections:?}") };
    apply(contents.as_bytes(), hunks).map(|applied| String::from_utf8(applied.contents).unwrap())
}

#[test]
fn every_operation_is_read() {
    use Line::*;
    let patch = "*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n\n*** Delete File: c\n*** Update File: d\n*** Move to: e\n\
                 @@ class X\n@@   def f():\n keep\n-old\n+new\n\n keep\n@@\n+last\n*** End of File\n*** End Patch\n";
    let sections = parse(patch).unwrap();
    assert_eq!(sections[0], Section { line: 2, path: "a b.txt", action: Action::Add(vec!["one", ""]) });
    assert_eq!(sections[1], Section { line: 6, path: "c", action: Action::Delete });
    let Action::Update { to, hunks } = &sections[2].action else { panic!() };
    assert_eq!((*to, hunks.len()), (Some("e"), 2));
    assert_eq!(hunks[0].anchors, ["class X", "  def f():"]);
    assert_eq!(hunks[0].lines, [Keep("keep"), Remove("old"), Add("new"), Keep(""), Keep("keep")]);
    assert_eq!(hunks[1], Hunk { line: 16, anchors: vec![], lines: vec![Add("last")], at_end: true });

    for wrapped in [
        patch.trim_end().to_owned(),
        patch.replace('\n', "\r\n"),
        format!("```diff\n{patch}```\n"),
        format!("apply_patch <<'EOF'\n{patch}EOF\n"),
        format!("bash -lc \"cat <<-END | apply_patch\n{patch}END\"\n"),
    ] {
        let again = parse(&wrapped).unwrap();
        assert!(again.iter().zip(&sections).all(|(a, b)| a.path == b.path), "{wrapped}");
        let Action::Update { hunks: again, .. } = &again[2].action else { panic!() };
        assert_eq!(again[0].lines, hunks[0].lines);
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (patch, says) in [
        ("", "the patch has no line `*** Begin Patch`"),
        ("rm -rf\n*** Begin Patch\n", "line 1 of the patch: `rm -rf` comes before `*** Begin Patch`"),
        ("*** Begin Patch\n*** End Patch", "nothing is between"),
        ("*** Begin Patch\n*** Delete File: a\n", "may have been cut off"),
        ("<<A\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nB", "line 5 of the patch: `B` comes after"),
        ("*** Begin Patch\n*** Delete File: \n*** End Patch", "line 2 of the patch: the path is missing"),
        ("*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch", "line 4 of the patch: `y`: each line of a new file"),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "line 2 of the patch: `*** Rename File: a`, where"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "line 2 of the patch: nothing says how to update a"),
        ("*** Begin Patch\n*** Update File: a\n@@\n*** End Patch", "line 3 of the patch: the hunk has no lines"),
        ("*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch", "line 4 of the patch: `x`: each line of a hunk"),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\n*** Begin Patch",
            "line 4 of the patch: `*** Begin Patch` comes",
        ),
    ] {
        let refusal = parse(patch).unwrap_err();
        assert!(refusal.contains(says), "{patch:?}: {refusal}");
    }
}

#[test]
fn hunks_find_their_places() {
    for (contents, body, after) in [
        ("a\nb\nc\n", " a\n-b\n+B\n", "a\nB\nc\n"),
        ("a\nb\na\nb\n", "@@\n-b\n+B\n a\n@@\n-b\n+C\n", "a\nB\na\nC\n"),
        ("def f\n  x\ndef g\n  x\n", "@@ def g\n-  x\n+  y\n", "def f\n  x\ndef g\n  y\n"),
        ("def f\n  x\ndef g\n  x\n", "@@ def f\n-  x\n+  y\n", "def f\n  y\ndef g\n  x\n"),
        ("c A\n f\n  x\nc B\n f\n  x\n", "@@ c B\n@@  f\n-  x\n+  y\n", "c A\n f\n  x\nc B\n f\n  y\n"),
        ("def f\n  x\n  y\n", "@@ def f\n def f\n-  x\n+  z\n", "def f\n  z\n  y\n"),
        ("def f\n  x\n  y\n", "@@ def f\n-  x\n@@ def f\n-  y\n", "def f\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@ fn x\n-a\n+A\n b\n", "A\nb\n"),
        ("x\ny\nx\n", "@@\n-x\n+z\n*** End of File\n", "x\ny\nz\n"),
        ("a\n", "@@\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ a\n+x\n", "a\nx\nb\n"),
        ("a\nb\n", "-a\n\n@@\n-b\n+c\n\n", "c\n"),
        ("", "+a\n", "a\n"),
        // As the file has them: line breaks, a mark at its beginning, none at its end.
        ("a\r\nb\r\nc\r\n", " a\n-b\n+B\n+D\n", "a\r\nB\r\nD\r\nc\r\n"),
        ("\u{FEFF}a\nb", "-a\n+A\n b\n+c\n", "\u{FEFF}A\nb\nc"),
        ("a\nb", " a\n-b\n", "a"),
        // Not quite as the file has them.
        ("a  \nb\n", " a\n-b\n+c\n", "a  \nc\n"),
        ("    if x:\n        y\n", " if x:\n-    y\n+    z\n+    w\n", "    if x:\n        z\n        w\n"),
        ("say \u{201C}hi\u{201D}\nb\n", " say \"hi\"\n-b\n", "say \u{201C}hi\u{201D}\n"),
        ("x \nx\n", "-x\n+y\n", "x \ny\n"),
    ] {
        assert_eq!(patched(contents, body), Ok(after.to_owned()), "{contents:?} {body:?}");
    }
}

#[test]
fn no_place_is_guessed() {
    for (contents, body, says) in [
        (
            "x\ny\nx\n",
            "-x\n+z\n",
            "line 3 of the patch: its lines are in the file 2 times:\n  line 1: x\n  line 3: x\n",
        ),
        ("f\n x\nf\n x\n", "@@ f\n- x\n+ y\n", "its lines are in the file 2 times"),
        ("A\nf\n w\n x\nB\nf\n x\n", "- w\n@@ f\n- x\n", "line 4 of the patch: its lines are in the file 2 times"),
        ("f\na\nf\n", "@@ f\n+x\n", "its `@@` line is in the file 2 times"),
        ("one\ntwo\nthree\n", " one\n-too\n three\n", "closest place begins at line 1: line 2 is `two`, it has `too`"),
        ("a\nb\n", "@@ class Nothing\n-a\n", "its `@@` line is not in the file"),
        (
            "a\nb\n",
            "-b\n@@\n-a\n",
            "line 4 of the patch: its lines are at line 1 of the file, before the end of the hunk",
        ),
        ("a\nb\n", "-a\n*** End of File\n", "line 1 of the file, not at its end"),
        ("a\nb\n", "@@ b\n-a\n", "line 1 of the file, not after its `@@` line"),
        ("", "-a\n", "nor anything like it"),
    ] {
        let refusal = patched(contents, body).unwrap_err();
        assert!(refusal.contains(says), "{contents:?} {body:?}: {refusal}");
    }
    let alike = "a\n".repeat(40_000);
    assert!(patched(&alike, &format!("{}-b\n", "-a\n".repeat(20_000))).unwrap_err().contains("too many lines"));
}

#[test]
fn foreign_bytes_survive() {
    let hunk = Hunk { line: 1, lines: vec![Line::Remove("b"), Line::Add("c")], ..Hunk::default() };
    assert_eq!(apply(b"\xff\xfe\nb\n\xe9", &[hunk]).unwrap().contents, b"\xff\xfe\nc\n\xe9");
}

/// A patch whose hunks have so many lines around each change. With all lines nothing about it can be ambiguous.
fn make_patch(old: &str, new: &str, around: usize) -> String {
    let diff = TextDiff::from_lines(old, new);
    let line = |change: similar::Change<&str>| {
        let sign = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        format!("{sign}{}\n", change.value().trim_end_matches('\n'))
    };
    let hunk = |ops: &Vec<similar::DiffOp>| {
        let lines: String = ops.iter().flat_map(|op| diff.iter_changes(op)).map(line).collect();
        format!("@@\n{lines}")
    };
    hunks(&diff.grouped_ops(around).iter().map(hunk).collect::<String>())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_patch_is_read_or_refused(
        lines in prop::collection::vec(prop_oneof![
            Just("*** Begin Patch"), Just("*** End Patch"), Just("*** Add File: a"), Just("*** Delete File: b"),
            Just("*** Update File: c"), Just("*** Move to: d"), Just("*** End of File"), Just("@@"), Just("@@ x"),
            Just(" x"), Just("-x"), Just("+y"), Just(""), Just("```"), Just("\u{E9}x"), Just("\r"),
        ], 0..20),
        contents in "[xy\\r\\n\u{FEFF} ]{0,20}",
    ) {
        let patch = format!("*** Begin Patch\n*** Update File: c\n{}\n*** End Patch", lines.join("\n"));
        for section in parse(&patch).unwrap_or_default() {
            if let Action::Update { hunks, .. } = section.action {
                let _ = apply(contents.as_bytes(), &hunks);
            }
        }
        let _ = parse(&lines.join("\n"));
    }

    /// What a patch was made from comes out of it, whatever the line breaks.
    #[test]
    fn a_patch_makes_the_new_from_the_old(
        old in prop::collection::vec("[ab\u{2014} ]{0,3}", 1..12),
        edits in prop::collection::vec((0..12usize, prop::option::of("[abc ]{0,3}")), 1..6),
        windows: bool, bom: bool, last: bool, around in prop_oneof![Just(1_usize), Just(3), Just(100)],
    ) {
        let mut new = old.clone();
        for (at, line) in edits {
            match line {
                Some(line) => new.insert(at.min(new.len()), line),
                None if at < new.len() && new.len() > 1 => drop(new.remove(at)),
                None => {}
            }
        }
        let text = |lines: &[String]| lines.join("\n") + if last { "\n" } else { "z" };
        let (old, new) = (text(&old), text(&new));
        let on_disk = |text: &str| {
            let text = if windows { text.replace('\n', "\r\n") } else { text.to_owned() };
            if bom { format!("\u{FEFF}{text}") } else { text }
        };
        // Without a line break in the old file there is nothing to tell which kind the new one should have.
        if old == new || (windows && !old.contains('\n')) {
            return Ok(());
        }
        let patch = make_patch(&old, &new, around);
        let sections = parse(&patch).unwrap();
        let Action::Update { hunks, .. } = &sections[0].action else { panic!() };
        match apply(on_disk(&old).as_bytes(), hunks) {
            Ok(applied) => {
                prop_assert_eq!(String::from_utf8(applied.contents).unwrap(), on_disk(&new));
                prop_assert!(applied.remarks.is_empty());
            }
            // With little around it a place can be one of several, but it is never the wrong one.
            Err(why) => prop_assert!(around < 100 && why.contains(" times:"), "{}", why),
        }
    }
}
