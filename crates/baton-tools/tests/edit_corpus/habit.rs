//! The habits of models: how each writes down the same edit, and what must come of it.

use serde_json::{Value, json};

use super::source::{FUNCTION_ROWS, Indent, Row, Script, Source};
use super::{Case, Expected};

/// A way in which models write edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Habit {
    Exact,
    FromMidLine,
    FirstLine,
    LastLine,
    NearDuplicate,
    EveryPlace,
    OtherEndings,
    LostBlanks,
    AddedBlanks,
    OtherPunctuation,
    Dedented,
    Indented,
    OtherUnit,
    DedentedOtherUnit,
    DedentedOtherPunctuation,
    InnerSpaces,
    LineNumbers,
    Stale,
    Ambiguous,
    AmbiguousShifted,
    Missing,
    LookAlike,
    Invisible,
    Tangled,
    Several,
    SeveralLastMissing,
    Patch,
    PatchFirstLine,
    PatchLastLine,
    PatchLostBlanks,
    PatchDedented,
    PatchOtherPunctuation,
    PatchAnchored,
    PatchAmbiguous,
    PatchMissing,
    PatchStale,
}

const ENDINGS: &str = "line endings";
const TRAILING: &str = "trailing whitespace";
const PUNCTUATION: &str = "typographic quotes, dashes or spaces";
const INDENTATION: &str = "indentation (the replacement was shifted alike)";
const RUNS: &str = "whitespace within lines";
const FINAL_BREAK: &str = "the line break at the end of the file";
const NUMBERS: &str = "line numbers (not a part of the file)";
const NUMBERS_AND_ENDINGS: &str = "line numbers (not a part of the file) and line endings";
const PATCH_SPACE: &str = "indentation or trailing whitespace";
const PATCH_PUNCTUATION: &str = "whitespace or typographic quotes, dashes or spaces";

impl Habit {
    pub const ALL: [Self; 36] = [
        Self::Exact,
        Self::FromMidLine,
        Self::FirstLine,
        Self::LastLine,
        Self::NearDuplicate,
        Self::EveryPlace,
        Self::OtherEndings,
        Self::LostBlanks,
        Self::AddedBlanks,
        Self::OtherPunctuation,
        Self::Dedented,
        Self::Indented,
        Self::OtherUnit,
        Self::DedentedOtherUnit,
        Self::DedentedOtherPunctuation,
        Self::InnerSpaces,
        Self::LineNumbers,
        Self::Stale,
        Self::Ambiguous,
        Self::AmbiguousShifted,
        Self::Missing,
        Self::LookAlike,
        Self::Invisible,
        Self::Tangled,
        Self::Several,
        Self::SeveralLastMissing,
        Self::Patch,
        Self::PatchFirstLine,
        Self::PatchLastLine,
        Self::PatchLostBlanks,
        Self::PatchDedented,
        Self::PatchOtherPunctuation,
        Self::PatchAnchored,
        Self::PatchAmbiguous,
        Self::PatchMissing,
        Self::PatchStale,
    ];

