//! Verify functions, replayed: a command without a recorded result stops the evaluation and is asked for.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use starlark::environment::{Globals, GlobalsBuilder, Module};
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::dict::AllocDict;
use starlark::values::list::{AllocList, ListRef};
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, ProvidesStaticType, Value};

use crate::command::Argv;
use crate::definition::evaluate::{limit, project_fields};
use crate::definition::{Definition, Gate, VerifyRef};
use crate::field::Evidence;
use crate::names::{FieldName, Outcome, StateName, TreeHash};
use crate::param::Params;
use crate::scope::RelPath;
use crate::stack::on_large_stack;

use self::replay::Replay;

/// Commands that one verification may ask for.
pub const RUNS_MAX: usize = 16;
/// How much of a command's output is kept.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// What came of a command that was run for a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    /// What was run.
    pub argv: Argv,
    /// The exit code; none if it was stopped or could not be started.
    pub code: Option<i32>,
    /// The end of what it wrote.
    pub output: String,
    /// How long it took.
    pub duration_ms: u64,
    /// The tree that it ran on.
    pub tree: TreeHash,
}

impl CommandResult {
    /// It ended well.
    pub fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// It ran and ended badly. A shell's "cannot execute" and "not found" are no result of what was to be run.
    pub fn is_failed(&self) -> bool {
        self.code.is_some_and(|code| ![0, 126, 127].contains(&code))
    }

    /// What it did, in one line and the end of its output.
    pub fn describe(&self) -> String {
        const SHOWN: usize = 2000;
        let end = match self.code {
            Some(code) => format!("`{}` ended with exit code {code}", self.argv),
            None => format!("`{}` did not end by itself", self.argv),
        };
        let output = self.output.trim_end();
        let skip = output.char_indices().rev().nth(SHOWN).map_or(0, |(at, char)| at + char.len_utf8());
        if output.is_empty() { end } else { format!("{end}:\n{}", &output[skip..]) }
    }
}

/// What a gate is judged by.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The run's parameters.
    pub params: Params,
    /// What was submitted.
    pub evidence: Evidence,
    /// What was chosen, at a verdict.
    pub verdict: Option<Outcome>,
    /// What was submitted in earlier states.
    pub inputs: BTreeMap<StateName, Evidence>,
    /// What this state changed.
    pub changed: Vec<RelPath>,
}

/// What a gate says to what was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// A command has to be run first.
    Needs(Argv),
    /// It may be left.
    Passed,
    /// It may not be left, and why.
    Failed(String),
    /// The function itself is wrong; no agent can mend that.
    Broken(String),
}

/// Judges what was submitted at a gate, as far as the results so far allow.
pub fn evaluate(definition: &Definition, gate: &Gate, context: &Context, results: &[CommandResult]) -> Judgement {
    let (first, rest) = match (gate, results) {
        (Gate::Command { argv, .. }, []) => return Judgement::Needs(argv.clone()),
        (Gate::Command { .. }, [first, rest @ ..]) => (Some(first), rest),
        (_, results) => (None, results),
    };
    match (gate.verify(), first) {
        (Some(verify), _) => call(definition, verify, context, first, rest),
        (None, Some(first)) if !first.is_ok() => Judgement::Failed(first.describe()),
        (None, _) => Judgement::Passed,
    }
}

mod replay {
    #![expect(
        unsafe_code,
        reason = "Starlark's derive implements an unsafe trait that names the type; nothing else is here"
    )]

    use super::{Argv, BTreeSet, Cell, CommandResult, ProvidesStaticType, RefCell};

    /// One replay: what was recorded, how far it is used up, and what is asked for beyond it.
    #[derive(ProvidesStaticType)]
    pub struct Replay {
        pub results: Vec<CommandResult>,
        pub trusted: BTreeSet<String>,
        pub next: Cell<usize>,
        pub needs: RefCell<Option<Argv>>,
    }
}

/// Why `c.run` stops a function.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("the result of a command is needed first")]
    Needs,
    #[error("{0}")]
    Bad(String),
}

