//! Text for people and pipes: the answer on stdout, everything else on stderr.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use baton_core::{Block, EventBody, Fault, Message, Role, Tier, TurnReason, Usage, Usd};
use serde_json::{Map, Value};

const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();
const GREEN: Style = AnsiColor::Green.on_default();

/// The widest summary of a tool call.
const SUMMARY_MAX: usize = 100;

/// Writes to stderr in one piece: talk of several processes must not mix within a line.
fn talk(text: fmt::Arguments<'_>, end: &str) {
    // Whoever closed stderr does not want to hear.
    drop(anstream::stderr().write_all(format!("{text}{end}").as_bytes()));
}

/// Text of models and programs without what a terminal would obey: it could retitle, clear or answer for the person.
fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(obeyed) { Cow::Owned(text.replace(obeyed, "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

macro_rules! say {
    ($($text:tt)*) => { talk(format_args!($($text)*), "\n") };
}

macro_rules! say_on {
    ($($text:tt)*) => { talk(format_args!($($text)*), "") };
}

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Text {
    /// On a terminal the answer is written as it arrives; into a pipe goes only the final one.
    is_live: bool,
    is_stderr_terminal: bool,
    is_line_open: bool,
    refused: u32,
    /// The latest plan that waits for approval: its number, its hash, and what it asks for.
    plan: Option<Map<String, Value>>,
    countdown: Option<Countdown>,
    /// What is shown happened before: prompts are shown as well, and answers when they are whole.
    is_replay: bool,
}

struct Countdown {
    until: Instant,
    what: String,
}

impl Text {
    pub(super) fn new() -> Self {
        Self {
            is_live: io::stdout().is_terminal(),
            is_stderr_terminal: io::stderr().is_terminal(),
            is_line_open: false,
            refused: 0,
            plan: None,
            countdown: None,
            is_replay: false,
        }
    }

    /// Shows what happened before.
    pub(super) fn replaying() -> Self {
        Self { is_live: true, is_replay: true, ..Self::new() }
    }

    pub(super) fn show(&mut self, body: &EventBody) -> io::Result<()> {
        if !matches!(body, EventBody::Retrying { .. }) {
            self.end_countdown();
        }
        match body {
            EventBody::MessageDelta { text } if self.is_live => {
                self.is_line_open = !text.ends_with('\n');
                let mut stdout = io::stdout().lock();
                stdout.write_all(harmless(text).as_bytes())?;
                stdout.flush()?;
            }
            EventBody::TurnStarted { message, context } if self.is_replay => {
                let own = message.content.get(usize::try_from(*context).unwrap_or(0)..).unwrap_or_default();
                Self::said(own)?;
            }
            EventBody::MessageEnded { stop, message } => {
                self.end_line()?;
                let text = message.text();
                if self.is_replay && !text.is_empty() {
                    writeln!(io::stdout(), "{}", harmless(&text))?;
                }
                if stop.is_none() {
                    say!("{YELLOW}the answer broke off{YELLOW:#}");
                }
            }
            EventBody::ToolStarted { tool, input, .. } => {
                self.end_line()?;
                say!("{DIM}●{DIM:#} {} {DIM}{}{DIM:#}", harmless(tool), harmless(&summary(input)));
            }
            EventBody::ToolEnded { tool, is_error: false, meta, .. } if tool == "todo" => {
                for item in meta.get("items").and_then(Value::as_array).into_iter().flatten() {
                    say!("  {}", todo_line(item));
                }
            }
            EventBody::ToolEnded { tool, is_error: false, meta, .. } if tool == "plan" => {
                self.plan = meta.contains_key("hash").then(|| meta.clone());
            }
            EventBody::ToolEnded { output, is_error: true, .. } => {
                self.refused += u32::from(output.starts_with("refused: ") && output.contains("--permission-mode"));
                say!("  {YELLOW}✗ {}{YELLOW:#}", harmless(&last_words(output)));
            }
            EventBody::Retrying { attempt, attempts_max, delay_ms, tier, reason, .. } => {
                self.end_line()?;
                self.retrying(*attempt, *attempts_max, Duration::from_millis(*delay_ms), *tier, reason);
            }
            EventBody::Noticed { text } => say!("{YELLOW}note:{YELLOW:#} {}", harmless(text)),
            EventBody::Failed(fault) => {
                self.end_line()?;
                show_fault(fault);
            }
            EventBody::TurnEnded { reason, text, usage, cost_usd, steps, duration_ms, .. } => {
                self.end_line()?;
                if !self.is_live && !text.is_empty() {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(text.as_bytes())?;
                    stdout.write_all(b"\n")?;
                }
                if let Some(plan) = self.plan.take() {
                    show_plan(&plan);
                }
                self.summarise(*reason, *steps, usage, *cost_usd, *duration_ms);
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows what the person said.
    pub(super) fn said(content: &[Block]) -> io::Result<()> {
        let prompt = Message { role: Role::User, content: content.to_vec() }.text();
        let mut stdout = anstream::stdout().lock();
        harmless(&prompt).lines().try_for_each(|line| writeln!(stdout, "{CYAN}>{CYAN:#} {line}"))
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_line_open) {
            writeln!(io::stdout())?;
        }
        Ok(())
    }

    fn retrying(&mut self, attempt: u32, attempts_max: u32, delay: Duration, tier: Tier, reason: &str) {
        let colour = if tier == Tier::RateLimited { CYAN } else { YELLOW };
        say!("{colour}{}{colour:#}", harmless(reason));
        let what = format!("attempt {} of {attempts_max}", attempt + 1);
        if self.is_stderr_terminal {
            self.countdown = Some(Countdown { until: Instant::now() + delay, what });
            self.tick();
        } else {
            say!("trying again in {} ({what})", seconds(delay));
        }
    }

    pub(super) fn tick(&mut self) {
        if let Some(Countdown { until, what }) = &self.countdown {
            let left = until.saturating_duration_since(Instant::now());
            say_on!("\r\x1b[K{DIM}trying again in {} ({what}){DIM:#}", seconds(left));
        }
    }

    fn end_countdown(&mut self) {
        if self.countdown.take().is_some() {
            say_on!("\r\x1b[K");
        }
    }

    pub(super) fn stopping(&mut self) {
        self.end_countdown();
        say!("\n{YELLOW}stopping; once more to stop at once{YELLOW:#}");
    }

    fn summarise(&self, reason: TurnReason, steps: u32, usage: &Usage, cost: Usd, duration_ms: u64) {
        if self.refused > 0 {
            say!(
                "{CYAN}hint:{CYAN:#} some calls were refused; `baton guard check` says why, a rule or a --permission-mode allows them"
            );
        }
        let (colour, word) = match reason {
            TurnReason::Done => (GREEN, "done"),
            TurnReason::Cancelled => (YELLOW, "cancelled"),
            TurnReason::Steps | TurnReason::Budget | TurnReason::Time => (YELLOW, "stopped at a cap"),
            TurnReason::Blocked => (YELLOW, "a person is needed"),
            TurnReason::Failed | TurnReason::Error => (RED, "failed"),
        };
        let plural = if steps == 1 { "" } else { "s" };
        say!(
            "{colour}{word}{colour:#} {DIM}in {} · {steps} step{plural} · {} tokens in, {} out · {cost}{DIM:#}",
            seconds(Duration::from_millis(duration_ms)),
            usage.prompt_tokens(),
            usage.output_tokens,
        );
    }
}

/// An error with what to do next; also how the binary reports what went wrong before a turn.
pub fn show_fault(fault: &Fault) {
    say!("{RED}error:{RED:#} {}", harmless(&fault.message));
    if let Some(hint) = &fault.hint {
        say!("{CYAN}hint:{CYAN:#} {}", harmless(hint));
    }
}

/// A plan that nobody was there to approve, and how to do that.
fn show_plan(plan: &Map<String, Value>) {
    let text = |key: &str| plan.get(key).and_then(Value::as_str).unwrap_or_default();
    let hash = text("hash");
    let version = plan.get("version").and_then(Value::as_u64).unwrap_or_default();
    let grants = plan.get("grants").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let asks = if grants.is_empty() { "asks for nothing" } else { "asks for:" };
    say!("{CYAN}plan {version}{CYAN:#} {} {asks}", harmless(hash));
    for grant in grants.iter().filter_map(Value::as_str) {
        say!("  {}", harmless(grant));
    }
    say!("{CYAN}approve and carry out:{CYAN:#} baton exec --plan {}", harmless(hash.get(..12).unwrap_or(hash)));
}

/// An item of the agent's list, with a sign of how far it is.
fn todo_line(item: &Value) -> String {
    let text = harmless(item["text"].as_str().unwrap_or_default());
    match item["status"].as_str() {
        Some("done") => format!("{GREEN}✓{GREEN:#} {DIM}{text}{DIM:#}"),
        Some("doing") => format!("{CYAN}▸{CYAN:#} {text}"),
        _ => format!("○ {text}"),
    }
}

/// What a call is about, in a few words: its telling field, else all of it. A list is shown when it is kept.
fn summary(input: &Value) -> String {
    if input.get("items").is_some() {
        return String::new();
    }
    let field =
        ["command", "path", "pattern", "url", "question"].iter().find_map(|key| input.get(key).and_then(Value::as_str));
    let text = field.map_or_else(|| input.to_string(), str::to_owned);
    let line = text.lines().next().unwrap_or_default();
    let more = text.len() > line.len();
    match line.char_indices().nth(SUMMARY_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if more => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// The end of what a failed call said: a note in brackets stands behind the line that it is about.
fn last_words(text: &str) -> String {
    let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let cut = |line: &str| line[..line.floor_char_boundary(SUMMARY_MAX)].to_owned();
    match (lines.next(), lines.next()) {
        (Some(note), Some(line)) if note.starts_with('[') => format!("{} {}", cut(line), cut(note)),
        (Some(line), _) => cut(line),
        (None, _) => "failed".to_owned(),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_told_what_to_do() {
        assert_eq!(harmless("a\tb\nü 世界"), "a\tb\nü 世界");
        assert_eq!(harmless("\x1b]0;title\x07\r\u{9b}31m"), "\u{FFFD}]0;title\u{FFFD}\u{FFFD}\u{FFFD}31m");
    }

    #[test]
    fn the_end_of_a_failure_is_told() {
        assert_eq!(last_words("one\ntwo\n\n[exit 3]"), "two [exit 3]");
        assert_eq!(last_words("refused: no"), "refused: no");
        assert_eq!(last_words(""), "failed");
    }

    #[test]
    fn a_call_is_summed_up_by_its_telling_field() {
        assert_eq!(summary(&serde_json::json!({"command": "a\nb"})), "a …");
        assert_eq!(summary(&serde_json::json!({"path": "p", "old": "x"})), "p");
        assert_eq!(summary(&serde_json::json!({})), "{}");
    }
}
