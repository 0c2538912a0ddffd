//! Preparing: the clone of a run, its set-up, and the tests on the base, before any agent comes.

use std::sync::Arc;

use baton_core::{Area, Clock, Fault, Tier};
use baton_workflow::{Argv, RunId};
use tokio_util::sync::CancellationToken;

use crate::copying::{copy_dir, remove};
use crate::report::{Reports, RunEventBody};
use crate::run_clone::{CloneError, RunClone};
use crate::stage::Stage;
use crate::workshop;

/// How much of a failing command people are shown.
const SHOWN_CHARS: usize = 2000;

/// What has to be done before a run can start.
pub struct Preparation {
    /// The run.
    pub run: RunId,
    /// Its clone.
    pub clone: RunClone,
    /// The commit that it starts from.
    pub base: String,
    /// Commands that make a fresh clone ready.
    pub setup: Vec<String>,
    /// The command that has to succeed on the base; none if there is no such command or it may fail.
    pub test: Option<String>,
    /// Directories of build caches.
    pub caches: Vec<String>,
}

impl Preparation {
    /// Makes the clone, and says why a run cannot start in it.
    pub async fn carry_out(
        self,
        stage: Arc<dyn Stage>,
        reports: &Reports,
        clock: &dyn Clock,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        let Self { run, clone, base, setup, test, caches } = self;
        let say = |text: String| reports.run(&run, clock.now(), RunEventBody::Preparing { text });
        say(format!("a clone at {}", clone.tree().display()));
        let (made, id) = (clone.clone(), run.clone());
        blocking(move || made.make(&id, &base)).await?;
        for command in setup {
            say(format!("set-up: {command}"));
            let ran = run_in(&stage, &clone.tree(), &command, stop).await?;
            if ran.code != Some(0) {
                return Err(failed(
                    "the set-up command",
                    &command,
                    &ran,
                    "mend `project.setup` in .baton/config.jsonc",
                ));
            }
        }
        let kept = clone.clone();
        let tree = blocking(move || kept.keep_base()).await?;
        let Some(test) = test else { return Ok(()) };
        say(format!("the tests on the base: {test}"));
        let (proof, dir) = (clone.clone(), clone.dir().join("proof-base"));
        let at = dir.clone();
        blocking(move || proof.check_out(&tree, &at)).await?;
        let ran = run_in(&stage, &dir, &test, stop).await?;
        if ran.code != Some(0) {
            let hint = "make them pass first, or let the workflow say `expects_red_base = True`: otherwise a failing test would prove \
                        nothing";
            return Err(failed("the tests fail on the base already:", &test, &ran, hint));
        }
        // What the tests built is a warm start for every verification: no agent had a hand in it.
        blocking(move || {
            for cache in caches {
                let (from, to) = (dir.join(&cache), clone.base().join(&cache));
                if from.is_dir() {
                    remove(&to)?;
                    copy_dir(&from, &to, &[])?;
                }
            }
            remove(&dir)
        })
        .await
    }
}

async fn run_in(
    stage: &Arc<dyn Stage>,
    dir: &std::path::Path,
    command: &str,
    stop: &CancellationToken,
) -> Result<workshop::Ran, Fault> {
    let argv = Argv::trusted(command).map_err(|error| Fault::input(format!("`{command}` cannot be run: {error}")))?;
    let (stage, dir) = (Arc::clone(stage), dir.to_owned());
    let tools = tokio::task::spawn_blocking(move || stage.workshop(&dir)).await;
    let tools = tools.map_err(|error| Fault::internal(error.to_string()))??;
    Ok(workshop::run(&tools, &argv, stop).await)
}

fn failed(what: &str, command: &str, ran: &workshop::Ran, hint: &str) -> Fault {
    let skip = ran.output.char_indices().rev().nth(SHOWN_CHARS).map_or(0, |(at, char)| at + char.len_utf8());
    let code = ran.code.map_or_else(|| "did not end by itself".to_owned(), |code| format!("exit code {code}"));
    let message = format!("{what} `{command}` ({code})\n{}", &ran.output[skip..]);
    Fault::new(Area::Task, Tier::UserFixable, message).hint(hint)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CloneError> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Fault::internal(error.to_string()))?;
    done.map_err(|error| Fault::new(Area::Workspace, Tier::UserFixable, error.to_string()))
}