impl Replay {
    fn run(&self, value: Value<'_>) -> Result<&CommandResult, RunError> {
        let argv = self.argv(value)?;
        let number = self.next.get();
        self.next.set(number + 1);
        match self.results.get(number) {
            Some(result) if result.argv == argv => Ok(result),
            Some(result) => {
                Err(RunError::Bad(format!("asked for `{argv}` where it asked for `{}` before", result.argv)))
            }
            None if number >= RUNS_MAX => Err(RunError::Bad(format!("asked for more than {RUNS_MAX} commands"))),
            None => {
                self.needs.replace(Some(argv));
                Err(RunError::Needs)
            }
        }
    }

    fn argv(&self, value: Value<'_>) -> Result<Argv, RunError> {
        let bad = |what: String| RunError::Bad(format!("`c.run` takes a list of texts, or a text: {what}"));
        if let Some(text) = value.unpack_str() {
            return Argv::from_text(text, &self.trusted).map_err(|error| bad(error.to_string()));
        }
        if value.is_none() {
            return Err(bad("it got None; is the project's command or the parameter set?".to_owned()));
        }
        let list = ListRef::from_value(value).ok_or_else(|| bad(format!("it got a {}", value.get_type())))?;
        let words = list.iter().map(|word| word.unpack_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        let words = words.ok_or_else(|| bad("an argument is not a text".to_owned()))?;
        Argv::new(words).map_err(|error| bad(error.to_string()))
    }
}

#[starlark_module]
fn functions(builder: &mut GlobalsBuilder) {
    fn run<'v>(
        #[starlark(require = pos)] command: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let replay = eval.extra.and_then(|extra| extra.downcast_ref::<Replay>());
        let replay =
            replay.ok_or_else(|| starlark::Error::new_other(RunError::Bad("nothing can be run here".to_owned())))?;
        let result = replay.run(command).map_err(starlark::Error::new_other)?;
        Ok(alloc_result(eval.heap(), result))
    }
}

fn alloc_result<'v>(heap: Heap<'v>, result: &CommandResult) -> Value<'v> {
    heap.alloc(AllocStruct([
        ("ok", heap.alloc(result.is_ok())),
        ("failed", heap.alloc(result.is_failed())),
        ("code", result.code.map_or(Value::new_none(), |code| heap.alloc(code))),
        ("output", heap.alloc(result.output.as_str())),
        ("tree", heap.alloc(result.tree.as_str())),
    ]))
}

fn call(
    definition: &Definition,
    verify: &VerifyRef,
    context: &Context,
    first: Option<&CommandResult>,
    results: &[CommandResult],
) -> Judgement {
    let judge = || call_here(definition, verify, context, first, results);
    on_large_stack(judge).unwrap_or_else(|| Judgement::Broken(format!("{}: the function could not be run", verify.at)))
}

fn call_here(
    definition: &Definition,
    verify: &VerifyRef,
    context: &Context,
    first: Option<&CommandResult>,
    results: &[CommandResult],
) -> Judgement {
    let broken = |why: &dyn std::fmt::Display| Judgement::Broken(format!("{}: verify: {why}", verify.at));
    let function = definition.module(&verify.file).map(|module| module.get(&verify.slot));
    let function = match function {
        Some(Ok(function)) => function,
        Some(Err(error)) => return broken(&error),
        None => return broken(&"its file is not there"),
    };
    let replay = Replay {
        results: results.to_vec(),
        trusted: definition.trusted().clone(),
        next: Cell::new(0),
        needs: RefCell::default(),
    };
    let globals = GlobalsBuilder::new().with(functions).build();
    Module::with_temp_heap(|module| {
        let function = module.heap().access_owned_frozen_value(&function);
        let mut evaluator = Evaluator::new(&module);
        limit(&mut evaluator);
        evaluator.extra = Some(&replay);
        let c = alloc_context(module.heap(), &globals, definition, verify, context, first);
        match evaluator.eval_function(function, &[c], &[]) {
            Ok(value) => judgement(value, first, results).unwrap_or_else(|why| broken(&why)),
            Err(error) => match (replay.needs.take(), error.kind()) {
                (Some(argv), _) => Judgement::Needs(argv),
                (None, starlark::ErrorKind::Fail(why)) => Judgement::Failed(why.to_string().trim().to_owned()),
                (None, _) => broken(&error.without_diagnostic()),
            },
        }
    })
}

