//! Nodes become states, gates and actions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{Node, Raw};
use super::read::{Reader, json_of};
use super::{
    Action, CHILD_TIMEOUT, Call, Each, Gate, Given, ITEMS, Join, Kind, Limits, Parallel, Question, RETRIES, State,
    TIMEOUT, TOKENS, Target, VerifyRef, Work,
};
use crate::command::Argv;
use crate::field::{Field, FieldType, Fields};
use crate::names::{BranchName, FieldName, Outcome, ParamName, Pos, RoleName, StateName, WorkflowName};
use crate::problem::Problem;
use crate::template::{Reference, Template};

/// The most attempts, items and branches that a definition can ask for.
const RETRIES_MAX: u64 = 1000;
const ITEMS_MAX: u64 = 1000;
const AT_ONCE_MAX: u64 = 64;
const BRANCHES_MAX: usize = 64;
/// The field of a verdict.
pub(crate) const VERDICT: &str = "verdict";
/// A state that is there even if it is not written.
const ESCALATE: &str = "ESCALATE";

pub(super) trait StateReader {
    fn state(&mut self, name: StateName, node: &Node) -> Option<State>;
    fn implied_escalation(states: &[State], node: &Node) -> Option<State>;
}

impl StateReader for Reader<'_, '_> {
    fn state(&mut self, name: StateName, node: &Node) -> Option<State> {
        let on = self.targets(node);
        let limits = self.limits(node);
        let kind = match node.word.name {
            "state" => self.work(node).map(|work| Kind::Agent(Box::new(work))),
            "action" => self.action(node).map(Kind::Action),
            "parallel" => Some(Kind::Parallel(self.parallel(node))),
            "each" => self.each(node).map(Kind::Each),
            "call" => self.call(node).map(Kind::Call),
            "human" => self.question(node).map(Kind::Human),
            "done" => Some(Kind::Done { is_failure: self.flag(node, "failed") }),
            _ => Some(Kind::Escalate),
        };
        Some(State { name, kind: kind?, on, limits, at: node.at.clone() })
    }

    /// `exhausted` leads to `ESCALATE`, so there has to be such a state.
    fn implied_escalation(states: &[State], node: &Node) -> Option<State> {
        let is_there = states.iter().any(|state| matches!(state.kind, Kind::Escalate));
        let name = StateName::parse(ESCALATE).ok().filter(|name| !states.iter().any(|state| state.name == *name));
        let limits = Limits { retries: Some(0), timeout: None, tokens: None, usd: None };
        (!is_there && !states.is_empty()).then_some(name).flatten().map(|name| State {
            name,
            kind: Kind::Escalate,
            on: BTreeMap::new(),
            limits,
            at: node.at.clone(),
        })
    }
}

impl State {
    /// A name without a state.
    pub(super) fn unread(name: StateName, at: Pos) -> Self {
        let limits = Limits { retries: Some(0), timeout: None, tokens: None, usd: None };
        Self { name, kind: Kind::Done { is_failure: false }, on: BTreeMap::new(), limits, at }
    }
}

impl Reader<'_, '_> {
    fn targets(&mut self, node: &Node) -> BTreeMap<Outcome, Target> {
        let mut targets = BTreeMap::new();
        for (outcome, value) in self.dict(node, "on") {
            match &value {
                Raw::Text(text) => {
                    if let Some((state, at)) = self.name(node, text, StateName::parse) {
                        targets.insert(Outcome::new(&outcome), Target { state, at });
                    }
                }
                other => self.wrong(node, "on", other, "the name of a state for each outcome"),
            }
        }
        targets
    }

    fn limits(&mut self, node: &Node) -> Limits {
        let timeout = match node.word.name {
            "parallel" | "each" | "call" => CHILD_TIMEOUT,
            _ => TIMEOUT,
        };
        let retries = self.whole(node, "retries", RETRIES_MAX, Some(u64::from(RETRIES)));
        Limits {
            retries: retries.and_then(|retries| u32::try_from(retries).ok()),
            timeout: self.timeout(node, timeout),
            tokens: self.tokens(node, Some(TOKENS)),
            usd: self.usd(node),
        }
    }

