//! `{env:NAME}` and `{file:PATH}` in the texts of personal files: what is filled in is used and never shown.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::small_file;

/// Where texts are filled in from.
pub struct Filling<'a> {
    /// The variables.
    pub var: &'a dyn Fn(&str) -> Option<String>,
    /// What `~` stands for.
    pub home: Option<&'a Path>,
}

/// A text that was filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    /// As it stands in the file.
    pub(crate) written: String,
    /// What is used.
    pub(crate) text: String,
}

/// What came of all the texts of a value.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) filled: Vec<Filled>,
    /// The paths of texts that could not be filled in, and why.
    pub(crate) failed: Vec<(Vec<String>, String)>,
}

/// Whether there is anything to be filled in.
pub(crate) fn has_mark(text: &str) -> bool {
    marks(text).next().is_some()
}

/// Fills in every text below a value; `dir` is where relative paths begin.
pub(crate) fn fill(
    value: &mut Value,
    dir: &Path,
    filling: &Filling<'_>,
    path: &mut Vec<String>,
    outcome: &mut Outcome,
) {
    match value {
        Value::String(text) if has_mark(text) => match filled(text, dir, filling) {
            Ok(new) => {
                outcome.filled.push(Filled { written: text.clone(), text: new.clone() });
                *text = new;
            }
            Err(why) => outcome.failed.push((path.clone(), why)),
        },
        Value::Array(items) => {
            for (n, item) in items.iter_mut().enumerate() {
                path.push(n.to_string());
                fill(item, dir, filling, path, outcome);
                path.pop();
            }
        }
        Value::Object(map) => {
            for (key, inner) in map {
                path.push(key.clone());
                fill(inner, dir, filling, path, outcome);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The marks of a text: where they begin and end, what kind they are, and what they name.
fn marks(text: &str) -> impl Iterator<Item = (usize, usize, &str, &str)> {
    text.match_indices('{').filter_map(|(start, _)| {
        let inner = text[start + 1..].split_once('}')?.0;
        let (kind, name) = inner.split_once(':')?;
        let is_mark = matches!(kind, "env" | "file") && !name.is_empty() && !name.contains('{');
        is_mark.then(|| (start, start + inner.len() + 2, kind, name))
    })
}

fn filled(text: &str, dir: &Path, filling: &Filling<'_>) -> Result<String, String> {
    let mut new = String::with_capacity(text.len());
    let mut from = 0;
    for (start, end, kind, name) in marks(text) {
        new.push_str(&text[from..start]);
        if kind == "env" {
            new.push_str(&(filling.var)(name).ok_or_else(|| format!("the variable {name} is not set"))?);
        } else {
            let file = whole_path(name, dir, filling.home);
            let text = small_file::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            new.push_str(text.trim_end_matches(['\n', '\r']));
        }
        from = end;
    }
    new.push_str(&text[from..]);
    Ok(new)
}

fn whole_path(name: &str, dir: &Path, home: Option<&Path>) -> PathBuf {
    match (name.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => dir.join(name),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(text: &str, dir: &Path) -> Result<String, String> {
        let var = |name: &str| (name == "KEY").then(|| "{env:KEY}".to_owned());
        filled(text, dir, &Filling { var: &var, home: Some(dir) })
    }

    #[test]
    fn variables_and_files_are_filled_in_once() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("key"), "secret\n").unwrap();
        assert_eq!(with("a{file:key}b{file:~/key}", temp.path()).unwrap(), "asecretbsecret");
        // What comes in is not looked at again.
        assert_eq!(with("{env:KEY}!", temp.path()).unwrap(), "{env:KEY}!");
        assert_eq!(with("{env:NONE}", temp.path()).unwrap_err(), "the variable NONE is not set");
        assert!(with("{file:none}", temp.path()).unwrap_err().starts_with("cannot read "));
        for plain in ["{", "{env}", "{env:}", "{other:x}", "}{", "{env:{"] {
            assert_eq!(with(plain, temp.path()).unwrap(), plain);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_filled_in_or_refused(text in "[{}:envfilKEY/é.~]{0,24}") {
            drop(with(&text, Path::new("/nowhere")));
        }
    }
}
