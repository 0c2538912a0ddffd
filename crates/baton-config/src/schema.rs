//! The JSON Schema of all sections, for editors, for `explain`, and for finding the name that was meant.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{Section, SectionInfo, key, show_key};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One schema of a whole settings file.
pub fn schema(sections: &[SectionInfo]) -> Value {
    let mut properties = Map::new();
    let description = "The schema of this file, for editors.";
    properties.insert("$schema".to_owned(), json!({"type": "string", "description": description}));
    for section in sections {
        properties.insert(section.key.to_owned(), (section.schema)());
    }
    json!({
        "$schema": DIALECT,
        "title": "Settings of Baton",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "allowComments": true,
        "allowTrailingCommas": true,
    })
}

/// Every key that can be set and does not depend on names that people choose.
pub fn known_keys(sections: &[SectionInfo]) -> Vec<String> {
    fn walk(schema: &Value, path: &mut Vec<String>, keys: &mut Vec<String>) {
        keys.push(show_key(path));
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            path.push(name.clone());
            walk(inner, path, keys);
            path.pop();
        }
    }
    let mut keys = Vec::new();
    for section in sections {
        walk(&(section.schema)(), &mut vec![section.key.to_owned()], &mut keys);
    }
    keys
}

/// The known key that may be meant by another.
pub fn nearest_key(sections: &[SectionInfo], key: &[String]) -> Option<String> {
    let keys = known_keys(sections);
    key::nearest(&show_key(key), keys.iter().map(String::as_str)).map(str::to_owned)
}

/// The schema of one section, complete in itself, with the defaults that count.
pub(crate) fn of<S: Section>() -> Value {
    let mut schema = plain::<S>();
    // It is read beside its key.
    let opening = format!("The setting `{}`: ", S::KEY);
    if let Some(meaning) = schema["description"].as_str().and_then(|text| text.strip_prefix(&opening)) {
        let mut letters = meaning.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
        schema["description"] = Value::String(first + letters.as_str());
    }
    if let Ok(default) = serde_json::to_value(S::default()) {
        complete(&mut schema, Some(&default));
    }
    schema
}

fn plain<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(map) = &mut schema {
        map.remove("title");
    }
    schema
}

/// Puts in what the types do not say: the defaults of the whole section, and that unknown names are wrong.
fn complete(schema: &mut Value, default: Option<&Value>) {
    let Value::Object(map) = schema else { return };
    map.remove("default");
    // Editors know no formats of numbers, and some complain.
    map.remove("format");
    if let Some(Value::String(description)) = map.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    let is_struct = map.contains_key("properties");
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, inner) in properties {
            complete(inner, default.and_then(|default| default.get(name)));
        }
    }
    for key in ["additionalProperties", "items"] {
        if let Some(inner) = map.get_mut(key) {
            complete(inner, None);
        }
    }
    for key in ["anyOf", "oneOf"] {
        for inner in map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            complete(inner, None);
        }
    }
    match default {
        _ if is_struct => {
            map.insert("additionalProperties".to_owned(), false.into());
        }
        Some(default) => {
            map.insert("default".to_owned(), default.clone());
        }
        None => {}
    }
}

/// The schema of what stands at a path.
pub(crate) fn at<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(schema, |schema, key| {
        let choices = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
        choices.into_iter().find_map(|schema| {
            let named = schema["properties"].get(key);
            named.or_else(|| Some(&schema["additionalProperties"]).filter(|any| any.is_object()))
        })
    })
}

/// The names that are known at a path.
pub(crate) fn names_at(schema: &Value, path: &[String]) -> Vec<String> {
    let Some(schema) = at(schema, path) else { return Vec::new() };
    let choices = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
    choices
        .flat_map(|schema| schema["properties"].as_object().into_iter().flatten())
        .map(|(name, _)| name.clone())
        .collect()
}