    fn work(&mut self, node: &Node) -> Option<Work> {
        let role = self.named(node, "role", RoleName::parse);
        let gate = match node.value("gate") {
            Some(Raw::Node(inner)) => self.gate(inner),
            Some(other) => {
                self.wrong(node, "gate", other, "`evidence(...)`, `verdict(...)`, `command(...)` or `human(...)`");
                None
            }
            None => None,
        };
        let task = self.template(node, "task");
        let freeze = self.globs(node, "freeze");
        let inputs = self.names(node, "inputs", StateName::parse);
        let is_fresh = self.flag(node, "fresh");
        let (role, role_at) = role?;
        Some(Work { role, role_at, task, gate: gate?, freeze, inputs, is_fresh })
    }

    fn gate(&mut self, node: &Node) -> Option<Gate> {
        match node.word.name {
            "evidence" => {
                let fields = self.fields(node, "fields");
                if fields.0.is_empty() && node.given.contains_key("fields") {
                    let problem = Problem::new(&node.at, "`evidence` asks for nothing");
                    self.problems.push(problem.hint("name at least one field: `{\"summary\": \"text\"}`"));
                }
                Some(Gate::Evidence { fields, verify: self.verify(node) })
            }
            "verdict" => {
                let options = self.options(node);
                let mut fields = self.fields(node, "needs");
                let words = options.iter().map(|option| option.as_str().to_owned()).collect();
                let choice = Field { kind: FieldType::OneOf(words), is_optional: false, at: node.at.clone() };
                let name = self.keep(&node.at, FieldName::parse(VERDICT))?;
                if fields.0.insert(name, choice).is_some() {
                    self.problems
                        .push(Problem::new(&node.at, "`needs` has a field `verdict`, which is there by itself"));
                }
                Some(Gate::Verdict { options, fields, verify: self.verify(node) })
            }
            "command" => {
                self.refuse(node, "idempotent", "a gate", "it belongs to an action");
                let argv = match node.value("argv")? {
                    Raw::Text(text) => Argv::trusted(text),
                    Raw::List(_) => Argv::new(self.texts(node, "argv")),
                    other => {
                        self.wrong(node, "argv", other, "a list of arguments, or a text");
                        return None;
                    }
                };
                let verify = self.verify(node);
                self.keep(&node.at, argv).map(|argv| Gate::Command { argv, verify })
            }
            "human" => {
                for field in ["on", "retries", "timeout"] {
                    self.refuse(node, field, "a gate", "give it to the state");
                }
                self.question(node).map(Gate::Human)
            }
            other => {
                let problem = Problem::new(&node.at, format!("`{other}(...)` is not a gate"));
                self.problems.push(problem.suggest(other, ["evidence", "verdict", "command", "human"]));
                None
            }
        }
    }

    fn refuse(&mut self, node: &Node, field: &str, place: &str, hint: &str) {
        if node.given.contains_key(field) {
            let message = format!("`{field}` of `{}` means nothing in {place}", node.word.name);
            self.problems.push(Problem::new(&node.at, message).hint(hint));
        }
    }

    fn verify(&mut self, node: &Node) -> Option<VerifyRef> {
        match node.value("verify")? {
            Raw::Function { file, slot } => {
                Some(VerifyRef { file: file.clone(), slot: slot.clone(), at: node.at.clone() })
            }
            other => {
                self.wrong(node, "verify", other, "a function: `lambda c: c.run(project.test).ok`");
                None
            }
        }
    }

