//! `baton guard add`: keeps a rule, or a correction in plain words, for every agent from now on.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_config::{Edited, append};
use baton_core::{Area, Fault, Tier};
use baton_guard::audit::Decision;
use baton_guard::path::escaped;
use baton_guard::trust::{Keep, Ledger, State, state, survey};
use baton_guard::{Origin, PermissionSettings, Proposed, Rule, Rules, Verdict, correction};
use jiff::Timestamp;
use serde_json::json;

use crate::exit::Exit;
use crate::setup::Setup;
use crate::{Global, asking, trusting};

/// How to write a rule, for whoever said something that gives none.
const HOW: &str =
    "write the rule itself, for example: baton guard add 'Bash(git push:*)', 'Edit(./vendor/**)' or 'Read(**/.env)'";

/// Keep a rule, or a correction in plain words, that binds every agent
#[derive(clap::Args)]
#[command(after_help = "\
A rule is Tool(what): Bash(git push:*), Edit(./vendor/**), Read(**/.env), WebFetch(domain:example.com). In rules that
ask or deny, ** stands for any words and Bash(*word*) for a word anywhere. Plain words become rules by a table,
without a model; they are shown, and kept after a yes. Comments in the settings stay.

Examples:
  baton guard add 'Bash(git push:*)'               never push
  baton guard add --ask 'Bash(cargo publish:*)'    ask before publishing
  baton guard add \"never run migrations\"           says which rules that would be, and asks
  baton guard add --project \"don't touch vendor/\"  in this project only

Exit codes: 0 kept, or there already · 2 no rule · 4 a yes is missing
")]
pub struct Args {
    /// Rules, or what an agent must not do
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<String>,
    #[command(flatten)]
    list: List,
    /// For this project, in .baton/local.jsonc, instead of your own settings
    #[arg(long)]
    project: bool,
    /// Keep rules that come from plain words without being asked
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What becomes of what the rules match.
#[derive(clap::Args)]
#[group(multiple = false)]
struct List {
    /// What the rules match runs unasked
    #[arg(long)]
    allow: bool,
    /// What the rules match is asked for
    #[arg(long)]
    ask: bool,
    /// What the rules match is refused [default]
    #[arg(long)]
    deny: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let (proposed, is_free) = wanted(args)?;
    let file = if args.project { setup.project.root.join(".baton/local.jsonc") } else { setup.places.user_config() };
    // Whoever keeps settings elsewhere has a link here, which stays one.
    let file = file.canonicalize().unwrap_or(file);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Fault::input(format!("cannot read {}: {error}", file.display()))),
    };
    let edited = edit(&text, &proposed, &file)?;
    show(args, &proposed, &edited, &file)
        .map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    if edited.line.is_none() {
        say("these rules are there already");
        return Ok(Exit::Done);
    }
    let how = "look at the rules, then say it again with --yes";
    if is_free && !asking::yes("Keep these rules?", args.yes, how)? {
        say("nothing was kept");
        return Ok(Exit::NeedsPerson);
    }
    let was = trust_before(&setup, args.project)?;
    write(&file, &edited.text).map_err(|error| {
        let message = format!("cannot write {}: {error}", file.display());
        Fault::new(Area::Workspace, Tier::UserFixable, message).hint("make it writable, or set BATON_HOME")
    })?;
    if args.project {
        keep_out_of_git(&setup.project.root);
        renew_trust(&setup, was)?;
    }
    let rules: Vec<String> = proposed.iter().map(|one| format!("{} {}", one.verdict, one.rule)).collect();
    let what = format!("kept in {}: {}", file.display(), rules.join(", "));
    trusting::log(&setup.places, &setup.project, "person", what, Decision::Approved)?;
    say(&format!("kept in {}", file.display()));
    Ok(Exit::Done)
}

/// The rules to keep, and whether they were made of plain words.
fn wanted(args: &Args) -> Result<(Vec<Proposed>, bool), Fault> {
    let verdict = match args.list {
        List { allow: true, .. } => Verdict::Allow,
        List { ask: true, .. } => Verdict::Ask,
        // Said or not, it is what remains.
        List { deny: true | false, .. } => Verdict::Deny,
    };
    if args.rules.iter().all(|text| is_rule(text)) {
        let rules = args.rules.iter().map(|rule| Proposed { verdict, rule: rule.trim().to_owned() }).collect();
        return Ok((rules, false));
    }
    // Words of one sentence may come as words of the command line.
    let one = [args.rules.join(" ")];
    let texts = if args.rules.iter().any(|text| text.trim().contains(' ')) { &args.rules[..] } else { &one };
    let mut rules = Vec::new();
    for text in texts {
        if is_rule(text) {
            rules.push(Proposed { verdict, rule: text.trim().to_owned() });
            continue;
        }
        let shown = escaped(text);
        if verdict == Verdict::Allow {
            return Err(Fault::input(format!("`{shown}` is no rule, and only a rule can allow")).hint(HOW));
        }
        let proposal = correction(text)
            .ok_or_else(|| Fault::input(format!("`{shown}` is no rule, and gives none in plain words")).hint(HOW))?;
        let asks = verdict == Verdict::Ask;
        rules.extend(proposal.rules.into_iter().map(|one| if asks { Proposed { verdict, ..one } } else { one }));
    }
    Ok((rules, true))
}

/// Whether a text is meant as a rule: a tool's name, and what it speaks of.
fn is_rule(text: &str) -> bool {
    let text = text.trim();
    let name = text.split('(').next().unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*'));
    let is_tool = text.contains('(') || name.starts_with(|c: char| c.is_ascii_uppercase()) || name.starts_with("mcp__");
    is_name && is_tool && (text.contains('(') || !text.contains(' '))
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

fn show(args: &Args, proposed: &[Proposed], edited: &Edited, file: &Path) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    if args.json {
        return writeln!(out, "{:#}", json!({"file": file, "line": edited.line, "rules": proposed}));
    }
    for one in proposed {
        writeln!(out, "{}  {}", one.verdict, escaped(&one.rule))?;
    }
    match edited.line {
        Some(line) => writeln!(out, "in {}:{line}", file.display()),
        None => writeln!(out, "in {}", file.display()),
    }
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

/// Whether the project was trusted, or had nothing to be trusted, before it is changed.
fn trust_before(setup: &Setup, is_project: bool) -> Result<bool, Fault> {
    if !is_project {
        return Ok(false);
    }
    let found = survey(&setup.project.root, Keep::Hashes);
    let known = Ledger::new(&setup.places.state_dir).get(&setup.project.root);
    let known = known.map_err(|error| Fault::input(error.to_string()))?;
    Ok(matches!(state(&found, known.as_ref()), State::Nothing | State::Trusted))
}

/// What the person has just written themselves is trusted, if the rest is.
fn renew_trust(setup: &Setup, was_trusted: bool) -> Result<(), Fault> {
    if !was_trusted {
        say("this project is not trusted: rules that allow count only after `baton trust`");
        return Ok(());
    }
    let found = survey(&setup.project.root, Keep::Contents);
    let kept = Ledger::new(&setup.places.state_dir).put(&setup.project.root, &found, Timestamp::now());
    kept.map(drop).map_err(|error| Fault::input(error.to_string()))
}

fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}
