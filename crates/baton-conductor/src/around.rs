//! Around: runs inside another one share what that may use.

use baton_core::{Tokens, Usd};
use baton_llm::{Budget, Caps};
use baton_workflow::{EventBody, Phase, RunId, Wait};

use crate::conductor::Conductor;
use crate::live::ConductError;

impl Conductor {
    /// What is left of the caps of the runs around this one. It is counted in one place for all of them.
    pub(crate) fn left_around(&mut self, id: &RunId) -> Vec<Budget> {
        let mut budgets = Vec::new();
        let mut inner = id.clone();
        while let Some((parent, _)) = self.runs.get(&inner).and_then(|live| live.parent.clone()) {
            if let Some(live) = self.runs.get(&parent)
                && let Some(workflow) = live.definition.workflow(&live.run.workflow)
            {
                let (caps, total) = (live.run.caps(workflow), live.run.total());
                let left = || Caps {
                    tokens: caps.tokens.map(|cap| cap.saturating_sub(total.tokens)),
                    usd: caps.usd.map(|cap| cap.saturating_sub(total.usd)),
                };
                let fresh = || (caps, Budget::new("run", left()));
                let known = self.around.entry(parent.clone()).or_insert_with(fresh);
                if known.0 != caps {
                    *known = fresh();
                }
                budgets.push(known.1.clone());
            }
            inner = parent;
        }
        budgets
    }

    /// Whether a run around this one has less left than the state in which this one is.
    pub(crate) fn has_less_around(&self, id: &RunId) -> bool {
        let Some(live) = self.runs.get(id) else { return false };
        let state = live.state().and_then(|name| live.definition.workflow(&live.run.workflow)?.state(name));
        let Some(state) = state else { return false };
        let spent = live.run.spent.get(&state.name).copied().unwrap_or_default();
        let tokens = state.limits.tokens.map_or(Tokens::MAX, |limit| limit.saturating_sub(spent.tokens));
        let usd = state.limits.usd.map_or(Usd::MAX, |limit| limit.saturating_sub(spent.usd));
        let mut around = std::iter::successors(live.parent.as_ref(), |(id, _)| self.runs.get(id)?.parent.as_ref());
        around.any(|(id, _)| {
            let around = self.runs.get(id);
            around.and_then(|live| Some((live, live.definition.workflow(&live.run.workflow)?))).is_some_and(
                |(live, workflow)| {
                    let (caps, total) = (live.run.caps(workflow), live.run.total());
                    caps.tokens.is_some_and(|cap| cap.saturating_sub(total.tokens) <= tokens)
                        || caps.usd.is_some_and(|cap| cap.saturating_sub(total.usd) <= usd)
                },
            )
        })
    }

    /// Once a run around this one has reached its cap, everybody inside it rests, whichever of them used it.
    pub(crate) async fn rest_inside(&mut self, run: &RunId) -> Result<(), ConductError> {
        let mut inner = run.clone();
        while let Some((parent, _)) = self.runs.get(&inner).and_then(|live| live.parent.clone()) {
            let around = self.runs.get(&parent).and_then(|live| {
                let workflow = live.definition.workflow(&live.run.workflow)?;
                live.run.cap_reached(workflow)
            });
            if let Some(reason) = around {
                let at_work =
                    self.runs.iter().filter(|(id, _)| self.is_inside(id, &parent)).filter_map(|(id, live)| {
                        let Phase::At(visit) = &live.run.phase else { return None };
                        let Wait::Agent { dispatch, .. } = &visit.wait else { return None };
                        Some((id.clone(), dispatch.clone()))
                    });
                for (id, effect) in at_work.collect::<Vec<_>>() {
                    let reason = reason.clone();
                    self.take_if_current(&id, EventBody::OutOfBudget { effect, reason, is_around: true }).await?;
                }
            }
            inner = parent;
        }
        Ok(())
    }

    /// Whether a run is part of another one.
    pub(crate) fn is_inside(&self, run: &RunId, around: &RunId) -> bool {
        let parent = |run: &RunId| self.runs.get(run)?.parent.as_ref().map(|(parent, _)| parent.clone());
        std::iter::successors(parent(run), parent).any(|above| above == *around)
    }
}
