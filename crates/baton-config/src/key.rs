//! Keys as people write them: `limits.steps`, `models."openai/gpt-5.2".context`.

/// How like another name one must be to be meant.
const LIKE_MIN: f64 = 0.8;

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no key: write names with dots between them, and a name that has dots in quotes: models.\"a/b-1.5\".context"
)]
pub struct KeyError(pub String);

/// Reads a key: names with dots between them, in quotes where they have dots themselves.
pub fn parse_key(text: &str) -> Result<Vec<String>, KeyError> {
    let error = || KeyError(text.to_owned());
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let name = if rest.starts_with('"') {
            let mut parts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            let name = parts.next().and_then(Result::ok).ok_or_else(error)?;
            rest = &rest[parts.byte_offset()..];
            name
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = after;
            name.to_owned()
        };
        if name.is_empty() {
            return Err(error());
        }
        names.push(name);
        match rest.strip_prefix('.') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Ok(names),
            None => return Err(error()),
        }
    }
}

/// A key in the form that [`parse_key`] reads.
pub fn show_key(names: &[String]) -> String {
    let shown = names.iter().map(|name| {
        let is_special = |c: char| matches!(c, '.' | '"' | '\\') || c.is_whitespace() || is_hidden(c);
        if !name.is_empty() && !name.contains(is_special) {
            return name.clone();
        }
        let quoted = serde_json::Value::String(name.clone()).to_string();
        let letter = |c: char| if is_hidden(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
        quoted.chars().map(letter).collect()
    });
    shown.collect::<Vec<_>>().join(".")
}

/// Whether a terminal would obey or hide it: a name may have come with a repository.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The key of something below a section.
pub(crate) fn below(section: &str, path: &[String]) -> String {
    let names: Vec<String> = std::iter::once(section.to_owned()).chain(path.iter().cloned()).collect();
    show_key(&names)
}

/// The name that may be meant by another.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name: String = name.chars().take(64).collect::<String>().to_lowercase().replace('-', "_");
    let like = known.map(|known| (strsim::jaro_winkler(&name, &known.to_lowercase()), known));
    like.filter(|(like, _)| *like >= LIKE_MIN).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_with_dots_are_quoted() {
        assert_eq!(parse_key("models.\"openai/gpt-5.2\".context").unwrap(), ["models", "openai/gpt-5.2", "context"]);
        for bad in ["", ".", "a.", ".a", "a..b", "a.\"b", "\"a\"b", "\"\""] {
            assert!(parse_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_nearest_name_is_found_and_no_other() {
        let known = ["limits", "model", "models", "retry"];
        assert_eq!(nearest("limitz", known.into_iter()), Some("limits"));
        assert_eq!(nearest("Modle", known.into_iter()), Some("model"));
        assert_eq!(nearest("colour", known.into_iter()), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(names in prop::collection::vec("[a-z.\"\\\\ é/\n\u{9b}\u{202e}-]{1,6}", 1..4)) {
            prop_assert_eq!(parse_key(&show_key(&names)).unwrap(), names);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,20}") {
            drop(parse_key(&text));
        }
    }
}
