//! Nodes become workflows: every value is read into its type, and every mistake is collected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use baton_core::{Tokens, Usd};
use serde_json::{Value, json};
use starlark::environment::FrozenModule;

use super::evaluate::Session;
use super::node::{Node, Raw};
use super::read_state::StateReader;
use super::vocabulary::{Group, TOOLS, WORDS};
use super::{Role, Sources, State, Workflow};
use crate::names::{BadName, ParamName, Pos, RoleName, StateName, WorkflowName};
use crate::param::{Param, ParamType, ParamTypes};
use crate::problem::Problem;
use crate::scope::Glob;
use crate::stack::on_large_stack;

/// How many files one definition may need, by calls and loads.
const FILES_MAX: usize = 100;

/// A workflow with all that it calls, not yet checked, and every mistake on the way.
#[derive(Default)]
pub(super) struct Read {
    pub workflows: BTreeMap<WorkflowName, Workflow>,
    pub modules: BTreeMap<String, FrozenModule>,
    pub trusted: BTreeSet<String>,
    pub files: BTreeSet<String>,
    pub problems: Vec<Problem>,
}

/// Reads the workflow and all that it calls.
pub(super) fn read(sources: &Sources, name: &WorkflowName) -> Read {
    let no_thread = || {
        let at = Pos { file: file_of(name).into(), line: 1 };
        let message = "the definition cannot be evaluated: no thread could be started, or it ended early";
        Read { problems: vec![Problem::new(&at, message)], ..Read::default() }
    };
    on_large_stack(|| read_all(sources, name)).unwrap_or_else(no_thread)
}

fn file_of(name: &WorkflowName) -> String {
    format!("{name}.star")
}

fn read_all(sources: &Sources, name: &WorkflowName) -> Read {
    let session = Session::new(sources);
    let mut reader = Reader { session: &session, problems: Vec::new() };
    let mut workflows: BTreeMap<WorkflowName, Workflow> = BTreeMap::new();
    let mut waiting = vec![name.clone()];
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let file = file_of(&name);
        if workflows.contains_key(&name) || !seen.insert(file.clone()) || seen.len() > FILES_MAX {
            continue;
        }
        let evaluated = session.workflows(&file);
        let is_whole = evaluated.problems.is_empty();
        reader.problems.extend(evaluated.problems);
        let start = Pos { file: file.as_str().into(), line: 1 };
        match evaluated.workflows.last().map(|node| (node, reader.text(node, "name"))) {
            None if is_whole => reader.problems.push(
                Problem::new(&start, "the file defines no workflow").hint(format!("workflow(name = \"{name}\", ...)")),
            ),
            Some((node, Some(text))) if text != name.as_str() => {
                let at = reader.at(node, &text);
                let problem = Problem::new(&at, format!("the last workflow of `{file}` is called `{text}`"));
                reader.problems.push(problem.hint(format!("call it `{name}`, or the file `{text}.star`")));
            }
            _ => {}
        }
        for node in &evaluated.workflows {
            let Some(workflow) = reader.workflow(node) else { continue };
            let calls = workflow.states.iter().flat_map(State::calls);
            waiting.extend(
                calls.map(|call| call.workflow.clone()).filter(|name| sources.files.contains_key(&file_of(name))),
            );
            if let Some(other) = workflows.get(&workflow.name) {
                let message = format!("workflow `{}` is defined at {}, too", workflow.name, other.at);
                reader.problems.push(Problem::new(&workflow.at, message).hint("give one of them another name"));
            }
            workflows.insert(workflow.name.clone(), workflow);
        }
    }
    let problems = reader.problems;
    let (modules, mut trusted) = session.finish();
    trusted.extend(modules.values().flat_map(texts_of));
    trusted.extend(sources.project.commands().into_iter().filter_map(|(_, command)| command.map(str::to_owned)));
    let files = modules.keys().cloned().collect();
    Read { workflows, modules, trusted, files, problems }
}

/// Texts that a file gives names.
fn texts_of(module: &FrozenModule) -> Vec<String> {
    let values = module.names().filter_map(|name| module.get(name.as_str()).ok());
    values.filter_map(|value| value.value().unpack_str().map(str::to_owned)).collect()
}

