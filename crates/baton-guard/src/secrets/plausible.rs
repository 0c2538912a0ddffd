//! What a value looks like: made by chance, made of words, or standing in for a real one.

/// Parts of values that stand in for real ones. Chance makes none of them in a token of ordinary length.
const STAND_INS: [&str; 21] = [
    "example",
    "your-",
    "your_",
    "yourkey",
    "yourtoken",
    "xxxx",
    "placeholder",
    "redacted",
    "dummy",
    "changeme",
    "change-me",
    "change_me",
    "replace",
    "insert",
    "goes-here",
    "goeshere",
    "....",
    "****",
    "todo",
    "notreal",
    "not-real",
];

/// Values that documentation is full of.
const PUBLIC_EXAMPLES: [&str; 3] = ["4eC39HqLyjWDarjtT1zdp7dc", "eyJzdWIiOiIxMjM0NTY3ODkw", "SflKxwRJSMeKKF2QT4fwpMe"];

fn contains_ignoring_case(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// Whether a token only shows what one looks like.
pub(super) fn is_stand_in(token: &[u8]) -> bool {
    STAND_INS.iter().any(|part| contains_ignoring_case(token, part))
        || PUBLIC_EXAMPLES.iter().any(|part| memchr::memmem::find(token, part.as_bytes()).is_some())
        || is_monotonous(token)
}

/// Whether it has few different characters, or mostly such that follow each other: `aaaa`, `1234567890abcdef`.
fn is_monotonous(token: &[u8]) -> bool {
    let body = token
        .iter()
        .rposition(|byte| b"-_.".contains(byte))
        .map_or(token, |at| if token.len() - at > 12 { &token[at + 1..] } else { token });
    let mut seen = [false; 256];
    for byte in body {
        seen[usize::from(*byte)] = true;
    }
    let distinct = seen.iter().filter(|seen| **seen).count();
    let next = body.windows(2).filter(|pair| pair[0] == pair[1] || pair[0].wrapping_add(1) == pair[1]).count();
    body.len() >= 8 && (distinct < 5 || next * 2 > body.len())
}

/// Whether a value points to where the real one is, or is built at run time.
pub(super) fn is_reference(value: &[u8]) -> bool {
    const STARTS: [&str; 21] = [
        "$",
        "{",
        "<",
        "[",
        "process.env",
        "os.",
        "env.",
        "env:",
        "ENV[",
        "ENC[",
        "import.meta",
        "arn:",
        "op://",
        "vault:",
        "ref+",
        "ssm:",
        "file:",
        "secretKeyRef",
        "sha256:",
        "sha512-",
        "ssh-",
    ];
    // Anchors, tags and files of YAML and of command lines; passwords begin with these, too.
    let is_mark = matches!(value, [b'@' | b'&' | b'!' | b'*' | b'%', rest @ ..] if is_wordy(rest) || rest.is_empty());
    is_mark
        || STARTS.iter().any(|start| value.starts_with(start.as_bytes()))
        || memchr::memmem::find(value, b"://").is_some()
        || [&b"{{"[..], b"${", b"%s", b"{}", b"#{", b"<%", b"$("]
            .iter()
            .any(|mark| memchr::memmem::find(value, mark).is_some())
        || (value.contains(&b'{') && value.ends_with(b"}"))
}

/// Where case or kind changes inside of a word that has no separators: `myToken42` is `my`, `Token`, `42`.
fn pieces(word: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in 1..=word.len() {
        let is_cut = word.get(at).is_none_or(|next| {
            let last = word[at - 1];
            last.is_ascii_digit() != next.is_ascii_digit() || (last.is_ascii_lowercase() && next.is_ascii_uppercase())
        });
        if is_cut {
            pieces.push(&word[start..at]);
            start = at;
        }
    }
    pieces
}

/// Whether people could have made it up: it can be spoken, and case and kind change seldom. Chance changes them at every
/// second character.
fn is_word(word: &[u8]) -> bool {
    let is_vowel = |byte: &u8| b"aeiouyAEIOUY".contains(byte);
    let is_spoken = |piece: &&[u8]| {
        let vowels = piece.iter().filter(|byte| is_vowel(byte)).count();
        let run = piece.split(is_vowel).map(<[u8]>::len).max().unwrap_or_default();
        piece.len() < 4 || (vowels * 6 >= piece.len() && run < 6)
    };
    let pieces = pieces(word);
    let (letters, digits): (Vec<&[u8]>, Vec<&[u8]>) = pieces.into_iter().partition(|piece| !piece[0].is_ascii_digit());
    let length: usize = letters.iter().map(|piece| piece.len()).sum();
    let numbers: usize = digits.iter().map(|piece| piece.len()).sum();
    letters.iter().all(is_spoken)
        && (letters.len() <= 1 || length * 2 >= letters.len() * 7)
        && (digits.len() * 2 <= letters.len().max(1) + 1)
        && (letters.is_empty() || numbers <= 4)
}

/// Whether it is made of words: an identifier, a path, a phrase.
pub(super) fn is_wordy(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_alphabetic) && value.split(|byte| !byte.is_ascii_alphanumeric()).all(is_word)
}

/// Whether it looks made by chance, as keys are: not words, not a number or a date, not always the same character.
pub(super) fn is_random(value: &[u8]) -> bool {
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let is_moment = value.iter().all(|byte| byte.is_ascii_digit() || b"-:.TZ+/ ".contains(byte));
    letters >= 2 && !is_moment && !is_stand_in(value) && !is_wordy(value)
}

/// Whether it is a word that people write where a password would stand.
pub(super) fn is_common_word(value: &[u8]) -> bool {
    const WORDS: [&str; 28] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "apikey",
        "api_key",
        "api-key",
        "key",
        "none",
        "pass",
        "guest",
        "user",
        "admin",
        "root",
        "test",
        "pw",
        "null",
        "true",
        "false",
        "undefined",
        "required",
        "string",
        "postgres",
        "optional",
        "default",
        "hidden",
        "prompt",
    ];
    let is_word = |word: &str| value.eq_ignore_ascii_case(word.as_bytes());
    WORDS.iter().any(|word| is_word(word))
        || ["password", "secret", "token", "passwd"].iter().any(|word| contains_ignoring_case(value, word))
            && value.iter().filter(|byte| byte.is_ascii_digit()).count() <= 3
}
