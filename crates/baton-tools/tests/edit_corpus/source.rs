//! Source files of the corpus: rows of text, and the styles in which people and their editors write them down.

/// What a file's indentation is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indent {
    Tabs,
    Two,
    Four,
    /// One function with tabs, the next with spaces.
    Mixed,
}

/// How its lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Unix,
    Windows,
    /// Both; which has the majority differs from file to file.
    Mixed,
}

/// What its words are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    Ascii,
    Cjk,
    /// With emoji of several code points and combining marks.
    Emoji,
    /// With typographic quotes, dashes and spaces.
    Typographic,
}

/// One line of a file, without its indentation and its break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub depth: usize,
    pub text: String,
    /// Whitespace at its end.
    pub blanks: &'static str,
    pub tabs: bool,
}

/// A file of the corpus. Its functions are alike but for their numbers; two of its blocks are the same, and two more are
/// the same but for their depth.
pub struct Source {
    pub name: String,
    pub indent: Indent,
    pub ending: Ending,
    pub script: Script,
    pub rows: Vec<Row>,
    /// The row in which the function that is edited begins.
    pub function: usize,
    bom: bool,
    final_break: bool,
    windows_majority: bool,
}

/// The rows of a function, from its head to the empty row after it.
pub const FUNCTION_ROWS: usize = 13;

impl Source {
    /// The file of this number. The numbers count through all combinations of styles, again and again, with other sizes.
    pub fn nth(n: usize) -> Self {
        let indent = [Indent::Tabs, Indent::Two, Indent::Four, Indent::Mixed][n % 4];
        let ending = [Ending::Unix, Ending::Windows, Ending::Mixed][n / 4 % 3];
        let script = [Script::Ascii, Script::Cjk, Script::Emoji, Script::Typographic][n / 12 % 4];
        let functions = 3 + n % 7;
        let row = |depth, text: String, tabs| Row { depth, text, blanks: "", tabs };
        let mut rows = vec![row(0, format!("// File {n}: {}", script.words()), false)];
        if n.is_multiple_of(10) {
            rows.push(row(0, format!("// {}", script.words().repeat(200)), false));
        }
        let first = rows.len();
        for k in 0..functions {
            // Hundreds, so that no number is a part of another.
            rows.extend(function(100 + k, script, indent == Indent::Tabs || (indent == Indent::Mixed && k % 2 == 1)));
        }
        rows.push(row(0, format!("// The end of file {n}"), false));
        Self {
            name: format!("{n}.src"),
            indent,
            ending,
            script,
            rows,
            function: first + functions / 2 * FUNCTION_ROWS,
            bom: n / 48 % 2 == 1,
            final_break: (n / 96).is_multiple_of(2),
            windows_majority: n % 2 == 1,
        }
    }

    /// The number that is in all names of the function that is edited.
    pub fn number(&self) -> String {
        self.rows[self.function].text.chars().filter(char::is_ascii_digit).collect()
    }

    /// The break after a row.
    pub fn ending(&self, at: usize) -> &'static str {
        let windows = match self.ending {
            Ending::Unix => false,
            Ending::Windows => true,
            Ending::Mixed => at.is_multiple_of(3) != self.windows_majority,
        };
        if windows { "\r\n" } else { "\n" }
    }

    /// A row as it is in the file, without its break.
    pub fn line(&self, row: &Row) -> String {
        let unit = match self.indent {
            Indent::Two => "  ",
            _ if row.tabs => "\t",
            _ => "    ",
        };
        format!("{}{}{}", unit.repeat(row.depth), row.text, row.blanks)
    }

    /// The file, and where each row begins in it. The last place is the end.
    pub fn bytes(&self) -> (Vec<u8>, Vec<usize>) {
        let mut text = String::from(if self.bom { "\u{FEFF}" } else { "" });
        let mut starts = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            starts.push(text.len());
            text.push_str(&self.line(row));
            if self.final_break || at + 1 < self.rows.len() {
                text.push_str(self.ending(at));
            }
        }
        starts.push(text.len());
        (text.into_bytes(), starts)
    }
}

/// A function: what is edited, a block that all functions of the file have, and one that differs in depth only.
fn function(k: usize, script: Script, tabs: bool) -> Vec<Row> {
    let words = script.words();
    let rows = [
        (0, format!("function step_{k}(a, b) {{"), ""),
        (1, format!("let total_{k}   = a + {k};"), ""),
        (1, format!("if (total_{k} > b) {{"), if k.is_multiple_of(2) { "  " } else { "\t" }),
        (2, format!("log(\"{words} {k}\");"), ""),
        (1, "}".to_owned(), ""),
        (1, format!("retry_{k}(a);"), ""),
        (1, format!("check_{k}(b);"), ""),
        (1, "cleanup(a);".to_owned(), ""),
        (1, "close(b);".to_owned(), if k.is_multiple_of(3) { " " } else { "" }),
        (k % 2 + 1, format!("note({});", 100 + k / 2), ""),
        (k % 2 + 1, format!("done({});", 100 + k / 2), ""),
        (0, "}".to_owned(), ""),
        (0, String::new(), ""),
    ];
    rows.into_iter().map(|(depth, text, blanks)| Row { depth, text, blanks, tabs }).collect()
}

impl Script {
    fn words(self) -> &'static str {
        match self {
            Self::Ascii => "plain words - and 'more'",
            Self::Cjk => "日本語の文字列、中文文本，한국어",
            Self::Emoji => "👩\u{200D}👩\u{200D}👧 cafe\u{301} 🇪🇺 n\u{303}",
            Self::Typographic => "\u{201C}said\u{201D}\u{A0}\u{2014} it\u{2019}s 1\u{2013}2",
        }
    }
}
