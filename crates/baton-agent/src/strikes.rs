//! Three strikes: edits that fail again and again for the same cause end the editing. Pure.
//!
//! A strike is one answer of the model with an edit that fails; several that fail together are one, since the model had
//! heard nothing in between. A read that succeeds wipes nothing out, an edit does: of its own file, or, while the cause
//! moves from file to file, of any.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::ToolUse;
use baton_tools::Outcome;
use serde_json::Value;

/// How many there are.
const STRIKES: u32 = 3;

/// Which edits have failed, and how often.
#[derive(Default)]
pub(crate) struct Strikes {
    /// By file and cause.
    of_file: BTreeMap<(String, String), u32>,
    /// By cause, whatever the file.
    of_cause: BTreeMap<String, u32>,
    /// What has been counted for the answer whose calls run now.
    counted: BTreeSet<(String, String)>,
    is_out: bool,
}

impl Strikes {
    /// Whether edits have come to their end.
    pub(crate) fn is_out(&self) -> bool {
        self.is_out
    }

    /// The model has read what came of its calls.
    pub(crate) fn step_ended(&mut self) {
        self.counted.clear();
    }

    /// Notes what came of an edit that ran; whether that was one too many.
    pub(crate) fn edited(&mut self, call: &ToolUse, outcome: &Outcome) -> bool {
        let file = file(call);
        if !outcome.is_error {
            self.of_cause.clear();
            self.of_file.retain(|(failed, _), _| *failed != file);
            return false;
        }
        let cause = cause(&outcome.text);
        let is_first = !self.counted.iter().any(|(_, counted)| *counted == cause);
        if !self.counted.insert((file.clone(), cause.clone())) {
            return false;
        }
        let of_file = self.of_file.entry((file, cause.clone())).or_default();
        *of_file += 1;
        let of_cause = self.of_cause.entry(cause).or_default();
        *of_cause += u32::from(is_first);
        self.is_out |= *of_file >= STRIKES || *of_cause >= STRIKES;
        self.is_out
    }
}

/// The file that an edit is about; a patch names its own.
fn file(call: &ToolUse) -> String {
    let field = ["path", "file_path"].iter().find_map(|field| call.input.get(field).and_then(Value::as_str));
    field.unwrap_or_default().to_owned()
}

/// Why an edit failed, without what differs from one time to the next: names, numbers and what else was found.
fn cause(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(';').next().unwrap_or_default();
    let words = line.split_ascii_whitespace().filter(|word| {
        let word = word.trim_end_matches([':', ',', '.']);
        !word.contains(['/', '.']) && !word.contains(|c: char| c.is_ascii_digit())
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use baton_core::CallId;
    use serde_json::json;

    use super::*;

    fn edit(path: &str) -> ToolUse {
        ToolUse { id: CallId::new("1"), tool: "edit".to_owned(), input: json!({ "path": path }), malformed: None }
    }

    /// `a-` is an edit of `a` that is not found, `a+` one that succeeds, `a!` one that meets a full disk; what stands
    /// together is one answer.
    fn out(answers: &str) -> bool {
        let mut strikes = Strikes::default();
        for answer in answers.split(' ') {
            let mut chars = answer.chars();
            while let (Some(file), Some(what)) = (chars.next(), chars.next()) {
                let file = format!("{file}.rs");
                let outcome = match what {
                    '+' => Outcome::ok(format!("{file} edited")),
                    '-' => Outcome::error(format!("`old` is not in {file}; line {} is like it", answers.len())),
                    _ => Outcome::error(format!("cannot edit {file}: No space left on device")),
                };
                strikes.edited(&edit(&file), &outcome);
            }
            strikes.step_ended();
        }
        strikes.is_out()
    }

    #[test]
    fn three_are_out() {
        for answers in ["a- a- a-", "a- b- c-", "a! b! c!", "a- b+ a- b+ a-", "a-b- a-b- a-b-", "a- a! a- a! a-"] {
            assert!(out(answers), "{answers}");
        }
    }

    #[test]
    fn honest_failures_are_not() {
        for answers in [
            "a- a-",
            "a- a- a+ a- a-",
            "a- b- c+ d- e-",
            "a-b-c-d-",
            "a- a+ b- b+ c- c+ d-",
            "a- a! a-",
            "a-a-a-a- a+",
            "a! a- b! b+",
        ] {
            assert!(!out(answers), "{answers}");
        }
    }
}
