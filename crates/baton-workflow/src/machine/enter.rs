//! Leaving a state and entering the next: the only places in which a run moves.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::Timestamp;
use serde_json::Value;

use super::{Act, Because, EffectBody, End, Left, Phase, Stepper, Visit, Wait};
use crate::command::Argv;
use crate::definition::{Action, Kind, Question, State};
use crate::names::{EffectId, Outcome, StateName};
use crate::template::Template;

/// What a state begins with.
pub(super) enum Begun {
    /// Something to wait for.
    Waits(Wait),
    /// A cap of the run is reached: this is waited for once it is raised.
    Parks(Wait, EffectId),
    /// There is nothing to do: it is over at once.
    Over(&'static str, Option<String>),
    /// It cannot be done at all.
    Escalates(String),
}

impl<'a> Stepper<'a> {
    /// The attempt failed.
    pub(super) fn fail(&mut self, reason: String) {
        self.leave(Outcome::FAIL, Some(reason));
    }

    /// Leaves the state in which the run is.
    pub(super) fn leave(&mut self, outcome: &str, reason: Option<String>) {
        let Some(visit) = self.run.visit().cloned() else { return };
        let Some(state) = self.workflow.state(&visit.state) else { return };
        self.release(&visit, reason.as_deref().unwrap_or(outcome));
        let to = state.target(outcome, self.workflow);
        // A retry keeps what was done inside it.
        let kept = match visit.wait {
            Wait::Children { done, .. } if outcome == Outcome::FAIL && *to == visit.state => done,
            _ => BTreeMap::new(),
        };
        let because = self.left(&visit.state, visit.attempt, visit.since, outcome, to, reason);
        self.enter_keeping(to, Some(because), kept);
    }

    /// A person has to take over, whatever the definition says about `exhausted`.
    pub(super) fn escalate(&mut self, reason: String) {
        let Some(visit) = self.run.visit().cloned() else { return };
        self.release(&visit, &reason);
        self.escalate_from(&visit.state, visit.attempt, visit.since, reason);
    }

    fn escalate_from(&mut self, state: &StateName, attempt: u32, since: Timestamp, reason: String) {
        let to = self.workflow.escalation();
        self.left(state, attempt, since, Outcome::EXHAUSTED, to, None);
        self.finish(to, End::Escalated { state: state.clone(), reason });
    }

    /// Writes down that a state was left, and says so to the next.
    fn left(
        &mut self,
        state: &StateName,
        attempt: u32,
        since: Timestamp,
        outcome: &str,
        to: &StateName,
        reason: Option<String>,
    ) -> Because {
        let is_passed = ![Outcome::FAIL, Outcome::EXHAUSTED].contains(&outcome);
        let evidence = self.run.evidence.get(state).filter(|_| is_passed).cloned();
        let (state, outcome, at) = (state.clone(), Outcome::new(outcome), self.run.now);
        self.run.trail.push(Left {
            state: state.clone(),
            attempt,
            outcome: outcome.clone(),
            to: to.clone(),
            since,
            at,
        });
        Because { state, outcome, reason, evidence }
    }

    pub(super) fn enter(&mut self, name: &'a StateName, because: Option<Because>) {
        self.enter_keeping(name, because, BTreeMap::new());
    }

    /// Enters a state; one that is used up is passed by on its way `exhausted`, one that is over at once on its outcome.
    fn enter_keeping(&mut self, name: &'a StateName, because: Option<Because>, kept: BTreeMap<String, Value>) {
        let (mut name, mut because, mut kept) = (name, because, kept);
        let mut passed_by = BTreeSet::new();
        let now = self.run.now;
        loop {
            let Some(state) = self.workflow.state(name) else { return };
            if let Some(end) = ending(state, because.as_ref()) {
                self.finish(name, end);
                return;
            }
            if let Some(reason) = self.used_up(state) {
                let said = because.as_ref().and_then(|because| because.reason.as_deref());
                let reason = said.map_or(reason.clone(), |said| format!("{reason}; at last: {said}"));
                // A proof says that this does not go round; if it does, a person is called.
                if !passed_by.insert(name) {
                    self.escalate_from(name, 0, now, reason);
                    return;
                }
                let to = state.target(Outcome::EXHAUSTED, self.workflow);
                because = Some(self.left(name, 0, now, Outcome::EXHAUSTED, to, Some(reason)));
                name = to;
                kept = BTreeMap::new();
                continue;
            }
            let attempt = self.count_attempt(name);
            match self.begin(state, attempt, because.as_ref(), std::mem::take(&mut kept)) {
                Begun::Waits(wait) => {
                    let deadline = self.deadline(state);
                    let timer = self.emit(name, EffectBody::SetTimer { deadline });
                    let visit = Visit { state: name.clone(), attempt, since: now, because, timer, deadline, wait };
                    self.run.phase = Phase::At(Box::new(visit));
                    return;
                }
                Begun::Parks(wait, timer) => {
                    let visit = Visit { state: name.clone(), attempt, since: now, because, timer, deadline: now, wait };
                    self.run.phase = Phase::Parked(Box::new(visit));
                    return;
                }
                Begun::Escalates(reason) => {
                    self.escalate_from(name, attempt, now, reason);
                    return;
                }
                Begun::Over(outcome, reason) => {
                    let to = state.target(outcome, self.workflow);
                    because = Some(self.left(name, attempt, now, outcome, to, reason));
                    name = to;
                }
            }
        }
    }

