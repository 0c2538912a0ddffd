//! The state machine of a run: one event in, the next state and the effects owed out. Nothing else changes a run.

mod agent;
mod children;
mod effect;
mod enter;
mod event;
mod run;

use baton_core::{Timestamp, Tokens, Usd};

use crate::definition::{Definition, Kind, State, Workflow};
use crate::names::{EffectId, Outcome, StateName};
use crate::param::Params;
use crate::problem::suggestion;
use crate::template::Reference;

pub use effect::{Act, Because, Dispatch, Effect, EffectBody};
pub use event::{Event, EventBody, Seen};
pub use run::{Caps, End, Failure, Left, Pending, Phase, Run, Spending, Submission, Visit, Wait};

/// Why an event changes nothing. The run stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The run has another definition.
    #[error("the run is of another definition")]
    Definition,
    /// It was not started, or it was started before.
    #[error("the run is {0}")]
    Phase(&'static str),
    /// It answers something that nobody waits for any more: a second copy, or too late.
    #[error("nobody waits for {0} any more")]
    Stale(EffectId),
    /// The timer has not run out yet, by the run's own time.
    #[error("the timer {0} has not run out yet")]
    Early(EffectId),
    /// What was given does not fit; it can be given again.
    #[error("{}", .0.join("; "))]
    Malformed(Vec<String>),
}

/// The next state of the run and what it owes; or why the event does not count.
pub fn step(definition: &Definition, run: &Run, event: &Event) -> Result<(Run, Vec<Effect>), Rejected> {
    let workflow = definition.workflow(&run.workflow).filter(|_| *definition.hash() == run.definition);
    let workflow = workflow.ok_or(Rejected::Definition)?;
    let mut stepper = Stepper { definition, workflow, run: run.clone(), effects: Vec::new() };
    stepper.run.now = run.now.max(event.at);
    stepper.take(&event.body)?;
    Ok((stepper.run, stepper.effects))
}

/// One step under way.
struct Stepper<'a> {
    definition: &'a Definition,
    workflow: &'a Workflow,
    run: Run,
    effects: Vec<Effect>,
}

impl<'a> Stepper<'a> {
    fn take(&mut self, event: &EventBody) -> Result<(), Rejected> {
        match event {
            EventBody::Started { params, players, caps } => {
                if self.run.phase != Phase::Ready {
                    return Err(Rejected::Phase("started already"));
                }
                let given = params.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
                self.run.params = Params::given(&self.workflow.params, &given).map_err(Rejected::Malformed)?;
                self.run.players.clone_from(players);
                self.run.raised = *caps;
                self.enter(&self.workflow.start, None);
                return Ok(());
            }
            EventBody::Spent { effect, tokens, usd } => return self.spend(effect, *tokens, *usd),
            EventBody::CapRaised { tokens, usd } => return self.raise(*tokens, *usd),
            EventBody::Stopped { reason } => return self.stop(reason),
            EventBody::Noted { .. } => return Ok(()),
            _ => {}
        }
        let visit = match &self.run.phase {
            Phase::Ready => return Err(Rejected::Phase("not started")),
            Phase::Ended { .. } => return Err(Rejected::Phase("at its end")),
            Phase::Parked(_) => return Err(Rejected::Phase("parked at a cap")),
            Phase::At(visit) => visit.as_ref().clone(),
        };
        match event {
            EventBody::EvidenceSubmitted { effect, fields, work } => self.submitted(&visit, effect, fields, work),
            EventBody::Verified { effect, result } => self.verified(visit, effect, result),
            EventBody::TimedOut { effect } => self.timed_out(&visit, effect),
            EventBody::AttemptFailed { effect, reason } => self.attempt_failed(&visit, effect, reason),
            EventBody::AgentEnded { effect } => self.agent_ended(visit, effect),
            EventBody::OutOfBudget { effect, reason, is_around } => {
                self.out_of_budget(visit, effect, reason, *is_around)
            }
            EventBody::HelpRequested { effect, question } => self.help_requested(visit, effect, question),
            EventBody::PersonAnswered { effect, answer, comment } => self.answered(&visit, effect, answer, comment),
            EventBody::ActionDone { effect, receipt } => self.action_done(&visit, effect, receipt),
            EventBody::ActionFailed { effect, reason } => match &visit.wait {
                Wait::Action { effect: waiting, .. } if waiting == effect => {
                    self.fail(reason.clone());
                    Ok(())
                }
                _ => Err(Rejected::Stale(effect.clone())),
            },
            EventBody::ActionInDoubt { effect } => self.action_in_doubt(&visit, effect),
            EventBody::ChildEnded { effect, end, evidence } => self.child_ended(visit, effect, end, evidence),
            EventBody::Started { .. }
            | EventBody::Spent { .. }
            | EventBody::CapRaised { .. }
            | EventBody::Noted { .. }
            | EventBody::Stopped { .. } => Ok(()),
        }
    }