    /// The edit of this file, as a model of this habit writes it. Every other one ends its text with a line break.
    pub fn case(self, source: &Source, n: usize) -> Case {
        let path = format!("{self:?}/{}", source.name);
        let block = Block { source, path: &path, last_break: n % 2 == 1 };
        let k = source.number();
        let last = source.rows.len() - 1;
        let cleanups = (source.rows.len() - source.function % FUNCTION_ROWS) / FUNCTION_ROWS;
        let at_line = |at: usize| format!("closest place begins at line {}: ", at + 1);
        let not_found = || Expected::Refused(at_line(source.function + 1));
        let said = |text: &str| Expected::Refused(text.to_owned());
        let plain = |row: &Row| source.line(&without_blanks(row));
        let (tool, input, expected) = match self {
            Self::Exact => block.edit(|row| source.line(row), |at| source.ending(at), None),
            Self::FromMidLine => {
                let (tool, mut input, expected) = block.edit(|row| source.line(row), |at| source.ending(at), None);
                for field in ["old", "new"] {
                    input[field] = json!(input[field].as_str().unwrap().trim_start());
                }
                (tool, input, expected)
            }
            Self::FirstLine => {
                let (old, new) = (format!("// File {n}: "), format!("// Nr. {n}: "));
                ("edit", json!({"old": old, "new": new}), block.replaced(0, |text| text.replace(&old, &new), None))
            }
            Self::LastLine => {
                let (old, new) = (format!("// The end of file {n}\n"), format!("// The end of nr. {n}\n"));
                let break_ = source.bytes().0.ends_with(b"\n").then(|| source.ending(last));
                let forgiven = match break_ {
                    None => Some(FINAL_BREAK),
                    Some("\r\n") => Some(ENDINGS),
                    Some(_) => None,
                };
                let expected = block.replaced(last, |text| text.replace("file", "nr."), forgiven);
                ("edit", json!({"old": old, "new": new}), expected)
            }
            Self::NearDuplicate => {
                let at = source.function + 9;
                let old = source.line(&source.rows[at]) + source.ending(at) + &source.line(&source.rows[at + 1]);
                let new = old.replace("note", "mark");
                let expected = block.replaced(at, |text| text.replace("note", "mark"), None);
                ("edit", json!({"old": old, "new": new}), expected)
            }
            Self::EveryPlace => {
                let contents = String::from_utf8(source.bytes().0).unwrap().replace("cleanup(a)", "tidy(a)");
                let expected = Expected::Applied { contents: contents.into_bytes(), forgiven: None };
                ("edit", json!({"old": "cleanup(a)", "new": "tidy(a)", "all": true}), expected)
            }
            Self::OtherEndings => {
                let other = if source.ending == super::source::Ending::Unix { "\r\n" } else { "\n" };
                block.edit(|row| source.line(row), |_| other, Some(ENDINGS))
            }
            Self::LostBlanks => block.edit(plain, |at| source.ending(at), Some(TRAILING)),
            Self::AddedBlanks => {
                let line = |row: &Row| if row.text.starts_with("let") { source.line(row) + " \t" } else { plain(row) };
                block.edit(line, |_| "\n", Some(TRAILING))
            }
            Self::OtherPunctuation => {
                block.edit(|row| other_punctuation(&plain(row), source.script), |_| "\n", Some(PUNCTUATION))
            }
            Self::Dedented => block.edit(|row| plain(&shifted(row, -1)), |_| "\n", Some(INDENTATION)),
            Self::Indented => block.edit(|row| plain(&shifted(row, 1)), |_| "\n", Some(INDENTATION)),
            Self::OtherUnit => block.edit(|row| other_unit(source, row), |_| "\n", Some(INDENTATION)),
            Self::DedentedOtherUnit => {
                block.edit(|row| other_unit(source, &shifted(row, -1)), |_| "\n", Some(INDENTATION))
            }
            Self::DedentedOtherPunctuation => {
                let line = |row: &Row| other_punctuation(&plain(&shifted(row, -1)), source.script);
                block.edit(line, |_| "\n", Some(INDENTATION))
            }
            Self::InnerSpaces => block.edit(|row| plain(row).replace("   =", " ="), |_| "\n", Some(RUNS)),
            Self::LineNumbers => {
                let windows = (source.function + 1..source.function + 4).any(|at| source.ending(at) == "\r\n")
                    || (block.last_break && source.ending(source.function + 4) == "\r\n");
                let forgiven = if windows { NUMBERS_AND_ENDINGS } else { NUMBERS };
                let (tool, mut input, expected) = block.edit(|row| source.line(row), |_| "\n", Some(forgiven));
                for field in ["old", "new"] {
                    let lines = input[field].as_str().unwrap().split_inclusive('\n').enumerate();
                    let numbered = lines.map(|(at, line)| format!("{:>6}\t{line}", source.function + 2 + at));
                    input[field] = json!(numbered.collect::<String>());
                }
                (tool, input, expected)
            }
            Self::Stale => {
                let (tool, input, _) = block.edit(|row| source.line(row), |at| source.ending(at), None);
                (tool, input, said("was changed since you read it"))
            }
            Self::Ambiguous => {
                let input = json!({"old": "cleanup(a);", "new": "tidy(a);"});
                ("edit", input, Expected::Refused(format!("in the file {cleanups} times")))
            }
            Self::AmbiguousShifted => {
                let old = source.rows[source.function + 9..][..2].iter().map(|row| row.text.as_str());
                let old = old.collect::<Vec<_>>().join("\n");
                let new = old.replace("note", "mark");
                ("edit", json!({"old": old, "new": new}), said("these lines are in the file 2 times"))
            }
            Self::Missing => {
                let (tool, input, _) = block.edit(|row| never(&plain(row)), |_| "\n", None);
                (tool, input, not_found())
            }
            Self::LookAlike => {
                // It is in the file as a part of a longer word only, and with other whitespace.
                let (old, new) = (format!("otal_{k} = a + {k};"), format!("otal_{k} = b;"));
                ("edit", json!({"old": old, "new": new}), said("is not in the file"))
            }
            Self::Invisible => {
                let line = |row: &Row| plain(row).replace("e\u{301}", "\u{E9}").replace("log(\"", "log\u{200B}(\"");
                let (tool, input, _) = block.edit(line, |_| "\n", None);
                (tool, input, said(" where `old` has U+200B"))
            }
            Self::Tangled => {
                let line = |row: &Row| plain(&shifted(row, -1)).replace("   =", " =");
                let (tool, input, _) = block.edit(line, |_| "\n", None);
                (tool, input, not_found())
            }
            Self::Several | Self::SeveralLastMissing => {
                let (_, middle, _) = block.edit(|row| plain(&shifted(row, -1)), |_| "\n", None);
                let retry = json!({"old": format!("retry_{k}(a);"), "new": format!("again_{k}(a);")});
                if self == Self::Several {
                    let last = json!({"old": format!("// File {n}: "), "new": format!("// Nr. {n}: ")});
                    ("multi_edit", json!({"edits": [retry, middle, last]}), block.all_three(n))
                } else {
                    let last = json!({"old": "nothing of the kind", "new": ""});
                    ("multi_edit", json!({"edits": [retry, middle, last]}), said("edit 3: "))
                }
            }
            Self::Patch => block.patch(|row| source.line(row), None),
            Self::PatchFirstLine => {
                let first = &source.rows[0].text;
                let body = format!("-{first}\n+{}\n", first.replace("File", "Nr."));
                ("apply_patch", block.update("", &body), block.replaced(0, |text| text.replace("File", "Nr."), None))
            }
            Self::PatchLastLine => {
                let body = format!("-// The end of file {n}\n+// The end of nr. {n}\n*** End of File\n");
                let expected = block.replaced(last, |text| text.replace("file", "nr."), None);
                ("apply_patch", block.update("", &body), expected)
            }
            Self::PatchLostBlanks => block.patch(plain, Some(TRAILING)),
            Self::PatchDedented => block.patch(|row| plain(&shifted(row, -1)), Some(PATCH_SPACE)),
            Self::PatchOtherPunctuation => {
                block.patch(|row| other_punctuation(&plain(row), source.script), Some(PATCH_PUNCTUATION))
            }
            Self::PatchAnchored => {
                let at = source.function + 7;
                let line = source.line(&source.rows[at]);
                let body = format!("-{line}\n+{}\n", line.replace("cleanup", "tidy"));
                let expected = block.replaced(at, |text| text.replace("cleanup", "tidy"), None);
                ("apply_patch", block.update(&source.rows[source.function].text, &body), expected)
            }
            Self::PatchAmbiguous => {
                let expected = Expected::Refused(format!("in the file {cleanups} times"));
                ("apply_patch", block.update("", "-cleanup(a);\n+tidy(a);\n"), expected)
            }
            Self::PatchMissing => {
                let (tool, input, _) = block.patch(|row| never(&plain(row)), None);
                (tool, input, not_found())
            }
            Self::PatchStale => {
                let (tool, input, _) = block.patch(|row| source.line(row), None);
                (tool, input, said("was changed since you read it"))
            }
        };
        let mut input = input;
        if tool != "apply_patch" {
            input["path"] = json!(path);
        }
        let (contents, _) = source.bytes();
        let stale = matches!(self, Self::Stale | Self::PatchStale);
        let (contents, seen) =
            if stale { ([&contents, &b"more\n"[..]].concat(), Some(contents)) } else { (contents, None) };
        Case { habit: self, path, contents, seen, tool, input, expected }
    }
}

