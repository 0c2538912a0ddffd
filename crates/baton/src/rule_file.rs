//! The file of a person's rules: rules are added to it, and what stands there stays as it is.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_agent::RuleBook;
use baton_config::{Edited, append};
use baton_core::{Area, Fault, Tier};
use baton_guard::trust::{Keep, Ledger, State, state, survey};
use baton_guard::{Origin, PermissionSettings, Proposed, Rule, Rules, Verdict};
use jiff::Timestamp;

use crate::setup::Setup;

/// How to write a rule, for whoever said something that gives none.
pub const HOW: &str =
    "write the rule itself, for example: baton guard add 'Bash(git push:*)', 'Edit(./vendor/**)' or 'Read(**/.env)'";

/// A file of rules.
pub struct RuleFile {
    /// Where it is.
    pub file: PathBuf,
    /// The project that it belongs to, and Baton's state directory, if it is not the person's own for all projects.
    project: Option<(PathBuf, PathBuf)>,
}

impl RuleFile {
    /// The person's own, for all projects.
    pub fn of_person(setup: &Setup) -> Self {
        Self { file: real(setup.places.user_config()), project: None }
    }

    /// The person's own for this project.
    pub fn of_project(setup: &Setup) -> Self {
        let root = &setup.project.root;
        let project = Some((root.clone(), setup.places.state_dir.clone()));
        Self { file: real(root.join(".baton/local.jsonc")), project }
    }

    /// The settings with the rules in them, if they can be read afterwards.
    pub fn with(&self, proposed: &[Proposed]) -> Result<Edited, Fault> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Fault::input(format!("cannot read {}: {error}", self.file.display()))),
        };
        edit(&text, proposed, &self.file)
    }

    /// Writes it. What the person has written themselves is trusted, if the rest is; whether it is.
    pub fn keep(&self, edited: &Edited) -> Result<bool, Fault> {
        let was = self.project.as_ref().map(|(root, state)| is_trusted(root, state)).transpose()?;
        write(&self.file, &edited.text).map_err(|error| {
            let message = format!("cannot write {}: {error}", self.file.display());
            Fault::new(Area::Workspace, Tier::UserFixable, message).hint("make it writable, or set BATON_HOME")
        })?;
        if let (Some((root, state)), Some(was)) = (&self.project, was) {
            keep_out_of_git(root);
            if !was {
                return Ok(false);
            }
            let found = survey(root, Keep::Contents);
            let kept = Ledger::new(state).put(root, &found, Timestamp::now());
            kept.map_err(|error| Fault::input(error.to_string()))?;
        }
        Ok(true)
    }
}

impl RuleBook for RuleFile {
    fn allow(&self, rules: &[String]) -> Result<String, String> {
        let proposed: Vec<_> =
            rules.iter().map(|rule| Proposed { verdict: Verdict::Allow, rule: rule.clone() }).collect();
        let kept = self.with(&proposed).and_then(|edited| self.keep(&edited));
        match kept {
            Ok(true) => Ok(self.file.display().to_string()),
            Ok(false) => Ok(format!("{}, which counts after `baton trust`", self.file.display())),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// Whoever keeps settings elsewhere has a link here, which stays one.
fn real(file: PathBuf) -> PathBuf {
    file.canonicalize().unwrap_or(file)
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

/// Replaces the file as a whole, with the rights that it had.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let dir = file.parent().unwrap_or(file);
    fs::create_dir_all(dir)?;
    let mode = fs::metadata(file).map_or(0o600, |meta| meta.permissions().mode() & 0o777);
    let mut new = tempfile::Builder::new().permissions(fs::Permissions::from_mode(mode)).tempfile_in(dir)?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    fs::File::open(dir)?.sync_all()
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
