//! Runs definition files as Starlark: calls of the vocabulary become nodes, mistakes become problems.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use starlark::collections::SmallMap;
use starlark::environment::{FrozenModule, Globals, GlobalsBuilder, Module};
use starlark::eval::{Evaluator, FileLoader};
use starlark::starlark_module;
use starlark::syntax::{AstModule, Dialect};
use starlark::values::dict::DictRef;
use starlark::values::float::UnpackFloat;
use starlark::values::list::{AllocList, ListRef};
use starlark::values::structs::{AllocStruct, StructRef};
use starlark::values::tuple::{TupleRef, UnpackTuple};
use starlark::values::{FrozenStringValue, ProvidesStaticType, UnpackValue, Value};

use self::evaluating::Evaluating;
use super::Sources;
use super::literal::{Literal, literals};
use super::nesting::too_deep;
use super::node::{Node, Raw};
use super::vocabulary::{TOOL_SETS, Word, word};
use crate::names::Pos;
use crate::problem::{Problem, suggestion};
use crate::project::Project;

/// Function calls and loops of one evaluation.
pub(crate) const TICKS_MAX: u64 = 100_000;
/// Functions inside functions.
pub(crate) const CALLS_MAX: usize = 60;
/// Memory of one evaluation.
pub(crate) const HEAP_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The largest file.
const FILE_BYTES_MAX: usize = 256 * 1024;
/// Values inside values.
const DEPTH_MAX: usize = 20;
/// The longest list that `list(...)` makes.
const ITEMS_MAX: usize = 100_000;
/// The field of a value that stands for a node.
const NODE_FIELD: &str = "node of the definition";

/// What one file gave.
pub(super) struct Evaluated {
    pub workflows: Vec<Arc<Node>>,
    pub problems: Vec<Problem>,
}

/// What all files of one reading share.
#[derive(Default)]
pub(super) struct Shared {
    nodes: RefCell<Vec<Arc<Node>>>,
    problems: RefCell<Vec<Problem>>,
    modules: RefCell<BTreeMap<String, FrozenModule>>,
    literals: RefCell<BTreeMap<String, Vec<Literal>>>,
    loading: RefCell<Vec<String>>,
}

mod evaluating {
    #![expect(
        unsafe_code,
        reason = "Starlark's derive implements an unsafe trait that names the type; nothing else is here"
    )]

    use super::{Arc, Cell, Node, ProvidesStaticType, Rc, RefCell, Shared};

    /// The evaluation of one file.
    #[derive(ProvidesStaticType)]
    pub struct Evaluating {
        pub file: String,
        pub is_loaded: bool,
        pub shared: Rc<Shared>,
        pub workflows: RefCell<Vec<Arc<Node>>>,
        pub functions: Cell<u32>,
    }
}

/// Evaluates files, each once.
pub(super) struct Session<'a> {
    sources: &'a Sources,
    globals: Globals,
    shared: Rc<Shared>,
}

impl<'a> Session<'a> {
    pub fn new(sources: &'a Sources) -> Self {
        Self { sources, globals: globals(&sources.project), shared: Rc::default() }
    }

    /// Evaluates a file that defines a workflow.
    pub fn workflows(&self, file: &str) -> Evaluated {
        let workflows = match self.evaluate(file, false) {
            Ok(workflows) => workflows,
            Err(problem) => {
                self.shared.problems.borrow_mut().push(problem);
                Vec::new()
            }
        };
        Evaluated { workflows, problems: self.shared.problems.take() }
    }

    /// The evaluated files, and every text that stands in one of them.
    pub fn finish(self) -> (BTreeMap<String, FrozenModule>, BTreeSet<String>) {
        let literals = self.shared.literals.take();
        let texts = literals.into_values().flatten().map(|literal| literal.text).collect();
        (self.shared.modules.take(), texts)
    }

    /// The line of a text inside a call, if it stands there.
    pub fn line(&self, node: &Node, text: &str) -> Option<u32> {
        let literals = self.shared.literals.borrow();
        let (begin, end) = node.span;
        let inside = |literal: &&Literal| literal.begin >= begin && literal.begin < end && literal.text == text;
        literals.get(node.at.file.as_ref())?.iter().find(inside).map(|literal| literal.line)
    }

