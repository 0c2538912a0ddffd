//! States that are made of other runs: `parallel`, `each` and `call`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::enter::Begun;
use super::{Caps, EffectBody, End, Failure, Pending, Phase, Rejected, Stepper, Visit, Wait};
use crate::definition::{Call, Each, Given, Kind, State};
use crate::field::Evidence;
use crate::names::{EffectId, FieldName, Outcome, Player, RoleName, RunId, StateName};

impl Stepper<'_> {
    pub(super) fn begin_children(&mut self, state: &State, kept: BTreeMap<String, Value>) -> Begun {
        let all = match &state.kind {
            Kind::Parallel(parallel) => {
                let branches = parallel.branches.iter().zip(0..);
                branches.map(|((name, call), turn)| self.pending(name.to_string(), turn, call)).collect()
            }
            Kind::Each(each) => match self.items(each) {
                Ok(items) => items,
                Err(reason) => return Begun::Escalates(reason),
            },
            Kind::Call(call) => vec![self.pending("run".to_owned(), 0, call)],
            _ => Vec::new(),
        };
        let waiting: Vec<Pending> = all.into_iter().filter(|pending| !kept.contains_key(&pending.key)).collect();
        let wait = Wait::Children { running: BTreeMap::new(), waiting, done: kept, failed: BTreeMap::new() };
        match joined(state, &wait) {
            Some((outcome, reason)) => {
                self.record_children(state, &wait);
                Begun::Over(outcome, reason)
            }
            None => match self.cap_reached() {
                Some(reason) => Begun::Parks(wait, self.emit(&state.name, EffectBody::Park { reason })),
                None => Begun::Waits(self.start_children(state, wait)),
            },
        }
    }

    fn pending(&self, key: String, turn: u32, call: &Call) -> Pending {
        let params = call.params.iter().map(|(name, given)| {
            let value = match given {
                Given::Value(value) => value.clone(),
                Given::Template(template) => template.value(|reference| self.value(reference)),
            };
            (name.to_string(), value)
        });
        Pending { key, turn, workflow: call.workflow.clone(), params: params.collect() }
    }

    fn items(&self, each: &Each) -> Result<Vec<Pending>, String> {
        let list = match self.value(&each.over) {
            Some(Value::Array(items)) => items,
            Some(_) => return Err("there is no list to go over".to_owned()),
            None => Vec::new(),
        };
        if list.len() > each.max as usize {
            return Err(format!("the list has {} items, at most {} are taken", list.len(), each.max));
        }
        let items = list.into_iter().zip(0..).map(|(item, turn)| {
            let mut pending = self.pending(format!("item-{}", turn + 1), turn, &each.call);
            pending.params.insert(each.item.to_string(), item_text(item));
            pending
        });
        Ok(items.collect())
    }

    /// Starts as many of the waiting runs as may go on at the same time.
    pub(super) fn start_children(&mut self, state: &State, wait: Wait) -> Wait {
        let Wait::Children { mut running, mut waiting, done, failed } = wait else { return wait };
        let at_once = if let Kind::Each(each) = &state.kind { each.at_once as usize } else { usize::MAX };
        while running.len() < at_once && !waiting.is_empty() {
            let pending = waiting.remove(0);
            let run = RunId::child(&EffectId::numbered(&self.run.id, &state.name, self.run.effects + 1));
            let (caps, total) = (self.caps(), self.run.total());
            let body = EffectBody::StartChild {
                run,
                workflow: pending.workflow.clone(),
                params: pending.params.clone(),
                players: self.swapped(state, pending.turn),
                caps: Caps {
                    tokens: caps.tokens.map(|cap| cap.saturating_sub(total.tokens)),
                    usd: caps.usd.map(|cap| cap.saturating_sub(total.usd)),
                },
            };
            let effect = self.emit(&state.name, body);
            running.insert(effect, pending.key);
        }
        Wait::Children { running, waiting, done, failed }
    }

    /// The players of a run whose roles change places after every item.
    fn swapped(&self, state: &State, turn: u32) -> BTreeMap<RoleName, Player> {
        let Kind::Each(each) = &state.kind else { return BTreeMap::new() };
        let called = self.definition.workflow(&each.call.workflow);
        let Some(called) = called.filter(|_| !each.swap.is_empty()) else { return BTreeMap::new() };
        let player = |role: &RoleName| Player::new(format!("{}/{}/{role}", self.run.id, state.name));
        let seat = |role: &RoleName| match each.swap.iter().position(|known| known == role) {
            Some(place) => player(&each.swap[(place + turn as usize) % each.swap.len()]),
            None => player(role),
        };
        called.roles.keys().map(|role| (role.clone(), seat(role))).collect()
    }

    pub(super) fn child_ended(
        &mut self,
        mut visit: Visit,
        effect: &EffectId,
        end: &End,
        evidence: &BTreeMap<StateName, Evidence>,
    ) -> Result<(), Rejected> {
        let Some(state) = self.workflow.state(&visit.state) else { return Err(Rejected::Stale(effect.clone())) };
        let Wait::Children { running, done, failed, .. } = &mut visit.wait else {
            return Err(Rejected::Stale(effect.clone()));
        };
        let key = running.remove(effect).ok_or_else(|| Rejected::Stale(effect.clone()))?;
        let failure = match end {
            End::Done { .. } => None,
            End::Failed { state } => Some(Failure { reason: format!("it ended in `{state}`"), needs_person: false }),
            End::Escalated { state, reason } => {
                Some(Failure { reason: format!("`{state}` escalated: {reason}"), needs_person: true })
            }
            End::Stopped { reason } => {
                Some(Failure { reason: format!("it was stopped: {reason}"), needs_person: true })
            }
        };
        match failure {
            None => {
                let brought = evidence.iter().map(|(state, evidence)| {
                    let fields = evidence.iter().map(|(name, value)| (name.to_string(), value.clone()));
                    (state.to_string(), Value::Object(fields.collect()))
                });
                done.insert(key, Value::Object(brought.collect()));
            }
            Some(failure) => {
                failed.insert(key, failure);
            }
        }
        self.run.phase = Phase::At(Box::new(visit.clone()));
        match joined(state, &visit.wait) {
            Some((outcome, reason)) => {
                if outcome == Outcome::PASS {
                    self.record_children(state, &visit.wait);
                }
                self.leave(outcome, reason);
            }
            None => match self.cap_reached() {
                Some(cap) if visit.wait.is_between_children() => self.park(visit, cap),
                _ => {
                    let wait = self.start_children(state, visit.wait.clone());
                    // The timer is for all of them together.
                    self.run.phase = Phase::At(Box::new(Visit { wait, ..visit }));
                }
            },
        }
        Ok(())
    }

    fn record_children(&mut self, state: &State, wait: &Wait) {
        let Wait::Children { done, .. } = wait else { return };
        let fields =
            done.iter().filter_map(|(key, value)| FieldName::parse(key).ok().map(|name| (name, value.clone())));
        self.run.evidence.insert(state.name.clone(), fields.collect());
    }
}

