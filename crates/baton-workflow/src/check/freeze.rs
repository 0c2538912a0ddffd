//! Frozen files against roles: no gate may block the only role that could go on.

use std::collections::{BTreeMap, VecDeque};

use crate::definition::{Kind, State, Work, Workflow};
use crate::names::{Outcome, StateName};
use crate::problem::Problem;
use crate::scope::Glob;

/// Situations that are looked at; a workflow with more has too many states that freeze.
const SITUATIONS_MAX: usize = 100_000;
/// States that freeze, at most: a situation is a set of them.
const FREEZING_MAX: usize = 32;

/// Where a run is, and which states have frozen files (by bit).
type Situation = (usize, u32);

/// States in which a role is to write, but all that it may write can be frozen.
pub(super) fn problems(workflow: &Workflow) -> Vec<Problem> {
    let freezing: Vec<usize> =
        (0..workflow.states.len()).filter(|state| !frozen_by(workflow, *state).is_empty()).collect();
    if freezing.len() > FREEZING_MAX {
        let message = format!("more than {FREEZING_MAX} states freeze files");
        return vec![Problem::new(&workflow.at, message)];
    }
    let bit = |state: usize| freezing.iter().position(|known| *known == state).map_or(0, |bit| 1_u32 << bit);
    let index = |name: &StateName| workflow.states.iter().position(|state| state.name == *name);
    let Some(start) = index(&workflow.start) else { return Vec::new() };

    let mut from: BTreeMap<Situation, Option<Situation>> = BTreeMap::from([((start, 0), None)]);
    let mut waiting = VecDeque::from([(start, 0)]);
    let mut problems: BTreeMap<usize, Problem> = BTreeMap::new();
    while let Some(situation @ (at, frozen)) = waiting.pop_front() {
        let state = &workflow.states[at];
        let globs =
            freezing.iter().filter(|state| frozen & bit(**state) != 0).flat_map(|state| frozen_by(workflow, *state));
        if let Some(work) = blocked(workflow, state, &globs.collect::<Vec<_>>()) {
            problems.entry(at).or_insert_with(|| {
                let by = freezing.iter().filter(|state| frozen & bit(**state) != 0);
                let by: Vec<_> = by.map(|state| format!("`{}`", workflow.states[*state].name)).collect();
                let message = format!(
                    "in `{}` role `{}` can write nothing: all that it may write is frozen by {}",
                    state.name,
                    work.role,
                    by.join(" and ")
                );
                Problem::new(&state.at, message)
                    .path(path(workflow, &from, situation))
                    .hint("freeze less, or lead back to the state that froze it, which ends the freeze")
            });
        }
        for (outcome, target) in state.edges(workflow) {
            let Some(next) = index(target) else { continue };
            let is_passed = ![Outcome::FAIL, Outcome::EXHAUSTED].contains(&outcome.as_str());
            let frozen = if is_passed { frozen | bit(at) } else { frozen };
            let next = (next, frozen & !bit(next));
            if from.len() < SITUATIONS_MAX && !from.contains_key(&next) {
                from.insert(next, Some(situation));
                waiting.push_back(next);
            }
        }
    }
    problems.into_values().collect()
}

fn frozen_by(workflow: &Workflow, state: usize) -> &[Glob] {
    match &workflow.states[state].kind {
        Kind::Agent(work) => &work.freeze,
        _ => &[],
    }
}

/// The state's work, if its role may write something, and an example of each glob is frozen.
fn blocked<'a>(workflow: &Workflow, state: &'a State, frozen: &[&Glob]) -> Option<&'a Work> {
    let Kind::Agent(work) = &state.kind else { return None };
    let write = &workflow.roles.get(&work.role)?.write;
    let is_frozen = |glob: &Glob| glob.example().is_some_and(|path| frozen.iter().any(|frozen| frozen.matches(&path)));
    (!write.is_empty() && write.iter().all(is_frozen)).then_some(work)
}

fn path(workflow: &Workflow, from: &BTreeMap<Situation, Option<Situation>>, to: Situation) -> Vec<StateName> {
    let mut path = vec![workflow.states[to.0].name.clone()];
    let mut situation = to;
    while let Some(Some(before)) = from.get(&situation) {
        path.push(workflow.states[before.0].name.clone());
        situation = *before;
    }
    path.reverse();
    path
}
