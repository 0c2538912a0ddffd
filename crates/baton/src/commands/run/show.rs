//! Showing a run while it goes on: lines for people on stderr, or events for programs on stdout.

use std::io::Write;

use anstyle::{AnsiColor, Style as Colour};
use baton_agent::RandomIds;
use baton_conductor::{Report, RunEvent, RunEventBody};
use baton_core::{EventBody, EventId, ItemId};
use baton_workflow::End;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::screen::{self, harmless};

const BOLD: Colour = Colour::new().bold();
const DIM: Colour = Colour::new().dimmed();
const GREEN: Colour = AnsiColor::Green.on_default();
const RED: Colour = AnsiColor::Red.on_default();
const YELLOW: Colour = AnsiColor::Yellow.on_default();
/// How much of a text is shown on one line.
pub(super) const LINE_CELLS: usize = 160;

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Only what people should know in any case.
    Quiet,
}

/// Shows reports one after another.
pub(super) struct Show {
    style: Style,
    ids: RandomIds,
}

impl Show {
    pub(super) fn new(style: Style) -> Self {
        Self { style, ids: RandomIds::default() }
    }

    /// Shows everything until nobody reports any more. Blocks: whoever reads may sleep, and the run goes on meanwhile.
    pub(super) fn follow(self, mut reports: mpsc::UnboundedReceiver<Report>) {
        while let Some(report) = reports.blocking_recv() {
            match self.style {
                Style::Json => {
                    if let Some(line) = self.line(report) {
                        // Whoever read it may be gone; the run goes on all the same.
                        drop(writeln!(std::io::stdout().lock(), "{line}"));
                    }
                }
                Style::Text => {
                    if let Some(text) = in_words(&report) {
                        anstream::eprintln!("{text}");
                    }
                }
                Style::Quiet => {
                    if let Report::Run(event) = &report
                        && matches!(event.body, RunEventBody::Noticed { .. })
                    {
                        anstream::eprintln!("{}", run_in_words(event));
                    }
                }
            }
        }
    }

    /// The report in the form of every other event.
    fn line(&self, report: Report) -> Option<Value> {
        match report {
            Report::Agent { run, role, event } => {
                let mut value = serde_json::to_value(event).ok()?;
                let object = value.as_object_mut()?;
                object.insert("run".to_owned(), json!(run));
                object.insert("role".to_owned(), json!(role));
                Some(value)
            }
            Report::Run(event) => {
                let stamp = json!({
                    "v": 1, "id": EventId::fresh(&self.ids), "session": event.run, "item": ItemId::fresh(&self.ids),
                });
                let (mut stamp, body) = (stamp, serde_json::to_value(&event).ok()?);
                let object = stamp.as_object_mut()?;
                object.extend(body.as_object()?.clone());
                Some(stamp)
            }
        }
    }
}

/// A report for people; nothing if it is of no interest to them.
fn in_words(report: &Report) -> Option<String> {
    match report {
        // What ends the process is its last word anyway.
        Report::Run(event) => (!matches!(event.body, RunEventBody::Failed(_))).then(|| run_in_words(event)),
        Report::Agent { event, .. } => match &event.body {
            EventBody::ToolStarted { tool, input, .. } => {
                let what = ["command", "path", "pattern", "file_path"].iter().find_map(|key| input.get(key)?.as_str());
                Some(format!("    {DIM}{} {}{DIM:#}", one_line(tool), one_line(what.unwrap_or_default())))
            }
            // What was handed in is told by the run; what was not, by nobody else.
            EventBody::ToolEnded { tool, output, is_error: true, .. } if tool == "submit_evidence" => {
                Some(format!("    {YELLOW}{}{YELLOW:#}", one_line(output)))
            }
            EventBody::Retrying { reason, delay_ms, .. } => {
                Some(format!("    {YELLOW}waits {} s: {}{YELLOW:#}", delay_ms / 1000, one_line(reason)))
            }
            EventBody::Failed(fault) => Some(format!("    {RED}{}{RED:#}", one_line(&fault.to_string()))),
            _ => None,
        },
    }
}