    fn evaluate(&self, file: &str, is_loaded: bool) -> Result<Vec<Arc<Node>>, Problem> {
        self.shared.loading.borrow_mut().push(file.to_owned());
        let result = self.evaluate_text(file, is_loaded);
        self.shared.loading.borrow_mut().pop();
        result
    }

    fn evaluate_text(&self, file: &str, is_loaded: bool) -> Result<Vec<Arc<Node>>, Problem> {
        let start = Pos { file: file.into(), line: 1 };
        let text = self.sources.files.get(file).ok_or_else(|| {
            Problem::new(&start, format!("there is no file `{file}`"))
                .suggest(file, self.sources.files.keys().map(String::as_str))
        })?;
        if text.len() > FILE_BYTES_MAX {
            return Err(Problem::new(
                &start,
                format!("the file has {} bytes, at most {FILE_BYTES_MAX} are read", text.len()),
            ));
        }
        if let Some((line, what)) = too_deep(text) {
            let at = Pos { file: file.into(), line };
            return Err(Problem::new(&at, what).hint("give parts of it names of their own"));
        }
        let dialect = Dialect { enable_keyword_only_arguments: true, enable_top_level_stmt: true, ..Dialect::Standard };
        let ast = AstModule::parse(file, text.clone(), &dialect).map_err(|error| self.problem(&error, &start))?;
        self.shared.literals.borrow_mut().insert(file.to_owned(), literals(&ast));
        let evaluating = Evaluating {
            file: file.to_owned(),
            is_loaded,
            shared: Rc::clone(&self.shared),
            workflows: RefCell::default(),
            functions: Cell::new(0),
        };
        let module = Module::with_temp_heap(|module| {
            {
                let mut evaluator = Evaluator::new(&module);
                limit(&mut evaluator);
                evaluator.extra = Some(&evaluating);
                evaluator.set_loader(self);
                evaluator.eval_module(ast, &self.globals).map_err(|error| self.problem(&error, &start))?;
            }
            module.freeze().map_err(|error| Problem::new(&start, format!("{error:?}")))
        })?;
        self.shared.modules.borrow_mut().insert(file.to_owned(), module);
        Ok(evaluating.workflows.take())
    }

    /// Starlark's own errors in our form: where, what, and a suggestion that it may make.
    fn problem(&self, error: &starlark::Error, otherwise: &Pos) -> Problem {
        let at = error.span().map_or_else(
            || otherwise.clone(),
            |span| Pos { file: span.filename().into(), line: line_of(span.resolve_span().begin.line) },
        );
        let message = error.without_diagnostic().to_string();
        if let Some((what, suggested)) = message.split_once(", did you mean ") {
            return Problem::new(&at, what).hint(format!("did you mean {suggested}"));
        }
        let problem = Problem::new(&at, message.trim());
        if message.contains("unexpected identifier '_") {
            return problem.hint("numbers are written without `_` in Starlark");
        }
        match message.strip_prefix("Variable `").and_then(|rest| rest.split_once('`')) {
            Some((wrong, _)) => problem.suggest(wrong, self.globals.names().map(FrozenStringValue::as_str)),
            None => problem,
        }
    }
}

impl FileLoader for Session<'_> {
    fn load(&self, path: &str) -> starlark::Result<FrozenModule> {
        if let Some(module) = self.shared.modules.borrow().get(path) {
            return Ok(module.clone());
        }
        let other = |message: String| starlark::Error::new_other(LoadError(message));
        if self.shared.loading.borrow().iter().any(|file| file == path) {
            return Err(other(format!("`{path}` loads itself")));
        }
        if !self.sources.files.contains_key(path) {
            let hint = suggestion(path, self.sources.files.keys().map(String::as_str)).unwrap_or_default();
            return Err(other(format!("there is no file `{path}` beside this one: {hint}")));
        }
        if let Err(problem) = self.evaluate(path, true) {
            self.shared.problems.borrow_mut().push(problem);
            return Err(other(format!("`{path}` cannot be loaded")));
        }
        let module = self.shared.modules.borrow().get(path).cloned();
        module.ok_or_else(|| other(format!("`{path}` cannot be loaded")))
    }
}

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct LoadError(String);

