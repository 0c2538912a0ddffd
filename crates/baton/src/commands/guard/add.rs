//! `baton guard add`: keeps a rule, or a correction in plain words, for every agent from now on.

use std::io::{self, Write};
use std::path::Path;

use baton_config::Edited;
use baton_core::Fault;
use baton_guard::audit::Decision;
use baton_guard::path::escaped;
use baton_guard::{Proposed, Verdict, correction};
use serde_json::json;

use crate::exit::Exit;
use crate::rule_file::{HOW, RuleFile};
use crate::setup::Setup;
use crate::{Global, asking, trusting};

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
    let rule_file = if args.project { RuleFile::of_project(&setup) } else { RuleFile::of_person(&setup) };
    let file = &rule_file.settings.file;
    let edited = rule_file.with(&proposed)?;
    show(args, &proposed, &edited, file)
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
    if !rule_file.keep(&proposed)? {
        say("this project is not trusted: rules that allow count only after `baton trust`");
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

fn say(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}
