//! `baton guard check`: what the guard would say to a call, without running it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use baton_core::{Access, Fault, PermissionMode};
use baton_guard::path::{Pattern, resolve};
use baton_guard::{Call, Context, Decision, Rules, Scope, Verdict, analyse, evaluate_command, propose};
use serde::{Deserialize, Serialize};

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// The longest line of a batch.
const LINE_MAX: u64 = 4 * 1024 * 1024;

/// Say whether a command or a path would be allowed, asked for or denied
#[derive(clap::Args)]
#[command(after_help = "\
Prints allow, ask or deny with the rule that decided and the reason. Nothing is run, read or written.
Paths are judged by how they are written and by where they lead now; a file that is not there cannot
be read. The mode is accept-edits unless named, so that a path is judged by where it lies.

A batch has one JSON object per line, {\"command\": ...}, {\"read\": ...} or {\"write\": ...}, and is answered
by one per line, in order, with decision, rule and reason.

Examples:
  baton guard check --command 'git log | head'
  baton guard check --write ~/.bashrc --json
  baton guard check --batch calls.jsonl

Exit codes: 0 it was answered, whatever the answer · 2 bad input
")]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// The permission mode: ask, accept-edits, plan, auto, deny, yolo
    #[arg(long, value_name = "MODE", default_value = "accept-edits")]
    mode: PermissionMode,
    /// Judge as if commands ran in the sandbox, which matters in mode auto
    #[arg(long)]
    sandboxed: bool,
    /// Only these files of the workspace may be written (repeatable)
    #[arg(long, value_name = "GLOB")]
    scope: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A command of the shell
    #[arg(long, value_name = "CMD", allow_hyphen_values = true)]
    command: Option<String>,
    /// A path that would be read
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    read: Option<String>,
    /// A path that would be written
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    write: Option<String>,
    /// A file of questions, one JSON object per line; - reads them from standard input
    #[arg(long, value_name = "FILE")]
    batch: Option<PathBuf>,
}

/// A question to the guard.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Question {
    Command(String),
    Read(String),
    Write(String),
}

/// The guard's answer.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    decision: Decision,
    /// The rules that "always allow" would save.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    proposed: Vec<String>,
}

struct Guard {
    mode: PermissionMode,
    rules: Rules,
    context: Context,
}

impl Guard {
    fn answer(&self, question: &Question) -> Answer {
        let path = |text: &str, access| {
            let decision = resolve::decide(text, access, self.mode, &self.rules, &self.context);
            Answer { decision, proposed: Vec::new() }
        };
        match question {
            Question::Read(text) => path(text, Access::Read),
            Question::Write(text) => path(text, Access::Write),
            Question::Command(command) => {
                let scope = &self.context.scope;
                let analysis = analyse(command, scope);
                let decision = evaluate_command(&analysis, self.mode, &self.rules, &self.context);
                let proposed = if decision.verdict == Verdict::Ask {
                    propose(&Call::Command(command.clone()), Some(&analysis), scope)
                } else {
                    Vec::new()
                };
                Answer { decision, proposed }
            }
        }
    }
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let writable = (!args.scope.is_empty()).then(|| args.scope.iter().map(|glob| Pattern::new(glob)).collect());
    let scope = Scope { writable, ..setup.scope()? };
    let hosts = if args.sandboxed { setup.sandbox.hosts } else { Vec::new() };
    let context = Context { scope, sandboxed: args.sandboxed, hosts };
    let guard = Guard { mode: args.mode, rules: setup.rules, context };
    let What { command, read, write, batch } = &args.what;
    let unwritable = |error: io::Error| Fault::internal(format!("cannot write the output: {error}"));
    let one = command
        .clone()
        .map(Question::Command)
        .or_else(|| read.clone().map(Question::Read))
        .or_else(|| write.clone().map(Question::Write));
    if let Some(question) = one {
        print(&guard.answer(&question), args.json).map_err(unwritable)?;
        return Ok(Exit::Done);
    }
    let Some(file) = batch else { return Err(Fault::input("there is no question")) };
    let unreadable = |error: io::Error| Fault::input(format!("cannot read {}: {error}", file.display()));
    let mut lines: Box<dyn BufRead> = if file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file).map_err(unreadable)?))
    };
    let mut exit = Exit::Done;
    let mut out = io::stdout().lock();
    for number in 1_usize.. {
        let mut line = Vec::new();
        let length = lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(unreadable)?;
        if length == 0 {
            break;
        }
        if length as u64 == LINE_MAX && line.last() != Some(&b'\n') {
            return Err(Fault::input(format!("line {number} is longer than {LINE_MAX} bytes")));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match serde_json::from_slice::<Question>(&line) {
            Ok(question) => guard.answer(&question),
            Err(error) => {
                exit = Exit::Input;
                let reason = format!("line {number} is no question: {error}");
                Answer { decision: Decision::deny("guard.input", reason), proposed: Vec::new() }
            }
        };
        serde_json::to_writer(&mut out, &answer)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .map_err(unwritable)?;
    }
    Ok(exit)
}

fn print(answer: &Answer, json: bool) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let Answer { decision, proposed } = answer;
    if json {
        serde_json::to_writer(&mut out, answer)?;
        return writeln!(out);
    }
    writeln!(out, "{}  {}: {}", decision.verdict, decision.rule, decision.reason)?;
    if !proposed.is_empty() {
        writeln!(out, "to allow it always, add to permissions.allow: {}", proposed.join(", "))?;
    }
    Ok(())
}
