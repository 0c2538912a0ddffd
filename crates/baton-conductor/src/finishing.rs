//! Finishing: the result of a run goes back to where it came from, and those around it are told.

use std::sync::{Arc, PoisonError};

use baton_core::Fault;
use baton_workflow::{EffectId, End, EventBody, Kind, RunId, StateName};

use crate::conductor::Conductor;
use crate::live::{ConductError, Done, Facts, Live, in_the_way};
use crate::place::Place;
use crate::report::RunEventBody;
use crate::run_clone::CloneError;

impl Conductor {
    /// Where a run inside another one works: in the same clone, unless others work there at the same time.
    pub(crate) async fn place_of_child(&self, parent: &RunId, effect: &EffectId) -> Result<Arc<Place>, ConductError> {
        let parent = self.runs.get(parent).ok_or_else(|| ConductError::NoRun(parent.clone()))?;
        if shares_clone(parent, effect) {
            return Ok(Arc::clone(&parent.place));
        }
        let (around, clone) = (Arc::clone(&parent.place), parent.place.clone.part(RunId::child(effect).as_str()));
        let forked = tokio::task::spawn_blocking(move || {
            if !clone.tree().exists() {
                around.tree_that_counts()?;
            }
            clone.fork(&around.clone)?;
            Ok::<_, CloneError>(Arc::new(Place::new(clone)))
        });
        let forked = forked.await.map_err(|error| Fault::internal(error.to_string()))?;
        forked.map_err(|error| Fault::internal(error.to_string()).into())
    }

    /// Sees to the end of a run: its result goes back to where it came from.
    pub(crate) fn finish(&mut self, id: &RunId, effect: EffectId, end: End) {
        let Some(live) = self.runs.get(id) else { return };
        let (place, facts, run, total) =
            (Arc::clone(&live.place), Arc::clone(&live.facts), id.clone(), live.run.total());
        let evidence = live.run.evidence.clone();
        let (is_root, workflow) = (live.parent.is_none(), live.run.workflow.clone());
        let own = live.parent.as_ref().and_then(|(parent, effect)| {
            let parent = self.runs.get(parent)?;
            (!shares_clone(parent, effect)).then(|| (Arc::clone(&parent.place), effect.clone()))
        });
        self.tasks.spawn(async move {
            let seen_to = tokio::task::spawn_blocking(move || {
                let is_done = matches!(end, End::Done { .. });
                let brought = match own {
                    _ if !is_done => Ok(None),
                    Some((parent, started)) => take_in(&parent, &place, &started, &facts).map(|()| None),
                    None if is_root => bring_back(&place, &facts, &effect, &format!("{workflow}: run {run}")),
                    None => Ok(None),
                };
                let (end, branch, commit) = match brought {
                    Ok(Some(commit)) => (end, facts.branch.clone(), Some(commit)),
                    Ok(None) => (end, None, None),
                    Err(error) if error.is_of_machine() => return Done::Stalled(in_the_way(&error)),
                    Err(error) => {
                        let state = effect.state().or_else(|| StateName::parse("END").ok());
                        let reason = format!("the result could not be brought back: {error}");
                        (
                            state.map_or(End::Stopped { reason: reason.clone() }, |state| End::Escalated {
                                state,
                                reason,
                            }),
                            None,
                            None,
                        )
                    }
                };
                let told =
                    RunEventBody::Ended { end, branch, commit, tokens: total.tokens, cost_usd: total.usd, evidence };
                Done::Finished(run, effect, told)
            });
            match seen_to.await {
                Ok(done) => done,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        });
    }

    /// An end was seen to: those around the run are told.
    pub(crate) async fn finished(
        &mut self,
        id: &RunId,
        effect: &EffectId,
        told: RunEventBody,
    ) -> Result<(), ConductError> {
        let parent = self.runs.get(id).and_then(|live| live.parent.clone());
        let receipt = match &told {
            RunEventBody::Ended { commit: Some(commit), .. } => commit.clone(),
            _ => "seen to".to_owned(),
        };
        let is_done = matches!(&told, RunEventBody::Ended { end: End::Done { .. }, .. });
        self.reports.run(id, self.clock.now(), told.clone());
        if let (Some((parent, started)), RunEventBody::Ended { end, evidence, .. }) = (&parent, &told) {
            let body = EventBody::ChildEnded { effect: started.clone(), end: end.clone(), evidence: evidence.clone() };
            self.take_if_current(parent, body).await?;
        }
        self.settle(id, effect, &receipt).await?;
        // A run inside another one stays known: its agents may still tell what they used.
        if parent.is_none()
            && let Some(live) = self.runs.get(id).filter(|_| is_done)
        {
            let (clone, run) = (live.place.clone.clone(), id.clone());
            let removed = tokio::task::spawn_blocking(move || clone.remove(&run)).await;
            if let Ok(Err(error)) = removed {
                let text = format!("the clone could not be removed: {error}");
                self.reports.run(id, self.clock.now(), RunEventBody::Noticed { text });
            }
        }
        Ok(())
    }
}

/// Whether a run that an effect starts works in the same clone as the one that starts it.
fn shares_clone(parent: &Live, effect: &EffectId) -> bool {
    let state = effect.state().and_then(|state| parent.definition.workflow(&parent.run.workflow)?.state(&state));
    match state.map(|state| &state.kind) {
        Some(Kind::Parallel(_)) => false,
        Some(Kind::Each(each)) => each.at_once <= 1,
        _ => true,
    }
}

/// What is not committed yet becomes a commit, and the whole a branch; the last commit, if there is any.
fn bring_back(place: &Place, facts: &Facts, effect: &EffectId, message: &str) -> Result<Option<String>, CloneError> {
    if !place.clone.tree().exists() {
        // It was seen to before, up to the last step.
        return Ok(None);
    }
    let tree = place.tree_that_counts()?;
    place.clone.commit(&tree, message, effect, &facts.base, &facts.identity)?;
    let head = place.clone.head()?;
    if head == facts.base {
        return Ok(None);
    }
    if let Some(branch) = &facts.branch {
        place.clone.bring_back(branch)?;
    }
    Ok(Some(head))
}

/// What was handed in by a run inside another one becomes part of that one's work.
fn take_in(parent: &Place, part: &Place, started: &EffectId, facts: &Facts) -> Result<(), CloneError> {
    let _one_by_one = parent.joining.lock().unwrap_or_else(PoisonError::into_inner);
    part.tree_that_counts()?;
    parent.tree_that_counts()?;
    parent.clone.absorb(&part.clone, started, &facts.identity)?;
    parent.settle_as_it_is()
}