/// Reads nodes and collects what is wrong.
pub(super) struct Reader<'a, 's> {
    pub session: &'a Session<'s>,
    pub problems: Vec<Problem>,
}

impl Reader<'_, '_> {
    /// Where a text stands in a call; the call itself if the text was made up of others.
    pub fn at(&self, node: &Node, text: &str) -> Pos {
        match self.session.line(node, text) {
            Some(line) => Pos { file: node.at.file.clone(), line },
            None => node.at.clone(),
        }
    }

    pub fn wrong(&mut self, node: &Node, field: &str, got: &Raw, wanted: &str) {
        let message = format!("`{field}` of `{}` takes {wanted}, not {}", node.word.name, got.kind());
        self.problems.push(Problem::new(&node.at, message));
    }

    pub fn text(&mut self, node: &Node, field: &str) -> Option<String> {
        match node.value(field)? {
            Raw::Text(text) => Some(text.clone()),
            other => {
                self.wrong(node, field, other, "a text");
                None
            }
        }
    }

    pub fn flag(&mut self, node: &Node, field: &str) -> bool {
        match node.value(field) {
            Some(Raw::Bool(flag)) => *flag,
            Some(other) => {
                self.wrong(node, field, other, "True or False");
                false
            }
            None => false,
        }
    }

    /// A name of some kind, with where it stands.
    pub fn name<T>(&mut self, node: &Node, text: &str, parse: impl Fn(&str) -> Result<T, BadName>) -> Option<(T, Pos)> {
        let at = self.at(node, text);
        self.keep(&at, parse(text)).map(|name| (name, at))
    }

    pub fn named<T>(
        &mut self,
        node: &Node,
        field: &str,
        parse: impl Fn(&str) -> Result<T, BadName>,
    ) -> Option<(T, Pos)> {
        let text = self.text(node, field)?;
        self.name(node, &text, parse)
    }

