use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::LayerError;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    assert_eq!(
        said,
        [
            "u.jsonc:3: unknown setting `limits.stepz`; did you mean `limits.steps`?",
            "u.jsonc:4: unknown setting `modle`"
        ]
    );
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
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
    assert_eq!(
        reader.finish()[0].to_string(),
        "u.jsonc:4: unknown setting `models.\"openai/gpt-5.2\".stepz`; did you mean `models.\"openai/gpt-5.2\".steps`?"
    );
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    #[default]
    Red,
    Blue,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Pair {
    one: u8,
    two: u8,
}

/// A field of each kind.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Kit {
    /// A number.
    number: u32,
    maybe: Option<bool>,
    colour: Colour,
    list: Vec<String>,
    map: BTreeMap<String, Limits>,
    pair: Option<Pair>,
    stop: Vec<String>,
    key: Option<String>,
}

impl Section for Kit {
    const KEY: &'static str = "kit";

    fn holds_back(path: &[String]) -> bool {
        path.first().is_some_and(|field| field == "stop")
    }

    fn is_secret(path: &[String]) -> bool {
        path.first().is_some_and(|field| field == "key")
    }

    fn check(&self) -> Option<(Vec<String>, String)> {
        let place = self.list.iter().position(|text| text == "bad")?;
        Some((vec!["list".to_owned(), place.to_string()], "it is bad".to_owned()))
    }
}

/// What the kit is, and what was said about it, with these lines in the person's file, and the project's trusted one above.
fn kit(user: &str, above: &str) -> (Result<Kit, ConfigError>, Vec<String>) {
    let text = |inner: &str| format!("{{\"kit\": {{\n{inner}}}}}");
    let layers = vec![file(LayerKind::User, "u", &text(user)), file(LayerKind::Project, "p", &text(above))];
    let config = Config::new(layers).trusting_project(true);
    let mut reader = config.reader();
    let kit = reader.section();
    (kit, reader.finish().iter().map(ToString::to_string).collect())
}

#[test]
fn only_what_is_wrong_falls_back_and_the_rest_counts() {
    let rest = "\"number\": 7,\n";
    let fine = || Kit { number: 7, ..Kit::default() };
    for (wrong, said) in [
        ("\"maybe\": 1", "u:3: `kit.maybe`: invalid type"),
        ("\"colour\": \"green\"", "u:3: `kit.colour`: unknown variant `green`, expected `red` or `blue`"),
        ("\"colour\": {}", "u:3: `kit.colour`: "),
        ("\"list\": \"x\"", "u:3: `kit.list`: invalid type: string \"x\", expected a sequence"),
        ("\"map\": []", "u:3: `kit.map`: "),
        ("\"pair\": {\"one\": 1}", "u:3: `kit.pair`: missing field `two`"),
        ("\"maybe\": 0x1F", "u:3: `kit.maybe`: "),
        ("\"nmber\": 1", "u:3: unknown setting `kit.nmber`; did you mean `kit.number`?"),
    ] {
        let (kit, warnings) = kit(&format!("{rest}{wrong}"), "");
        assert_eq!(kit.unwrap(), fine(), "{wrong}");
        assert!(warnings.len() == 1 && warnings[0].starts_with(said), "{wrong}: {warnings:?}");
    }
    let config = Config::new(vec![file(LayerKind::User, "u", "{\"limits\": {\"steps\": 1},\n\"kit\": null}")]);
    let mut reader = config.reader();
    assert_eq!(reader.section::<Kit>().unwrap(), Kit::default());
    assert_eq!(reader.section::<Limits>().unwrap().steps, Some(1));
    assert!(reader.finish()[0].to_string().starts_with("u:2: `kit`: "));
}

