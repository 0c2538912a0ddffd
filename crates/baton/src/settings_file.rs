//! One settings file that Baton changes for a person: nothing else in it is touched, and trust goes with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton_config::{Edited, Held, LayerKind, Places, Project};
use baton_core::{Area, Fault, Tier};
use baton_guard::trust::{Keep, Ledger, State, state, survey};
use jiff::Timestamp;

use crate::settings;

/// A settings file.
pub struct SettingsFile {
    /// Where it is.
    pub file: PathBuf,
    /// The project that it belongs to, and Baton's state directory, if it is not the person's own for all projects.
    project: Option<(PathBuf, PathBuf)>,
}

impl SettingsFile {
    /// The file of a layer.
    pub fn new(kind: LayerKind, places: &Places, project: &Project) -> Self {
        let file = settings::file(kind, places, project).unwrap_or_else(|| places.user_config());
        // Whoever keeps settings elsewhere has a link here, which stays one.
        let file = file.canonicalize().unwrap_or(file);
        let of_project = kind.is_of_project().then(|| (project.root.clone(), places.state_dir.clone()));
        Self { file, project: of_project }
    }

    /// What stands in it now; others may be changing it.
    pub fn text(&self) -> Result<String, Fault> {
        match fs::read_to_string(&self.file) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(Fault::input(format!("cannot read {}: {error}", self.file.display()))),
        }
    }

    /// Changes it while nobody else does. What the person has written themselves is trusted, if the rest is; whether it is.
    pub fn change(&self, edit: impl FnOnce(&str) -> Result<Edited, Fault>) -> Result<(Edited, bool), Fault> {
        let unwritable = |error: io::Error| {
            let message = format!("cannot write {}: {error}", self.file.display());
            Fault::new(Area::Workspace, Tier::UserFixable, message).hint("make it writable, or set BATON_HOME")
        };
        let held = Held::take(&self.file).map_err(unwritable)?;
        let text =
            held.text().map_err(|error| Fault::input(format!("cannot read {}: {error}", self.file.display())))?;
        let edited = edit(&text)?;
        // Looked at and kept while the file is held: between two changes there is no moment at which it is not trusted.
        let was = self.project.as_ref().map(|(root, state)| is_trusted(root, state)).transpose()?;
        if edited.text != text {
            held.write(&edited.text).map_err(unwritable)?;
        }
        let Some((root, state)) = &self.project else { return Ok((edited, true)) };
        keep_out_of_git(root);
        if was != Some(true) {
            return Ok((edited, false));
        }
        let found = survey(root, Keep::Contents);
        let kept = Ledger::new(state).put(root, &found, Timestamp::now());
        kept.map_err(|error| Fault::input(error.to_string()))?;
        Ok((edited, true))
    }
}

/// Personal settings are not committed. A list that is there is the project's own.
fn keep_out_of_git(root: &Path) {
    let list: PathBuf = root.join(".baton/.gitignore");
    if list.symlink_metadata().is_err() {
        // Without it the file shows up as new in git, which is no harm.
        drop(fs::write(list, "local.jsonc\nruns/\n"));
    }
}

/// Whether the project is trusted, or has nothing to be trusted.
fn is_trusted(root: &Path, state_dir: &Path) -> Result<bool, Fault> {
    let known = Ledger::new(state_dir).get(root).map_err(|error| Fault::input(error.to_string()))?;
    Ok(matches!(state(&survey(root, Keep::Hashes), known.as_ref()), State::Nothing | State::Trusted))
}
