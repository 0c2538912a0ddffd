//! `baton config explain`: every setting with its value, who set it, what that overrode, its default and what it means.

use anstyle::{AnsiColor, Style};
use baton_config::{Setting, Source, explain, parse_key, show_key};
use baton_core::Fault;
use baton_guard::path::escaped;
use baton_guard::secrets::Redactor;
use serde_json::{Value, json};

use super::{KeyParser, find, print, shown};
use crate::Global;
use crate::exit::Exit;
use crate::settings::SECTIONS;

const KEY: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();

/// Show settings: their values, who set them, what that overrode, defaults and meanings
#[derive(clap::Args)]
#[command(
    after_help = "Secrets are never shown. A file that cannot be read is left out; `baton config check` names it."
)]
pub struct Args {
    /// Only this setting, with what is below it: limits.steps, models.\"a/b-1.5\"
    #[arg(value_parser = KeyParser, hide_possible_values = true)]
    key: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let wanted = args.key.as_deref().map(parse_key).transpose().map_err(|error| Fault::input(error.to_string()))?;
    let found = find(global)?;
    let mut settings = explain(&found.config, &SECTIONS);
    if let Some(wanted) = &wanted {
        // A key may also lead into a value, such as an item of a list.
        let is_it = |key: Vec<String>| key.starts_with(wanted) || wanted.starts_with(&key);
        settings.retain(|setting| parse_key(&setting.key).is_ok_and(is_it));
        if settings.is_empty() {
            return Err(super::set::no_such_setting(wanted));
        }
    }
    for error in &found.errors {
        anstream::eprintln!("warning: {}", escaped(&error.to_string()));
    }
    let redactor = Redactor::new();
    for setting in &mut settings {
        let sources = setting.set_by.iter_mut().chain(&mut setting.overridden);
        for value in sources.map(|source| &mut source.value).chain([&mut setting.value]).flatten() {
            redact(value, &redactor);
        }
        for problem in &mut setting.problems {
            problem.message = redactor.redact_str(&problem.message).into_owned();
        }
    }
    print(&if args.json { format!("{:#}", as_json(&settings)) } else { as_text(&settings) })
}

/// Takes secrets out of texts, wherever they were written.
fn redact(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => *text = redactor.redact_str(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, redactor)),
        Value::Object(map) => map.values_mut().for_each(|inner| redact(inner, redactor)),
        _ => {}
    }
}

fn as_json(settings: &[Setting]) -> Value {
    let source = |source: &Source| {
        json!({
            "layer": source.layer.name(),
            "file": source.place.as_ref().map(|(file, _)| file.to_string_lossy()),
            "line": source.place.as_ref().map(|(_, line)| line),
            "variable": source.variable,
            "value": source.value,
        })
    };
    let setting = |setting: &Setting| {
        json!({
            "key": setting.key,
            "value": setting.value,
            "secret": setting.value.is_none(),
            "default": setting.default,
            "description": setting.meaning,
            "set_by": setting.set_by.iter().map(source).collect::<Vec<_>>(),
            "overridden": setting.overridden.iter().map(source).collect::<Vec<_>>(),
            "problems": setting.problems,
        })
    };
    settings.iter().map(setting).collect()
}

fn as_text(settings: &[Setting]) -> String {
    settings.iter().flat_map(lines).collect::<Vec<_>>().join("\n")
}

fn lines(setting: &Setting) -> Vec<String> {
    let shown = |value: Option<&Value>| escaped(&shown(value));
    let default = match &setting.default {
        Value::Null => String::new(),
        default if Some(default) == setting.value.as_ref() => String::new(),
        default => format!(" {DIM}(default {}){DIM:#}", shown(Some(default))),
    };
    let first = format!("{KEY}{}{KEY:#} = {}{default}", escaped(&setting.key), shown(setting.value.as_ref()));
    let set_by = setting.set_by.iter().map(|source| format!("    set by {}", by(source)));
    let others = setting.overridden.iter().rev();
    let others = others.map(|source| format!("    overrides {} of {}", shown(source.value.as_ref()), by(source)));
    let problems = setting.problems.iter().map(|problem| format!("    {}", escaped(&problem.to_string())));
    let meaning = format!("    {DIM}{}{DIM:#}", setting.meaning);
    std::iter::once(first).chain(set_by).chain(others).chain(problems).chain([meaning]).collect()
}

/// Who set it, for people.
pub fn by(source: &Source) -> String {
    let place = match (&source.place, &source.variable) {
        (Some((file, line)), _) => format!("{}:{line}", file.display()),
        (None, Some(variable)) => variable.clone(),
        (None, None) => String::new(),
    };
    escaped(format!("{place} ({})", source.layer.name()).trim_start())
}

/// The setting of this key, and who set it.
pub fn one(settings: Vec<Setting>, key: &[String]) -> Option<Setting> {
    let key = show_key(key);
    settings.into_iter().find(|setting| setting.key == key)
}
