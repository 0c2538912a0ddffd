//! Edits of a settings file that keep its comments, its order and its form.

use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use crate::{Layer, LayerKind};

/// A text that was edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The new text.
    pub text: String,
    /// The line of the first value that is new, from 1; none if all were there already.
    pub line: Option<usize>,
}

/// Why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is not JSONC.
    #[error("line {line}: {message}")]
    Malformed {
        /// Where.
        line: usize,
        /// Why.
        message: String,
    },
    /// Something else stands where the list should be.
    #[error("`{0}` is there and is not what it should be")]
    Unexpected(String),
}

/// Adds texts to the end of the list at this path of keys, which is made if need be; those that it has are left out.
pub fn append(text: &str, path: &[&str], texts: &[String]) -> Result<Edited, EditError> {
    let old = list_at(text, path)?;
    let mut new: Vec<&String> = Vec::new();
    for text in texts {
        if !old.contains(text) && !new.contains(&text) {
            new.push(text);
        }
    }
    if new.is_empty() {
        return Ok(Edited { text: text.to_owned(), line: None });
    }
    let unexpected = || EditError::Unexpected(path.join("."));
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|_| unexpected())?;
    let mut object = root.object_value_or_create().ok_or_else(unexpected)?;
    let (own, above) = path.split_last().ok_or_else(unexpected)?;
    for key in above {
        object = object.object_value_or_create(key).ok_or_else(unexpected)?;
    }
    let list = object.array_value_or_create(own).ok_or_else(unexpected)?;
    if list.elements().is_empty() && list.children().iter().all(|child| !child.is_comment()) {
        list.ensure_multiline();
    }
    for text in &new {
        list.append(CstInputValue::String((*text).clone()));
    }
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // A key that stands twice, or a form that is read in two ways: better no edit than another one than was meant.
    let expected: Vec<String> = old.iter().chain(new.iter().copied()).cloned().collect();
    if list_at(&text, path)? != expected {
        return Err(unexpected());
    }
    let line = parse(&text)?.line_of(path, old.len());
    Ok(Edited { text, line })
}

fn parse(text: &str) -> Result<Layer, EditError> {
    Layer::parse(LayerKind::User, Path::new(""), text).map_err(|error| match error {
        crate::LayerError::Malformed { line, message, .. } => EditError::Malformed { line, message },
        crate::LayerError::Unreadable { cause, .. } => EditError::Malformed { line: 1, message: cause.to_string() },
    })
}

/// The texts in the list at this path; none if there is no list yet.
fn list_at(text: &str, path: &[&str]) -> Result<Vec<String>, EditError> {
    let values = Value::Object(parse(text)?.values);
    let mut at = &values;
    for key in path {
        match at {
            Value::Object(map) => match map.get(*key) {
                Some(inner) => at = inner,
                None => return Ok(Vec::new()),
            },
            _ => return Err(EditError::Unexpected(path.join("."))),
        }
    }
    let unexpected = || EditError::Unexpected(path.join("."));
    let items = at.as_array().ok_or_else(unexpected)?;
    items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(unexpected)).collect()
}

