//! Proofs about one workflow, each refused with a path of states that shows why.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::freeze;
use crate::definition::{Kind, State, Workflow};
use crate::names::{Outcome, StateName};
use crate::problem::Problem;

pub(super) fn problems(workflow: &Workflow) -> Vec<Problem> {
    let graph = Graph::new(workflow);
    let mut problems = graph.unreachable();
    problems.extend(graph.without_end());
    problems.extend(graph.without_timer());
    problems.extend(graph.without_budget());
    problems.extend(graph.inputs_too_late());
    problems.extend(freeze::problems(workflow));
    problems
}

/// Which outcomes a question is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edges {
    All,
    /// As the author means it to go: attempts are not used up.
    Willing,
    Exhausted,
}

struct Graph<'a> {
    workflow: &'a Workflow,
    /// A shortest way from the start to each state that can be reached.
    ways: BTreeMap<&'a StateName, Vec<StateName>>,
}

impl<'a> Graph<'a> {
    fn new(workflow: &'a Workflow) -> Self {
        let mut graph = Self { workflow, ways: BTreeMap::new() };
        graph.ways = graph.ways_from(&workflow.start);
        graph
    }

    fn next(&self, name: &StateName, edges: Edges) -> Vec<&'a StateName> {
        let Some(state) = self.workflow.state(name) else { return Vec::new() };
        let wanted = |outcome: &Outcome| match edges {
            Edges::All => true,
            Edges::Willing => outcome.as_str() != Outcome::EXHAUSTED,
            Edges::Exhausted => outcome.as_str() == Outcome::EXHAUSTED,
        };
        state
            .edges(self.workflow)
            .into_iter()
            .filter(|(outcome, _)| wanted(outcome))
            .map(|(_, target)| target)
            .collect()
    }

    fn ways_from(&self, start: &'a StateName) -> BTreeMap<&'a StateName, Vec<StateName>> {
        let mut ways = BTreeMap::from([(start, vec![start.clone()])]);
        let mut waiting = VecDeque::from([start]);
        while let Some(state) = waiting.pop_front() {
            for next in self.next(state, Edges::All) {
                if !ways.contains_key(next) {
                    let mut way = ways[state].clone();
                    way.push(next.clone());
                    ways.insert(next, way);
                    waiting.push_back(next);
                }
            }
        }
        ways
    }

    fn reachable(&self) -> impl Iterator<Item = (&'a State, &Vec<StateName>)> {
        self.workflow.states.iter().filter_map(|state| self.ways.get(&state.name).map(|way| (state, way)))
    }

    fn unreachable(&self) -> Vec<Problem> {
        let unreachable =
            |state: &&State| !self.ways.contains_key(&state.name) && !matches!(state.kind, Kind::Escalate);
        let states = self.workflow.states.iter().filter(unreachable);
        states
            .map(|state| {
                Problem::new(&state.at, format!("no run can come to `{}`", state.name)).hint(format!(
                    "lead an outcome of another state to it, or take it out; runs start in `{}`",
                    self.workflow.start
                ))
            })
            .collect()
    }

    /// States that can come to one of `ends` by outcomes that the author means.
    fn leading_to(&self, is_end: impl Fn(&State) -> bool) -> BTreeSet<&'a StateName> {
        let mut found: BTreeSet<&StateName> =
            self.workflow.states.iter().filter(|state| is_end(state)).map(|state| &state.name).collect();
        loop {
            let more: Vec<&StateName> = self
                .workflow
                .states
                .iter()
                .map(|state| &state.name)
                .filter(|name| !found.contains(name))
                .filter(|name| self.next(name, Edges::Willing).iter().any(|next| found.contains(next)))
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    fn without_end(&self) -> Vec<Problem> {
        let ending = self.leading_to(State::is_end);
        let mut problems: Vec<Problem> = self
            .reachable()
            .filter(|(state, _)| !ending.contains(&state.name))
            .map(|(state, way)| {
                let message =
                    format!("from `{}` no outcome leads to an end; only using up all attempts does", state.name);
                let problem = Problem::new(&state.at, message).path(self.round(way));
                problem.hint("lead one of its outcomes towards a state `done()` or `escalate()`")
            })
            .collect();
        let done = self.leading_to(|state| matches!(state.kind, Kind::Done { is_failure: false }));
        if problems.is_empty() && !done.contains(&self.workflow.start) {
            let problem = Problem::new(&self.workflow.at, format!("no run of `{}` can end well", self.workflow.name));
            problems.push(problem.hint("lead an outcome to a state `done()`"));
        }
        problems
    }

    /// The way to a state, and on from there until it repeats itself.
    fn round(&self, way: &[StateName]) -> Vec<StateName> {
        let mut path = way.to_vec();
        while let Some(last) = path.last().cloned() {
            let next = self.next(&last, Edges::Willing);
            let Some(next) = next.iter().find(|next| ***next != last).or(next.first()) else { break };
            let is_known = path.contains(next);
            path.push((*next).clone());
            if is_known {
                break;
            }
        }
        path
    }

    fn without_timer(&self) -> Vec<Problem> {
        let waits = self.reachable().filter(|(state, _)| !state.is_end() && state.limits.timeout.is_none());
        waits
            .map(|(state, way)| {
                let message = format!("`{}` waits without a timer, so a run could wait for ever", state.name);
                Problem::new(&state.at, message)
                    .path(way.clone())
                    .hint("`timeout = \"30m\"`, or leave it out for the default")
            })
            .collect()
    }

    fn without_budget(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let unlimited: BTreeSet<&StateName> = self
            .reachable()
            .filter(|(state, _)| state.limits.retries.is_none() && !state.is_end())
            .map(|(state, _)| &state.name)
            .collect();
        if let Some(circle) = self.circle(&unlimited, Edges::All) {
            let at = self.at(&circle);
            let problem =
                Problem::new(at, "a circle of states in which nothing limits the attempts").path(circle.clone());
            problems.push(problem.hint("set `retries` of one of them, or leave it out for the default"));
        }
        let all: BTreeSet<&StateName> = self.ways.keys().copied().collect();
        if let Some(circle) = self.circle(&all, Edges::Exhausted) {
            let at = self.at(&circle);
            let problem =
                Problem::new(at, "states that are used up lead to each other in a circle").path(circle.clone());
            problems.push(problem.hint("lead `exhausted` of one of them to `ESCALATE`, or leave it out"));
        }
        for (state, way) in self.reachable() {
            if matches!(state.kind, Kind::Agent(_)) && state.limits.tokens.is_none() {
                let message = format!("nothing limits the tokens of `{}`, so the run has no upper bound", state.name);
                let problem = Problem::new(&state.at, message).path(way.clone());
                problems.push(problem.hint("`tokens = 200000`, or leave it out for the default"));
            }
        }
        problems
    }

    fn at(&self, circle: &[StateName]) -> &'a crate::names::Pos {
        circle.first().and_then(|name| self.workflow.state(name)).map_or(&self.workflow.at, |state| &state.at)
    }

    /// A circle among these states, first and last the same.
    fn circle(&self, among: &BTreeSet<&'a StateName>, edges: Edges) -> Option<Vec<StateName>> {
        let mut settled: BTreeSet<&StateName> = BTreeSet::new();
        for start in among {
            let mut path: Vec<&StateName> = Vec::new();
            if let Some(circle) = self.circle_from(start, among, edges, &mut path, &mut settled) {
                return Some(circle);
            }
        }
        None
    }

    fn circle_from(
        &self,
        name: &'a StateName,
        among: &BTreeSet<&'a StateName>,
        edges: Edges,
        path: &mut Vec<&'a StateName>,
        settled: &mut BTreeSet<&'a StateName>,
    ) -> Option<Vec<StateName>> {
        if let Some(start) = path.iter().position(|known| *known == name) {
            return Some(path[start..].iter().copied().chain([name]).cloned().collect());
        }
        if settled.contains(name) {
            return None;
        }
        path.push(name);
        let inside = self.next(name, edges).into_iter().filter(|next| among.contains(next));
        let found = inside.into_iter().find_map(|next| self.circle_from(next, among, edges, path, settled));
        path.pop();
        settled.insert(name);
        found
    }

    fn inputs_too_late(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (state, way) in self.reachable() {
            let Kind::Agent(work) = &state.kind else { continue };
            for (input, at) in &work.inputs {
                let comes_before = self.workflow.state(input).is_some_and(|input| {
                    self.ways.contains_key(&input.name) && self.ways_from(&input.name).contains_key(&state.name)
                });
                if !comes_before {
                    let message = format!("`{input}` can never come before `{}`, so it gives no input", state.name);
                    problems.push(Problem::new(at, message).path(way.clone()).hint("take it out of `inputs`"));
                }
            }
        }
        problems
    }
}
