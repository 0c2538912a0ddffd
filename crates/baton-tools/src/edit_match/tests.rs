//! What each forgiven difference means, and what is never changed.

use proptest::prelude::*;

use super::*;

fn one(contents: &str, old: &str, new: &str) -> Result<(String, Option<Forgiven>), String> {
    edit(contents.as_bytes(), old, new, Places::One)
        .map(|edited| (String::from_utf8(edited.contents).unwrap(), edited.forgiven.first().copied()))
}

#[test]
fn each_difference_is_forgiven_in_its_order() {
    use Forgiven::*;
    for (contents, old, new, after, forgiven) in [
        ("a\nb\nc\n", "b", "B", "a\nB\nc\n", None),
        ("\u{FEFF}a\r\nb\r\nc", "a\nb\n", "x\ny\n", "\u{FEFF}x\r\ny\r\nc", Some(LineEndings)),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n", None),
        ("a\nb\n", "a\r\nb\r\n", "c\r\n", "c\n", Some(LineEndings)),
        ("if x:  \n    y\t\nz\n", "if x:\n    y\nz", "if z:\n    y", "if z:\n    y\n", Some(TrailingWhitespace)),
        ("foo\nbar\n", "foo  \nbar ", "baz", "baz\n", Some(TrailingWhitespace)),
        ("say \u{201C}hi\u{201D} \u{2014} now\n", "\"hi\" - now", "\"ho\"", "say \"ho\"\n", Some(Punctuation)),
        (
            "fn f() {\n    if a {\n        b();\n    }\n}\n",
            "if a {\n    b();\n}",
            "if a {\n    c();\n}",
            "fn f() {\n    if a {\n        c();\n    }\n}\n",
            Some(Indentation),
        ),
        (
            "a {\n  b\n}\n",
            "    a {\n      b\n    }\n",
            "    a {\n      c\n\n      d\n    }\n",
            "a {\n  c\n\n  d\n}\n",
            Some(Indentation),
        ),
        (
            "\tif a:\n\t\tb\n",
            "    if a:\n        b\n",
            "    if a:\n        c\n        d\n",
            "\tif a:\n\t\tc\n\t\td\n",
            Some(Indentation),
        ),
        ("int  x =   1;\n", "int x = 1;", "int x = 2;", "int x = 2;\n", Some(WhitespaceRuns)),
    ] {
        assert_eq!(one(contents, old, new), Ok((after.to_owned(), forgiven)), "{contents:?} {old:?}");
    }
}