/// The outcome, once it is certain.
fn joined(state: &State, wait: &Wait) -> Option<(&'static str, Option<String>)> {
    let Wait::Children { running, waiting, done, failed } = wait else { return None };
    let open = running.len() + waiting.len();
    let all = open + done.len() + failed.len();
    let needed = if let Kind::Parallel(parallel) = &state.kind { parallel.join.needed(all) } else { all };
    if done.len() >= needed {
        return Some((Outcome::PASS, None));
    }
    if done.len() + open >= needed {
        return None;
    }
    let reasons: Vec<_> = failed.iter().map(|(key, failure)| format!("{key}: {}", failure.reason)).collect();
    let needs_person = failed.values().any(|failure| failure.needs_person);
    Some((if needs_person { Outcome::EXHAUSTED } else { Outcome::FAIL }, Some(reasons.join("; "))))
}

impl Wait {
    /// Whether one run has ended and the next has not begun.
    fn is_between_children(&self) -> bool {
        matches!(self, Self::Children { running, waiting, .. } if running.is_empty() && !waiting.is_empty())
    }
}

/// An item for a parameter that holds a text.
fn item_text(item: Value) -> Value {
    match item {
        Value::String(_) => item,
        other => Value::String(crate::template::plain_text(&other)),
    }
}