fn judgement(value: Value<'_>, first: Option<&CommandResult>, results: &[CommandResult]) -> Result<Judgement, String> {
    if let Some(is_passed) = value.unpack_bool() {
        if is_passed {
            return Ok(Judgement::Passed);
        }
        let last = results.last().or(first);
        return Ok(Judgement::Failed(last.map_or("it returned False".to_owned(), CommandResult::describe)));
    }
    match value.unpack_str() {
        Some("") => Err("it returned an empty text; return True, False, or why it is refused".to_owned()),
        Some(why) => Ok(Judgement::Failed(why.to_owned())),
        None => Err(format!(
            "it returned a {}; return True, False, or a text that says why it is refused",
            value.get_type()
        )),
    }
}

fn alloc_context<'v>(
    heap: Heap<'v>,
    globals: &Globals,
    definition: &Definition,
    verify: &VerifyRef,
    context: &Context,
    first: Option<&CommandResult>,
) -> Value<'v> {
    let run = globals.iter().find(|(name, _)| *name == "run").map_or(Value::new_none(), |(_, value)| value.to_value());
    let json = |value: &Json| heap.alloc(value);
    let params = context.params.iter().map(|(name, value)| (name.as_str(), json(value)));
    let inputs = context
        .inputs
        .iter()
        .map(|(state, evidence)| (state.as_str(), alloc_evidence(heap, evidence, asked_in(definition, state))));
    let project = project_fields(definition.project()).into_iter().map(|(name, value)| (name, json(&value)));
    let fields = asked_by(definition, verify);
    heap.alloc(AllocStruct([
        ("run", run),
        ("params", heap.alloc(AllocStruct(params.collect::<Vec<_>>()))),
        ("evidence", alloc_evidence(heap, &context.evidence, fields)),
        ("inputs", heap.alloc(AllocDict(inputs.collect::<Vec<_>>()))),
        ("changed", heap.alloc(AllocList(context.changed.iter().map(RelPath::as_str)))),
        ("verdict", context.verdict.as_ref().map_or(Value::new_none(), |verdict| heap.alloc(verdict.as_str()))),
        ("result", first.map_or(Value::new_none(), |result| alloc_result(heap, result))),
        ("project", heap.alloc(AllocStruct(project.collect::<Vec<_>>()))),
    ]))
}

/// Every field that was asked for; None for those that were left out.
fn alloc_evidence<'v>(heap: Heap<'v>, evidence: &Evidence, asked: Vec<&FieldName>) -> Value<'v> {
    let mut fields: BTreeMap<&str, Value<'v>> =
        asked.into_iter().map(|name| (name.as_str(), Value::new_none())).collect();
    fields.extend(evidence.iter().map(|(name, value)| (name.as_str(), heap.alloc(value))));
    heap.alloc(AllocStruct(fields))
}

fn asked_by<'a>(definition: &'a Definition, verify: &VerifyRef) -> Vec<&'a FieldName> {
    let gate = |gate: &&Gate| gate.verify() == Some(verify);
    gates(definition)
        .map(|(_, gate)| gate)
        .find(gate)
        .and_then(Gate::fields)
        .map_or(Vec::new(), |fields| fields.0.keys().collect())
}

fn asked_in<'a>(definition: &'a Definition, state: &StateName) -> Vec<&'a FieldName> {
    let fields = gates(definition).filter(|(name, _)| *name == state).filter_map(|(_, gate)| gate.fields());
    fields.flat_map(|fields| fields.0.keys()).collect()
}

fn gates(definition: &Definition) -> impl Iterator<Item = (&StateName, &Gate)> {
    let states = definition.workflows().flat_map(|workflow| &workflow.states);
    states.filter_map(|state| match &state.kind {
        crate::definition::Kind::Agent(work) => Some((&state.name, &work.gate)),
        _ => None,
    })
}
