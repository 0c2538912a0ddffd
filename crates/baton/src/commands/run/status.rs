//! `baton run status`: where runs are, what they used, and what they wait for.

use std::fmt::Write;

use baton_agent::SystemClock;
use baton_core::{Clock, Fault};
use baton_store::Journal;
use baton_workflow::End;

use super::choosing::find;
use super::show::{LINE_CELLS, one_line};
use super::view::{Activity, Status, View, millis, waits_for};
use super::{looking, print, unusable};
use crate::Global;
use crate::exit::Exit;
use crate::screen;
use crate::setup::Setup;

pub(super) use super::view::is_waiting;

/// The least that is shown of where a run is.
const PLACE_CELLS: usize = 12;

/// Show runs, or one run: its state, what it waits for, what it used
#[derive(clap::Args)]
pub struct Args {
    /// The run; the end of its id is enough [default: all]
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let Some(store) = looking(&setup)? else {
        if let Some(name) = &args.run {
            return Err(Fault::input(format!("there is no run `{name}`")).hint("there are no runs in this project"));
        }
        anstream::eprintln!("there are no runs in this project; start one with `baton run start NAME`");
        return Ok(Exit::Done);
    };
    let view = View::of(&setup, store)?;
    let rows = match &args.run {
        Some(name) => vec![find(&view.store, name)?],
        None => view.store.runs(None).map_err(|error| unusable(&error))?,
    };
    let now = (!args.json).then(|| SystemClock.now());
    // Writing to a string cannot fail.
    let mut text = String::new();
    for row in &rows {
        let status = view.status(&row.id, now)?;
        if args.json {
            let _ = writeln!(text, "{}", status.json());
        } else if args.run.is_some() {
            text.push_str(&status.in_full());
        } else {
            let _ = writeln!(text, "{}", status.in_one_line());
        }
    }
    print(&text)?;
    Ok(Exit::Done)
}

impl Status {
    /// Where it is, in a few words.
    pub(super) fn place(&self) -> String {
        let inner = self.innermost();
        let (state, attempt) = inner.run.visit().map_or((String::new(), String::new()), |visit| {
            let attempt = if visit.attempt > 1 { format!(" attempt {}", visit.attempt) } else { String::new() };
            (visit.state.to_string(), attempt)
        });
        match (self.activity, self.run.end()) {
            (Activity::Over, Some(end)) => ended(end),
            (Activity::Working, Some(end)) => format!("{}: its result is seen to", ended(end)),
            (Activity::Interrupted, Some(end)) => format!("interrupted: {}, but that was not seen to", ended(end)),
            (Activity::Interrupted, None) => format!("interrupted in {state}{attempt}"),
            (Activity::Waiting, _) => format!("{state} waits for a person"),
            (Activity::Parked, _) => format!("rests: {}", self.rests.as_deref().unwrap_or_default()),
            (Activity::Working | Activity::Over, None) => {
                let wait = inner.run.visit().map_or("", |visit| waits_for(&visit.wait));
                format!("{state} {}{attempt}", inner.role.as_deref().unwrap_or(wait))
            }
        }
    }

    fn used(&self) -> String {
        let total = self.run.total();
        format!("{} tokens, {}", total.tokens, total.usd)
    }

    /// A row of a table: as wide as the terminal at most, if there is one.
    fn in_one_line(&self) -> String {
        let before = format!("{}  {:16} ", self.run.id, self.run.workflow.to_string());
        let after = format!("  {}", self.used());
        let around = screen::cells(&before) + screen::cells(&after);
        let room = screen::size().map_or(LINE_CELLS, |(columns, _)| columns.saturating_sub(around).max(PLACE_CELLS));
        format!("{before}{}{after}", screen::one_line(&self.place(), room))
    }

    /// The same alone, on a second line where one is too narrow.
    fn head(&self) -> String {
        let (what, place) = (format!("{}  {}", self.run.id, self.run.workflow), one_line(&self.place()));
        let (whole, columns) = (format!("{what}  {place}  {}\n", self.used()), screen::size().map(|size| size.0));
        if columns.is_none_or(|columns| screen::cells(whole.trim_end()) <= columns) {
            whole
        } else {
            format!("{what}\n  {}  {place}\n", self.used())
        }
    }

    /// Everything for people.
    pub(super) fn in_full(&self) -> String {
        let mut text = self.head();
        let (id, inner) = (&self.run.id, self.innermost());
        // Writing to a string cannot fail.
        if let Some(now) = self.now
            && matches!(self.activity, Activity::Working | Activity::Waiting)
        {
            let here = inner.run.visit().map(|visit| {
                let (state, lasts) = (&visit.state, span(millis(visit.since, now)));
                format!("{lasts} in {state}, ")
            });
            let _ = writeln!(text, "  time: {}{} in the run", here.unwrap_or_default(), span(millis(self.began, now)));
        }
        if let Some(End::Escalated { reason, .. } | End::Stopped { reason }) = self.run.end()
            && reason.trim().contains('\n')
        {
            let reason = screen::harmless(reason.trim()).replace('\n', "\n    ");
            let _ = writeln!(text, "  why:\n    {reason}");
        }
        if let Some((question, options)) = &inner.question {
            let question = screen::harmless(question.trim()).replace('\n', "\n    ");
            let _ = writeln!(text, "  asks: {question} [{}]", options.join(", "));
            let _ = writeln!(text, "  answer with: baton run submit {id} --answer …");
        }
        match self.activity {
            Activity::Interrupted => drop(writeln!(text, "  go on with: baton run resume {id}")),
            Activity::Parked => drop(writeln!(text, "  {}", how_to_raise(self))),
            _ => {}
        }
        if let Some(clone) = &self.clone {
            let _ = writeln!(text, "  clone: {clone}");
        }
        if let Some(branch) = &self.branch {
            let _ = writeln!(text, "  branch: {branch}");
        }
        self.write_states(&mut text, 1);
        text
    }

    fn write_states(&self, text: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        for used in &self.states {
            let outcome = used.outcome.clone().unwrap_or_else(|| "…".to_owned());
            let tries = if used.attempts > 1 { format!(" ({} attempts)", used.attempts) } else { String::new() };
            let tokens = used.tokens_in + used.tokens_out;
            let cost = if tokens > 0 { format!(", {tokens} tokens, {}", used.cost_usd) } else { String::new() };
            let lasts = match (&used.outcome, self.now) {
                // It changes every second.
                (None, Some(_)) => span(used.duration_ms),
                _ => format!("{}.{} s", used.duration_ms / 1000, used.duration_ms % 1000 / 100),
            };
            let _ = writeln!(text, "{indent}{:14} {outcome}{tries}  {lasts}{cost}", used.state);
        }
        for inner in &self.inside {
            let _ = writeln!(text, "{indent}{} ({})", inner.run.workflow, inner.run.id);
            inner.write_states(text, depth + 1);
        }
    }
}

/// How a parked run can go on.
pub(super) fn how_to_raise(status: &Status) -> String {
    let (id, used) = (&status.run.id, status.used());
    format!("go on with: baton run resume {id} --max-tokens N (or --max-usd X), above what is used: {used}")
}

/// A time for people, in whole seconds.
fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

pub(super) fn ended(end: &End) -> String {
    match end {
        End::Done { .. } => "done".to_owned(),
        End::Failed { state } => format!("failed in {state}"),
        End::Escalated { state, reason } => format!("escalated at {state}: {}", one_line(reason)),
        End::Stopped { reason } => format!("stopped: {}", one_line(reason)),
    }
}
