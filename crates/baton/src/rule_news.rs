//! Permission rules that change while a conversation goes on: the settings are read again between turns.

use std::fs;
use std::path::PathBuf;

use baton_agent::RuleNews;
use baton_config::{Change, Config, LayerKind, Places, Project, Watch};
use baton_guard::{PermissionSettings, Rules};

use crate::settings;
use crate::setup::{Setup, rules};
use crate::trusting::Standing;

/// The rules of a project's settings, as they are now.
pub struct Rereading {
    watch: Watch,
    known: Rules,
    places: Places,
    project: Project,
    /// What stands in the project's own files, if the command line vouches for that and nothing else.
    vouched_for: Option<Vec<(PathBuf, Option<Vec<u8>>)>>,
}

impl Rereading {
    /// Of these settings, from now on.
    pub fn new(setup: &Setup) -> Self {
        let own = [LayerKind::Project, LayerKind::Local];
        let own = own.iter().filter_map(|kind| settings::file(*kind, &setup.places, &setup.project));
        let texts = || own.map(|file| (file.clone(), fs::read(file).ok())).collect();
        Self {
            vouched_for: setup.trust.is_vouched_for().then(texts),
            watch: setup.watch.clone(),
            known: setup.rules.clone(),
            places: setup.places.clone(),
            project: setup.project.clone(),
        }
    }
}

impl RuleNews for Rereading {
    fn look(&mut self) -> Option<Result<Rules, String>> {
        let Self { watch, known, places, project, vouched_for } = self;
        let is_trusted = || {
            let is_same =
                |files: &Vec<(PathBuf, Option<Vec<u8>>)>| files.iter().all(|(file, text)| fs::read(file).ok() == *text);
            vouched_for.as_ref().is_some_and(is_same)
                || Standing::find(project, places, false).is_ok_and(|standing| standing.is_trusted())
        };
        let config = match watch.look(is_trusted) {
            Change::Nothing => return None,
            Change::Broken(why) => return Some(Err(why)),
            Change::Read(config) => config,
        };
        match read(&config) {
            Ok(new) if new == *known => None,
            Ok(new) => {
                known.clone_from(&new);
                Some(Ok(new))
            }
            Err(why) => Some(Err(why)),
        }
    }
}

fn read(config: &Config) -> Result<Rules, String> {
    let layers = config.reader().each_layer::<PermissionSettings>().map_err(|error| error.to_string())?;
    rules(&layers).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> (tempfile::TempDir, Rereading) {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("p/.git")).unwrap();
        fs::create_dir_all(base.join("p/.baton")).unwrap();
        fs::create_dir_all(base.join("own")).unwrap();
        let places = Places { config_dir: base.join("own"), state_dir: base.join("own"), home: None };
        let project = Project::find(&base.join("p"), &places);
        let watch = settings::sources(&places, &project).watch();
        (temp, Rereading { watch, known: Rules::none(), places, project, vouched_for: None })
    }

    fn rules_of(settings: &PermissionSettings) -> Rules {
        let mut rules = Rules::none();
        rules.add(settings, baton_guard::Origin::Trusted).unwrap();
        rules
    }

    #[test]
    fn rules_change_and_what_cannot_be_read_changes_nothing() {
        let (temp, mut news) = scene();
        let file = temp.path().join("own/config.jsonc");
        assert_eq!(news.look(), None);
        let deny = |rule: &str| PermissionSettings { deny: vec![rule.to_owned()], ..PermissionSettings::default() };
        fs::write(&file, r#"{"permissions": {"deny": ["Bash(make:*)"]}}"#).unwrap();
        assert_eq!(news.look(), Some(Ok(rules_of(&deny("Bash(make:*)")))));
        assert_eq!(news.look(), None);
        for wrong in ["{", r#"{"permissions": {"deny": ["Bash(a | b) "]}}"#, r#"{"permissions": {"deny": 1, "x": 2}}"#]
        {
            fs::write(&file, wrong).unwrap();
            assert!(matches!(news.look(), Some(Err(why)) if why.contains("config.jsonc:1")), "{wrong}");
            assert_eq!(news.look(), None, "it is told once");
        }
        // Other settings are no news of rules.
        fs::write(&file, r#"{"permissions": {"deny": ["Bash(make:*)"]}, "limits": {"steps": 1}}"#).unwrap();
        assert_eq!(news.look(), None);
    }

    #[test]
    fn a_project_is_trusted_no_further_than_it_was_vouched_for() {
        let (temp, mut news) = scene();
        let file = temp.path().canonicalize().unwrap().join("p/.baton/config.jsonc");
        let text = |rule: &str| format!("{{\"permissions\": {{\"allow\": [\"{rule}\"]}}}}");
        fs::write(&file, text("Bash(make:*)")).unwrap();
        news.vouched_for = Some(vec![(file.clone(), fs::read(&file).ok())]);
        let allow = PermissionSettings { allow: vec!["Bash(make:*)".to_owned()], ..PermissionSettings::default() };
        assert_eq!(news.look(), Some(Ok(rules_of(&allow))));
        fs::write(&file, text("Bash(curl:*)")).unwrap();
        assert_eq!(news.look(), Some(Ok(Rules::none())));
    }
}