/// The place that most edits change: four rows of the middle function, of which the third is replaced by two.
struct Block<'a> {
    source: &'a Source,
    path: &'a str,
    /// Whether the text that is given ends with a line break.
    last_break: bool,
}

type Written = (&'static str, Value, Expected);

impl Block<'_> {
    fn first(&self) -> usize {
        self.source.function + 1
    }

    fn old(&self) -> Vec<Row> {
        self.source.rows[self.first()..][..4].to_vec()
    }

    /// The two rows that come into the file.
    fn added(&self) -> [Row; 2] {
        let like = &self.old()[2];
        [format!("log(total_{}, b);", self.source.number()), "count(a);".to_owned()].map(|text| Row {
            text,
            blanks: "",
            ..like.clone()
        })
    }

    /// The rows as a model writes them: with its own idea of a line and of a line break.
    fn edit(
        &self,
        line: impl Fn(&Row) -> String,
        ending: impl Fn(usize) -> &'static str,
        forgiven: Option<&'static str>,
    ) -> Written {
        let (old, [changed, extra]) = (self.old(), self.added());
        let first = self.first();
        let say = |rows: &[(&Row, usize)]| {
            let mut text: String = rows.iter().map(|(row, at)| line(row) + ending(*at)).collect();
            if !self.last_break {
                text.truncate(text.trim_end_matches(['\r', '\n']).len());
            }
            text
        };
        let kept = |at: usize| (&old[at], first + at);
        let new = say(&[kept(0), kept(1), (&changed, first + 2), (&extra, first + 2), kept(3)]);
        let old = say(&[kept(0), kept(1), kept(2), kept(3)]);
        ("edit", json!({"old": old, "new": new}), Expected::Applied { contents: self.expected(), forgiven })
    }

    fn patch(&self, line: impl Fn(&Row) -> String, forgiven: Option<&'static str>) -> Written {
        let (old, added) = (self.old(), self.added());
        let [zero, one, two, three] = [0, 1, 2, 3].map(|at| line(&old[at]));
        let [changed, extra] = added.map(|row| line(&row));
        let body = format!(" {zero}\n {one}\n-{two}\n+{changed}\n+{extra}\n {three}\n");
        ("apply_patch", self.update("", &body), Expected::Applied { contents: self.expected(), forgiven })
    }

    fn update(&self, anchor: &str, body: &str) -> Value {
        let anchor = if anchor.is_empty() { "@@\n".to_owned() } else { format!("@@ {anchor}\n") };
        let path = self.path;
        json!({"patch": format!("*** Begin Patch\n*** Update File: {path}\n{anchor}{body}*** End Patch\n")})
    }

    /// The file after the edit: new lines end as the one that they replace does, and all others are as they were.
    fn expected(&self) -> Vec<u8> {
        let (contents, starts) = self.source.bytes();
        let at = self.first() + 2;
        let added: String = self.added().iter().map(|row| self.source.line(row) + self.source.ending(at)).collect();
        [&contents[..starts[at]], added.as_bytes(), &contents[starts[at + 1]..]].concat()
    }

    /// The file with the text of one row changed.
    fn replaced(&self, at: usize, new: impl Fn(&str) -> String, forgiven: Option<&'static str>) -> Expected {
        let (contents, starts) = self.source.bytes();
        let row = str::from_utf8(&contents[starts[at]..starts[at + 1]]).unwrap();
        let contents = [&contents[..starts[at]], new(row).as_bytes(), &contents[starts[at + 1]..]].concat();
        Expected::Applied { contents, forgiven }
    }

    fn all_three(&self, n: usize) -> Expected {
        let k = self.source.number();
        let contents = String::from_utf8(self.expected()).unwrap();
        let contents = contents.replace(&format!("retry_{k}"), &format!("again_{k}"));
        let contents = contents.replace(&format!("// File {n}: "), &format!("// Nr. {n}: "));
        Expected::Applied { contents: contents.into_bytes(), forgiven: Some(INDENTATION) }
    }
}

fn without_blanks(row: &Row) -> Row {
    Row { blanks: "", ..row.clone() }
}

fn shifted(row: &Row, by: isize) -> Row {
    Row { depth: row.depth.saturating_add_signed(by), ..row.clone() }
}

/// The row with tabs for spaces, spaces for tabs, or twice as many spaces.
fn other_unit(source: &Source, row: &Row) -> String {
    let unit = if source.indent != Indent::Two && !row.tabs { "\t" } else { "    " };
    unit.repeat(row.depth) + &row.text
}

/// Plain where the file is typographic, typographic where it is plain.
fn other_punctuation(line: &str, script: Script) -> String {
    if script == Script::Typographic {
        let plain = line.replace(['\u{201C}', '\u{201D}'], "\"").replace('\u{2019}', "'");
        plain.replace(['\u{2013}', '\u{2014}'], "-").replace('\u{A0}', " ")
    } else {
        line.replacen('"', "\u{201C}", 1).replacen('"', "\u{201D}", 1)
    }
}

/// The line that is to be replaced as it never was in the file.
fn never(line: &str) -> String {
    if line.contains("log(\"") { line.replace("log(\"", "print(\"") } else { line.to_owned() }
}
