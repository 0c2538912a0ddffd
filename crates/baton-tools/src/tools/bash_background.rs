//! `bash_background`: starts commands that keep running, reads what they print, lists and kills them.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use baton_core::Access;
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::fence;
use crate::keep;
use crate::process::{Job, Phase, status_in_words};
use crate::shape::{cut_line, in_words};
use crate::spool::Kept;
use crate::{CallContext, Outcome, TypedTool};

/// How long a start is watched: a server that cannot begin mostly says so within this time.
const START_WAIT: Duration = Duration::from_secs(1);
/// A start that printed something and is quiet for this long has said what it had to say.
const START_QUIET: Duration = Duration::from_millis(300);
/// What is printed in one go is read in one go...
const QUIET: Duration = Duration::from_millis(50);
/// ... unless it does not stop.
const QUIET_WAIT_MAX: Duration = Duration::from_millis(250);
const WAIT_S_MAX: u64 = 60;
/// How long a pattern is waited for unless it is said.
const UNTIL_WAIT: Duration = Duration::from_secs(30);
/// How much of a command a list shows.
const COMMAND_BYTES_SHOWN: usize = 200;

/// Keeps commands running.
pub(crate) struct BashBackground;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Only needed to kill.
    action: Option<Action>,
    command: Option<String>,
    id: Option<u32>,
    /// Seconds to wait for output, at most 60.
    wait: Option<u64>,
    /// Wait for output that matches this regex instead.
    until: Option<String>,
    /// It survives the session.
    keep: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Start,
    Read,
    List,
    Kill,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    Start(&'a str),
    Read(u32),
    Kill(u32),
    List,
}

impl Input {
    fn asked(&self) -> Result<Asked<'_>, String> {
        match (self.action, &self.command, self.id) {
            (None | Some(Action::Start), Some(command), None) => Ok(Asked::Start(command)),
            (None | Some(Action::Read), None, Some(id)) => Ok(Asked::Read(id)),
            (Some(Action::Kill), None, Some(id)) => Ok(Asked::Kill(id)),
            (None | Some(Action::List), None, None) => Ok(Asked::List),
            _ => Err("not clear what to do: give `command` to start one, `id` to read from one, `id` and the action \
                      `kill` to end one, or nothing to list all"
                .to_owned()),
        }
    }

    fn wait(&self) -> Option<Duration> {
        self.wait.map(|seconds| Duration::from_secs(seconds.min(WAIT_S_MAX)))
    }

    fn until(&self) -> Result<Option<Regex>, String> {
        let parse = |text| RegexBuilder::new(text).multi_line(true).build();
        self.until.as_deref().map(parse).transpose().map_err(|error| format!("`until` is not a regex: {error}"))
    }
}

impl TypedTool for BashBackground {
    type Input = Input;
    const NAME: &'static str = "bash_background";
    const DESCRIPTION: &'static str = include_str!("bash_background.md");
    const ACCESS: Access = Access::Execute;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let background = cx.workspace.background();
        let until = input.until()?;
        match input.asked()? {
            Asked::Start(command) => {
                let kept = keep::before(command, cx).await;
                let started = background.start(command, input.keep.unwrap_or(false), cx).await;
                let missed = match &started {
                    Ok((_, job)) => tokio::select! {
                        missed = wait_for_start(job, input.wait(), until) => missed,
                        () = cx.cancel.cancelled() => None,
                    },
                    Err(_) => None,
                };
                // What it changes later is not known to be its work, and is refused like that of others.
                let kept = keep::after(kept, cx).await;
                let (id, job) = match started {
                    Ok(started) => started,
                    Err(why) => return Ok(Outcome::error(why).with("refused", true)),
                };
                let mut outcome = told(id, &job, missed, true);
                kept.tell(&mut outcome);
                outcome.is_error = matches!(job.log.phase(), Phase::Ended { status, .. } if !status.is_some_and(|status| status.success()));
                fence::mend(command, cx, &mut outcome).await;
                Ok(outcome)
            }
            Asked::Read(id) => {
                let job = background.get(id)?;
                let missed = tokio::select! {
                    missed = wait_for_output(&job, input.wait(), until) => missed,
                    () = cx.cancel.cancelled() => None,
                };
                let mut outcome = told(id, &job, missed, false);
                fence::mend(&job.command, cx, &mut outcome).await;
                Ok(outcome)
            }
            Asked::Kill(id) => {
                let job = background.get(id)?;
                job.end().await;
                let mut outcome = told(id, &job, None, false);
                fence::mend(&job.command, cx, &mut outcome).await;
                Ok(outcome)
            }
            Asked::List => Ok(Outcome::ok(list(&background.all()))),
        }
    }
}

