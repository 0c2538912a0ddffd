use proptest::prelude::*;

use super::*;

fn redacted(redactor: &Redactor, text: &str) -> String {
    redactor.redact_str(text).into_owned()
}

/// Redacts in chunks of these lengths, over and over.
fn in_chunks(redactor: &Redactor, text: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    let (mut rest, mut lengths) = (text, lengths.iter().cycle());
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |length| (*length).clamp(1, rest.len()));
        stream.push(&rest[..length], &mut out);
        rest = &rest[length..];
    }
    stream.finish(&mut out);
    out
}

#[test]
fn every_form_finds_its_examples_and_nothing_else() {
    let redactor = Redactor::new();
    let mut wrong = Vec::new();
    for form in forms::all() {
        assert!(!form.like.is_empty(), "{} has no example", form.kind);
        for like in form.like {
            let text = like.replace("⟦+⟧", "");
            let (before, rest) = text.split_once('«').expect("a mark");
            let (secret, after) = rest.split_once('»').expect("a mark");
            let out = redacted(&redactor, &format!("{before}{secret}{after}"));
            let middle = out.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            if !middle.is_some_and(|middle| middle.starts_with("[redacted:") && middle.matches('[').count() == 1) {
                wrong.push(format!("{}: {like} came out as {out}", form.kind));
            }
        }
        for unlike in form.unlike {
            let out = redacted(&redactor, unlike);
            if out != *unlike {
                wrong.push(format!("{}: {unlike} came out as {out}", form.kind));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn registered_values_are_found_however_they_are_written() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let value = "k&y-with \"odd\" <bits>/42";
    let redactor = Redactor::knowing([value, "test", "plainValue42", "-starts-odd/1"]);
    let each = |form: &dyn Fn(u8) -> String| value.bytes().map(form).collect::<Vec<_>>().concat();
    let json = serde_json_like(value);
    let percent = each(&|byte| format!("%{byte:02X}"));
    let form = value.replace('&', "%26").replace(' ', "+").replace('"', "%22").replace('/', "%2f").replace('<', "%3C");
    let form = form.replace('>', "%3E");
    let html = value.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    let hex = each(&|byte| format!("{byte:02x}"));
    let unicode = each(&|byte| format!("\\u{byte:04x}"));
    for written in [value.to_owned(), json, percent, form, html, hex, unicode] {
        assert_eq!(redacted(&redactor, &format!("a {written} b")), "a [redacted:known] b", "{written}");
    }
    for user in ["", "u:", "us:", "user:", "someone else:"] {
        for encoded in [STANDARD.encode(format!("{user}{value}")), URL_SAFE_NO_PAD.encode(format!("{user}{value}!"))] {
            assert_eq!(redacted(&redactor, &format!("a {encoded} b")), "a [redacted:known] b", "{user}");
        }
    }
    assert_eq!(redacted(&redactor, "test plainValue4 plainValue42"), "test plainValue4 [redacted:known]");
    assert_eq!(redacted(&redactor, "x-starts-odd/1 %2dstarts-odd%2F1"), "x[redacted:known] [redacted:known]");
}

fn serde_json_like(value: &str) -> String {
    value.replace('"', "\\\"").replace('/', "\\/")
}

fn key_block(lines: usize) -> String {
    let body = "QoMh8SOBZzphH7jWkdyogxhbx0jW5MSV2SgYkhQVnSEbG7rsAmaR4AbjHJm2cvbD\n".repeat(lines);
    format!("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{body}aB3=\n-----END RSA PRIVATE KEY-----")
}

#[test]
fn key_blocks_of_any_size_go_whole() {
    let redactor = Redactor::new();
    for lines in [1, 3, 70, 2_000] {
        let text = format!("before\n{}\nafter ghp is fine", key_block(lines));
        let expected = "before\n[redacted:private-key]\nafter ghp is fine";
        assert_eq!(redacted(&redactor, &text), expected);
        let escaped = format!("{{\"key\": \"{}\\n\", \"b\": 1}}", key_block(lines).replace('\n', "\\n"));
        assert_eq!(redacted(&redactor, &escaped), "{\"key\": \"[redacted:private-key]\\n\", \"b\": 1}");
        let numbered: Vec<String> =
            text.lines().enumerate().map(|(n, line)| format!("{:>6}\t{line}\n", n + 1)).collect();
        let numbered = numbered.concat();
        let out = redacted(&redactor, &numbered);
        assert!(!out.contains("QoMh8S") && !out.contains("aB3=") && out.contains("after ghp is fine"), "{out}");
    }
    for text in [
        "if text.startswith('-----BEGIN RSA PRIVATE KEY-----'):\n    return parse(text)\n",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n",
        "the header `-----BEGIN PRIVATE KEY-----` marks it\n",
    ] {
        assert_eq!(redacted(&redactor, text), text);
    }
    // Cut off in the middle: what follows is not lost.
    let cut =
        "-----BEGIN EC PRIVATE KEY-----\nQoMh8SOBZzphH7jWkdyogxhbx0jW5MSV2Sg\nerror: disk full, try again later\n";
    assert_eq!(redacted(&redactor, cut), "[redacted:private-key]error: disk full, try again later\n");
}

#[test]
fn tokens_longer_than_any_window_go_whole() {
    let long = format!("x ghp_{} y", "aB3kQ9zL".repeat(20_000));
    let redactor = Redactor::new();
    assert_eq!(redacted(&redactor, &long), "x [redacted:gh-token] y");
    let out = in_chunks(&redactor, long.as_bytes(), &[1000, 7]);
    assert_eq!(out, b"x [redacted:gh-token] y");
}

#[test]
fn redacting_twice_changes_nothing_more() {
    let redactor = Redactor::knowing(["someKnownValue1"]);
    let text = format!("{}\nDB_PASSWORD=hT7!kq92\nsomeKnownValue1\n", key_block(3));
    let once = redacted(&redactor, &text);
    assert_eq!(redacted(&redactor, &once), once);
    assert_eq!(once, "[redacted:private-key]\nDB_PASSWORD=[redacted:password]\n[redacted:known]\n");
}

#[test]
fn what_is_held_back_is_bounded_and_lines_come_at_once() {
    let redactor = Redactor::knowing(["someKnownValue1"]);
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    stream.push(b"a line with a word\n", &mut out);
    assert_eq!(out, b"a line with a word\n");
    for _ in 0..200 {
        stream.push(&b"password is a word and eyJ starts nothing here ".repeat(20), &mut out);
        assert!(stream.buffer.len() < 100_000, "{}", stream.buffer.len());
    }
    let mut stream = redactor.stream();
    stream.push(b"-----BEGIN PRIVATE KEY-----\n", &mut out);
    for _ in 0..200 {
        stream.push(&b"QoMh8SOBZzphH7jWkdyogxhbx0jW5MSV2SgYkhQVnSEbG7rsAmaR4AbjHJm2cvbD".repeat(20), &mut out);
        assert!(stream.buffer.len() < 100_000, "{}", stream.buffer.len());
    }
}

/// Pieces of text that are near to secrets.
fn piece() -> impl Strategy<Value = String> {
    let secret = forms::all()
        .flat_map(|form| form.like.iter().chain(form.unlike))
        .map(|text| text.replace("⟦+⟧", "").replace(['«', '»'], ""))
        .collect::<Vec<_>>();
    prop_oneof![
        4 => proptest::sample::select(secret),
        1 => Just(key_block(2)),
        1 => Just(key_block(90)),
        1 => Just("-----BEGIN PRIVATE KEY-----".to_owned()),
        1 => Just("password = \"hT7!kq92\"".to_owned()),
        1 => Just("name: DB_PASSWORD\n  value: hT7kq92x".to_owned()),
        1 => Just("someKnownValue1".to_owned()),
        1 => Just("c29tZUtub3duVmFsdWUx".to_owned()),
        1 => Just(format!("token={}", "aB3kQ9zL".repeat(700))),
        2 => "[ -~\n\u{e9}]{0,40}",
        1 => Just("\n".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn chunks_may_be_split_anywhere(
        pieces in proptest::collection::vec((piece(), proptest::sample::select(vec!["", " ", "\n", "\"", "="])), 0..12),
        lengths in proptest::collection::vec(prop_oneof![1..8_usize, 8..200_usize, 1000..6000_usize], 1..6),
    ) {
        let text: String = pieces.iter().flat_map(|(piece, end)| [piece.as_str(), end]).collect();
        let redactor = Redactor::knowing(["someKnownValue1"]);
        let whole = redactor.redact(text.as_bytes()).into_owned();
        let chunked = in_chunks(&redactor, text.as_bytes(), &lengths);
        prop_assert_eq!(String::from_utf8_lossy(&chunked), String::from_utf8_lossy(&whole));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..2000), lengths in proptest::collection::vec(1..50_usize, 1..4)) {
        let redactor = Redactor::knowing(["someKnownValue1"]);
        prop_assert_eq!(in_chunks(&redactor, &bytes, &lengths), redactor.redact(&bytes).into_owned());
    }
}