    fn options(&mut self, node: &Node) -> Vec<Outcome> {
        let texts = self.texts(node, "options");
        if texts.is_empty() && node.given.contains_key("options") {
            let problem = Problem::new(&node.at, format!("`{}` offers no options", node.word.name));
            self.problems.push(problem.hint("nobody could answer; name at least one"));
        }
        let mut options: Vec<Outcome> = Vec::new();
        for text in texts {
            let at = self.at(node, &text);
            if [Outcome::FAIL, Outcome::EXHAUSTED].contains(&text.as_str()) {
                let problem = Problem::new(&at, format!("the option `{text}` has a meaning of its own"));
                self.problems.push(problem.hint("take another word, such as `refused`"));
            } else if options.iter().any(|option| option.as_str() == text) {
                self.problems.push(Problem::new(&at, format!("the option `{text}` is there twice")));
            } else if self.keep(&at, FieldName::parse(&text)).is_some() {
                options.push(Outcome::new(&text));
            }
        }
        options
    }

    fn fields(&mut self, node: &Node, field: &str) -> Fields {
        let mut fields = BTreeMap::new();
        for (key, value) in self.dict(node, field) {
            let Some((name, at)) = self.name(node, &key, FieldName::parse) else { continue };
            let read = match &value {
                Raw::Text(word) => {
                    let (word, is_optional) =
                        word.strip_suffix('?').map_or((word.as_str(), false), |word| (word, true));
                    let known = FieldType::WORDS.into_iter().find(|(known, ..)| *known == word);
                    if known.is_none() {
                        let problem = Problem::new(&at, format!("`{word}` is not a type of field"));
                        let words = FieldType::WORDS.map(|(known, ..)| known);
                        self.problems.push(problem.suggest(word, words.into_iter().chain(["one_of"])));
                    }
                    known.map(|(_, kind, _)| (kind, is_optional))
                }
                Raw::Node(inner) if inner.word.name == "one_of" => {
                    Some((FieldType::OneOf(self.texts(inner, "options")), self.flag(inner, "optional")))
                }
                other => {
                    self.wrong(node, field, other, "a type for each field, such as `\"text\"`");
                    None
                }
            };
            if let Some((kind, is_optional)) = read {
                fields.insert(name, Field { kind, is_optional, at });
            }
        }
        Fields(fields)
    }

    fn template(&mut self, node: &Node, field: &str) -> Option<Template> {
        let text = self.text(node, field)?;
        let at = self.at(node, &text);
        self.keep(&at, Template::parse(&text))
    }

    fn question(&mut self, node: &Node) -> Option<Question> {
        let options = self.options(node);
        self.template(node, "question").map(|text| Question { text, options })
    }

    fn action(&mut self, node: &Node) -> Option<Action> {
        let value = node.value("does")?;
        match value {
            Raw::Node(inner) if inner.word.name == "commit" => {
                self.template(inner, "message").map(|message| Action::Commit { message })
            }
            Raw::Node(inner) if inner.word.name == "command" => {
                self.refuse(inner, "verify", "an action", "its exit code decides");
                let is_idempotent = self.flag(inner, "idempotent");
                self.arguments(inner).map(|argv| Action::Command { argv, is_idempotent })
            }
            other => {
                self.wrong(node, "does", other, "`commit(...)` or `command(...)`");
                None
            }
        }
    }

    /// Arguments with parameters in them, or a text without.
    fn arguments(&mut self, node: &Node) -> Option<Vec<Template>> {
        let words = match node.value("argv")? {
            Raw::Text(text) => {
                if Template::parse(text).is_ok_and(|template| template.references().next().is_some()) {
                    let problem = Problem::new(&node.at, format!("the text `{text}` holds a parameter"));
                    self.problems.push(problem.hint("write a list of arguments: `[\"cargo\", \"test\", \"{name}\"]`"));
                    return None;
                }
                // Braces of the shell are no references, so they are doubled.
                let argv = self.keep(&node.at, Argv::trusted(text))?;
                argv.words().iter().map(|word| word.replace('{', "{{").replace('}', "}}")).collect()
            }
            _ => self.texts(node, "argv"),
        };
        if words.is_empty() {
            self.problems.push(Problem::new(&node.at, "a command needs a program"));
        }
        let templates: Vec<_> = words.iter().filter_map(|word| self.keep(&node.at, Template::parse(word))).collect();
        (!templates.is_empty()).then_some(templates)
    }