    /// Why a state cannot be tried any more.
    fn used_up(&self, state: &State) -> Option<String> {
        let tried = self.run.attempts.get(&state.name).copied().unwrap_or_default();
        if state.limits.attempts().is_some_and(|most| u64::from(tried) >= most) {
            return Some(format!("`{}` was tried {tried} times", state.name));
        }
        self.budget_used(&state.name)
    }

    /// An attempt begins; what the state froze may be changed again.
    fn count_attempt(&mut self, name: &StateName) -> u32 {
        self.run.frozen.thaw(name);
        let attempts = self.run.attempts.entry(name.clone()).or_default();
        *attempts = attempts.saturating_add(1);
        *attempts
    }

    fn begin(
        &mut self,
        state: &State,
        attempt: u32,
        because: Option<&Because>,
        kept: BTreeMap<String, Value>,
    ) -> Begun {
        match &state.kind {
            Kind::Agent(work) => {
                if let Some(reason) = self.cap_reached() {
                    let park = self.emit(&state.name, EffectBody::Park { reason });
                    return Begun::Parks(Wait::Agent { dispatch: park.clone(), reminded: false }, park);
                }
                let dispatch = self.dispatch(state, work, attempt, because.cloned());
                Begun::Waits(Wait::Agent { dispatch, reminded: false })
            }
            Kind::Action(action) => self.act(state, action),
            Kind::Human(question) => Begun::Waits(Wait::Person { ask: self.ask(state, question) }),
            Kind::Parallel(_) | Kind::Each(_) | Kind::Call(_) => self.begin_children(state, kept),
            Kind::Done { .. } | Kind::Escalate => Begun::Over(Outcome::PASS, None),
        }
    }

    pub(super) fn ask(&mut self, state: &State, question: &Question) -> EffectId {
        let text = question.text.render(|reference| self.value(reference));
        self.emit(&state.name, EffectBody::Ask { question: text, options: question.options.clone() })
    }

    fn act(&mut self, state: &State, action: &Action) -> Begun {
        let fill = |template: &Template| template.render(|reference| self.value(reference));
        let action = match action {
            Action::Commit { message } => Act::Commit { message: fill(message) },
            Action::Command { argv, is_idempotent } => match Argv::new(argv.iter().map(fill).collect()) {
                Ok(argv) => Act::Command { argv, idempotent: *is_idempotent },
                Err(error) => return Begun::Escalates(format!("the command cannot be run: {error}")),
            },
        };
        let effect = self.emit(&state.name, EffectBody::Act { action: action.clone() });
        Begun::Waits(Wait::Action { effect, action })
    }
}

fn ending(state: &State, because: Option<&Because>) -> Option<End> {
    match &state.kind {
        Kind::Done { is_failure: false } => Some(End::Done { state: state.name.clone() }),
        Kind::Done { is_failure: true } => Some(End::Failed { state: state.name.clone() }),
        Kind::Escalate => {
            let from = because.map_or_else(|| state.name.clone(), |because| because.state.clone());
            let reason = because.map(|because| {
                because
                    .reason
                    .clone()
                    .unwrap_or_else(|| format!("`{}` ended with `{}`", because.state, because.outcome))
            });
            Some(End::Escalated {
                state: from,
                reason: reason.unwrap_or_else(|| "the workflow starts here".to_owned()),
            })
        }
        _ => None,
    }
}
