//! Reading git's settings as git does: pure, bounded by the text, and never strict where git is not.

/// One setting, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// `section.key` or `section.sub.key`; section and key in small letters, the part between as it is written.
    pub(super) key: String,
    /// What it is set to; `None` for a key alone, which means yes.
    pub(super) value: Option<String>,
}

/// All settings of a text. What git would refuse is left out: it refuses the whole file then, and runs nothing.
pub(super) fn parse(text: &str) -> Vec<Setting> {
    let mut reader = Reader { chars: text.trim_start_matches('\u{feff}').chars().peekable() };
    let mut settings = Vec::new();
    let mut section = None;
    while let Some(c) = reader.chars.next() {
        match c {
            '#' | ';' => reader.skip_line(),
            '[' => section = reader.section(),
            c if c.is_whitespace() => {}
            c => {
                let mut key = c.to_ascii_lowercase().to_string();
                while let Some(c) = reader.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
                    key.push(c.to_ascii_lowercase());
                }
                let value = reader.value();
                let key = section.as_ref().map(|section| format!("{section}.{key}")).unwrap_or(key);
                settings.push(Setting { key, value });
            }
        }
    }
    settings
}

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
}

impl Reader<'_> {
    fn skip_line(&mut self) {
        for c in self.chars.by_ref() {
            if c == '\n' {
                return;
            }
        }
    }

    /// The rest of `[section]`, `[section.sub]` or `[section "sub"]`.
    fn section(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.chars.next()? {
                ']' => return Some(name),
                '\n' => return None,
                '"' => break,
                c if c.is_whitespace() => {}
                c => name.push(c.to_ascii_lowercase()),
            }
        }
        name.push('.');
        loop {
            match self.chars.next()? {
                '"' => break,
                '\n' => return None,
                '\\' => name.push(self.chars.next()?),
                c => name.push(c),
            }
        }
        loop {
            match self.chars.next()? {
                ']' => return Some(name),
                '\n' => return None,
                _ => {}
            }
        }
    }

    /// What stands behind a key, up to the end of its line.
    fn value(&mut self) -> Option<String> {
        while self.chars.next_if(|c| *c == ' ' || *c == '\t' || *c == '\r').is_some() {}
        if self.chars.next_if_eq(&'=').is_none() {
            self.skip_line();
            return None;
        }
        let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
        while let Some(c) = self.chars.next() {
            match c {
                '\n' => break,
                '#' | ';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                '"' => {
                    is_quoted = !is_quoted;
                    kept = value.len();
                }
                '\\' => {
                    match self.chars.next() {
                        // The value goes on in the next line.
                        Some('\n') | None => continue,
                        Some('\r') if self.chars.next_if_eq(&'\n').is_some() => continue,
                        Some('n') => value.push('\n'),
                        Some('t') => value.push('\t'),
                        Some('b') => value.push('\u{8}'),
                        Some(c) => value.push(c),
                    }
                    kept = value.len();
                }
                c if c.is_whitespace() && !is_quoted => {
                    // Blanks count only between other characters.
                    if kept > 0 {
                        value.push(c);
                    }
                }
                c => {
                    value.push(c);
                    kept = value.len();
                }
            }
        }
        value.truncate(kept);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<String> {
        parse(text).iter().map(|s| format!("{}={}", s.key, s.value.as_deref().unwrap_or("<yes>"))).collect()
    }

    #[test]
    fn every_form_of_a_setting_is_read() {
        let text = "\u{feff}# c\n[Core] FSMonitor = \"a b\" ; no\n\tbare\n[filter \"X.y \\\"z\\\"\"]\nclean = one \\\n two # rest\n[alias.Sub]x=!y\n";
        assert_eq!(
            shown(text),
            ["core.fsmonitor=a b", "core.bare=<yes>", "filter.X.y \"z\".clean=one  two", "alias.sub.x=!y"]
        );
        assert_eq!(shown("x = 1\n[broken\n[a]b=1\r\n[a]c = \"x\\n#\" y\r\n"), ["x=1", "a.b=1", "a.c=x\n# y"]);
    }

    /// What git itself reads from a text; none if it refuses it.
    fn by_git(text: &str) -> Option<Vec<String>> {
        let mut child = Command::new("git")
            .args(["config", "--file", "-", "--list", "-z", "--no-includes"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH")?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let list = String::from_utf8(output.stdout).ok()?;
        let entry = |entry: &str| match entry.split_once('\n') {
            Some((key, value)) => format!("{key}={value}"),
            None => format!("{entry}=<yes>"),
        };
        output.status.success().then(|| list.split_terminator('\0').map(entry).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn what_git_reads_is_read(parts in prop::collection::vec(prop::sample::select(vec![
            "[core]", "[filter \"a b\"]", "[x.Y]", "\n", " ", "\t", "key", "K-2", "=", "= ", "v", "\"", "\\\\", "\\\"", "\\n",
            "\\\n", "#", ";", "!cmd x", "a#b", "\r\n", "[include]", "path = x\n",
        ]), 0..24)) {
            let text = parts.concat();
            if let Some(expected) = by_git(&text) {
                prop_assert_eq!(shown(&text), expected, "{:?}", text);
            }
        }

        #[test]
        fn any_text_ends(text in ".{0,200}") {
            parse(&text);
        }
    }
}
