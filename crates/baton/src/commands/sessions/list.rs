//! `baton sessions list` and `search`: what there is, and where something was said.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use baton_core::{Fault, Timestamp};
use baton_session::{Found, MARKS, Summary};
use serde::Serialize;

use super::{Here, ask, line, print_json, short, talk, unwritable};
use crate::exit::Exit;

const DIM: Style = Style::new().dimmed();
const BOLD: Style = AnsiColor::Yellow.on_default().bold();

/// How many sessions people are shown at first.
const SHOWN: usize = 20;
/// The longest title that is shown.
const TITLE_MAX: usize = 72;

#[derive(clap::Args)]
pub struct ListArgs {
    /// Of all projects
    #[arg(long)]
    all: bool,
    /// At most so many [default: 20; all with --json]
    #[arg(short = 'n', value_name = "N")]
    max: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct SearchArgs {
    /// All of these words; the end of a word may be left out
    #[arg(required = true)]
    words: Vec<String>,
    /// In all projects
    #[arg(long)]
    all: bool,
    /// At most so many places
    #[arg(short = 'n', value_name = "N", default_value_t = SHOWN)]
    max: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A row with the project that it is of.
#[derive(Serialize)]
struct Row<T> {
    project: String,
    #[serde(flatten)]
    row: T,
}

pub fn list(here: &Here, args: &ListArgs) -> Result<Exit, Fault> {
    let max = args.max.or((!args.json).then_some(SHOWN));
    let (mut rows, mut total) = (Vec::new(), 0);
    for (project, sessions) in here.scope(args.all) {
        if !sessions.dir().is_dir() {
            continue;
        }
        let (_, (found, count)) = ask(&sessions, |index| Ok((index.list(max)?, index.count()?)))?;
        total += count;
        rows.extend(found.into_iter().map(|row| Row { project: project.clone(), row }));
    }
    if args.all {
        rows.sort_by_key(|row: &Row<Summary>| std::cmp::Reverse(row.row.used));
        rows.truncate(max.unwrap_or(usize::MAX));
    }
    if args.json {
        return print_json(&rows);
    }
    if rows.is_empty() {
        talk("there are no sessions yet: `baton exec` makes one");
        return Ok(Exit::Done);
    }
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    let written = rows.iter().try_for_each(|Row { project, row }| {
        let project = if args.all { format!("  {DIM}{}{DIM:#}", line(project, 40)) } else { String::new() };
        writeln!(
            out,
            "{}  {DIM}{:>10}{DIM:#}  {:>3} turn{}  {}{}{project}",
            short(row.id.as_str()),
            ago(row.used, here.now),
            row.turns,
            if row.turns == 1 { " " } else { "s" },
            line(&row.title, TITLE_MAX),
            remarks(row),
        )
    });
    written.and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
    if total > rows.len() as u64 {
        talk(&format!("{} of {total}; -n {total} shows all", rows.len()));
    }
    Ok(Exit::Done)
}

/// What is special about a session.
fn remarks(row: &Summary) -> String {
    let mut remarks = Vec::new();
    remarks.extend(row.forked.as_ref().map(|from| format!("forked from {}", short(from.as_str()))));
    remarks
        .extend(row.imported.as_ref().map(|from| format!("from {}", line(from.split(':').next().unwrap_or(from), 20))));
    remarks.extend((row.damage > 0).then(|| "damaged".to_owned()));
    if remarks.is_empty() { String::new() } else { format!("  {DIM}[{}]{DIM:#}", remarks.join(", ")) }
}

pub fn search(here: &Here, args: &SearchArgs) -> Result<Exit, Fault> {
    let words = args.words.join(" ");
    if !words.chars().any(char::is_alphanumeric) {
        return Err(Fault::input("there is no word to look for").hint("words have letters or digits"));
    }
    let mut rows = Vec::new();
    for (project, sessions) in here.scope(args.all) {
        if sessions.dir().is_dir() {
            let (_, found) = ask(&sessions, |index| index.search(&words, args.max))?;
            rows.extend(found.into_iter().map(|row| Row { project: project.clone(), row }));
        }
    }
    rows.truncate(args.max);
    if args.json {
        return print_json(&rows);
    }
    if rows.is_empty() {
        talk("nothing found");
    }
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    let written = rows.iter().try_for_each(|Row { row: Found { session, title, entry, at, who, excerpt }, .. }| {
        // The marks are control characters: they become colour before the rest is made harmless.
        let marked = excerpt.split(MARKS).enumerate().map(|(at, piece)| {
            let piece = line(piece, 400);
            if at % 2 == 1 { format!("{BOLD}{piece}{BOLD:#}") } else { piece.into_owned() }
        });
        let excerpt: String = marked.collect();
        writeln!(
            out,
            "{}  {DIM}{}{DIM:#}\n  {DIM}{} {} {at:.0}{DIM:#}\n  {}",
            short(session.as_str()),
            line(title, TITLE_MAX),
            short(entry.as_str()),
            line(who, 40),
            excerpt.trim(),
        )
    });
    written.and_then(|()| out.flush()).map_err(|error| unwritable(&error))?;
    Ok(Exit::Done)
}

/// How long ago something was, in a few letters.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => then.strftime("%Y-%m-%d").to_string(),
    }
}
