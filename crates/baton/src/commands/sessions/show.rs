//! `baton sessions show` and `check`: what is in a session.

use std::io::{self, Write};

use baton_core::{EventBody, Fault, SessionId};
use baton_headless::Replay;
use baton_session::{Entry, EntryBody, Own, Placed, View, texts};
use serde_json::{Value, json};

use super::{Here, line, print_json, short, unread, unwritable};
use crate::exit::Exit;

/// How much of an entry is shown.
const WORDS_MAX: usize = 80;

#[derive(clap::Args)]
pub struct ShowArgs {
    /// The session [default: the last one]
    id: Option<String>,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
    /// One line for each entry, with those that the conversation has left
    #[arg(long)]
    entries: bool,
}

#[derive(clap::Args)]
pub struct CheckArgs {
    /// The session [default: all of this project]
    id: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn show(here: &Here, args: &ShowArgs) -> Result<Exit, Fault> {
    let id = here.find(args.id.as_deref())?;
    let view = View::open(&here.sessions, &id).map_err(|error| unread(&id, &error))?;
    for damage in view.damage() {
        super::talk(&format!("note: damaged, {damage}: skipped"));
    }
    let shown = match (args.entries, args.json) {
        (true, as_json) => entries(&view, as_json),
        (false, true) => events(&view, &id),
        (false, false) => replay(&view, &id),
    };
    shown.map(|()| Exit::Done).map_err(|error| unwritable(&error))
}

fn events(view: &View, id: &SessionId) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    view.path(|entry| match entry.event(id) {
        Some(event) => {
            serde_json::to_writer(&mut out, &event)?;
            out.write_all(b"\n")
        }
        None => Ok(()),
    })?;
    out.flush()
}

fn replay(view: &View, id: &SessionId) -> io::Result<()> {
    let mut replay = Replay::default();
    view.path(|entry| match (&entry.body, entry.event(id)) {
        (_, Some(event)) => replay.show(&event),
        (EntryBody::Own(Own::Said { content, by_person: true }), None) => replay.said(content),
        _ => Ok(()),
    })
}

fn entries(view: &View, as_json: bool) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    view.entries(|placed: Placed| {
        let entry = &placed.entry;
        let (kind, words) = (kind(entry), words(entry));
        if as_json {
            let value = json!({
                "id": entry.id, "parent": entry.parent, "at": entry.at, "kind": kind, "words": words,
                "on_path": placed.is_on_path, "branch": placed.is_branch, "whole": placed.is_whole,
            });
            return writeln!(out, "{value}");
        }
        let parent = entry.parent.as_ref().map_or("the beginning", |parent| short(parent.as_str()));
        if placed.is_branch {
            writeln!(out, "├─ after {parent}")?;
        }
        let sign = if placed.is_on_path { "│" } else { "╎" };
        writeln!(out, "{sign} {}  {kind:<16} {}", short(entry.id.as_str()), line(&words, WORDS_MAX))
    })?;
    out.flush()
}

fn kind(entry: &Entry) -> String {
    let of = |value: serde_json::Result<Value>| {
        value.ok().and_then(|value| value["kind"].as_str().map(str::to_owned)).unwrap_or_default()
    };
    match &entry.body {
        EntryBody::Own(own) => of(serde_json::to_value(own)),
        EntryBody::Event(event) => of(serde_json::to_value(event)),
        EntryBody::Unknown(object) => object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
    }
}

/// What an entry says, in a few words.
fn words(entry: &Entry) -> String {
    let words = match &entry.body {
        EntryBody::Own(Own::Header(header)) => header.session.to_string(),
        EntryBody::Own(Own::Titled { title }) => title.clone(),
        EntryBody::Event(EventBody::ToolStarted { tool, input, .. }) => format!("{tool} {input}"),
        EntryBody::Event(EventBody::Noticed { text }) => text.clone(),
        EntryBody::Event(EventBody::TurnEnded { reason, .. }) => format!("{reason:?}").to_lowercase(),
        _ => texts(entry).into_iter().map(|(_, text)| text).next().unwrap_or_default(),
    };
    line(words.trim(), 4 * WORDS_MAX).into_owned()
}

pub fn check(here: &Here, args: &CheckArgs) -> Result<Exit, Fault> {
    let ids = if let Some(name) = &args.id {
        vec![here.find(Some(name))?]
    } else {
        let files = here.sessions.files().map_err(|error| super::unusable("the sessions cannot be read", error))?;
        let mut ids: Vec<_> = files.into_iter().map(|file| file.id).collect();
        ids.sort();
        ids
    };
    let (mut reports, mut is_whole) = (Vec::new(), true);
    for id in ids {
        let view = View::open(&here.sessions, &id).map_err(|error| unread(&id, &error))?;
        let (mut entries, mut missing) = (0_u64, Vec::new());
        let counted: io::Result<()> = view.entries(|placed| {
            entries += 1;
            missing.extend((!placed.is_whole).then(|| placed.entry.id.clone()));
            Ok(())
        });
        counted.map_err(|error| unread(&id, &error.into()))?;
        let damage = view.damage();
        let is_good = damage.is_empty() && missing.is_empty() && view.header().is_some();
        is_whole &= is_good;
        if args.json {
            let damage: Vec<Value> = damage
                .iter()
                .map(|one| json!({"from": one.span.from, "bytes": one.span.bytes, "cause": one.cause.to_string()}))
                .collect();
            reports.push(json!({
                "id": id, "entries": entries, "whole": is_good, "damage": damage, "missing": missing,
                "header": view.header().is_some(),
            }));
            continue;
        }
        let mut lines = vec![format!("{id}: {}, {entries} entries", if is_good { "whole" } else { "damaged" })];
        lines.extend(view.header().is_none().then(|| "  its first entry is missing".to_owned()));
        lines.extend(damage.iter().map(|one| format!("  {one}")));
        lines.extend(missing.iter().map(|entry| format!("  {entry}: a text that was kept apart is gone")));
        writeln!(io::stdout().lock(), "{}", lines.join("\n")).map_err(|error| unwritable(&error))?;
    }
    if args.json {
        print_json(&reports)?;
    }
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}