/// Sets every limit that Starlark has. Each can be set once, so an error means that it is set.
pub(crate) fn limit(evaluator: &mut Evaluator<'_, '_, '_>) {
    let _ = evaluator.set_max_callstack_size(CALLS_MAX);
    let _ = evaluator.set_max_heap_size(HEAP_BYTES_MAX);
    let _ = evaluator.set_max_tick_count(TICKS_MAX);
}

fn line_of(zero_based: usize) -> u32 {
    u32::try_from(zero_based + 1).unwrap_or(u32::MAX)
}

/// The words, the project and the tool sets.
fn globals(project: &Project) -> Globals {
    let mut builder = GlobalsBuilder::standard().with(words);
    builder.set("project", AllocStruct(project_fields(project)));
    for (name, tools) in TOOL_SETS {
        builder.set(name, AllocList(tools.iter().copied()));
    }
    builder.build()
}

/// `project` as definitions and verify functions see it.
pub(crate) fn project_fields(project: &Project) -> Vec<(&'static str, serde_json::Value)> {
    let commands = project.commands().map(|(name, command)| (name, command.into()));
    let paths =
        [("test_paths", project.test_paths.clone().into()), ("source_paths", project.source_paths.clone().into())];
    commands.into_iter().chain(paths).collect()
}

type Arguments<'v> = (UnpackTuple<Value<'v>>, SmallMap<String, Value<'v>>);

/// One call of a word becomes a node; what does not fit is a problem, and evaluation goes on to find the next.
fn node_of<'v>(
    name: &str,
    (args, kwargs): Arguments<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let internal = |what: &str| starlark::Error::new_other(LoadError(format!("`{name}` {what}")));
    let word = word(name).ok_or_else(|| internal("is not a word"))?;
    let evaluating = eval
        .extra
        .and_then(|extra| extra.downcast_ref::<Evaluating>())
        .ok_or_else(|| internal("belongs into a definition: a verify function cannot call it"))?;
    let (at, span) = eval.call_stack_top_location().map_or_else(
        || (Pos { file: evaluating.file.as_str().into(), line: 1 }, (0, 0)),
        |place| {
            let at = Pos { file: place.filename().into(), line: line_of(place.resolve_span().begin.line) };
            (at, (place.span.begin().get(), place.span.end().get()))
        },
    );
    let mut problems = Vec::new();
    let mut given = BTreeMap::new();
    for (position, value) in args.items.into_iter().enumerate() {
        match word.fields.get(position) {
            Some(field) => {
                given.insert(field.name, raw(value, evaluating, eval, 0));
            }
            None => problems.push(Problem::new(&at, format!("`{name}` takes at most {} values", word.fields.len()))),
        }
    }
    for (key, value) in kwargs {
        let Some(field) = word.fields.iter().find(|field| field.name == key) else {
            let problem = Problem::new(&at, format!("`{name}` has no field `{key}`"));
            problems.push(problem.suggest(&key, word.fields.iter().map(|field| field.name)));
            continue;
        };
        if given.insert(field.name, raw(value, evaluating, eval, 0)).is_some() {
            problems.push(Problem::new(&at, format!("`{key}` is given twice to `{name}`")));
        }
    }
    problems.extend(missing(word, &given, &at));
    if word.name == "workflow" && evaluating.is_loaded {
        let problem = Problem::new(&at, "a file that is loaded cannot define a workflow");
        problems.push(problem.hint("`call` it by its name instead of loading it"));
    }
    evaluating.shared.problems.borrow_mut().extend(problems);
    let node = Arc::new(Node { word, at, span, given });
    if word.name == "workflow" {
        evaluating.workflows.borrow_mut().push(Arc::clone(&node));
    }
    let mut nodes = evaluating.shared.nodes.borrow_mut();
    let number = i32::try_from(nodes.len()).map_err(|_| internal("is called too often"))?;
    nodes.push(node);
    Ok(eval.heap().alloc(AllocStruct([(NODE_FIELD, number)])))
}

fn missing(word: &Word, given: &BTreeMap<&'static str, Raw>, at: &Pos) -> Vec<Problem> {
    let fields = word.fields.iter().filter(|field| field.default.is_none() && !given.contains_key(field.name));
    fields
        .map(|field| {
            Problem::new(at, format!("`{}` needs `{}`", word.name, field.name))
                .hint(format!("`{} = ...`: {}", field.name, field.about))
        })
        .collect()
}

