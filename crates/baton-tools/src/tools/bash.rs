//! `bash`: runs a command and tells the model how it ended.

use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::fence;
use crate::keep;
use crate::process::{self, Ending, Finished, Limits};
use crate::shape::in_words;
use crate::{CallContext, Outcome, TypedTool, Workspace};

const TIMEOUT_S_MAX: u64 = 1_800;
const REFUSED_SHOWN_MAX: usize = 8;

/// Runs shell commands.
#[derive(Default)]
pub(crate) struct Bash {
    limits: Limits,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    command: String,
    /// Seconds without output until it is stopped; 120 unless set, 1800 at most.
    timeout_s: Option<u64>,
}

impl TypedTool for Bash {
    type Input = Input;
    const NAME: &'static str = "bash";
    const DESCRIPTION: &'static str = include_str!("bash.md");
    const ACCESS: Access = Access::Execute;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let cwd = process::runs_in(&input.command, &cx.workspace)?;
        let mut limits = self.limits;
        if let Some(seconds) = input.timeout_s {
            limits.idle = Duration::from_secs(seconds.clamp(1, TIMEOUT_S_MAX));
        }
        let kept = keep::before(&input.command, cx).await;
        let ran = process::run(&input.command, &cwd, &limits, cx).await;
        let kept = keep::after(kept, cx).await;
        let finished = ran.map_err(|error| format!("the shell could not be started in {}: {error}", cwd.display()))?;
        let gone = follow(finished.cwd.as_deref().unwrap_or(&cwd), &cx.workspace);
        let mut outcome = outcome(finished, &limits, gone);
        kept.tell(&mut outcome);
        fence::mend(&input.command, cx, &mut outcome).await;
        Ok(outcome)
    }
}

/// Goes where the command went. Says so if there is nothing any more.
fn follow(cwd: &Path, workspace: &Workspace) -> Option<String> {
    let cwd = workspace.confinement().map_or_else(|| cwd.to_owned(), |confinement| confinement.outside(cwd, workspace));
    let there = cwd.is_absolute() && cwd.is_dir();
    workspace.set_cwd(if there { cwd } else { workspace.root().to_owned() });
    (!there).then(|| format!("the working directory is gone; it is {} now", workspace.root().display()))
}

fn outcome(finished: Finished, limits: &Limits, gone: Option<String>) -> Outcome {
    let code = finished.status.and_then(|status| status.code());
    let signal = finished.status.and_then(|status| status.signal());
    let mut notes = Vec::new();
    match (finished.ending, code) {
        (Ending::Exited, Some(0)) => {}
        (Ending::Exited, ..) => notes.push(process::status_in_words(finished.status)),
        (Ending::Cancelled, ..) => notes.push("cancelled".to_owned()),
        (Ending::Idle, ..) => notes.push(format!("killed: no progress for {}", in_words(limits.idle))),
        (Ending::Overdue, ..) => notes.push(format!("killed: it ran for {}", in_words(limits.total))),
    }
    if finished.leftovers > 0 {
        notes.push(format!("ended {} that ran on in the background", processes(finished.leftovers)));
    }
    if !finished.restored.is_empty() {
        let paths: Vec<_> = finished.restored.iter().map(|path| path.display().to_string()).collect();
        notes.push(format!("no command may change these, so they were put back: {}", paths.join(", ")));
    }
    if !finished.refused.is_empty() {
        let (shown, more) = finished.refused.split_at(finished.refused.len().min(REFUSED_SHOWN_MAX));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        notes.push(format!("refused by the sandbox, since not among sandbox.hosts: {}{more}", shown.join(", ")));
    }
    if finished.survivors > 0 {
        notes.push(format!("{} could not be ended", processes(finished.survivors)));
    }
    notes.extend(gone);

    let mut text = finished.output.text;
    text.truncate(text.trim_end_matches('\n').len());
    let shown = !text.is_empty();
    text.push_str(&finished.kept.note());
    for note in &notes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[{note}]");
    }
    // The notes bring their own line breaks; without output they begin with one.
    let text = if shown { text.as_str() } else { text.trim_start_matches('\n') };
    let is_error = code != Some(0) || finished.ending != Ending::Exited;
    let mut outcome = Outcome { is_error, ..Outcome::ok(if text.is_empty() { "(no output)" } else { text }) }
        .with("exit_code", code)
        .with("signal", signal)
        .with("duration_ms", u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX))
        .with("truncated", finished.output.cut);
    if finished.leftovers > 0 {
        outcome = outcome.with("leftovers", finished.leftovers);
    }
    finished.kept.tell(&mut outcome.meta);
    outcome
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests;
