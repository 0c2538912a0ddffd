//! The edit corpus: files in all the styles there are, and the edits that models write for them, right and wrong.
//!
//! It is made, not stored, and the same every time. Every case knows the bytes that must be in the file afterwards, from
//! the rows that the file was made of: no code that is tested has a part in it.

mod habit;
mod source;

pub use habit::Habit;
use serde_json::Value;
use source::Source;

/// An edit of one file, and what must come of it.
pub struct Case {
    pub habit: Habit,
    pub path: String,
    /// The file as it is when the edit is made.
    pub contents: Vec<u8>,
    /// The file as the model last saw it, where it looked.
    pub seen: Option<Vec<u8>>,
    pub tool: &'static str,
    pub input: Value,
    expected: Expected,
}

/// What must come of an edit.
enum Expected {
    /// The file has these bytes, and the model is told what was forgiven if anything was.
    Applied { contents: Vec<u8>, forgiven: Option<&'static str> },
    /// No byte changes, and the model is told this.
    Refused(String),
}

/// The edits of the first `files` files: of each file one in `share`, a different one from file to file.
pub fn cases(files: usize, share: usize) -> impl Iterator<Item = Case> {
    (0..files).flat_map(move |n| {
        let source = Source::nth(n);
        let habits = Habit::ALL.into_iter().enumerate().filter(move |(at, _)| (at + n).is_multiple_of(share));
        habits.map(move |(_, habit)| habit.case(&source, n))
    })
}

impl Case {
    /// What came of it in a few words, or what is wrong about that.
    pub fn verdict(&self, said: &str, is_error: bool, contents: &[u8]) -> Result<String, String> {
        let wrong = |why: &str| {
            let [was, is] = [&self.contents, contents].map(|text| String::from_utf8_lossy(text).into_owned());
            Err(format!(
                "{:?} {}: {why}\n{said}\n{}\nbefore: {was:?}\nafter: {is:?}",
                self.habit, self.path, self.input
            ))
        };
        match &self.expected {
            Expected::Applied { .. } if is_error => wrong("it was refused"),
            Expected::Applied { contents: expected, .. } if contents != expected => wrong("the file has other bytes"),
            Expected::Applied { forgiven, .. } => {
                let told =
                    ["differs only in ", "differs from the file in "].iter().find_map(|text| said.split_once(text));
                let told = told.map(|(_, rest)| rest.lines().next().unwrap_or_default());
                match told {
                    _ if told != *forgiven => wrong(&format!("the model should be told of {forgiven:?}")),
                    Some(told) => Ok(format!("applied but for {told}")),
                    None => Ok("applied exactly".to_owned()),
                }
            }
            Expected::Refused(_) if !is_error => wrong("it was applied"),
            Expected::Refused(_) if contents != self.contents => wrong("the file was changed"),
            Expected::Refused(reason) if !said.contains(reason) => wrong(&format!("it does not say `{reason}`")),
            Expected::Refused(_) => Ok("refused with the reason".to_owned()),
        }
    }
}