fn raw<'v>(value: Value<'v>, evaluating: &Evaluating, eval: &Evaluator<'v, '_, '_>, depth: usize) -> Raw {
    let inner = |value| raw(value, evaluating, eval, depth + 1);
    if depth > DEPTH_MAX {
        Raw::Other("value inside itself".to_owned())
    } else if value.is_none() {
        Raw::None
    } else if let Some(value) = value.unpack_bool() {
        Raw::Bool(value)
    } else if let Ok(Some(value)) = i64::unpack_value(value) {
        Raw::Int(value)
    } else if let Ok(Some(UnpackFloat(value))) = UnpackFloat::unpack_value(value) {
        Raw::Float(value)
    } else if let Some(text) = value.unpack_str() {
        Raw::Text(text.to_owned())
    } else if let Some(list) = ListRef::from_value(value) {
        Raw::List(list.iter().map(inner).collect())
    } else if let Some(tuple) = TupleRef::from_value(value) {
        Raw::List(tuple.iter().map(inner).collect())
    } else if let Some(dict) = DictRef::from_value(value) {
        Raw::Dict(dict.iter().map(|(key, value)| (inner(key), inner(value))).collect())
    } else if let Some(node) = node(value, &evaluating.shared) {
        Raw::Node(node)
    } else if value.get_type() == "function" {
        let number = evaluating.functions.get();
        evaluating.functions.set(number + 1);
        let slot = format!("verify {number}");
        // Among the module's values the function outlives the evaluation; no name can be written like this one.
        eval.module().set(&slot, value);
        Raw::Function { file: evaluating.file.clone(), slot }
    } else {
        Raw::Other(value.get_type().to_owned())
    }
}

fn node(value: Value<'_>, shared: &Shared) -> Option<Arc<Node>> {
    let (_, number) = StructRef::from_value(value)?.iter().find(|(name, _)| name.as_str() == NODE_FIELD)?;
    let number = usize::try_from(number.unpack_i32()?).ok()?;
    shared.nodes.borrow().get(number).cloned()
}

/// Declares words that do nothing but become nodes.
macro_rules! plain_words {
    ($($word:ident),*) => {
        #[starlark_module]
        fn words(builder: &mut GlobalsBuilder) {
            $(fn $word<'v>(
                #[starlark(args)] args: UnpackTuple<Value<'v>>,
                #[starlark(kwargs)] kwargs: SmallMap<String, Value<'v>>,
                eval: &mut Evaluator<'v, '_, '_>,
            ) -> starlark::Result<Value<'v>> {
                node_of(stringify!($word), (args, kwargs), eval)
            })*

            fn bool<'v>(
                #[starlark(args)] args: UnpackTuple<Value<'v>>,
                #[starlark(kwargs)] kwargs: SmallMap<String, Value<'v>>,
                eval: &mut Evaluator<'v, '_, '_>,
            ) -> starlark::Result<Value<'v>> {
                match args.items.as_slice() {
                    [one] => Ok(Value::new_bool(one.to_bool())),
                    _ => node_of("bool", (args, kwargs), eval),
                }
            }

            fn list<'v>(
                #[starlark(args)] args: UnpackTuple<Value<'v>>,
                #[starlark(kwargs)] kwargs: SmallMap<String, Value<'v>>,
                eval: &mut Evaluator<'v, '_, '_>,
            ) -> starlark::Result<Value<'v>> {
                match args.items.as_slice() {
                    [one] => {
                        let items: Vec<Value<'v>> = one.iterate(eval.heap())?.take(ITEMS_MAX + 1).collect();
                        if items.len() > ITEMS_MAX {
                            let message = format!("a list of more than {ITEMS_MAX} items");
                            return Err(starlark::Error::new_other(LoadError(message)));
                        }
                        Ok(eval.heap().alloc(AllocList(items)))
                    }
                    _ => node_of("list", (args, kwargs), eval),
                }
            }
        }
    };
}

plain_words!(
    workflow, role, state, action, parallel, each, call, human, done, escalate, evidence, verdict, command, commit,
    quorum, one_of, string, number
);
