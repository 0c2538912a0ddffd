//! Evidence as a person types it: texts become what the fields of the gate hold.

use std::collections::BTreeMap;

use baton_workflow::{FieldType, Fields};
use serde_json::{Map, Value};

/// Reads `NAME=VALUE` pairs by the types of the fields; everything that does not fit is told. A name that is not asked for
/// is passed on: whoever takes the evidence knows what to say about it.
pub(super) fn typed(fields: &Fields, pairs: &[(String, String)]) -> Result<Map<String, Value>, Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, text) in pairs {
        groups.entry(name).or_default().push(text);
    }
    let (mut values, mut problems) = (Map::new(), Vec::new());
    for (name, texts) in groups {
        let field = fields.0.iter().find(|(known, _)| known.as_str() == name).map(|(_, field)| field);
        let kind = field.map_or(&FieldType::Text, |field| &field.kind);
        match read(kind, &texts) {
            Ok(value) => drop(values.insert(name.to_owned(), value)),
            Err(why) => problems.push(format!("`{name}`: {why}; expected: {}", kind.describe())),
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

fn read(kind: &FieldType, texts: &[&str]) -> Result<Value, String> {
    let text = |text: &str| Value::String(text.to_owned());
    match (kind, texts) {
        // A list is given one item at a time, or as JSON.
        (FieldType::List | FieldType::Paths, [one]) => {
            let whole = serde_json::from_str::<Value>(one).ok().filter(Value::is_array);
            Ok(whole.unwrap_or_else(|| Value::Array(vec![text(one)])))
        }
        (FieldType::List | FieldType::Paths, many) => Ok(many.iter().map(|one| text(one)).collect()),
        (FieldType::Number, [one]) => {
            let number = serde_json::from_str::<serde_json::Number>(one.trim());
            number.map(Value::Number).map_err(|_| format!("`{one}` is not a number"))
        }
        (FieldType::Bool, [one]) => match one.trim() {
            "true" | "yes" => Ok(Value::Bool(true)),
            "false" | "no" => Ok(Value::Bool(false)),
            _ => Err(format!("`{one}` is neither true nor false")),
        },
        (FieldType::Text | FieldType::Path | FieldType::OneOf(_), [one]) => Ok(text(one)),
        (_, many) => Err(format!("it is given {} times, but holds one value", many.len())),
    }
}
