//! A large tree to search in: sources in nested directories, and whatever else lies around in a repository.

use std::fs;
use std::path::Path;

/// In so many files is each of the words.
pub const RARE: usize = 2_500;
pub const SOME: usize = 150;

const WORDS: [&str; 24] = [
    "fn", "let", "struct", "return", "value", "config", "request", "answer", "session", "token", "stream", "buffer",
    "parser", "offset", "length", "match", "Some", "None", "result", "error", "path", "line", "index", "self",
];

/// Makes the tree. What is in it depends on nothing but the number of files.
pub fn make(root: &Path, files: usize) {
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::write(root.join(".gitignore"), "*.log\n/build/\n").unwrap();
    let mut random = Random(1);
    for n in 0..files {
        let (crate_, module) = (n / 500, n / 25 % 20);
        let top = if n % 40 == 7 { "build" } else { "crates" };
        let dir = root.join(format!("{top}/c{crate_}/src/m{module}"));
        if n.is_multiple_of(25) || !dir.is_dir() {
            fs::create_dir_all(&dir).unwrap();
        }
        if n.is_multiple_of(250) {
            fs::write(dir.join(".gitignore"), "generated_*\n!generated_kept*\n").unwrap();
        }
        let name = match n % 50 {
            3 => format!("f{n}.log"),
            4 => format!("generated_{n}.rs"),
            5 => format!("generated_kept_{n}.rs"),
            6 => format!(".hidden_{n}.txt"),
            8..=20 => format!("f{n}.md"),
            _ => format!("f{n}.rs"),
        };
        fs::write(dir.join(name), contents(n, &mut random)).unwrap();
    }
}

fn contents(n: usize, random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..20 + random.below(80) {
        for _ in 0..random.below(3) {
            text.push_str("    ");
        }
        for _ in 0..2 + random.below(10) {
            text.push_str(WORDS[random.below(WORDS.len())]);
            text.push(' ');
        }
        if line == 10 && n % RARE == 42 {
            text.push_str("needle_in_the_haystack");
        }
        if line == 12 && n % SOME == 11 {
            text.push_str("Retry_Policy::backoff(3)");
        }
        text.push('\n');
    }
    match n % 1_000 {
        // A picture, say.
        100..=120 => [b"\x89PNG\0\0", text.as_bytes()].concat(),
        // Minified.
        500 => text.replace('\n', " ").repeat(100).into_bytes(),
        600 => [0xFF, 0xFE].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect(),
        _ => text.into_bytes(),
    }
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}
