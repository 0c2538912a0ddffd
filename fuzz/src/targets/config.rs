//! Settings: two files are read, merged and taken apart, or refused with a line that is there.

use std::path::Path;

use baton_config::{Config, Layer, LayerError, LayerKind};
use baton_llm::LlmSettings;

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
