//! `baton exec`: one prompt, no screen.

use std::io::Write;
use std::path::{Path, PathBuf};

use baton_agent::{AnswerSchema, TurnLimits};
use baton_core::{Fault, Op, PermissionMode, Usd};
use baton_guard::correction;
use baton_headless::{Format, Input, Signals, exec, gather};
use baton_llm::{Effort, Recording};
use baton_session::{SessionSettings, Sessions};
use serde_json::json;

use crate::commands::sessions::prune_daily;
use crate::exit::Exit;
use crate::planning::PROMPT;
use crate::setup::{Request, Setup, Which, block_on, clean};
use crate::{Global, log};

/// Give the agent one prompt and wait until it is done
#[derive(clap::Args)]
#[command(after_help = "\
The answer goes to stdout, everything else to stderr. Words like @src/main.rs attach a file or a
picture; a prompt that is only @FILE is read from it; what is piped in is added to the prompt.

Examples:
  baton exec --permission-mode auto \"fix the failing test\"
  git diff | baton exec \"review this change\"
  baton exec -m openai/gpt-5.2:high --json \"explain @src/main.rs\"
  baton exec --permission-mode plan \"plan the change\"    and then: baton exec --plan HASH
  baton exec -c \"now add a test\"                         goes on with the last session
  baton exec -c \"/compact the parser\"                    makes it shorter, and keeps what counts

Exit codes: 0 done · 2 bad input · 3 the task failed · 4 a person is needed · 5 a cap was reached
  6 provider, key or quota · 8 workspace conflict · 130/143 interrupted · 1 internal error
")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// What to do; - reads it from standard input
    prompt: Option<String>,
    /// The model: provider/name[:effort], or fast, default, powerful
    #[arg(short, long)]
    model: Option<String>,
    /// How hard the model should think: minimal, low, medium, high, max
    #[arg(long, value_parser = parse_effort)]
    effort: Option<Effort>,
    /// Print events as JSON lines
    #[arg(long)]
    json: bool,
    /// Print in the form of another agent: text, json and stream-json (Claude Code), codex-json
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with = "json", hide_possible_values = true)]
    output_format: Option<OutputFormat>,
    /// Also write the final answer to this file
    #[arg(short, long = "output-last-message", value_name = "FILE")]
    output: Option<PathBuf>,
    /// The final answer must be JSON that matches the schema in this file; else it is asked for again, twice at most
    #[arg(long, value_name = "FILE", alias = "json-schema")]
    output_schema: Option<PathBuf>,
    /// Keep the traffic with the model in a new file; -m cassette/FILE replays it without key or network
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// What may be done unasked: ask, accept-edits, plan, auto, deny, yolo [default: auto where there is a sandbox]
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<PermissionMode>,
    /// Approve the plan of this hash, which --permission-mode plan has made, and carry it out
    #[arg(long, value_name = "HASH")]
    plan: Option<String>,
    /// Go on with the last session of this project
    #[arg(short, long = "continue", help_heading = "Sessions")]
    continue_: bool,
    /// Go on with this session; the end of its id is enough
    #[arg(short, long, help_heading = "Sessions", value_name = "ID", conflicts_with = "continue_")]
    resume: Option<String>,
    /// With -c or -r: leave that session as it is, and go on in a copy
    #[arg(long, help_heading = "Sessions", alias = "fork-session")]
    fork: bool,
    /// Keep no session
    #[arg(long, help_heading = "Sessions", conflicts_with_all = ["continue_", "resume", "fork"])]
    ephemeral: bool,
    /// Trust this repository as it is now, for this run
    #[arg(long)]
    trust: bool,
    /// Send the prompt as it is, even if it holds what looks like a secret
    #[arg(long)]
    send_secrets: bool,
    /// Let the provider search the web by itself, where it can
    #[arg(long)]
    web_search: bool,
    /// Attach a picture (repeatable)
    #[arg(short, long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// End after this many model calls [default: 500]
    #[arg(long, help_heading = "Caps", value_name = "N", alias = "max-turns", value_parser = clap::value_parser!(u32).range(1..))]
    max_steps: Option<u32>,
    /// Spend at most this many dollars
    #[arg(long, help_heading = "Caps", value_name = "X", alias = "max-budget-usd", value_parser = parse_usd)]
    max_usd: Option<Usd>,
    /// Use at most this many tokens
    #[arg(long, help_heading = "Caps", value_name = "N")]
    max_tokens: Option<u64>,
    /// End after this many seconds
    #[arg(long, help_heading = "Caps", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_time: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OutputFormat {
    Text,
    Json,
    StreamJson,
    CodexJson,
}

impl Args {
    fn format(&self) -> Format {
        match self.output_format {
            None if self.json => Format::Events,
            None | Some(OutputFormat::Text) => Format::Text,
            Some(OutputFormat::Json) => Format::Result,
            Some(OutputFormat::StreamJson) => Format::StreamJson,
            Some(OutputFormat::CodexJson) => Format::CodexJson,
        }
    }
}

impl Args {
    fn session(&self) -> Result<Which<'_>, Fault> {
        let goes_on = self.continue_ || self.resume.is_some();
        if self.fork && !goes_on {
            return Err(
                Fault::input("--fork needs a session to copy").hint("name it with -r ID, or take the last with -c")
            );
        }
        Ok(match goes_on {
            true => Which::Old { name: self.resume.as_deref(), fork: self.fork },
            false if self.ephemeral => Which::None,
            false => Which::New,
        })
    }
}

fn parse_effort(text: &str) -> Result<Effort, String> {
    text.parse().map_err(|()| "one of minimal, low, medium, high, max".to_owned())
}

