//! Settings: two files are read, merged and taken apart, or refused with a line that is there.

use std::path::Path;

use baton_config::{
    Config, Layer, LayerError, LayerKind, SectionInfo, explain, parse_key, problems, set, unset, value_at,
};
use baton_llm::{LlmSettings, ModelSettings, RetryPolicy};

use super::parts;

/// A case is the person's file and the project's.
pub(super) fn check(case: &[u8]) {
    let [user, project] = parts(case);
    let layers = [(LayerKind::User, user), (LayerKind::Project, project)].map(|(kind, text)| layer(kind, text));
    let config = Config::new(layers.into_iter().flatten().collect());
    let mut reader = config.reader();
    if let Err(error) = LlmSettings::read(&mut reader) {
        assert!(!error.to_string().is_empty());
    }
    for warning in reader.finish() {
        assert!(!warning.to_string().is_empty());
    }
    let sections = [SectionInfo::of::<ModelSettings>(), SectionInfo::of::<RetryPolicy>()];
    for warning in problems(&config, &sections) {
        assert!(parse_key(&warning.key).is_ok(), "{}", warning.key);
    }
    for setting in explain(&config, &sections) {
        assert!(parse_key(&setting.key).is_ok(), "{}", setting.key);
    }
    edit(&String::from_utf8_lossy(user));
}

/// A value is set and taken away, or the text is refused as it is.
fn edit(text: &str) {
    let key = ["retry".to_owned(), "wait_max_ms".to_owned()];
    let Ok(edited) = set(text, &key, &7.into()) else { return };
    assert_eq!(value_at(&edited.text, &key), Ok(Some(7.into())));
    let gone = unset(&edited.text, &key).expect("what was set can be taken away");
    assert_eq!(value_at(&gone.text, &key), Ok(None));
}

fn layer(kind: LayerKind, text: &[u8]) -> Option<Layer> {
    let text = String::from_utf8_lossy(text);
    match Layer::parse(kind, Path::new("config.jsonc"), &text) {
        Ok(layer) => Some(layer),
        Err(LayerError::Malformed { line, .. }) => {
            assert!((1..=text.split('\n').count()).contains(&line), "line {line}");
            None
        }
        Err(other) => panic!("no file was read: {other}"),
    }
}
