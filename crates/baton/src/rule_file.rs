//! The file of a person's rules: rules are added to it, and what stands there stays as it is.

use std::path::Path;

use baton_agent::RuleBook;
use baton_config::{Edited, LayerKind, append};
use baton_core::Fault;
use baton_guard::{Origin, PermissionSettings, Proposed, Rule, Rules, Verdict};

use crate::settings_file::SettingsFile;
use crate::setup::Setup;

/// How to write a rule, for whoever said something that gives none.
pub const HOW: &str =
    "write the rule itself, for example: baton guard add 'Bash(git push:*)', 'Edit(./vendor/**)' or 'Read(**/.env)'";

/// A file of rules.
pub struct RuleFile {
    /// The settings that they are in.
    pub settings: SettingsFile,
}

impl RuleFile {
    /// The person's own, for all projects.
    pub fn of_person(setup: &Setup) -> Self {
        Self { settings: SettingsFile::new(LayerKind::User, &setup.places, &setup.project) }
    }

    /// The person's own for this project.
    pub fn of_project(setup: &Setup) -> Self {
        Self { settings: SettingsFile::new(LayerKind::Local, &setup.places, &setup.project) }
    }

    /// The settings with the rules in them, if they can be read afterwards.
    pub fn with(&self, proposed: &[Proposed]) -> Result<Edited, Fault> {
        edit(&self.settings.text()?, proposed, &self.settings.file)
    }

    /// Adds the rules, beside whatever others have written meanwhile; whether they count.
    pub fn keep(&self, proposed: &[Proposed]) -> Result<bool, Fault> {
        self.settings.change(|text| edit(text, proposed, &self.settings.file)).map(|(_, counts)| counts)
    }
}

impl RuleBook for RuleFile {
    fn allow(&self, rules: &[String]) -> Result<String, String> {
        let proposed: Vec<_> =
            rules.iter().map(|rule| Proposed { verdict: Verdict::Allow, rule: rule.clone() }).collect();
        let file = self.settings.file.display();
        match self.keep(&proposed) {
            Ok(true) => Ok(file.to_string()),
            Ok(false) => Ok(format!("{file}, which counts after `baton trust`")),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// The settings with the rules in them, if they can be read afterwards.
fn edit(text: &str, proposed: &[Proposed], file: &Path) -> Result<Edited, Fault> {
    let mut edited = Edited { text: text.to_owned(), line: None };
    let mut settings = PermissionSettings::default();
    for (verdict, list) in
        [(Verdict::Allow, &mut settings.allow), (Verdict::Ask, &mut settings.ask), (Verdict::Deny, &mut settings.deny)]
    {
        list.extend(proposed.iter().filter(|one| one.verdict == verdict).map(|one| one.rule.clone()));
        for rule in list.iter() {
            Rule::parse(rule).map_err(|error| Fault::input(error.to_string()).hint(HOW))?;
        }
        if list.is_empty() {
            continue;
        }
        let next = append(&edited.text, &["permissions", &verdict.to_string()], list).map_err(|error| {
            let message = format!("cannot add to {}: {error}", file.display());
            Fault::input(message).hint("mend the file, or add the rule to `permissions` by hand")
        })?;
        edited = Edited { line: edited.line.or(next.line), text: next.text };
    }
    let checked = Rules::none().add(&settings, Origin::Trusted);
    checked.map_err(|error| Fault::input(error.to_string()).hint(HOW))?;
    Ok(edited)
}
