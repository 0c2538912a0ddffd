//! `baton sessions export` and `import`: sessions are carried elsewhere, and come from there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, IsTerminal, Read};
use std::path::{Path, PathBuf};

use baton_core::{Fault, SessionId};
use baton_guard::secrets::Redactor;
use baton_session::{
    ChangeError, DEFINITIONS, Definition, Merged, OpenError, Outcome, Packed, ParcelError, SETTINGS, Staged, convert,
    pack, unpack,
};
use serde_json::json;

use super::{Here, print_json, talk, unusable};
use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// A longer definition is none.
const DEFINITION_MAX: u64 = 1024 * 1024;
/// How deep definitions and foreign conversations are looked for.
const DEPTH_MAX: usize = 8;

#[derive(clap::Args)]
#[command(after_help = "\
Without ids: all sessions, and the definitions of the project (.baton/agents, skills, commands,
workflows) with its settings, from which what looks like a secret is taken out.
")]
pub struct ExportArgs {
    /// Only these sessions, and no definitions
    ids: Vec<String>,
    /// The file [default: standard output]
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Tell as JSON what was written, on stderr if the file goes to stdout
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
What is here already is not taken twice. Where here and there went different ways, both are kept:
the one from there as a fork. If anything is wrong with a file of `export`, nothing of it is taken.
From a directory of another agent only the conversations of this project are taken.
")]
pub struct ImportArgs {
    /// A file of `export`, a conversation of Claude Code or Codex (*.jsonl), or a directory of them
    path: PathBuf,
    /// Take what is in the file in place of what is here; sessions from here go to the trash
    #[arg(long)]
    replace: bool,
    /// From a directory: also the conversations of other projects
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn export(global: &Global, here: &Here, args: &ExportArgs) -> Result<Exit, Fault> {
    let ids: Vec<SessionId> = match args.ids.as_slice() {
        [] => {
            let files = here.sessions.files().map_err(|error| unusable("the sessions cannot be read", error))?;
            let mut ids: Vec<_> = files.into_iter().map(|file| file.id).collect();
            ids.sort();
            ids
        }
        names => names.iter().map(|name| here.find(Some(name))).collect::<Result<_, _>>()?,
    };
    let definitions = if args.ids.is_empty() { definitions(global, here)? } else { Vec::new() };
    if ids.is_empty() && definitions.is_empty() {
        return Err(Fault::input("there is nothing to export in this project").hint("`baton exec` makes a session"));
    }
    let failed = |error: io::Error| unusable("cannot export", error).hint("nothing was written");
    let made_by = concat!("baton ", env!("CARGO_PKG_VERSION"));
    let file = args.output.as_ref().filter(|file| *file != Path::new("-"));
    let packed = if let Some(file) = file {
        let file = here.cwd.join(file);
        let dir = file.parent().unwrap_or(&here.cwd);
        // Under another name until it is whole.
        let mut out = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
        let packed = pack(&here.sessions, &ids, &definitions, made_by, here.now, BufWriter::new(&mut out));
        let packed = packed.map_err(failed)?;
        out.as_file().sync_all().map_err(failed)?;
        out.persist(&file).map_err(|error| failed(error.error))?;
        packed
    } else {
        if io::stdout().is_terminal() {
            return Err(Fault::input("a tar file is nothing for a terminal").hint("name a file with -o FILE"));
        }
        let out = BufWriter::new(io::stdout().lock());
        pack(&here.sessions, &ids, &definitions, made_by, here.now, out).map_err(failed)?
    };
    let Packed { sessions, blobs, definitions, missing } = packed;
    if args.json {
        let value = json!({"sessions": sessions, "blobs": blobs, "definitions": definitions, "missing": missing});
        if file.is_some() {
            return print_json(&value);
        }
        talk(&value.to_string());
        return Ok(Exit::Done);
    }
    talk(&format!("{sessions} sessions, {blobs} texts kept apart, {definitions} definitions"));
    if missing > 0 {
        talk(&format!("note: {missing} texts that the sessions speak of are gone"));
    }
    Ok(Exit::Done)
}

/// The definitions and the settings of the project, as names below `.baton` and contents.
fn definitions(global: &Global, here: &Here) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    let base = here.root.join(".baton");
    let mut found = Vec::new();
    for kind in DEFINITIONS {
        for path in files_below(&base.join(kind), DEPTH_MAX, &|_| true) {
            let name = path.strip_prefix(&base).ok().and_then(Path::to_str);
            let content = fs::metadata(&path).is_ok_and(|known| known.len() <= DEFINITION_MAX).then(|| fs::read(&path));
            match (name, content) {
                (Some(name), Some(Ok(content))) => found.push((name.to_owned(), content)),
                _ => talk(&format!("note: {} is left out: it is too long or cannot be read", path.display())),
            }
        }
    }
    if let Ok(text) = fs::read_to_string(base.join(SETTINGS)) {
        let clean = Setup::new(global)?.redactor().redact_str(&text).into_owned();
        found.push((SETTINGS.to_owned(), clean.into_bytes()));
    }
    Ok(found)
}

/// The plain files below a directory, in their order. Links and what is hidden are not followed.
fn files_below(dir: &Path, depth: usize, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(dir) else { return Vec::new() };
    let mut entries: Vec<_> = listing.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() && depth > 0 {
            found.extend(files_below(&path, depth - 1, is_wanted));
        } else if kind.is_file() && is_wanted(&path) {
            found.push(path);
        }
    }
    found
}

