use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::*;
use crate::LayerError;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Limits {
    steps: Option<u32>,
    usd: Option<f64>,
}

impl Section for Limits {
    const KEY: &'static str = "limits";

    fn allowed_in_project(value: &Value) -> bool {
        value["usd"].is_null()
    }
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Providers(BTreeMap<String, String>);

impl Section for Providers {
    const KEY: &'static str = "providers";

    fn allowed_when_trusted(_value: &Value) -> bool {
        false
    }
}

fn file(kind: LayerKind, name: &str, text: &str) -> Layer {
    Layer::parse(kind, Path::new(name), text).unwrap()
}

#[test]
fn later_layers_win_key_by_key() {
    let config = Config::new(vec![
        Layer::from_env([("BATON_LIMITS__STEPS".to_owned(), "9".to_owned())].into_iter()),
        file(LayerKind::User, "user", "{ // mine\n \"limits\": {\"steps\": 1, \"usd\": 2,}, }"),
    ]);
    assert_eq!(config.reader().section::<Limits>().unwrap(), Limits { steps: Some(9), usd: Some(2.0) });
}

#[test]
fn unknown_keys_are_named_with_file_and_line() {
    let config =
        Config::new(vec![file(LayerKind::User, "u.jsonc", "{\n\"limits\": {\n  \"stepz\": 1},\n\"modle\": 2}")]);
    let mut reader = config.reader();
    reader.section::<Limits>().unwrap();
    let said: Vec<String> = reader.finish().iter().map(ToString::to_string).collect();
    assert_eq!(said, ["u.jsonc:3: unknown setting `limits.stepz`", "u.jsonc:4: unknown setting `modle`"]);
}

#[derive(Debug, Default, Deserialize)]
struct Models(BTreeMap<String, Limits>);

impl Section for Models {
    const KEY: &'static str = "models";
}

#[test]
fn keys_may_hold_dots() {
    let text = "{\n\"models\": {\n\n\"openai/gpt-5.2\": {\"stepz\": 1}}}";
    let config = Config::new(vec![file(LayerKind::User, "u.jsonc", text)]);
    let mut reader = config.reader();
    assert_eq!(reader.section::<Models>().unwrap().0.len(), 1);
    assert_eq!(reader.finish()[0].to_string(), "u.jsonc:4: unknown setting `models.openai/gpt-5.2.stepz`");
}

#[test]
fn a_wrong_value_is_named_with_file_and_line() {
    let config = Config::new(vec![file(LayerKind::User, "u.jsonc", "{\n\"limits\": {\n\n\"steps\": \"many\"}}")]);
    let error = config.reader().section::<Limits>().unwrap_err().to_string();
    assert!(error.starts_with("u.jsonc:4: `limits.steps`: invalid type: string \"many\""), "{error}");
}

#[test]
fn a_repository_cannot_say_where_keys_go() {
    let config = Config::new(vec![
        file(LayerKind::User, "u", r#"{"providers": {"a": "https://mine"}}"#),
        file(LayerKind::Project, "p", r#"{"providers": {"a": "https://evil"}}"#),
    ]);
    for config in [config.clone(), config.trusting_project(true)] {
        let mut reader = config.reader();
        assert_eq!(reader.section::<Providers>().unwrap().0["a"], "https://mine");
        let said = reader.finish()[0].to_string();
        assert_eq!(said, "p:1: `providers` is ignored here: a repository may never set it so");
    }
}

#[test]
fn a_repository_may_set_some_values() {
    let read = |text| {
        let config = Config::new(vec![file(LayerKind::Project, "p", text)]);
        config.reader().section::<Limits>().unwrap().steps
    };
    assert_eq!(read(r#"{"limits": {"steps": 3}}"#), Some(3));
    assert_eq!(read(r#"{"limits": {"steps": 3, "usd": 100}}"#), None);
    let layer = file(LayerKind::Local, "l", r#"{"limits": {"steps": 3, "usd": 100}}"#);
    let trusted = Config::new(vec![layer]).trusting_project(true);
    assert_eq!(trusted.reader().section::<Limits>().unwrap().steps, Some(3));
}

#[test]
fn broken_files_are_refused_with_their_line() {
    let error = Layer::parse(LayerKind::User, Path::new("u.jsonc"), "{\n\"a\": 1\n\"b\" 2}").unwrap_err();
    assert!(error.to_string().starts_with("u.jsonc:3: "), "{error}");
    let error = Layer::parse(LayerKind::User, Path::new("u.jsonc"), "[]").unwrap_err();
    assert!(matches!(error, LayerError::Malformed { line: 1, .. }));
}

#[test]
fn other_baton_variables_are_no_settings() {
    let vars = [("BATON_HOME", "/x"), ("BATON_COMPAT_BASE_URL", "u"), ("BATON_MODEL", "a/b"), ("PATH", "p")];
    let layer = Layer::from_env(vars.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    assert_eq!(serde_json::to_string(&layer.values).unwrap(), r#"{"model":"a/b"}"#);
}

proptest::proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in ".*") {
        let _ = Layer::parse(LayerKind::User, Path::new("f"), &text);
    }
}

#[test]
fn every_layer_counts_where_lists_are_not_merged() {
    let config = Config::new(vec![
        file(LayerKind::Project, "p.jsonc", "{\"limits\": {\"steps\": 3}}"),
        file(LayerKind::User, "u.jsonc", "{\n\"limits\": {\"steps\": 1,\n\"stepz\": 2}}"),
    ]);
    let mut reader = config.reader();
    let steps: Vec<_> =
        reader.each_layer::<Limits>().unwrap().into_iter().map(|(kind, limits)| (kind, limits.steps)).collect();
    assert_eq!(steps, [(LayerKind::User, Some(1)), (LayerKind::Project, Some(3))]);
    assert_eq!(reader.finish()[0].to_string(), "u.jsonc:3: unknown setting `limits.stepz`");
    let wrong = Config::new(vec![file(LayerKind::User, "u.jsonc", "{\n\"limits\": {\"steps\": \"x\"}}")]);
    assert!(wrong.reader().each_layer::<Limits>().unwrap_err().to_string().starts_with("u.jsonc:2: `limits`"));
}