    fn parallel(&mut self, node: &Node) -> Parallel {
        let mut branches = BTreeMap::new();
        for (key, value) in self.dict(node, "branches") {
            let name = self.name(node, &key, BranchName::parse);
            let call = self.called(node, "branches", &value);
            if let (Some((name, _)), Some(call)) = (name, call) {
                branches.insert(name, call);
            }
        }
        if branches.len() > BRANCHES_MAX {
            self.problems.push(Problem::new(&node.at, format!("more than {BRANCHES_MAX} branches")));
        }
        let join = match node.value("join") {
            None => Join::All,
            Some(Raw::Text(text)) if text == "all" => Join::All,
            Some(Raw::Text(text)) if text == "any" => Join::Any,
            Some(Raw::Node(inner)) if inner.word.name == "quorum" => {
                let count = self.whole(inner, "count", u64::from(u32::MAX), Some(1)).unwrap_or(1);
                Join::Quorum(u32::try_from(count).unwrap_or(u32::MAX))
            }
            Some(other) => {
                self.wrong(node, "join", other, "`\"all\"`, `\"any\"` or `quorum(...)`");
                Join::All
            }
        };
        Parallel { branches, join }
    }

    fn each(&mut self, node: &Node) -> Option<Each> {
        let over = self.text(node, "over").and_then(|text| {
            let at = self.at(node, &text);
            self.keep(&at, Reference::parse(&text))
        });
        let item = self.named(node, "item", ParamName::parse);
        let call = node.value("run").and_then(|value| self.called(node, "run", value));
        let swap = self.names(node, "swap", RoleName::parse).into_iter().map(|(role, _)| role).collect();
        let at_once = self.whole(node, "at_once", AT_ONCE_MAX, Some(1)).unwrap_or(1).max(1);
        let max = self.whole(node, "max", ITEMS_MAX, Some(u64::from(ITEMS))).unwrap_or(u64::from(ITEMS));
        Some(Each {
            over: over?,
            item: item?.0,
            call: call?,
            swap,
            at_once: u32::try_from(at_once).unwrap_or(1),
            max: u32::try_from(max).unwrap_or(ITEMS),
        })
    }

    fn call(&mut self, node: &Node) -> Option<Call> {
        let mut params = BTreeMap::new();
        for (key, value) in self.dict(node, "params") {
            let name = self.name(node, &key, ParamName::parse);
            let given = match &value {
                Raw::Text(text) => {
                    let at = self.at(node, text);
                    self.keep(&at, Template::parse(text)).map(Given::Template)
                }
                other => json_of(other).map(Given::Value).or_else(|| {
                    self.wrong(node, "params", other, "texts, numbers, bools or lists");
                    None
                }),
            };
            if let (Some((name, _)), Some(given)) = (name, given) {
                params.insert(name, given);
            }
        }
        let workflow = node.value("workflow")?;
        self.workflow_name(node, "workflow", workflow).map(|workflow| Call { workflow, params, at: node.at.clone() })
    }

    /// `call(...)`, a workflow, or the name of one.
    fn called(&mut self, node: &Node, field: &str, value: &Raw) -> Option<Call> {
        match value {
            Raw::Node(inner) if inner.word.name == "call" => {
                for extra in ["on", "retries", "timeout"] {
                    self.refuse(inner, extra, &format!("`{}`", node.word.name), "give it to the state");
                }
                self.call(inner)
            }
            other => self.workflow_name(node, field, other).map(|workflow| {
                let at = self.at(node, workflow.as_str());
                Call { workflow, params: BTreeMap::new(), at }
            }),
        }
    }

    fn workflow_name(&mut self, node: &Node, field: &str, value: &Raw) -> Option<WorkflowName> {
        match value {
            Raw::Text(text) => self.name(node, text, WorkflowName::parse).map(|(name, _)| name),
            Raw::Node(inner) if inner.word.name == "workflow" => {
                let inner: &Arc<Node> = inner;
                self.named(inner, "name", WorkflowName::parse).map(|(name, _)| name)
            }
            other => {
                self.wrong(node, field, other, "a workflow, the name of one, or `call(...)`");
                None
            }
        }
    }
}
