//! `baton config set` and `unset`: one setting in one file; comments, layout and what others write meanwhile stay.

use std::path::Path;

use baton_config::{
    Allowed, EditError, Edited, LayerKind, RootKind, SectionInfo, explain, parse_key, set, show_key, unset, value_at,
};
use baton_core::Fault;
use baton_guard::path::escaped;
use serde_json::Value;

use super::explain::{by, one};
use super::{KeyParser, find};
use crate::Global;
use crate::exit::Exit;
use crate::settings::SECTIONS;
use crate::settings_file::SettingsFile;
use crate::setup::locate;
use crate::trusting::Standing;

/// Change one setting; comments and layout of the file stay
#[derive(clap::Args)]
#[command(after_help = "\
VALUE is JSON where it fits as such, else text: 5, true, '[\"a\", \"b\"]', anthropic/default.

Exit codes: 0 set · 2 no such setting, no such value, or a file that cannot be read · 8 a file that cannot be written
")]
pub struct Args {
    /// The setting: limits.steps, models.\"a/b-1.5\".context
    #[arg(value_parser = KeyParser, hide_possible_values = true)]
    key: String,
    /// Its value
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    layer: Layer,
}

/// Take one setting out of a file; comments and layout stay
#[derive(clap::Args)]
pub struct UnsetArgs {
    /// The setting: limits.steps, models.\"a/b-1.5\"
    #[arg(value_parser = KeyParser, hide_possible_values = true)]
    key: String,
    #[command(flatten)]
    layer: Layer,
}

/// Which file.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Layer {
    /// In your own settings [default]
    #[arg(long)]
    user: bool,
    /// In the project's settings, .baton/config.jsonc, which are committed
    #[arg(long)]
    project: bool,
    /// In your own settings for this project, .baton/local.jsonc
    #[arg(long)]
    local: bool,
}

impl Layer {
    fn kind(&self) -> LayerKind {
        match self {
            Self { project: true, .. } => LayerKind::Project,
            Self { local: true, .. } => LayerKind::Local,
            // Said or not, it is what remains.
            Self { user: true | false, .. } => LayerKind::User,
        }
    }
}

/// Runs `set`.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let (section, key) = section_of(&args.key)?;
    let (kind, path) = (args.layer.kind(), &key[1..]);
    let file = file(global, kind)?;
    let mut is_asked_for = false;
    let (edited, counts) = file.change(|text| {
        let beside = value_at(text, &key[..1]).map_err(|error| unusable(&file.file, &error))?;
        let value = fitting(section, beside.as_ref(), path, &args.value)?;
        if kind.is_of_project() {
            match section.allowed(path, &value) {
                Allowed::Always => {}
                Allowed::WhenTrusted => is_asked_for = true,
                Allowed::Never => {
                    let message = format!("a repository may never set `{}` so", show_key(&key));
                    return Err(Fault::input(message).hint("set it in your own settings, with --user"));
                }
            }
        }
        set(text, &key, &value).map_err(|error| unusable(&file.file, &error))
    })?;
    tell(&file.file, &edited, "set");
    if is_asked_for && !counts {
        say("this project is not trusted: it counts after `baton trust`");
    }
    tell_of_others(global, kind, &key);
    Ok(Exit::Done)
}

/// Runs `unset`.
pub fn run_unset(global: &Global, args: &UnsetArgs) -> Result<Exit, Fault> {
    // Also what is not known can be taken away.
    let key = parse_key(&args.key).map_err(|error| Fault::input(error.to_string()))?;
    let kind = args.layer.kind();
    let file = file(global, kind)?;
    let (edited, _) = file.change(|text| unset(text, &key).map_err(|error| unusable(&file.file, &error)))?;
    tell(&file.file, &edited, "taken out of");
    tell_of_others(global, kind, &key);
    Ok(Exit::Done)
}

/// The file that is to be changed.
fn file(global: &Global, kind: LayerKind) -> Result<SettingsFile, Fault> {
    let (places, _, project) = locate(global.dir.as_deref())?;
    if kind.is_of_project() {
        if project.kind == RootKind::TooWide {
            let message = format!("{} is too wide to be a project with settings", project.root.display());
            return Err(Fault::input(message).hint("name a directory of a project with -C DIR, or set it with --user"));
        }
        // Links in a project's settings are refused: they would be written to wherever they lead.
        Standing::find(&project, &places, false)?;
    }
    Ok(SettingsFile::new(kind, &places, &project))
}

/// The section of a key.
fn section_of(text: &str) -> Result<(&'static SectionInfo, Vec<String>), Fault> {
    static ALL: [SectionInfo; SECTIONS.len()] = SECTIONS;
    let key = parse_key(text).map_err(|error| Fault::input(error.to_string()))?;
    let section = ALL.iter().find(|section| key.first().is_some_and(|first| first == section.key));
    section.map(|section| (section, key.clone())).ok_or_else(|| no_such_setting(&key))
}

/// Says that there is no such setting, and which one may be meant.
pub fn no_such_setting(key: &[String]) -> Fault {
    let message = format!("unknown setting `{}`", escaped(&show_key(key)));
    let hint = match baton_config::nearest_key(&SECTIONS, key) {
        Some(meant) => format!("did you mean `{meant}`? `baton config explain` lists all"),
        None => "`baton config explain` lists all".to_owned(),
    };
    Fault::input(message).hint(hint)
}

/// The value that a text stands for: JSON if that fits, else the text itself.
fn fitting(section: &SectionInfo, beside: Option<&Value>, path: &[String], text: &str) -> Result<Value, Fault> {
    let as_text = Value::String(text.to_owned());
    let as_json = serde_json::from_str(text).unwrap_or_else(|_| as_text.clone());
    match section.accepts(beside, path, &as_json) {
        Ok(()) => Ok(as_json),
        Err(_) if section.accepts(beside, path, &as_text).is_ok() => Ok(as_text),
        Err(why) => {
            let key: Vec<String> = std::iter::once(section.key.to_owned()).chain(path.iter().cloned()).collect();
            if why.starts_with("unknown setting") {
                return Err(Fault::input(why).hint("`baton config explain` lists all"));
            }
            let key = show_key(&key);
            Err(Fault::input(format!("`{key}` cannot be set so: {why}"))
                .hint(format!("`baton config explain {key}` says what it means")))
        }
    }
}

fn unusable(file: &Path, error: &EditError) -> Fault {
    let hint = match error {
        EditError::Missing(_) => "`baton config explain` says where it is set",
        EditError::Malformed { .. } | EditError::Unexpected(_) => "mend the file by hand; it was left as it is",
    };
    Fault::input(format!("{}: {error}", file.display())).hint(hint)
}

fn tell(file: &Path, edited: &Edited, what: &str) {
    let place = match edited.line {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    };
    say(&format!("{what} {place}"));
}

/// Says if another layer decides, in spite of this one. It is done already, so nothing can fail any more.
fn tell_of_others(global: &Global, kind: LayerKind, key: &[String]) {
    let settings = find(global).map(|found| explain(&found.config, &SECTIONS)).unwrap_or_default();
    let Some(setting) = one(settings, key) else { return };
    if let Some(source) = setting.set_by.last().filter(|source| source.layer > kind) {
        say(&format!("but {} counts more", by(source)));
    }
}

fn say(text: &str) {
    anstream::eprintln!("{}", escaped(text));
}