/// An event of a run for people.
fn run_in_words(event: &RunEvent) -> String {
    match &event.body {
        RunEventBody::Preparing { text } => format!("{DIM}{}{DIM:#}", harmless(text)),
        RunEventBody::Started { workflow, resumed, .. } => {
            let goes = if *resumed { "goes on" } else { "begins" };
            format!("{BOLD}{workflow}{BOLD:#} {goes} ({})", event.run)
        }
        RunEventBody::Entered { state, role, attempt, .. } => {
            let role = role.as_ref().map(|role| format!(" {role}")).unwrap_or_default();
            let attempt = if *attempt > 1 { format!(" {YELLOW}attempt {attempt}{YELLOW:#}") } else { String::new() };
            format!("{BOLD}● {state}{BOLD:#}{role}{attempt}")
        }
        RunEventBody::Submitted { evidence, changed, .. } => {
            let fields = evidence.iter().map(|(name, value)| format!("{name}: {}", one_line(&plain(value))));
            let fields = fields.collect::<Vec<_>>().join(" · ");
            let files = if changed.is_empty() { String::new() } else { format!("[{}]", changed.join(", ")) };
            format!("    hands in {} {DIM}{}{DIM:#}", one_line(&fields), one_line(&files))
        }
        RunEventBody::Verifying { command, .. } => {
            format!("    {DIM}Baton runs `{}`, which takes a while…{DIM:#}", one_line(&command.to_string()))
        }
        RunEventBody::Verified { command, code, duration_ms, .. } => {
            let code = code.map_or_else(|| "did not end".to_owned(), |code| format!("exit {code}"));
            format!("    Baton runs `{}`: {code} ({duration_ms} ms)", one_line(&command.to_string()))
        }
        RunEventBody::Left { outcome, to, reason, .. } => {
            let is_bad = ["fail", "exhausted"].contains(&outcome.as_str());
            let colour = if is_bad { RED } else { GREEN };
            let reason = reason.as_ref().map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
            format!("    {colour}{outcome}{colour:#} → {to}{reason}")
        }
        RunEventBody::Failed(fault) => format!("{RED}{}{RED:#}", one_line(&fault.to_string())),
        RunEventBody::Acted { receipt, .. } => format!("    done: {}", one_line(receipt)),
        RunEventBody::Refused { role, text } => format!("    {RED}✗ refused to {role}:{RED:#} {}", one_line(text)),
        RunEventBody::Asked { question, options } => {
            let options: Vec<&str> = options.iter().map(baton_workflow::Outcome::as_str).collect();
            let how = if options.is_empty() { "…".to_owned() } else { options.join("|") };
            let question = harmless(question);
            format!("{YELLOW}? {question}{YELLOW:#}\n  answer with: baton run submit {} --answer {how}", event.run)
        }
        RunEventBody::Parked { reason } => {
            let reason = harmless(reason);
            // The cap is that of the whole, whichever part of it rests.
            let root = event.run.as_str().split('.').next().unwrap_or_default();
            format!(
                "{YELLOW}rests: {reason}{YELLOW:#}\n  go on with: baton run resume {root} --max-tokens N (or --max-usd X)"
            )
        }
        RunEventBody::Noticed { text } => format!("{YELLOW}{}{YELLOW:#}", harmless(text)),
        RunEventBody::Ended { end, branch, commit, tokens, cost_usd, .. } => {
            // A run inside another one is seen to by that.
            let is_open = !matches!(end, End::Done { .. }) && !event.run.as_str().contains('.');
            let end = match end {
                End::Done { .. } => format!("{GREEN}done{GREEN:#}"),
                End::Failed { state } => format!("{RED}ended in {state}{RED:#}"),
                End::Escalated { state, reason } => {
                    format!("{YELLOW}a person has to take over at {state}: {}{YELLOW:#}", harmless(reason))
                }
                End::Stopped { reason } => format!("{YELLOW}stopped: {}{YELLOW:#}", harmless(reason)),
            };
            let next = if is_open {
                format!("\n  why: baton run log {0} · its clone is kept: baton run status {0}", event.run)
            } else {
                String::new()
            };
            let branch = match (branch, commit) {
                (Some(branch), Some(commit)) => {
                    let short: String = commit.chars().take(10).collect();
                    format!(" · branch {BOLD}{branch}{BOLD:#} ({short})")
                }
                _ => String::new(),
            };
            format!("{end}{branch} · {tokens} tokens, {cost_usd} ({}){next}", event.run)
        }
    }
}

/// A value as people write it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The first line of a text, without what a terminal would obey, and not too long.
pub(super) fn one_line(text: &str) -> String {
    screen::one_line(text, LINE_CELLS)
}