#[test]
fn one_item_of_a_list_or_a_map_falls_back_alone() {
    let (list, warnings) = kit("\"list\": [\n1,\n\"a\",\n\"bad\",\n[],\n\"b\"]", "");
    assert_eq!(list.unwrap().list, ["a", "b"]);
    let lines: Vec<_> = warnings.iter().map(|said| said.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["3", "6", "5"], "{warnings:?}");
    let (map, warnings) =
        kit("\"map\": {\n\"a\": {\"steps\": 1,\n\"usd\": \"x\"}, \"b\": 5, \"c\": {\"steps\": 3}}", "");
    let map = map.unwrap().map;
    assert_eq!(map.len(), 2, "{map:?}");
    assert_eq!((map["a"].steps, map["a"].usd, map["c"].steps), (Some(1), None, Some(3)));
    assert!(
        warnings[0].starts_with("u:4: `kit.map.a.usd`: ") && warnings[1].starts_with("u:4: `kit.map.b`: "),
        "{warnings:?}"
    );
}

#[test]
fn what_is_wrong_falls_back_to_the_layer_below() {
    let (found, warnings) = kit(
        "\"number\": 7, \"pair\": {\"one\": 1, \"two\": 2}",
        "\"number\": -1,\n\"colour\": \"blue\",\"pair\": {\"two\": 3}",
    );
    let pair = Some(Pair { one: 1, two: 3 });
    assert_eq!(found.unwrap(), Kit { number: 7, colour: Colour::Blue, pair, ..Kit::default() });
    assert!(warnings.len() == 1 && warnings[0].starts_with("p:2: `kit.number`: "), "{warnings:?}");
}

/// All of it holds back, but for one list.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Strict {
    some: Vec<String>,
    stop: Vec<String>,
}

impl Section for Strict {
    const KEY: &'static str = "strict";

    fn holds_back(path: &[String]) -> bool {
        path.first().is_none_or(|field| field != "some")
    }
}

#[test]
fn what_holds_back_is_never_left_out() {
    let items = vec!["1"; 200].join(",");
    let config = Config::new(vec![file(LayerKind::User, "u", &format!("{{\"strict\": {{\"some\": [{items}]}}}}"))]);
    assert!(config.reader().section::<Strict>().is_err(), "what is right must not go with what is wrong");
    let filling = crate::Filling { var: &|_| None, home: None };
    let config = Config::new(vec![file(LayerKind::User, "u", "{\"strict\": \"{env:X}\"}").fill_in(Some(&filling))]);
    assert!(config.reader().section::<Strict>().is_err(), "what cannot be filled in must not be left out");
    let (found, _) = kit("\n\"stop\": [\"a\",\n1]", "");
    assert!(found.unwrap_err().to_string().starts_with("u:4: `kit.stop.1`: "));
}

#[test]
fn secrets_and_what_was_filled_in_are_not_said() {
    let (_, warnings) = kit("\"key\": [\"sk-secret\"]", "");
    assert!(warnings[0].starts_with("u:2: `kit.key`: ") && !warnings[0].contains("sk-secret"), "{warnings:?}");
    let var = |_: &str| Some("sk-\"quoted\"".to_owned());
    let filling = crate::Filling { var: &var, home: None };
    let layer = file(LayerKind::User, "u", "{\"kit\": {\"number\": \"{env:KEY}\", \"list\": [\"{env:KEY}\"]}}");
    let config = Config::new(vec![layer.fill_in(Some(&filling))]);
    let sections = [crate::SectionInfo::of::<Kit>()];
    let said = crate::problems(&config, &sections)[0].to_string();
    assert!(said.contains("string \"{env:KEY}\", expected u32") && !said.contains("quoted"), "{said}");
    let settings = crate::explain(&config, &sections);
    let list = settings.iter().find(|setting| setting.key == "kit.list").unwrap();
    assert_eq!(list.value, Some(serde_json::json!(["{env:KEY}"])));
    assert!(!format!("{settings:?}").contains("quoted"));
}

#[test]
fn too_much_that_is_wrong_leaves_the_section_out() {
    let items = vec!["1"; 1_000].join(",");
    let (found, warnings) = kit(&format!("\"number\": 7, \"list\": [{items}]"), "");
    assert_eq!(found.unwrap(), Kit::default());
    assert!(warnings.last().unwrap().contains("more settings"), "{warnings:?}");
}

