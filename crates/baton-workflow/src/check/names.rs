//! Names that a workflow uses: each has to be there, and to be of the right kind.

use std::collections::BTreeSet;

use crate::definition::vocabulary::WRITING;
use crate::definition::{Action, Call, Definition, Each, Gate, Given, Join, Kind, Question, State, Work, Workflow};
use crate::field::{Field, FieldType};
use crate::names::{FieldName, Outcome, ParamName, Pos, RoleName, StateName, WorkflowName};
use crate::param::{ParamType, named};
use crate::problem::Problem;
use crate::template::{Reference, Template};

pub(super) fn problems(workflow: &Workflow, definition: &Definition, is_whole: bool) -> Vec<Problem> {
    let mut checker = Checker { workflow, definition, is_whole, problems: Vec::new() };
    checker.roles();
    if !workflow.states.iter().any(|state| matches!(state.kind, Kind::Escalate)) {
        let problem = Problem::new(&workflow.at, "there is no state that escalates");
        checker.problems.push(problem.hint("`\"ESCALATE\": escalate()`; the name is taken by another kind of state"));
    }
    for state in &workflow.states {
        checker.state(state);
    }
    checker.problems
}

struct Checker<'a> {
    workflow: &'a Workflow,
    definition: &'a Definition,
    /// Whether everything could be read, so that what is not there is not there.
    is_whole: bool,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    fn roles(&mut self) {
        for (name, role) in &self.workflow.roles {
            let can_write = role.tools.iter().any(|tool| WRITING.contains(&tool.as_str()));
            if role.tools.is_empty() {
                let problem = Problem::new(&role.at, format!("role `{name}` has no tools, so it can do nothing"));
                self.add(problem.hint("`tools = READING`"));
            } else if !role.write.is_empty() && !can_write {
                let problem =
                    Problem::new(&role.at, format!("role `{name}` may write files, but none of its tools can"));
                self.add(problem.hint("`tools = CODING`, or no `write`"));
            }
        }
    }

    fn state(&mut self, state: &State) {
        self.outcomes(state);
        match &state.kind {
            Kind::Agent(work) => self.work(state, work),
            Kind::Action(Action::Commit { message }) => self.template(message, &state.at),
            Kind::Action(Action::Command { argv, .. }) => argv.iter().for_each(|word| self.template(word, &state.at)),
            Kind::Parallel(parallel) => {
                let count = parallel.branches.len();
                if count == 0 {
                    self.add(Problem::new(&state.at, format!("`{}` has no branches", state.name)));
                } else if let Join::Quorum(needed) = parallel.join
                    && !(1..=count).contains(&(needed as usize))
                {
                    let problem =
                        Problem::new(&state.at, format!("a quorum of {needed} is not possible with {count} branches"));
                    self.add(problem.hint(format!("from 1 to {count}")));
                }
                parallel.branches.values().for_each(|call| self.call(call, None));
            }
            Kind::Each(each) => self.each(state, each),
            Kind::Call(call) => self.call(call, None),
            Kind::Human(question) => self.question(question, &state.at),
            Kind::Done { .. } | Kind::Escalate => {}
        }
    }

    fn outcomes(&mut self, state: &State) {
        let required = state.required_outcomes();
        let known: Vec<&str> =
            required.iter().map(Outcome::as_str).chain(state.optional_outcomes().iter().copied()).collect();
        for outcome in required.iter().filter(|outcome| !state.on.contains_key(*outcome)) {
            let problem = Problem::new(&state.at, format!("`{}` does not say where `{outcome}` leads", state.name));
            self.add(problem.hint(format!("`on = {{\"{outcome}\": \"...\"}}`")));
        }
        for (outcome, target) in &state.on {
            if !known.contains(&outcome.as_str()) {
                let problem = Problem::new(&target.at, format!("`{}` cannot end with `{outcome}`", state.name));
                self.add(problem.suggest(outcome.as_str(), known.iter().copied()));
            }
            self.known_state(&target.state, &target.at);
        }
    }

    fn known_state(&mut self, name: &StateName, at: &Pos) -> bool {
        let is_known = self.workflow.state(name).is_some();
        if !is_known {
            let states = self.workflow.states.iter().map(|state| state.name.as_str());
            let problem = Problem::new(at, format!("there is no state `{name}`")).suggest(name.as_str(), states);
            self.add(problem);
        }
        is_known
    }

    fn work(&mut self, state: &State, work: &Work) {
        if !self.workflow.roles.contains_key(&work.role) && (self.is_whole || !self.workflow.roles.is_empty()) {
            let roles = self.workflow.roles.keys().map(RoleName::as_str);
            let problem = Problem::new(&work.role_at, format!("there is no role `{}`", work.role));
            let problem = problem.suggest(work.role.as_str(), roles);
            self.add(problem);
        }
        for (input, at) in &work.inputs {
            let gives = self.workflow.state(input).is_some_and(|input| match &input.kind {
                Kind::Agent(work) => work.gate.fields().is_some(),
                Kind::Parallel(_) | Kind::Each(_) | Kind::Call(_) => true,
                _ => false,
            });
            if self.known_state(input, at) && !gives && self.is_whole {
                self.add(Problem::new(at, format!("`{input}` gives no evidence that could be an input")));
            }
        }
        work.task.iter().for_each(|task| self.template(task, &state.at));
        if let Gate::Human(question) = &work.gate {
            self.question(question, &state.at);
        }
    }

    fn question(&mut self, question: &Question, at: &Pos) {
        self.template(&question.text, at);
    }

    fn template(&mut self, template: &Template, at: &Pos) {
        for reference in template.references() {
            self.reference(reference, at);
        }
    }

    fn reference(&mut self, reference: &Reference, at: &Pos) {
        match reference {
            Reference::Param(name) => {
                if !self.workflow.params.contains_key(name) {
                    let params = self.workflow.params.keys().map(ParamName::as_str);
                    let problem = Problem::new(at, format!("there is no parameter `{name}`"));
                    let problem = problem.suggest(name.as_str(), params);
                    self.add(problem);
                }
            }
            Reference::Field(state, field) => {
                if self.known_state(state, at) && self.is_whole && self.field(state, field).is_none() {
                    let asked = self.asked(state);
                    let names: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
                    let problem = Problem::new(at, format!("`{state}` asks for no field `{field}`"));
                    let problem = problem.suggest(field.as_str(), names);
                    self.add(problem);
                }
            }
        }
    }

    fn asked(&self, state: &StateName) -> Vec<(&FieldName, &Field)> {
        match self.workflow.state(state).map(|state| &state.kind) {
            Some(Kind::Agent(work)) => work.gate.fields().map_or(Vec::new(), |fields| fields.0.iter().collect()),
            _ => Vec::new(),
        }
    }

    fn field(&self, state: &StateName, field: &FieldName) -> Option<&FieldType> {
        self.asked(state).into_iter().find(|(name, _)| *name == field).map(|(_, field)| &field.kind)
    }

    fn each(&mut self, state: &State, each: &Each) {
        self.reference(&each.over, &state.at);
        let is_list = match &each.over {
            Reference::Param(name) => self.workflow.params.get(name).is_none_or(|param| param.kind == ParamType::List),
            Reference::Field(state, field) => {
                self.field(state, field).is_none_or(|kind| matches!(kind, FieldType::List | FieldType::Paths))
            }
        };
        if !is_list {
            let problem = Problem::new(&state.at, format!("`{}` goes over something that is not a list", state.name));
            self.add(problem.hint("take a parameter `list(...)`, or a field of type \"list\" or \"paths\""));
        }
        if each.max == 0 {
            self.add(Problem::new(&state.at, format!("`{}` takes no items: `max` is 0", state.name)));
        }
        self.call(&each.call, Some(&each.item));
        let Some(called) = self.definition.workflow(&each.call.workflow) else { return };
        for role in each.swap.iter().filter(|role| !called.roles.contains_key(*role)) {
            let problem = Problem::new(&state.at, format!("`{}` has no role `{role}` to swap", called.name));
            let problem = problem.suggest(role.as_str(), called.roles.keys().map(RoleName::as_str));
            self.add(problem);
        }
        let distinct: BTreeSet<_> = each.swap.iter().collect();
        if !each.swap.is_empty() && (distinct.len() < 2 || distinct.len() != each.swap.len()) {
            self.add(Problem::new(&state.at, "`swap` takes two or more different roles"));
        }
        if !each.swap.is_empty() && each.at_once > 1 {
            let problem = Problem::new(&state.at, "roles cannot swap between runs that go on at the same time");
            self.add(problem.hint("leave out `at_once`, or `swap`"));
        }
    }

    /// `item` is a parameter that is filled in besides those of the call.
    fn call(&mut self, call: &Call, item: Option<&ParamName>) {
        let Some(called) = self.definition.workflow(&call.workflow) else {
            if !self.is_whole {
                return;
            }
            let read = self.definition.workflows().map(|workflow| workflow.name.as_str());
            let names: BTreeSet<&str> = read.chain(self.definition.beside()).collect();
            let names = names.into_iter();
            let problem = Problem::new(&call.at, format!("there is no workflow `{}`", call.workflow));
            let problem =
                problem.suggest(call.workflow.as_str(), names.filter(|name| *name != self.workflow.name.as_str()));
            self.add(problem);
            return;
        };
        let mut filled: BTreeSet<&ParamName> = BTreeSet::new();
        for name in call.params.keys().chain(item) {
            if let Some(param) = named(&called.params, name.as_str()) {
                filled.insert(param);
            } else {
                let problem = Problem::new(&call.at, format!("workflow `{}` has no parameter `{name}`", called.name));
                let problem = problem.suggest(name.as_str(), called.params.keys().map(ParamName::as_str));
                self.add(problem);
            }
        }
        for (name, param) in &called.params {
            if param.is_required && param.default.is_none() && !filled.contains(name) {
                let problem =
                    Problem::new(&call.at, format!("workflow `{}` needs the parameter `{name}`", called.name));
                self.add(problem.hint(format!("`params = {{\"{name}\": ...}}`")));
            }
        }
        for (name, given) in &call.params {
            match given {
                Given::Template(template) if template.references().next().is_some() => {
                    self.template(template, &call.at);
                }
                Given::Template(_) | Given::Value(_) => {
                    let kind = named(&called.params, name.as_str()).map(|name| called.params[name].kind);
                    let fits = |kind: &ParamType| match given {
                        Given::Template(_) => matches!(kind, ParamType::String | ParamType::List),
                        Given::Value(value) => value.is_null() || kind.holds(value),
                    };
                    if let Some(kind) = kind.filter(|kind| !fits(kind)) {
                        self.add(Problem::new(
                            &call.at,
                            format!("parameter `{name}` of `{}` is a {}", called.name, kind.word()),
                        ));
                    }
                }
            }
        }
        if let Some(item) = item {
            let kind = named(&called.params, item.as_str()).map(|name| called.params[name].kind);
            if kind.is_some_and(|kind| !matches!(kind, ParamType::String | ParamType::List)) {
                self.add(Problem::new(
                    &call.at,
                    format!("parameter `{item}` of `{}` does not hold a text", called.name),
                ));
            }
        }
    }
}

/// Names of workflows in the order of their calls.
pub(super) fn chain(names: &[&WorkflowName]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" -> ")
}