/// Waits as long as the beginning is of interest; what was missed.
async fn wait_for_start(job: &Job, wait: Option<Duration>, until: Option<Regex>) -> Option<String> {
    if until.is_some() {
        return wait_for_output(job, wait, until).await;
    }
    let deadline = Instant::now() + wait.unwrap_or(START_WAIT);
    if job.log.wait(deadline).await {
        job.log.wait_for_quiet(START_QUIET, deadline).await;
    }
    None
}

/// Waits as long as it is asked to; what was missed.
async fn wait_for_output(job: &Job, wait: Option<Duration>, until: Option<Regex>) -> Option<String> {
    let missed = if let Some(until) = until {
        let wait = wait.unwrap_or(UNTIL_WAIT);
        let missed = format!("nothing matched `{until}` within {}", in_words(wait));
        let is_found = job.log.wait_for(until, Instant::now() + wait).await;
        (!is_found && job.is_running()).then_some(missed)
    } else if let Some(wait) = wait {
        job.log.wait(Instant::now() + wait).await;
        None
    } else {
        return None;
    };
    if missed.is_none() {
        job.log.wait_for_quiet(QUIET, Instant::now() + QUIET_WAIT_MAX).await;
    }
    missed
}

/// What it printed since the last time, and how it is.
fn told(id: u32, job: &Job, missed: Option<String>, is_new: bool) -> Outcome {
    let unread = job.log.read();
    let mut text = unread.output.text;
    text.truncate(text.trim_end_matches('\n').len());
    if text.is_empty() {
        text.push_str(if is_new { "(no output yet)" } else { "(no new output)" });
    }
    if is_new || unread.output.cut || unread.is_capped {
        let kept = match &job.path {
            Ok(path) if unread.is_capped => Kept::Capped(path.clone()),
            Ok(path) => Kept::Whole(path.clone()),
            Err(why) => Kept::Lost(std::io::Error::other(why.clone())),
        };
        text.push_str(&kept.note());
    }
    for note in missed.into_iter().chain([format!("{id}: {}", state(job, &unread.phase, is_new))]) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[{note}]");
    }
    let code = match unread.phase {
        Phase::Ended { status, .. } => status.and_then(|status| status.code()),
        _ => None,
    };
    let outcome = Outcome::ok(text)
        .with("id", id)
        .with("pid", job.pid)
        .with("running", !unread.phase.is_end())
        .with("exit_code", code)
        .with("truncated", unread.output.cut);
    match &job.path {
        Ok(path) => outcome.with("output_path", path.display().to_string()),
        Err(_) => outcome,
    }
}

/// How it is, in words.
fn state(job: &Job, phase: &Phase, with_pid: bool) -> String {
    let mut words = match phase {
        Phase::Running => format!("running for {}", in_words(job.began.elapsed())),
        Phase::RunsOn(status) => {
            format!("running on in the background of its shell, which ended ({})", status_in_words(Some(*status)))
        }
        Phase::Ended { status, is_killed, survivors, after } => {
            let how = if *is_killed { "killed".to_owned() } else { status_in_words(*status) };
            let rest =
                if *survivors > 0 { format!("; {survivors} processes could not be ended") } else { String::new() };
            return format!("{how} after {}{rest}", in_words(*after));
        }
    };
    if with_pid || job.is_kept {
        let _ = write!(words, ", pid {}", job.pid);
    }
    if job.is_kept {
        words.push_str(", kept: it goes on when the session ends");
    }
    words
}

fn list(jobs: &[(u32, Arc<Job>)]) -> String {
    if jobs.is_empty() {
        return "no background processes".to_owned();
    }
    let line = |(id, job): &(u32, Arc<Job>)| {
        let unread = match job.log.unread_lines() {
            0 => String::new(),
            lines => format!(", {lines} unread lines"),
        };
        let command = job.command.replace('\n', " ");
        format!("{id}: {}{unread}: {}", state(job, &job.log.phase(), false), cut_line(&command, COMMAND_BYTES_SHOWN))
    };
    jobs.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