    /// The value, or its error as a problem.
    pub fn keep<T, E: Display>(&mut self, at: &Pos, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.problems.push(Problem::new(at, error.to_string()))).ok()
    }

    pub fn texts(&mut self, node: &Node, field: &str) -> Vec<String> {
        let Some(value) = node.value(field) else { return Vec::new() };
        let Raw::List(items) = value else {
            self.wrong(node, field, value, "a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match item {
                Raw::Text(text) => texts.push(text.clone()),
                other => self.wrong(node, field, other, "texts in its list"),
            }
        }
        texts
    }

    pub fn names<T>(&mut self, node: &Node, field: &str, parse: impl Fn(&str) -> Result<T, BadName>) -> Vec<(T, Pos)> {
        let texts = self.texts(node, field);
        texts.iter().filter_map(|text| self.name(node, text, &parse)).collect()
    }

    pub fn globs(&mut self, node: &Node, field: &str) -> Vec<Glob> {
        let texts = self.texts(node, field);
        let read = |text: &String| {
            let at = self.at(node, text);
            self.keep(&at, Glob::parse(text))
        };
        texts.iter().filter_map(read).collect()
    }

    /// A dict with texts as keys.
    pub fn dict(&mut self, node: &Node, field: &str) -> Vec<(String, Raw)> {
        let Some(value) = node.value(field) else { return Vec::new() };
        let Raw::Dict(entries) = value else {
            self.wrong(node, field, value, "a dict");
            return Vec::new();
        };
        let mut read = Vec::new();
        for (key, value) in entries {
            match key {
                Raw::Text(key) => read.push((key.clone(), value.clone())),
                other => self.wrong(node, field, other, "texts as keys"),
            }
        }
        read
    }

    /// A whole number within bounds; `otherwise` if it is left out, none if it is None.
    pub fn whole(&mut self, node: &Node, field: &str, most: u64, otherwise: Option<u64>) -> Option<u64> {
        match node.given.get(field) {
            None => otherwise,
            Some(Raw::None) => None,
            Some(Raw::Int(number)) if u64::try_from(*number).is_ok_and(|number| number <= most) => {
                u64::try_from(*number).ok()
            }
            Some(other) => {
                let got = if let Raw::Int(number) = other { number.to_string() } else { other.kind() };
                let message =
                    format!("`{field}` of `{}` takes a whole number from 0 to {most}, not {got}", node.word.name);
                self.problems.push(Problem::new(&node.at, message));
                otherwise
            }
        }
    }

    pub fn tokens(&mut self, node: &Node, otherwise: Option<Tokens>) -> Option<Tokens> {
        const MOST: u64 = 1_000_000_000_000;
        self.whole(node, "tokens", MOST, otherwise)
    }

    #[expect(clippy::cast_precision_loss, reason = "amounts of money are small")]
    pub fn usd(&mut self, node: &Node) -> Option<Usd> {
        let value = node.value("usd")?;
        let dollars = match value {
            Raw::Int(number) => Usd::from_dollars(*number as f64),
            Raw::Float(number) => Usd::from_dollars(*number),
            _ => None,
        };
        if dollars.is_none() {
            self.wrong(node, "usd", value, "an amount of dollars, 0 or more");
        }
        dollars
    }

    /// How long a wait may take; `otherwise` if it is left out, none if it is None.
    pub fn timeout(&mut self, node: &Node, otherwise: Duration) -> Option<Duration> {
        let problem = |got: &str| {
            Problem::new(&node.at, format!("`timeout` of `{}` is not a time: {got}", node.word.name))
                .hint("write a number with s, m, h or d: `\"45s\"`, `\"30m\"`, `\"2h\"`; at most 30 days")
        };
        match node.given.get("timeout") {
            None => Some(otherwise),
            Some(Raw::None) => None,
            Some(Raw::Text(text)) => {
                let duration = read_duration(text);
                if duration.is_none() {
                    self.problems.push(problem(&format!("`{text}`")));
                }
                duration.or(Some(otherwise))
            }
            Some(other) => {
                self.problems.push(problem(&other.kind()));
                Some(otherwise)
            }
        }
    }

    fn workflow(&mut self, node: &Node) -> Option<Workflow> {
        let name = self.named(node, "name", WorkflowName::parse).map(|(name, _)| name);
        let params = self.params(node);
        let mut roles = BTreeMap::new();
        for (key, value) in self.dict(node, "roles") {
            let name = self.name(node, &key, RoleName::parse);
            match (&value, name) {
                (Raw::Node(inner), Some((name, _))) if inner.word.name == "role" => {
                    let role = self.role(inner);
                    roles.extend(role.map(|role| (name, role)));
                }
                (other, _) => self.wrong(node, "roles", other, "`role(...)` for each name"),
            }
        }
        let mut states: Vec<State> = Vec::new();
        for (key, value) in self.dict(node, "states") {
            let Some((state, at)) = self.name(node, &key, StateName::parse) else { continue };
            match &value {
                Raw::Node(inner) if inner.word.group == Group::State => {
                    // What could not be read is still a name, so that no second mistake is made of it.
                    let unread = State::unread(state.clone(), at);
                    states.push(self.state(state, inner).unwrap_or(unread));
                }
                other => {
                    let words =
                        WORDS.iter().filter(|word| word.group == Group::State).map(|word| format!("`{}`", word.name));
                    let hint = format!("write one of {}", words.collect::<Vec<_>>().join(", "));
                    self.problems
                        .push(Problem::new(&at, format!("`{state}` is not a state but {}", other.kind())).hint(hint));
                    states.push(State::unread(state, at));
                }
            }
        }
        let start = match self.named(node, "start", StateName::parse) {
            Some((start, at)) => {
                if !states.iter().any(|state| state.name == start) {
                    let problem = Problem::new(&at, format!("there is no state `{start}` to start in"));
                    self.problems.push(problem.suggest(start.as_str(), states.iter().map(|state| state.name.as_str())));
                }
                Some(start)
            }
            None => states.first().map(|state| state.name.clone()),
        };
        if start.is_none() && self.dict(node, "states").is_empty() && node.given.contains_key("states") {
            self.problems
                .push(Problem::new(&node.at, "the workflow has no states").hint("`\"DONE\": done()` is the least"));
        }
        states.extend(Self::implied_escalation(&states, node));
        Some(Workflow {
            name: name?,
            about: self.text(node, "about").unwrap_or_default(),
            params,
            roles,
            states,
            start: start?,
            expects_red_base: self.flag(node, "expects_red_base"),
            tokens: self.tokens(node, None),
            usd: self.usd(node),
            at: node.at.clone(),
        })
    }

    fn params(&mut self, node: &Node) -> ParamTypes {
        let mut params = ParamTypes::new();
        for (key, value) in self.dict(node, "params") {
            let name = self.name(node, &key, ParamName::parse);
            let kind = match &value {
                Raw::Node(inner) => [ParamType::String, ParamType::Number, ParamType::Bool, ParamType::List]
                    .into_iter()
                    .find(|kind| kind.word() == inner.word.name)
                    .map(|kind| (kind, inner)),
                _ => None,
            };
            match (kind, name) {
                (None, _) => {
                    self.wrong(
                        node,
                        "params",
                        &value,
                        "`string(...)`, `number(...)`, `bool(...)` or `list(...)` for each name",
                    );
                }
                (Some((kind, inner)), Some((name, _))) => {
                    let param = self.param(kind, inner);
                    params.insert(name, param);
                }
                (Some(_), None) => {}
            }
        }
        for (name, param) in &params {
            let taken = param.single.as_ref().filter(|single| params.contains_key(*single));
            if let Some(single) = taken {
                let message = format!("`single` of `{name}` is `{single}`, which is a parameter of its own");
                self.problems.push(Problem::new(&param.at, message).hint("take another name for one of them"));
            }
        }
        params
    }

    fn param(&mut self, kind: ParamType, node: &Node) -> Param {
        let default = node.value("default").and_then(|raw| {
            let value = json_of(raw).filter(|value| kind.holds(value));
            if value.is_none() {
                self.wrong(node, "default", raw, &format!("a value for a {}", kind.word()));
            }
            value
        });
        Param {
            kind,
            is_required: self.flag(node, "required"),
            default,
            single: self.named(node, "single", ParamName::parse).map(|(name, _)| name),
            about: self.text(node, "about").unwrap_or_default(),
            at: node.at.clone(),
        }
    }

    fn role(&mut self, node: &Node) -> Option<Role> {
        let agent = self.named(node, "agent", crate::names::AgentName::parse);
        let tools = self.texts(node, "tools");
        for tool in tools.iter().filter(|tool| !TOOLS.contains(&tool.as_str())) {
            let at = self.at(node, tool);
            self.problems.push(Problem::new(&at, format!("there is no tool `{tool}`")).suggest(tool, TOOLS));
        }
        Some(Role {
            write: self.globs(node, "write"),
            tools,
            model: self.text(node, "model"),
            persona: self.text(node, "persona"),
            at: node.at.clone(),
            agent: agent?.0,
        })
    }
}

/// `45s`, `30m`, `2h`, `1d`; up to 30 days.
fn read_duration(text: &str) -> Option<Duration> {
    const MOST: u64 = 30 * 24 * 60 * 60;
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return None,
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    let seconds = number.checked_mul(unit)?;
    (1..=MOST).contains(&seconds).then(|| Duration::from_secs(seconds))
}

/// Plain values as JSON.
pub(super) fn json_of(raw: &Raw) -> Option<Value> {
    match raw {
        Raw::None => Some(Value::Null),
        Raw::Bool(flag) => Some(json!(flag)),
        Raw::Int(number) => Some(json!(number)),
        Raw::Float(number) => serde_json::Number::from_f64(*number).map(Value::Number),
        Raw::Text(text) => Some(json!(text)),
        Raw::List(items) => items.iter().map(json_of).collect::<Option<Vec<_>>>().map(Value::Array),
        Raw::Dict(_) | Raw::Node(_) | Raw::Function { .. } | Raw::Other(_) => None,
    }
}
