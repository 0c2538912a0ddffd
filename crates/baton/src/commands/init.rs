//! `baton init`: finds out how a project is tested and built, and proposes to keep that in its settings.

use anstream::eprintln;
use baton_conductor::{Detected, ProjectSettings, detect};
use baton_config::{LayerKind, RootKind, Section, set, value_at};
use baton_core::Fault;
use serde_json::{Value, json};

use crate::Global;
use crate::asking;
use crate::exit::Exit;
use crate::settings_file::SettingsFile;
use crate::setup::Setup;

/// Find out how this project is tested and built, and keep it for workflows
#[derive(clap::Args)]
#[command(after_help = "\
The files of the project tell; nothing is run, nothing is installed, no model is asked. What is proposed goes to
`project` in .baton/config.jsonc, where definitions find it as project.test, project.lint and so on; what stands
there already stays.
")]
pub struct Args {
    /// Keep what is found without asking
    #[arg(short, long)]
    yes: bool,
    /// Print what is found as JSON, and change nothing
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    if setup.project.kind == RootKind::TooWide {
        let message = format!("{} is too wide to be a project", setup.project.root.display());
        return Err(Fault::input(message).hint("name a directory of a project with -C DIR"));
    }
    let found = detect(&setup.project.root);
    let proposed = proposed(&found);
    if args.json {
        println!("{}", json!({"project": found.project, "from": found.from}));
        return Ok(Exit::Done);
    }
    let file = SettingsFile::new(LayerKind::Project, &setup.places, &setup.project);
    let text = file.text()?;
    let is_said = |key: &str| {
        let known = value_at(&text, &[ProjectSettings::KEY.to_owned(), key.to_owned()]);
        known.is_ok_and(|known| known.is_some())
    };
    let new: Vec<&(&str, Value)> = proposed.iter().filter(|(key, _)| !is_said(key)).collect();
    for (key, value) in &proposed {
        let mark = if is_said(key) { " (yours stays)" } else { "" };
        let from = found.from.get(key).map(|from| format!("   [{from}]")).unwrap_or_default();
        eprintln!("  {key}: {value}{from}{mark}");
    }
    if found.project.test.is_none() {
        eprintln!("nothing tells how this project is tested: say it with");
        eprintln!("  baton config set --project project.test \"…\"");
    }
    if new.is_empty() {
        eprintln!("there is nothing new to keep in {}", file.file.display());
        return Ok(Exit::Done);
    }
    let question = format!("Keep this in {}?", file.file.display());
    if !asking::yes(&question, args.yes, "run it again with --yes")? {
        eprintln!("nothing was changed");
        return Ok(Exit::Done);
    }
    let (_, counts) = file.change(|text| {
        let mut edited = None;
        for (key, value) in &new {
            let before = edited.as_ref().map_or(text, |edited: &baton_config::Edited| edited.text.as_str()).to_owned();
            let key = [ProjectSettings::KEY.to_owned(), (*key).to_owned()];
            let next = set(&before, &key, value)
                .map_err(|error| Fault::input(format!("cannot change {}: {error}", file.file.display())))?;
            edited = Some(next);
        }
        edited.ok_or_else(|| Fault::internal("there was nothing to change"))
    })?;
    eprintln!("kept in {}", file.file.display());
    if !counts {
        eprintln!("this project is not trusted: it counts after `baton trust`");
    }
    eprintln!("next: baton run start tdd-ping-pong -p scenario=\"…\"");
    Ok(Exit::Done)
}

/// What there is to keep, in the order in which people think of it.
fn proposed(found: &Detected) -> Vec<(&'static str, Value)> {
    let project = &found.project;
    let commands = project.commands().into_iter().filter_map(|(key, command)| Some((key, json!(command?))));
    let lists = [
        ("test_paths", &project.test_paths),
        ("source_paths", &project.source_paths),
        ("setup", &project.setup),
        ("caches", &project.caches),
    ];
    let lists = lists.into_iter().filter(|(key, _)| found.from.contains_key(key));
    commands.chain(lists.map(|(key, list)| (key, json!(list)))).collect()
}
