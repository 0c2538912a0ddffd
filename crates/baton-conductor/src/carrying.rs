//! Carrying out: what each effect does to the world. Twice is harmless, or found out.

use std::sync::Arc;

use baton_core::Fault;
use baton_store::Settled;
use baton_workflow::{Effect, EffectBody, EffectId, EventBody, Params, Rejected, RunId};

use crate::conductor::Conductor;
use crate::live::ConductError;
use crate::report::RunEventBody;

impl Conductor {
    /// Begins to carry an effect out. `is_begun` says that somebody has before, and was stopped.
    pub(crate) async fn carry_out(&mut self, id: &RunId, effect: Effect, is_begun: bool) -> Result<(), ConductError> {
        let Effect { id: effect, body } = effect;
        match body {
            EffectBody::Dispatch(dispatch) => {
                let Some(live) = self.runs.get_mut(id) else { return Ok(()) };
                live.dispatches.insert(effect.clone(), (*dispatch).clone());
                let is_reminded = live
                    .owed
                    .values()
                    .any(|body| matches!(body, EffectBody::Remind { dispatch, .. } if *dispatch == effect));
                if is_reminded { Ok(()) } else { self.give_out(id, effect.clone(), effect, &dispatch, None).await }
            }
            EffectBody::Remind { dispatch: to, missing } => {
                let dispatch = self.runs.get(id).and_then(|live| match live.owed.get(&to) {
                    Some(EffectBody::Dispatch(dispatch)) => Some(dispatch.clone()),
                    _ => None,
                });
                match dispatch {
                    Some(dispatch) => self.give_out(id, effect, to, &dispatch, Some(missing)).await,
                    None => Ok(()),
                }
            }
            EffectBody::Verify { argv, tree } => {
                self.verify(id, effect, argv, tree);
                Ok(())
            }
            EffectBody::Act { action } => self.act(id, effect, action, is_begun).await,
            EffectBody::Ask { question, options } => {
                self.reports.run(id, self.clock.now(), RunEventBody::Asked { question, options });
                Ok(())
            }
            EffectBody::StartChild { run, workflow, params, players, caps } => {
                if self.runs.contains_key(&run) {
                    return Ok(());
                }
                let Some(parent) = self.runs.get(id) else { return Ok(()) };
                let (definition, facts) = (Arc::clone(&parent.definition), Arc::clone(&parent.facts));
                let place = self.place_of_child(id, &effect).await?;
                let child = self.fresh(
                    &run,
                    Arc::clone(&definition),
                    &workflow,
                    Some((id.clone(), effect.clone())),
                    place,
                    facts,
                )?;
                self.runs.insert(run.clone(), child);
                let types = definition.workflow(&workflow).map(|workflow| workflow.params.clone()).unwrap_or_default();
                let begun = match Params::given(&types, &params) {
                    Ok(params) => self.take(&run, EventBody::Started { params, players, caps }).await,
                    Err(problems) => Err(Rejected::Malformed(problems).into()),
                };
                match begun {
                    Err(ConductError::Rejected(why)) => {
                        self.runs.remove(&run);
                        self.take_if_current(id, EventBody::AttemptFailed { effect, reason: why.to_string() }).await
                    }
                    begun => begun,
                }
            }
            EffectBody::StopChild { run, reason } => {
                self.take_if_current(&run, EventBody::Stopped { reason }).await.or_else(|error| match error {
                    ConductError::NoRun(_) => Ok(()),
                    error => Err(error),
                })?;
                self.settle(id, &effect, "stopped").await
            }
            EffectBody::Finish { end } => {
                self.finish(id, effect, end);
                Ok(())
            }
            EffectBody::Park { reason } => {
                self.reports.run(id, self.clock.now(), RunEventBody::Parked { reason });
                Ok(())
            }
            // Agents are told by the token of their dispatch, and timers are looked at in every round.
            EffectBody::Release { .. } | EffectBody::SetTimer { .. } => Ok(()),
        }
    }

    /// Notes that an effect is not owed any more.
    pub(crate) async fn settle(&mut self, run: &RunId, effect: &EffectId, receipt: &str) -> Result<(), ConductError> {
        if let Some(live) = self.runs.get_mut(run) {
            live.owed.remove(effect);
        }
        let (journal, settled) =
            (Arc::clone(&self.journal), Settled { effect: effect.clone(), receipt: receipt.to_owned() });
        let written = tokio::task::spawn_blocking(move || journal.settle(vec![settled])).await;
        Ok(written.map_err(|error| Fault::internal(error.to_string()))??)
    }
}
