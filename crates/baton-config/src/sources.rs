//! Where the layers come from, and whether they have changed since they were read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fill::Filling;
use crate::{Config, Layer, LayerError, LayerKind};

/// Everything that settings are read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// The files, there or not.
    pub files: Vec<(LayerKind, PathBuf)>,
    /// The variables.
    pub vars: Vec<(String, String)>,
    /// What `~` stands for in `{file:~/x}`.
    pub home: Option<PathBuf>,
}

impl Sources {
    /// Reads all layers; those that cannot be used are left out and reported. Variables and files are filled in where a text
    /// is the person's own.
    pub fn read(&self, is_project_trusted: bool) -> (Config, Vec<LayerError>) {
        let mut layers = vec![Layer::from_env(self.vars.iter().cloned())];
        let mut errors = Vec::new();
        let var = |name: &str| self.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let filling = Filling { var: &var, home: self.home.as_deref() };
        for (kind, file) in &self.files {
            let is_own = match kind {
                LayerKind::User => true,
                // It may have come with the repository.
                LayerKind::Local => is_project_trusted,
                _ => false,
            };
            match Layer::from_file(*kind, file) {
                Ok(layer) => layers.push(layer.fill_in(is_own.then_some(&filling))),
                Err(error) => errors.push(error),
            }
        }
        (Config::new(layers).trusting_project(is_project_trusted), errors)
    }

    /// Watches the files from now on.
    pub fn watch(self) -> Watch {
        let stamps = self.stamps();
        Watch { sources: self, stamps }
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.files.iter().map(|(_, file)| stamp(file)).collect()
    }
}

/// Settings that are read again when their files have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    sources: Sources,
    stamps: Vec<Option<Stamp>>,
}

/// What tells two states of a file apart: which file it is, its size, and when it changed.
type Stamp = (u64, u64, u64, i64, i64);

/// What became of watched settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// They are as they were.
    Nothing,
    /// They were read again.
    Read(Config),
    /// They cannot be read, and why: what was read before still counts.
    Broken(String),
}

impl Watch {
    /// Looks at the files, and reads all of them again if one has changed; each change is told once.
    pub fn look(&mut self, is_project_trusted: impl FnOnce() -> bool) -> Change {
        // Stamps are taken first: what changes while it is read is found with the next look.
        let stamps = self.sources.stamps();
        if stamps == self.stamps {
            return Change::Nothing;
        }
        self.stamps = stamps;
        let (config, errors) = self.sources.read(is_project_trusted());
        match errors.first() {
            None => Change::Read(config),
            Some(error) => Change::Broken(error.to_string()),
        }
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let meta = file.metadata().ok()?;
    // The time of change, not of modification: whoever writes a file can set the latter as they like.
    Some((meta.dev(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn model(config: &Config) -> serde_json::Value {
        config.layers().iter().rev().find_map(|layer| layer.values.get("model")).cloned().unwrap_or_default()
    }

    #[test]
    fn a_change_is_told_once_and_what_does_not_parse_changes_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("config.jsonc");
        let sources = Sources { files: vec![(LayerKind::User, file.clone())], ..Sources::default() };
        let mut watch = sources.watch();
        assert_eq!(watch.look(|| false), Change::Nothing);
        let mut expect = |text: Option<&str>| {
            match text {
                Some(text) => {
                    let new = temp.path().join("new");
                    fs::write(&new, text).unwrap();
                    fs::rename(new, &file).unwrap();
                }
                None => fs::remove_file(&file).unwrap(),
            }
            let change = watch.look(|| false);
            assert_eq!(watch.look(|| false), Change::Nothing);
            change
        };
        assert!(matches!(expect(Some("{\"model\": \"a\"}")), Change::Read(config) if model(&config) == "a"));
        assert!(matches!(expect(Some("{\n\"model\": ")), Change::Broken(why) if why.contains("config.jsonc:2")));
        assert!(matches!(expect(Some("{\"model\": \"b\"}")), Change::Read(config) if model(&config) == "b"));
        assert!(matches!(expect(None), Change::Read(config) if model(&config).is_null()));
    }

    #[test]
    fn only_what_is_the_persons_own_is_filled_in() {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str| temp.path().join(name);
        let kinds = [(LayerKind::User, "u"), (LayerKind::Project, "p"), (LayerKind::Local, "l")];
        for (_, name) in kinds {
            fs::write(file(name), format!("{{\"{name}\": [\"{{env:A}}\", \"x\", \"{{env:B}}\"]}}")).unwrap();
        }
        let sources = Sources {
            files: kinds.map(|(kind, name)| (kind, file(name))).into(),
            vars: vec![("A".to_owned(), "secret".to_owned())],
            home: None,
        };
        for (is_trusted, expected) in [
            (false, [json!(["secret", "x"]), json!(["x"]), json!(["x"])]),
            (true, [json!(["secret", "x"]), json!(["x"]), json!(["secret", "x"])]),
        ] {
            let (config, errors) = sources.read(is_trusted);
            assert!(errors.is_empty());
            let values: Vec<_> = kinds
                .iter()
                .map(|(kind, name)| {
                    config.layers().iter().find(|layer| layer.kind == *kind).unwrap().values[*name].clone()
                })
                .collect();
            assert_eq!(values, expected);
            let said: Vec<_> = config.reader().finish_all().into_iter().map(|warning| warning.message).collect();
            assert!(said.contains(&"`u.2`: the variable B is not set; it is left out".to_owned()), "{said:?}");
            assert!(said.iter().any(|text| text.starts_with("`p.0` is left out")), "{said:?}");
        }
    }
}