#[test]
fn what_is_set_is_judged_beside_what_is_there() {
    let section = crate::SectionInfo::of::<Kit>();
    let accepts = |beside: serde_json::Value, key: &str, value: serde_json::Value| {
        section.accepts(Some(&beside), &crate::parse_key(key).unwrap(), &value)
    };
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(accepts(json("{}"), "number", json("5")), Ok(()));
    assert_eq!(accepts(json(r#"{"maybe": "wrong"}"#), "number", json("5")), Ok(()));
    assert_eq!(accepts(json(r#"{"pair": {"two": 2}}"#), "pair.one", json("5")), Ok(()));
    assert!(accepts(json("{}"), "pair.one", json("5")).unwrap_err().contains("missing field"));
    assert!(accepts(json("{}"), "number", json("\"5\"")).unwrap_err().contains("expected u32"));
    let unknown = accepts(json("{}"), "nmber", json("5")).unwrap_err();
    assert_eq!(unknown, "unknown setting `kit.nmber`; did you mean `kit.number`?");
    assert!(accepts(json("{}"), "number.deep", json("5")).is_err());
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
    assert_eq!(read(r#"{"limits": {"steps": 3, "usd": 100}}"#), Some(3));
    assert_eq!(read(r#"{"limits": {"usd": 100}}"#), None);
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
    assert_eq!(
        reader.finish()[0].to_string(),
        "u.jsonc:3: unknown setting `limits.stepz`; did you mean `limits.steps`?"
    );
}

/// A section whose lists count together.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Notes {
    texts: Vec<String>,
    most: Option<f64>,
    wide: bool,
}

impl Section for Notes {
    const KEY: &'static str = "notes";
    const JOINS_LISTS: bool = true;

    fn allowed_in_project(_value: &Value) -> bool {
        true
    }

    fn tightened(field: &str) -> Option<Tighten> {
        match field {
            "texts" => Some(Tighten::Joined),
            "most" => Some(Tighten::Least),
            _ => None,
        }
    }
}

#[test]
fn lists_are_joined_and_managed_settings_only_tighten() {
    let user =
        |most: &str| file(LayerKind::User, "u", &format!("{{\"notes\": {{\"texts\": [\"a\"], \"most\": {most}}}}}"));
    let project = || file(LayerKind::Project, "p", "{\"notes\": {\"texts\": [\"b\", \"a\"]}}");
    let managed = || {
        let text = "{\"notes\": {\"texts\": [\"m\"], \"most\": 5,\n\"wide\": true}, \"limits\": {\"steps\": 9}}";
        file(LayerKind::Managed, "m", text)
    };
    for (most, expected) in [("2", 2.0), ("9", 5.0), ("null", 5.0)] {
        let config = Config::new(vec![managed(), project(), user(most)]);
        let mut reader = config.reader();
        let notes: Notes = reader.section().unwrap();
        assert_eq!(notes, Notes { texts: vec!["a".into(), "b".into(), "m".into()], most: Some(expected), wide: false });
        assert_eq!(reader.section::<Limits>().unwrap(), Limits::default());
        let said: Vec<_> = reader.finish().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "m:2: `notes.wide` is ignored here: managed settings may only tighten",
                "m:2: `limits.steps` is ignored here: managed settings may only tighten"
            ]
        );
        let settings = crate::explain(&config, &[crate::SectionInfo::of::<Notes>()]);
        let most = settings.iter().find(|setting| setting.key == "notes.most").unwrap();
        let (by, other) = if expected > 2.0 { ("managed", "user") } else { ("user", "managed") };
        assert_eq!((most.set_by[0].layer.name(), most.overridden[0].layer.name()), (by, other));
        let texts = settings.iter().find(|setting| setting.key == "notes.texts").unwrap();
        assert_eq!(
            texts.set_by.iter().map(|source| source.layer.name()).collect::<Vec<_>>(),
            ["user", "project", "managed"]
        );
    }
    let wrong = Config::new(vec![file(LayerKind::Managed, "m", "{\"notes\": {\"most\": \"x\"}}")]);
    assert!(wrong.reader().section::<Notes>().is_err(), "what was to hold back must not be left out");
}