/// What was found in what is to be imported.
#[derive(Default)]
struct Gathered {
    staged: Vec<Staged>,
    definitions: Vec<Definition>,
    /// What of foreign conversations was left out, by its kind.
    skipped: BTreeMap<String, u64>,
    /// Conversations of other projects.
    elsewhere: usize,
    /// Files in which nobody says anything.
    empty: usize,
    /// Files that cannot be read.
    unreadable: usize,
}

pub fn import(global: &Global, here: &Here, args: &ImportArgs) -> Result<Exit, Fault> {
    // What other agents wrote down may hold secrets; what Baton wrote does not.
    let redactor = Setup::new(global)?.redactor();
    let path = here.cwd.join(&args.path);
    let failed = |error: io::Error| {
        unusable(&format!("cannot import {}", path.display()), error).hint("nothing was taken from it")
    };
    let staging = here.sessions.staging().map_err(failed)?;
    let mut gathered = Gathered::default();
    if path.is_dir() {
        let is_wanted = |path: &Path| path.extension().is_some_and(|end| end == "jsonl");
        for file in files_below(&path, DEPTH_MAX, &is_wanted) {
            if File::open(&file).is_err() {
                gathered.unreadable += 1;
                continue;
            }
            gathered.foreign(&file, staging.path(), here, &redactor, !args.all).map_err(failed)?;
        }
    } else {
        let mut first = [0; 512];
        let length = File::open(&path).and_then(|mut file| file.read(&mut first)).map_err(|error| {
            Fault::input(format!("cannot read {}: {error}", path.display()))
                .hint("name a file of `baton sessions export`, or one of Claude Code or Codex")
        })?;
        if first[..length].first() == Some(&b'{') {
            if !gathered.foreign(&path, staging.path(), here, &redactor, false).map_err(failed)? {
                return Err(Fault::input(format!("{} is no conversation that Baton knows", path.display()))
                    .hint("it reads what `baton sessions export` writes, and *.jsonl of Claude Code and Codex"));
            }
        } else {
            let file = BufReader::new(File::open(&path).map_err(failed)?);
            (gathered.staged, gathered.definitions) =
                unpack(file, staging.path()).map_err(|error| refused(&path, &error))?;
        }
    }
    let Gathered { staged, definitions, skipped, elsewhere, empty, unreadable } = gathered;
    let baton_dir = here.root.join(".baton");
    let merged = here.sessions.merge(staged, &definitions, &baton_dir, args.replace, here.now);
    let merged = merged.map_err(|error| {
        let fault = unusable(&format!("cannot import {}", path.display()), &error);
        match error {
            ChangeError::Open(OpenError::Held(_)) => fault.hint("end it there first; nothing was taken"),
            _ => fault.hint("nothing was taken"),
        }
    })?;
    if args.json {
        return print_json(&json!({
            "merged": merged, "skipped_lines": skipped, "other_projects": elsewhere, "empty": empty,
            "unreadable": unreadable,
        }));
    }
    tell(&merged, &skipped, elsewhere);
    if empty > 0 {
        talk(&format!("{empty} files have no prompt in them"));
    }
    if unreadable > 0 {
        talk(&format!("note: {unreadable} files cannot be read"));
    }
    Ok(Exit::Done)
}

impl Gathered {
    /// Takes a conversation of another agent; whether it was one.
    fn foreign(
        &mut self,
        file: &Path,
        staging: &Path,
        here: &Here,
        redactor: &Redactor,
        only_here: bool,
    ) -> io::Result<bool> {
        // Each in a directory of its own: two files may be of the same conversation.
        let own = tempfile::Builder::new().tempdir_in(staging)?;
        let clean = |text: &str| match redactor.redact_str(text) {
            Cow::Owned(clean) => Some(clean),
            Cow::Borrowed(_) => None,
        };
        let Some(converted) = convert(file, own.path(), &clean)? else { return Ok(false) };
        let is_here = converted.cwd.as_ref().is_some_and(|cwd| Path::new(cwd).starts_with(&here.root));
        match converted.staged {
            None => self.empty += 1,
            Some(_) if only_here && !is_here => self.elsewhere += 1,
            Some(staged) => {
                drop(own.keep());
                self.staged.push(staged);
                for (what, count) in converted.skipped {
                    *self.skipped.entry(what).or_default() += count;
                }
            }
        }
        Ok(true)
    }
}

fn refused(path: &Path, error: &ParcelError) -> Fault {
    let fault = Fault::input(format!("cannot import {}: {error}", path.display()));
    match error {
        ParcelError::TooNew(_) => fault.hint("take a newer Baton; nothing was taken from it"),
        _ => fault.hint("nothing was taken from it"),
    }
}

/// Tells what was taken, and what was not.
fn tell(merged: &[Merged], skipped: &BTreeMap<String, u64>, elsewhere: usize) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in merged {
        let word = match &one.outcome {
            Outcome::Added => "added",
            Outcome::Skipped => "here already",
            Outcome::Extended => "extended",
            Outcome::Forked(from) => {
                talk(&format!("{} is a fork: {from} went another way here", one.what));
                "forked"
            }
            Outcome::Replaced => "replaced",
            Outcome::Kept => {
                talk(&format!("{} is another one here, and stays; --replace takes the new one", one.what));
                "left as they are"
            }
        };
        *counts.entry(word).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    talk(&if counts.is_empty() { "there was nothing to import".to_owned() } else { counts.join(", ") });
    if elsewhere > 0 {
        talk(&format!("{elsewhere} conversations of other projects are left out; --all takes them, too"));
    }
    if !skipped.is_empty() {
        let kinds: Vec<String> =
            skipped.iter().map(|(what, count)| format!("{count} {}", super::line(what, 60))).collect();
        talk(&format!("left out: {}", kinds.join(", ")));
    }
}
