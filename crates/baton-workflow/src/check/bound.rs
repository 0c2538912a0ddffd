//! The most that a run can take: attempts of states, tokens, and money where prices are known.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::{Price, Tokens, Usage, Usd};
use serde::Serialize;

use super::names::chain;
use crate::definition::{Call, Definition, Kind, State, Workflow};
use crate::names::{RoleName, WorkflowName};
use crate::problem::Problem;

/// What no run exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Attempts of states, those of called workflows included.
    pub steps: u64,
    /// Tokens of all agents together.
    pub tokens: Tokens,
    /// Dollars; none if a price is not known and no cap is set.
    pub usd: Option<Usd>,
}

impl Bound {
    const NOTHING: Self = Self { steps: 0, tokens: 0, usd: Some(Usd::ZERO) };

    fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd.zip(other.usd).map(|(left, right)| left + right),
        }
    }

    fn times(self, count: u64) -> Self {
        // A price per million tokens, for so many millions: exact, and it does not overflow.
        let usd = |usd: Usd| {
            let price = Price { input: usd, output: Usd::ZERO, cache_read: None, cache_write: None };
            price.of(&Usage { input_tokens: count.saturating_mul(1_000_000), ..Usage::default() })
        };
        Self {
            steps: self.steps.saturating_mul(count),
            tokens: self.tokens.saturating_mul(count),
            usd: self.usd.map(usd),
        }
    }
}

/// The upper bound of one run of the definition's workflow. `price` tells what a role's model charges, where that is known.
pub fn bound(definition: &Definition, price: &dyn Fn(&Workflow, &RoleName) -> Option<Price>) -> Bound {
    let mut known = BTreeMap::new();
    definition.main().map_or(Bound::NOTHING, |main| of_workflow(main, definition, price, &mut known))
}

type Prices<'a> = &'a dyn Fn(&Workflow, &RoleName) -> Option<Price>;

fn of_workflow(
    workflow: &Workflow,
    definition: &Definition,
    price: Prices<'_>,
    known: &mut BTreeMap<WorkflowName, Bound>,
) -> Bound {
    if let Some(bound) = known.get(&workflow.name) {
        return *bound;
    }
    let waits = || workflow.states.iter().filter(|state| !state.is_end());
    let limited: u64 = waits().filter_map(|state| state.limits.attempts()).fold(0, u64::saturating_add);
    let mut total = Bound::NOTHING;
    for state in waits() {
        // A state without a limit of its own is entered at most once between two attempts of states that have one.
        let attempts = state.limits.attempts().unwrap_or(limited.saturating_add(1));
        total = total.plus(Bound { steps: attempts, ..Bound::NOTHING });
        total = total.plus(own(state, workflow, price));
        for call in state.calls() {
            let Some(called) = definition.workflow(&call.workflow) else { continue };
            let inner = of_workflow(called, definition, price, known);
            let items = if let Kind::Each(each) = &state.kind { u64::from(each.max) } else { 1 };
            total = total.plus(inner.times(attempts.saturating_mul(items)));
        }
    }
    total.tokens = workflow.tokens.map_or(total.tokens, |cap| cap.min(total.tokens));
    total.usd = match (workflow.usd, total.usd) {
        (Some(cap), Some(usd)) => Some(cap.min(usd)),
        (cap, usd) => cap.or(usd),
    };
    known.insert(workflow.name.clone(), total);
    total
}

/// What the state's own agent can use.
fn own(state: &State, workflow: &Workflow, price: Prices<'_>) -> Bound {
    let Kind::Agent(work) = &state.kind else { return Bound::NOTHING };
    let tokens = state.limits.tokens.unwrap_or(Tokens::MAX);
    let priced = price(workflow, &work.role).map(|price| dearest(&price, tokens));
    let usd = match (state.limits.usd, priced) {
        (Some(cap), Some(usd)) => Some(cap.min(usd)),
        (cap, usd) => cap.or(usd),
    };
    Bound { steps: 0, tokens, usd }
}

/// What so many tokens cost if all of them are of the dearest kind.
fn dearest(price: &Price, tokens: Tokens) -> Usd {
    let none = Usage::default();
    let kinds = [
        Usage { input_tokens: tokens, ..none },
        Usage { output_tokens: tokens, ..none },
        Usage { cache_read_tokens: tokens, ..none },
        Usage { cache_write_tokens: tokens, ..none },
    ];
    kinds.iter().map(|usage| price.of(usage)).max().unwrap_or(Usd::MAX)
}

/// Workflows that call themselves, directly or through others: their runs would have no end.
pub(super) fn endless_calls(definition: &Definition) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut settled = BTreeSet::new();
    for workflow in definition.workflows() {
        follow(workflow, definition, &mut Vec::new(), &mut settled, &mut problems);
    }
    problems
}

fn follow<'a>(
    workflow: &'a Workflow,
    definition: &'a Definition,
    above: &mut Vec<&'a WorkflowName>,
    settled: &mut BTreeSet<&'a WorkflowName>,
    problems: &mut Vec<Problem>,
) {
    if settled.contains(&workflow.name) {
        return;
    }
    above.push(&workflow.name);
    let calls = workflow.states.iter().flat_map(State::calls);
    for (call, called) in
        calls.filter_map(|call: &Call| definition.workflow(&call.workflow).map(|called| (call, called)))
    {
        match above.iter().position(|name| **name == called.name) {
            Some(start) => {
                let mut circle = above[start..].to_vec();
                circle.push(&called.name);
                let message = format!("workflows call each other in a circle: {}", chain(&circle));
                let problem = Problem::new(&call.at, message);
                problems.push(problem.hint("a run would never end; let one of them end instead"));
            }
            None => follow(called, definition, above, settled, problems),
        }
    }
    above.pop();
    settled.insert(&workflow.name);
}