    fn emit(&mut self, state: &StateName, body: EffectBody) -> EffectId {
        self.run.effects += 1;
        let id = EffectId::numbered(&self.run.id, state, self.run.effects);
        self.effects.push(Effect { id: id.clone(), body });
        id
    }

    /// The state that a visit is in. Every name in a run is one of its definition, which does not change.
    fn state(&self, name: &StateName) -> Option<&'a State> {
        self.workflow.state(name)
    }

    fn value(&self, reference: &Reference) -> Option<serde_json::Value> {
        match reference {
            Reference::Param(name) => self.run.params.get(name).cloned(),
            Reference::Field(state, field) => {
                self.run.evidence.get(state).and_then(|evidence| evidence.get(field)).cloned()
            }
        }
    }

    fn timed_out(&mut self, visit: &Visit, effect: &EffectId) -> Result<(), Rejected> {
        if visit.timer != *effect {
            return Err(Rejected::Stale(effect.clone()));
        }
        if self.run.now < visit.deadline {
            return Err(Rejected::Early(effect.clone()));
        }
        match &visit.wait {
            Wait::Agent { .. } => self.fail("the time for this attempt ran out before there was evidence".to_owned()),
            Wait::Verification { submission, .. } => {
                let count = submission.results.len() + 1;
                self.fail(format!("command {count} of the verification did not end in time"));
            }
            Wait::Action { action, .. } => {
                if matches!(action, Act::Command { idempotent: true, .. }) {
                    self.fail("the action did not end in time".to_owned());
                } else {
                    self.escalate("an action did not end in time, and nobody knows whether it was done".to_owned());
                }
            }
            Wait::Children { .. } => self.fail("the runs inside did not end in time".to_owned()),
            Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. } => {
                self.leave(Outcome::EXHAUSTED, Some("nobody answered in time".to_owned()));
            }
        }
        Ok(())
    }

    fn attempt_failed(&mut self, visit: &Visit, effect: &EffectId, reason: &str) -> Result<(), Rejected> {
        let is_waited_for = match &visit.wait {
            Wait::Agent { dispatch: waiting, .. } | Wait::Verification { effect: waiting, .. } => waiting == effect,
            Wait::Children { running, .. } => running.contains_key(effect),
            Wait::Help { .. } | Wait::Approval { .. } | Wait::Action { .. } | Wait::Person { .. } => false,
        };
        if !is_waited_for {
            return Err(Rejected::Stale(effect.clone()));
        }
        self.fail(reason.to_owned());
        Ok(())
    }

    fn answered(&mut self, visit: &Visit, effect: &EffectId, answer: &str, comment: &str) -> Result<(), Rejected> {
        let (ask, submission) = match &visit.wait {
            Wait::Help { ask, .. } | Wait::Person { ask } => (ask, None),
            Wait::Approval { ask, submission } => (ask, Some(submission.clone())),
            _ => return Err(Rejected::Stale(effect.clone())),
        };
        if ask != effect {
            return Err(Rejected::Stale(effect.clone()));
        }
        if matches!(visit.wait, Wait::Help { .. }) {
            let said = [answer, comment].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
            self.resume(visit, Some(format!("a person answers: {said}")));
            return Ok(());
        }
        let options = self.state(&visit.state).map(State::required_outcomes).unwrap_or_default();
        if !options.iter().any(|option| option.as_str() == answer) {
            let hint = suggestion(answer, options.iter().map(Outcome::as_str)).unwrap_or_default();
            return Err(Rejected::Malformed(vec![format!("`{answer}` is not an answer: {hint}")]));
        }
        if let Some(submission) = submission {
            self.record(&visit.state, submission);
        }
        self.leave(answer, Some(comment.to_owned()).filter(|comment| !comment.is_empty()));
        Ok(())
    }

    fn action_done(&mut self, visit: &Visit, effect: &EffectId, receipt: &str) -> Result<(), Rejected> {
        match &visit.wait {
            Wait::Action { effect: waiting, .. } if waiting == effect => {
                self.leave(Outcome::PASS, Some(receipt.to_owned()).filter(|receipt| !receipt.is_empty()));
                Ok(())
            }
            _ => Err(Rejected::Stale(effect.clone())),
        }
    }

    /// Only a command that may be repeated is; whatever else is in doubt, a person has to look at.
    fn action_in_doubt(&mut self, visit: &Visit, effect: &EffectId) -> Result<(), Rejected> {
        match &visit.wait {
            Wait::Action { effect: waiting, action } if waiting == effect => {
                if matches!(action, Act::Command { idempotent: true, .. }) {
                    self.fail("it was not known whether the command ran, and it may be repeated".to_owned());
                } else {
                    self.escalate("after an interruption nobody knows whether the action was done".to_owned());
                }
                Ok(())
            }
            _ => Err(Rejected::Stale(effect.clone())),
        }
    }

    /// Money that was spent counts, whatever the run does meanwhile.
    fn spend(&mut self, effect: &EffectId, tokens: Tokens, usd: Usd) -> Result<(), Rejected> {
        let state = effect.state().filter(|name| self.state(name).is_some());
        let state = state.ok_or_else(|| Rejected::Stale(effect.clone()))?;
        self.run.spent.entry(state.clone()).or_default().add(tokens, usd);
        let Phase::At(visit) = &self.run.phase else { return Ok(()) };
        let visit = visit.as_ref().clone();
        if !matches!(&visit.wait, Wait::Agent { .. }) {
            return Ok(());
        }
        if let Some(cap) = self.cap_reached() {
            self.park(visit, cap);
        } else if visit.state == state
            && let Some(budget) = self.budget_used(&state)
        {
            self.leave(Outcome::EXHAUSTED, Some(budget));
        }
        Ok(())
    }

    fn caps(&self) -> Caps {
        self.run.caps(self.workflow)
    }

    fn cap_reached(&self) -> Option<String> {
        self.run.cap_reached(self.workflow)
    }

    /// Why a state can use nothing more.
    fn budget_used(&self, name: &StateName) -> Option<String> {
        let state = self.state(name).filter(|state| matches!(state.kind, Kind::Agent(_)))?;
        let spent = self.run.spent.get(name).copied().unwrap_or_default();
        if let Some(limit) = state.limits.tokens.filter(|limit| spent.tokens >= *limit) {
            return Some(format!("`{name}` has used {} of {limit} tokens", spent.tokens));
        }
        let limit = state.limits.usd.filter(|limit| spent.usd >= *limit)?;
        Some(format!("`{name}` has cost {} of {limit}", spent.usd))
    }

    /// The next step of an agent is more than what is left: of the run, which parks, or of the state, which is used up.
    fn out_of_budget(
        &mut self,
        visit: Visit,
        effect: &EffectId,
        reason: &str,
        is_around: bool,
    ) -> Result<(), Rejected> {
        match &visit.wait {
            Wait::Agent { dispatch, .. } if dispatch == effect => {}
            _ => return Err(Rejected::Stale(effect.clone())),
        }
        let (caps, total) = (self.caps(), self.run.total());
        let limits = self.state(&visit.state).map(|state| (state.limits.tokens, state.limits.usd)).unwrap_or_default();
        let spent = self.run.spent.get(&visit.state).copied().unwrap_or_default();
        let tokens_left = limits.0.map_or(Tokens::MAX, |limit| limit.saturating_sub(spent.tokens));
        let is_cap = is_around
            || caps.tokens.is_some_and(|cap| cap.saturating_sub(total.tokens) <= tokens_left)
            || caps.usd.is_some_and(|cap| {
                let left = cap.saturating_sub(total.usd);
                limits.1.is_none_or(|limit| left <= limit.saturating_sub(spent.usd))
            });
        if is_cap {
            self.park(visit, format!("too little is left of what the run may use ({reason})"));
        } else {
            self.leave(
                Outcome::EXHAUSTED,
                Some(format!("too little is left of what `{}` may use ({reason})", visit.state)),
            );
        }
        Ok(())
    }

    fn park(&mut self, visit: Visit, reason: String) {
        self.release(&visit, &reason);
        self.emit(&visit.state, EffectBody::Park { reason });
        self.run.phase = Phase::Parked(Box::new(visit));
    }

    /// A parked run goes on where it was: the attempt counts once.
    fn raise(&mut self, tokens: Option<Tokens>, usd: Option<Usd>) -> Result<(), Rejected> {
        if self.run.end().is_some() {
            return Err(Rejected::Phase("at its end"));
        }
        self.run.raised = Caps { tokens: tokens.or(self.run.raised.tokens), usd: usd.or(self.run.raised.usd) };
        if let Some(reason) = self.cap_reached() {
            return Err(Rejected::Malformed(vec![format!("{reason}: the new cap is not above that")]));
        }
        if let Phase::Parked(visit) = &self.run.phase {
            let visit = visit.as_ref().clone();
            self.resume(&visit, None);
        }
        Ok(())
    }

    fn stop(&mut self, reason: &str) -> Result<(), Rejected> {
        if self.run.end().is_some() {
            return Err(Rejected::Phase("at its end"));
        }
        let state = match &self.run.phase {
            Phase::At(visit) | Phase::Parked(visit) => {
                let visit = visit.as_ref().clone();
                self.release(&visit, reason);
                visit.state
            }
            Phase::Ready | Phase::Ended { .. } => self.workflow.start.clone(),
        };
        self.finish(&state, End::Stopped { reason: reason.to_owned() });
        Ok(())
    }

    fn finish(&mut self, state: &StateName, end: End) {
        self.emit(state, EffectBody::Finish { end: end.clone() });
        self.run.phase = Phase::Ended { end };
    }

    /// When a wait that begins now is over.
    fn deadline(&self, state: &State) -> Timestamp {
        self.run.now.checked_add(state.timeout()).unwrap_or(Timestamp::MAX)
    }
}
