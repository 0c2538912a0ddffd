//! Edits of a settings file that keep its comments, its order and its form.

use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use crate::values::{get, put, remove};
use crate::{Layer, LayerKind, show_key};

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
    /// There is nothing to be taken away.
    #[error("`{0}` is not set here")]
    Missing(String),
}

/// Sets a value; what is above it is made if need be, and everything else stays as it is.
pub fn set(text: &str, path: &[String], value: &Value) -> Result<Edited, EditError> {
    let mut expected = Value::Object(parse(text)?.values);
    if get(&expected, path) == Some(value) {
        return Ok(Edited { text: text.to_owned(), line: None });
    }
    put(&mut expected, path, value.clone());
    let (root, object, own) = way(text, path, true)?;
    if let Some(property) = object.get(own) {
        property.set_value(input(value));
    } else {
        if object.properties().is_empty() && object.children().iter().all(|child| !child.is_comment()) {
            object.ensure_multiline();
        }
        object.append(own, input(value));
    }
    finish(&root, path, &expected)
}

/// Takes a value away, with its key; everything else stays as it is.
pub fn unset(text: &str, path: &[String]) -> Result<Edited, EditError> {
    let mut expected = Value::Object(parse(text)?.values);
    if get(&expected, path).is_none() {
        return Err(EditError::Missing(show_key(path)));
    }
    remove(&mut expected, path);
    let (root, object, own) = way(text, path, false)?;
    object.get(own).ok_or_else(|| EditError::Unexpected(show_key(path)))?.remove();
    Ok(Edited { line: None, ..finish(&root, path, &expected)? })
}

/// What stands at a path of a text.
pub fn value_at(text: &str, path: &[String]) -> Result<Option<Value>, EditError> {
    Ok(get(&Value::Object(parse(text)?.values), path).cloned())
}

/// The object that holds the last key of a path, and that key.
fn way<'a>(text: &str, path: &'a [String], make: bool) -> Result<(CstRootNode, CstObject, &'a str), EditError> {
    let unexpected = || EditError::Unexpected(show_key(path));
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|_| unexpected())?;
    let mut object = root.object_value_or_create().ok_or_else(unexpected)?;
    let (own, above) = path.split_last().ok_or_else(unexpected)?;
    for key in above {
        let inner = if make { object.object_value_or_create(key) } else { object.object_value(key) };
        object = inner.ok_or_else(unexpected)?;
    }
    Ok((root, object, own))
}

/// The new text, if it is read as it is meant.
fn finish(root: &CstRootNode, path: &[String], expected: &Value) -> Result<Edited, EditError> {
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // A key that stands twice, or a form that is read in two ways: better no edit than another one than was meant.
    let layer = parse(&text)?;
    if *expected != Value::Object(layer.values.clone()) {
        return Err(EditError::Unexpected(show_key(path)));
    }
    Ok(Edited { text, line: layer.place_of(path).map(|(_, line)| line) })
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is_so) => CstInputValue::Bool(*is_so),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
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

    fn path(text: &str) -> Vec<String> {
        crate::parse_key(text).unwrap()
    }

    #[test]
    fn a_value_is_set_and_taken_away_among_comments() {
        let text = "// mine\n{\n  // the best\n  \"model\": \"x\", // really\n  \"limits\": {\n    \"steps\": 5, // few\n  },\n}\n";
        let changed = set(text, &path("limits.steps"), &9.into()).unwrap();
        assert_eq!(changed.text, text.replace("5, // few", "9, // few"));
        assert_eq!(changed.line, Some(6));
        let more = set(text, &path("limits.usd"), &serde_json::json!(2.5)).unwrap();
        assert_eq!(more.text, text.replace("// few\n", "// few\n    \"usd\": 2.5,\n"));
        assert_eq!(more.line, Some(7));
        let back = unset(&more.text, &path("limits.usd")).unwrap();
        assert_eq!(back.text, text);
        let other = set(text, &path("models.\"a/b-1.5\".context"), &1000.into()).unwrap();
        assert!(other.text.starts_with(text.strip_suffix("}\n").unwrap()), "{}", other.text);
        assert_eq!(unset(text, &path("limits.usd")), Err(EditError::Missing("limits.usd".to_owned())));
    }

    #[test]
    fn a_file_is_made_that_people_can_read() {
        let made = set("", &path("limits.steps"), &9.into()).unwrap();
        assert_eq!(made.text, "{\n  \"limits\": {\n    \"steps\": 9\n  }\n}\n");
        assert_eq!(set(&made.text, &path("limits.steps"), &9.into()).unwrap().line, None);
        assert!(set("{\"limits\": 1}", &path("limits.steps"), &9.into()).is_err());
        assert!(set("{\"limits\": {}, \"limits\": {\"usd\": 1}}", &path("limits.steps"), &9.into()).is_err());
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
        fn what_is_set_is_read_and_nothing_else_changes(text in settings(), own in any::<bool>(), number in any::<u32>()) {
            let at = path(if own { "permissions.deny" } else { "limits.steps" });
            let edited = set(&text, &at, &number.into()).unwrap();
            prop_assert_eq!(value_at(&edited.text, &at).unwrap(), Some(number.into()));
            prop_assert_eq!(value_at(&edited.text, &path("model")), value_at(&text, &path("model")));
            if !own {
                prop_assert!(is_subsequence(&text, &edited.text), "{:?} became {:?}", text, edited.text);
                prop_assert_eq!(value_at(&edited.text, &path("permissions")), value_at(&text, &path("permissions")));
            }
            let gone = unset(&edited.text, &at).unwrap();
            prop_assert_eq!(value_at(&gone.text, &at).unwrap(), None);
        }

        #[test]
        fn any_text_is_edited_or_refused(text in "[\\[\\]{}\",:/*a\n ]{0,40}") {
            drop(append(&text, &DENY, &["x".to_owned()]));
            drop(set(&text, &path("a.b"), &1.into()));
            drop(unset(&text, &path("a")));
        }
    }
}
