//! Verifying and acting: the conductor's own hands. A gate is verified on a checkout that no agent can write.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_workflow::{Act, Argv, EffectId, EventBody, RunId, TreeHash, verify::CommandResult};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::conductor::Conductor;
use crate::copying::remove;
use crate::live::{ConductError, Done, Trouble};
use crate::report::RunEventBody;
use crate::workshop;

/// How long a command runs before people are told what is waited for.
const A_WHILE: Duration = Duration::from_secs(3);

impl Conductor {
    /// Runs a command for a gate, on a clean checkout that no agent can write.
    pub(crate) fn verify(&mut self, id: &RunId, effect: EffectId, argv: Argv, tree: TreeHash) {
        let Some(live) = self.runs.get(id) else { return };
        let (place, stage, run, cancel) =
            (Arc::clone(&live.place), Arc::clone(&self.stage), id.clone(), CancellationToken::new());
        self.working.insert(effect.clone(), cancel.clone());
        let (reports, clock) = (self.reports.clone(), Arc::clone(&self.clock));
        self.tasks.spawn(async move {
            let dir = place.clone.dir().join(format!("proof-{}", short(effect.as_str())));
            let ready = {
                let (place, tree, dir) = (Arc::clone(&place), tree.clone(), dir.clone());
                tokio::task::spawn_blocking(move || {
                    place.clone.check_out(&tree, &dir)?;
                    stage.workshop(&dir).map_err(|fault| Trouble::Work(fault.to_string()))
                })
            };
            let body = match ready.await.unwrap_or_else(|error| Err(error.into())) {
                Ok(tools) => {
                    let tell = || {
                        if let Some(state) = effect.state() {
                            let command = argv.clone();
                            reports.run(&run, clock.now(), RunEventBody::Verifying { state, command });
                        }
                    };
                    let ran = telling_if_long(workshop::run_to_its_end(&tools, &argv, &cancel), tell).await;
                    let result =
                        CommandResult { argv, code: ran.code, output: ran.output, duration_ms: ran.duration_ms, tree };
                    EventBody::Verified { effect, result }
                }
                Err(Trouble::Work(reason)) => {
                    EventBody::AttemptFailed { effect, reason: format!("it could not be verified: {reason}") }
                }
                Err(Trouble::Machine(fault)) => return Done::Stalled(fault),
            };
            clear(dir).await;
            Done::Event(run, body)
        });
    }

    /// Does something to the clone.
    pub(crate) async fn act(
        &mut self,
        id: &RunId,
        effect: EffectId,
        action: Act,
        is_begun: bool,
    ) -> Result<(), ConductError> {
        let journal = Arc::clone(&self.journal);
        if let Act::Command { idempotent: false, .. } = &action
            && is_begun
        {
            return self.take_if_current(id, EventBody::ActionInDoubt { effect }).await;
        }
        let Some(live) = self.runs.get(id) else { return Ok(()) };
        let (place, facts, stage, run) =
            (Arc::clone(&live.place), Arc::clone(&live.facts), Arc::clone(&self.stage), id.clone());
        let cancel = CancellationToken::new();
        self.working.insert(effect.clone(), cancel.clone());
        self.tasks.spawn(async move {
            let failed = |effect: EffectId, reason: String| EventBody::ActionFailed { effect, reason };
            let body = match action {
                Act::Commit { message } => {
                    let id = effect.clone();
                    let made = tokio::task::spawn_blocking(move || {
                        let tree = place.tree_that_counts()?;
                        place.clone.commit(&tree, &message, &id, &facts.base, &facts.identity)
                    });
                    match made.await {
                        Ok(Ok(Some(commit))) => EventBody::ActionDone { effect, receipt: commit },
                        Ok(Ok(None)) => failed(effect, "there is nothing to commit".to_owned()),
                        Ok(Err(error)) => match Trouble::from(error) {
                            Trouble::Machine(fault) => return Done::Stalled(fault),
                            Trouble::Work(reason) => failed(effect, reason),
                        },
                        Err(error) => failed(effect, error.to_string()),
                    }
                }
                Act::Command { argv, .. } => {
                    let (begun, id, tree) = (Arc::clone(&journal), effect.clone(), place.clone.tree());
                    let before = Arc::clone(&place);
                    let ready = tokio::task::spawn_blocking(move || {
                        begun.begin(&id).map_err(|error| error.to_string())?;
                        before.tree_that_counts().map_err(|error| error.to_string())?;
                        stage.workshop(&tree).map_err(|fault| fault.to_string())
                    });
                    match ready.await.unwrap_or_else(|error| Err(error.to_string())) {
                        Ok(tools) => {
                            let ran = workshop::run(&tools, &argv, &cancel).await;
                            let settled = tokio::task::spawn_blocking(move || place.forget_settled()).await;
                            match (ran.code, settled) {
                                (Some(0), Ok(Ok(()))) => {
                                    EventBody::ActionDone { effect, receipt: "exit code 0".to_owned() }
                                }
                                (code, _) => {
                                    let code = code.map_or_else(
                                        || "did not end by itself".to_owned(),
                                        |code| format!("ended with exit code {code}"),
                                    );
                                    failed(effect, format!("`{argv}` {code}:\n{}", ran.output))
                                }
                            }
                        }
                        Err(reason) => failed(effect, reason),
                    }
                }
                other => failed(effect, format!("this action is not known: {other:?}")),
            };
            Done::Event(run, body)
        });
        Ok(())
    }
}

/// Waits for something; after a while this is told.
async fn telling_if_long<T>(work: impl Future<Output = T>, tell: impl FnOnce()) -> T {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(A_WHILE) => tell(),
    }
    work.await
}

fn short(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(6).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

async fn clear(dir: PathBuf) {
    // What cannot be removed is removed with the clone.
    drop(tokio::task::spawn_blocking(move || remove(&dir)).await);
}