pub fn parse_usd(text: &str) -> Result<Usd, String> {
    let dollars = text.trim_start_matches('$').parse().ok();
    dollars.and_then(Usd::from_dollars).ok_or_else(|| "an amount in dollars, for example 0.50".to_owned())
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    if let Some(said) = args.prompt.as_deref().filter(|prompt| is_correction(prompt)) {
        return propose(said, args.json);
    }
    block_on(async {
        let mut signals = Signals::new().map_err(|error| Fault::internal(format!("cannot hear signals: {error}")))?;
        tokio::select! {
            biased;
            prepared = prepare(global, args) => {
                let Prepared { options, op, recording, prunes } = prepared?;
                let finish = exec(options, op, args.format(), &mut signals).await;
                if let Some(file) = &args.output {
                    write_answer(&global.dir.clone().unwrap_or_default().join(file), &finish.text)?;
                }
                if let Some(recording) = recording {
                    recording.finish().await?;
                }
                if let Some((sessions, settings)) = prunes {
                    prune_daily(sessions, settings).await;
                }
                Ok(Exit::from(&finish))
            }
            signal = signals.next() => Ok(Exit::Signal(signal)),
        }
    })
}

/// Whether a prompt is a correction: one line that begins with `#`. A text of several lines is a document.
fn is_correction(prompt: &str) -> bool {
    prompt.starts_with('#') && !prompt.trim().contains('\n')
}

/// What a prompt that asks for a compaction means, if it is one: `/compact`, and what to dwell on.
fn compaction(prompt: &str) -> Option<Op> {
    let rest = prompt.trim().strip_prefix("/compact")?;
    let focus = Some(rest.trim().to_owned()).filter(|focus| !focus.is_empty());
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(Op::Compact { focus })
}

/// Shows the rules that say what the person said, and how to keep them. No model is asked.
fn propose(said: &str, as_json: bool) -> Result<Exit, Fault> {
    let Some(proposal) = correction(said) else {
        let message = "a prompt of one line that begins with `#` is a correction, and this one gives no rule";
        return Err(Fault::input(message).hint(
            "write the rule itself (baton guard add 'Bash(git push:*)'), or leave the `#` out to speak to the agent",
        ));
    };
    let mut out = std::io::stdout().lock();
    let written = if as_json {
        writeln!(out, "{}", json!({"correction": proposal}))
    } else {
        let quoted = proposal.said.replace('\'', "'\\''");
        let rules = proposal.rules.iter().map(|one| format!("{}  {}\n", one.verdict, one.rule));
        let rules = rules.collect::<Vec<_>>().concat();
        writeln!(out, "{rules}to keep these rules for every agent: baton guard add --yes '{quoted}'")
    };
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(Exit::Done)
}

fn write_answer(file: &Path, text: &str) -> Result<(), Fault> {
    std::fs::write(file, text)
        .map_err(|error| Fault::input(format!("cannot write the answer to {}: {error}", file.display())))
}

/// All that a turn needs.
struct Prepared {
    options: baton_agent::Options,
    op: Op,
    recording: Option<Recording>,
    /// What may have to be pruned afterwards, unless nothing is kept anyway.
    prunes: Option<(Sessions, SessionSettings)>,
}

async fn prepare(global: &Global, args: &Args) -> Result<Prepared, Fault> {
    let setup = Setup::vouched(global, args.trust)?;
    log::start(&setup.state_dir()?, global.verbose, setup.redactor());
    setup.trust.log_what_is_refused(&setup.places, &setup.project)?;
    let limits = TurnLimits {
        steps: args.max_steps.unwrap_or(setup.limits.steps),
        usd: args.max_usd,
        tokens: args.max_tokens,
        seconds: args.max_time.or(setup.limits.seconds),
    };
    let plan = args.plan.as_deref().map(|digits| setup.plan(digits)).transpose()?;
    let mode = match plan {
        None => args.permission_mode,
        Some(_) => Some(setup.mode_of_plan(args.permission_mode)?),
    };
    let request = Request {
        model: args.model.as_deref(),
        effort: args.effort,
        web_search: args.web_search,
        mode,
        limits,
        record: args.record.as_deref(),
        session: args.session()?,
    };
    let (mut options, recording) = setup.conversation(request)?;
    let prunes = (!args.ephemeral).then(|| setup.kept_sessions()).transpose()?;
    let prunes = prunes.map(|sessions| (sessions, setup.sessions.clone()));
    if let Some(op) = args.prompt.as_deref().and_then(compaction) {
        return Ok(Prepared { options, op, recording, prunes });
    }
    let prompt = args.prompt.clone().or_else(|| plan.is_some().then(|| PROMPT.to_owned()));
    let input = Input { prompt, images: args.images.clone(), cwd: setup.cwd.clone() };
    let (mut prompt, notice) = gather(input).await?;
    options.notices.extend(notice);
    if !args.send_secrets {
        let (clean, found) = clean(prompt, options.executor.workspace().redactor());
        let notice = "secrets were taken out of the prompt; --send-secrets sends it as it is";
        options.notices.extend(found.then(|| notice.to_owned()));
        prompt = clean;
    }
    if let Some(plan) = &plan {
        setup.carry_out(plan, &mut options)?;
    }
    options.answer_schema = args.output_schema.as_deref().map(|file| read_schema(&setup.cwd.join(file))).transpose()?;
    Ok(Prepared { options, op: Op::Prompt { content: prompt }, recording, prunes })
}

fn read_schema(file: &Path) -> Result<AnswerSchema, Fault> {
    let unusable = |why: String| {
        Fault::input(format!("cannot use the schema {}: {why}", file.display()))
            .hint("give a file with a JSON schema, for example {\"type\": \"object\"}")
    };
    let text = std::fs::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
    let schema = serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
    AnswerSchema::new(schema).map_err(unusable)
}