#[test]
fn lines_that_stay_keep_their_bytes() {
    for (contents, old, new, after) in [
        // Blanks, quotes and line breaks of lines that are only there to name the place.
        ("a  \nb\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
        ("\u{201C}a\u{201D}\nb\n", "\"a\"\nb", "\"a\"\nB", "\u{201C}a\u{201D}\nB\n"),
        ("a\r\nb\nc\r\nd\r\n", "b\nc\r\n", "b\nC\nx\n", "a\r\nb\nC\r\nx\r\nd\r\n"),
        ("\ta\r\n\tb\r\nc\r\n", "    a\n    b", "    a\n    B", "\ta\r\n\tB\r\nc\r\n"),
        ("  a\n\nb\n", "    a\n\n", "    A\n\n", "  A\n\nb\n"),
        ("a\r\nb\n", "a\r\n", "a\n", "a\nb\n"),
    ] {
        assert_eq!(one(contents, old, new).map(|(after, _)| after), Ok(after.to_owned()), "{contents:?} {old:?}");
    }
}

#[test]
fn indentation_is_forgiven_if_it_is_nested_alike() {
    for (contents, old, new, after) in [
        ("  a\n    b\n", "    a\n        b\n", "    a\n        c\n", "  a\n    c\n"),
        ("\ta\n\t\tb\n", "a\n    b", "a\n    c", "\ta\n\t\tc\n"),
        ("\t\u{2018}a\u{2019}\n\tb\n", "'a'\nb", "'a'\nc", "\t\u{2018}a\u{2019}\n\tc\n"),
    ] {
        assert_eq!(
            one(contents, old, new),
            Ok((after.to_owned(), Some(Forgiven::Indentation))),
            "{contents:?} {old:?}"
        );
    }
    // The first line may be given from its first word on.
    assert_eq!(one("\ta\n\tb\n", "a\n    b", "a\n    c").unwrap().0, "\ta\n\tc\n");
    // Deeper in the text but not in the file.
    let flat = one("\ta\n\tb\n", "  a\n    b", "  a\n    c\n      d").unwrap();
    assert_ne!(flat.1, Some(Forgiven::Indentation));
}

#[test]
fn what_is_only_a_part_of_a_word_is_not_meant() {
    assert!(one("let total   = 1;\n", "otal = 1;", "x").unwrap_err().contains("is not in the file"));
    assert!(one("let total   = 12;\n", "total = 1", "x").is_err());
    assert_eq!(one("let total   = 1;\n", "total = 1;", "x").unwrap().0, "let x\n");
}

#[test]
fn a_missing_last_break_and_line_numbers_are_forgiven() {
    use Forgiven::*;
    assert_eq!(one("a\nb", "b\n", "c\n"), Ok(("a\nc".to_owned(), Some(FinalBreak))));
    assert_eq!(one("a\r\nb", "b\n", "c\nd\n"), Ok(("a\r\nc\r\nd".to_owned(), Some(FinalBreak))));
    assert_eq!(one("a\nb", "b\n", ""), Ok(("a".to_owned(), Some(FinalBreak))));
    assert!(one("bb a\nb", "b a\nb\nc\n", "x").is_err());
    let numbered = one("x\n  a\n  b\n", "     2\t  a\n     3\t  b", "     2\t  a\n     3\t  c\nd");
    assert_eq!(numbered, Ok(("x\n  a\n  c\nd\n".to_owned(), Some(LineNumbers))));
    assert!(one("a\nb\n", "1\ta\n3\tb", "x").is_err(), "numbers that do not follow each other are something else");
}

#[test]
fn what_is_ambiguous_is_refused_with_the_places() {
    let refusal = one("x = 1\ny\nx = 1\n", "x = 1", "x = 2").unwrap_err();
    assert_eq!(
        refusal,
        "`old` is in the file 2 times:\n  line 1: x = 1\n  line 3: x = 1\n\
         Add lines around it to `old` to mean one of them, or set all=true"
    );
    assert!(one("aaa", "aa", "b").unwrap_err().contains("2 times"), "places that overlap count");
    assert!(one("  a\n    a\n", "\ta", "b").is_err());
}

#[test]
fn all_places_are_replaced_when_asked() {
    let edited = edit(b"aXaXa", "a", "bb", Places::All).unwrap();
    assert_eq!((edited.contents.as_slice(), edited.count, edited.first), (&b"bbXbbXbb"[..], 3, 0..2));
    let windows = edit(b"a\r\nb\r\na\r\nb\r\n", "a\nb\n", "c\n", Places::All).unwrap();
    assert_eq!(windows.contents, b"c\r\nc\r\n");
    assert!(edit(b"x  1\nx   1\n", "x 1", "y", Places::All).is_err(), "what only looks alike is not replaced at large");
}

#[test]
fn what_is_not_found_is_explained() {
    let refusal = one("fn a() {}\nfn b() {\n    one();\n    two();\n}\n", "fn b() {\n    one();\n    three();\n}", "x")
        .unwrap_err();
    assert!(refusal.contains("begins at line 2: line 4 is `two();`, `old` has `three();`"), "{refusal}");
    let refusal = one("let total_count = 5;\n", "let totel_count = 5;", "x").unwrap_err();
    assert!(refusal.contains("line 1: it is `let total_count = 5;`"), "{refusal}");
    let refusal = one("a\ncafe\u{301}\n", "a\ncaf\u{E9}", "x").unwrap_err();
    assert!(refusal.ends_with("(U+0065 where `old` has U+00E9)"), "{refusal}");
    assert!(one("abc", "something else entirely", "x").unwrap_err().contains("nor anything like it"));
    assert!(one("abc", "", "x").unwrap_err().contains("use `write`"));
    assert!(one("abc", "abc", "abc").unwrap_err().contains("the same"));
}

#[test]
fn files_of_equal_lines_take_no_hours() {
    // Every line of the one is every line of the other, and comparing each with each would not end.
    let lines = "a\n".repeat(300_000);
    let refusal = one(&lines, &format!("b\n{lines}"), "new").unwrap_err();
    assert!(refusal.contains("closest place begins at line 1: line 1 is `a`, `old` has `b`"), "{refusal}");
    let shifted = format!("{}  b\n", "  a\n".repeat(150_000));
    assert!(one(&lines, &shifted, "new").unwrap_err().contains("closest place"));
}

#[test]
fn foreign_bytes_survive() {
    let edited =
        edit(b"\xff\xfe caf\xe9\nsay \xe2\x80\x9chi\xe2\x80\x9d\n\xc3", "say \"hi\"", "bye", Places::One).unwrap();
    assert_eq!(edited.contents, b"\xff\xfe caf\xe9\nbye\n\xc3");
}

proptest! {
    /// Whatever is given: what comes out is the file with the one range replaced, and all else untouched.
    #[test]
    fn only_the_place_changes(
        contents in prop::collection::vec(prop_oneof![Just(b' '), Just(b'\t'), Just(b'\n'), Just(b'\r'), Just(b'a'), Just(b'b'), Just(0xff), Just(0xc3), Just(0xa9)], 0..80),
        old in "[ab \\t\\n\u{2014}\u{E9}]{1,8}",
        new in "[xy \\n]{0,8}",
    ) {
        if let Ok(edited) = edit(&contents, &old, &new, Places::One) {
            let before = &edited.contents[..edited.first.start];
            let after = &edited.contents[edited.first.end..];
            prop_assert!(contents.starts_with(before) && contents.ends_with(after));
            prop_assert!(before.len() + after.len() <= contents.len());
        }
    }

    /// A text that is in the file once is found there, exactly.
    #[test]
    fn what_is_there_once_is_replaced(before in "[a-c \\n]{0,40}", old in "[d-f\\n ]{0,10}Q[d-f\\n ]{0,10}", after in "[a-c \\n]{0,40}", new in "[x-z]{0,10}") {
        let edited = edit(format!("{before}{old}{after}").as_bytes(), &old, &new, Places::One).unwrap();
        prop_assert_eq!(edited.forgiven, vec![]);
        prop_assert_eq!(String::from_utf8(edited.contents).unwrap(), format!("{before}{new}{after}"));
    }

    /// A shift of the whole file is forgiven, and the replacement is shifted alike.
    #[test]
    fn shifts_are_undone(lines in prop::collection::vec(("[ ]{0,6}", "[a-z]{1,6}"), 1..6), shift in 1..9usize) {
        let old = lines.iter().map(|(indent, word)| format!("{indent}{word}!\n")).collect::<Vec<_>>().concat();
        let pad = " ".repeat(shift);
        let shifted = old.lines().map(|line| format!("{pad}{line}\n")).collect::<Vec<_>>().concat();
        let new = old.replace('!', "?");
        let (after, _) = one(&shifted, &old, &new).unwrap();
        // A single line is found within the shifted one as it is; more lines need the shift.
        prop_assert_eq!(after, shifted.replace('!', "?"));
    }
}