impl Layer {
    fn line_of(&self, path: &[&str], item: usize) -> Option<usize> {
        let keys: Vec<String> = path.iter().map(|key| (*key).to_owned()).chain([item.to_string()]).collect();
        self.place_of(&keys).map(|(_, line)| line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DENY: [&str; 2] = ["permissions", "deny"];

    fn added(text: &str, rules: &[&str]) -> Edited {
        append(text, &DENY, &rules.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn comments_and_form_stay() {
        let text = "// mine\n{\n  \"model\": \"x\", // the best\n  \"permissions\": {\n    // never\n    \"deny\": [\n      \"Bash(a)\", // a\n      /* last */\n    ],\n  },\n}\n";
        let edited = added(text, &["Bash(b)", "Bash(a)", "Bash(b)"]);
        assert_eq!(edited.text.replace("\n      \"Bash(b)\",", "").replace("\n      \"Bash(b)\"", ""), text);
        assert_eq!(
            edited.text.lines().nth(edited.line.unwrap() - 1).unwrap().trim().trim_end_matches(','),
            "\"Bash(b)\""
        );
        assert_eq!(added(&edited.text, &["Bash(b)"]), Edited { text: edited.text.clone(), line: None });
    }

    #[test]
    fn what_is_missing_is_made() {
        for text in ["", "{}", "// nothing yet\n", "{ \"permissions\": {} }", "{\"permissions\": {\"allow\": [\"x\"]}}"]
        {
            let edited = added(text, &["Bash(a)"]);
            assert_eq!(list_at(&edited.text, &DENY).unwrap(), ["Bash(a)"], "{text:?}");
            assert!(edited.text.lines().nth(edited.line.unwrap() - 1).unwrap().contains("Bash(a)"), "{edited:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for text in [
            "{",
            "[]",
            "{\"permissions\": 1}",
            "{\"permissions\": {\"deny\": \"x\"}}",
            "{\"permissions\": {\"deny\": [1]}}",
        ] {
            assert!(append(text, &DENY, &["x".to_owned()]).is_err(), "{text}");
        }
        let twice = "{\"permissions\": {\"deny\": []}, \"permissions\": {\"deny\": [\"a\"]}}";
        assert!(append(twice, &DENY, &["x".to_owned()]).is_err());
    }

    /// Settings with comments, blank lines and trailing commas in any place.
    fn settings() -> impl Strategy<Value = String> {
        let noise = prop::sample::select(vec!["", " ", "\n", "\n  // note \"x\"\n", " /* [ */ ", "\r\n", "\t"]);
        let rule = prop::sample::select(vec!["\"Bash(a)\"", "\"Read(b, \\\"c\\\")\"", "\"é\""]);
        let list = prop::collection::vec((noise.clone(), rule), 0..4);
        (list, prop::collection::vec(noise, 8), any::<bool>(), any::<bool>()).prop_map(|(list, n, trailing, more)| {
            let items: Vec<String> = list.iter().map(|(noise, rule)| format!("{noise}{rule}")).collect();
            let comma = if trailing && !items.is_empty() { "," } else { "" };
            let other = if more { format!("\"model\": \"m\",{}", n[0]) } else { String::new() };
            format!(
                "{}{{{}{other}\"permissions\":{}{{{}\"deny\"{}:[{}{comma}{}]{}}}}}",
                n[1],
                n[2],
                n[3],
                n[4],
                n[5],
                items.join(","),
                n[6],
                n[7]
            )
        })
    }

    fn is_subsequence(short: &str, long: &str) -> bool {
        let mut rest = long.chars();
        short.chars().filter(|c| !c.is_whitespace() && *c != ',').all(|wanted| rest.any(|c| c == wanted))
    }

    proptest! {
        #[test]
        fn an_edit_adds_and_takes_nothing_away(text in settings(), rules in prop::collection::vec("[a-c\"\\\\ é]{0,3}", 1..4)) {
            let before = list_at(&text, &DENY).unwrap();
            let edited = append(&text, &DENY, &rules).unwrap();
            let after = list_at(&edited.text, &DENY).unwrap();
            prop_assert_eq!(&after[..before.len()], &before[..]);
            prop_assert!(rules.iter().all(|rule| after.contains(rule)));
            prop_assert!(is_subsequence(&text, &edited.text), "{:?} became {:?}", text, edited.text);
            prop_assert_eq!(append(&edited.text, &DENY, &rules).unwrap().line, None);
        }

        #[test]
        fn any_text_is_edited_or_refused(text in "[\\[\\]{}\",:/*a\n ]{0,40}") {
            drop(append(&text, &DENY, &["x".to_owned()]));
        }
    }
}
