//! Where Baton keeps its own files: settings of the person, and state.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directories of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Holds `config.jsonc` and the user's definitions.
    pub config_dir: PathBuf,
    /// Holds everything Baton writes by itself.
    pub state_dir: PathBuf,
    /// The home directory, where known.
    pub home: Option<PathBuf>,
}

/// There is no directory to work with.
#[derive(Debug, thiserror::Error)]
#[error("neither HOME nor BATON_HOME is set to an absolute path")]
pub struct PlacesError;

impl Places {
    /// Finds the places from an environment.
    pub fn from_env(var: impl Fn(&str) -> Option<OsString>) -> Result<Self, PlacesError> {
        let dir = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = dir("HOME");
        if let Some(all) = dir("BATON_HOME") {
            return Ok(Self { config_dir: all.clone(), state_dir: all, home });
        }
        let below = |xdg: &str, fallback: &str| {
            let base = dir(xdg).or_else(|| home.as_ref().map(|home| home.join(fallback)));
            base.map(|base| base.join("baton")).ok_or(PlacesError)
        };
        Ok(Self {
            config_dir: below("XDG_CONFIG_HOME", ".config")?,
            state_dir: below("XDG_STATE_HOME", ".local/state")?,
            home,
        })
    }

    /// The user's settings file.
    pub fn user_config(&self) -> PathBuf {
        self.config_dir.join("config.jsonc")
    }

    /// The state of one project.
    pub fn project_state(&self, id: &str) -> PathBuf {
        self.state_dir.join("projects").join(id)
    }

    /// Whether the path is the home directory or the root of the file system.
    pub fn is_too_wide(&self, path: &Path) -> bool {
        path.parent().is_none() || self.home.as_deref() == Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(vars: &[(&str, &str)]) -> Result<Places, PlacesError> {
        Places::from_env(|name| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn xdg_variables_win_over_home() {
        let found = places(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]).unwrap();
        assert_eq!(found.config_dir, Path::new("/h/.config/baton"));
        assert_eq!(found.state_dir, Path::new("/s/baton"));
    }

    #[test]
    fn baton_home_holds_both() {
        let found = places(&[("HOME", "/h"), ("BATON_HOME", "/b")]).unwrap();
        assert_eq!((found.config_dir, found.state_dir), ("/b".into(), "/b".into()));
    }

    #[test]
    fn relative_directories_do_not_count() {
        assert!(places(&[("HOME", "h"), ("XDG_CONFIG_HOME", "c")]).is_err());
    }
}
