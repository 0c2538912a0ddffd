//! The walk over a command's syntax tree: directories, variables, functions, pipes and redirections.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use baton_core::Access;

use super::expand::{Arg, Known};
use super::parse::{SyntaxError, parse};
use super::syntax::{Direction, Node, Redirect, Simple, Word};
use super::table::Table;
use super::{About, Analysis, Finding, Leaves, Part, PathUse};
use crate::decision::{Decision, Verdict};
use crate::path::{Scope, escaped, normalise};

/// How much is walked before it is too much: loops and functions can make a lot out of little.
const STEPS_MAX: usize = 100_000;
/// How deep command texts may lie in command texts: `sh -c "sh -c ..."`.
const TEXTS_MAX: usize = 12;
/// The most values of a loop that are tried one by one.
const VALUES_MAX: usize = 8;

/// The value of a variable.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) known: Known,
}

/// What flows out of a command and into the next one.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent marks, joined one by one")]
pub(super) struct Flow {
    pub(super) any: bool,
    pub(super) network: bool,
    pub(super) secret: bool,
    pub(super) reads: bool,
    pub(super) decodes: bool,
    /// The text, where it is known.
    pub(super) text: Option<String>,
}

impl Flow {
    pub(super) fn add(&mut self, other: &Self) {
        self.any |= other.any;
        self.network |= other.network;
        self.secret |= other.secret;
        self.reads |= other.reads;
        self.decodes |= other.decodes;
        if let Some(text) = &other.text {
            self.text.get_or_insert_default().push_str(text);
        }
    }
}

pub(super) struct Walker<'a> {
    pub(super) scope: &'a Scope,
    pub(super) table: &'static Table,
    pub(super) vars: HashMap<String, Value>,
    pub(super) cwd: PathBuf,
    pub(super) cwd_known: bool,
    /// Links that the command itself makes, with where they lead.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    /// Files that the command itself fetches.
    pub(super) fetched: Vec<PathBuf>,
    /// What the substitutions of the simple command at hand give out.
    pub(super) substituted: Flow,
    /// Whether it has asked for Baton's process.
    pub(super) looks_for_baton: bool,
    functions: HashMap<String, Node>,
    calls: Vec<String>,
    out: Analysis,
    steps: usize,
    texts: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(scope: &'a Scope) -> Self {
        Self {
            scope,
            table: Table::get(),
            vars: HashMap::new(),
            cwd: scope.cwd.clone(),
            cwd_known: true,
            links: Vec::new(),
            fetched: Vec::new(),
            substituted: Flow::default(),
            looks_for_baton: false,
            functions: HashMap::new(),
            calls: Vec::new(),
            out: Analysis::default(),
            steps: 0,
            texts: 0,
        }
    }

    pub(super) fn analysis(&self) -> &Analysis {
        &self.out
    }

    pub(super) fn finish(self) -> Analysis {
        self.out
    }

    pub(super) fn find(&mut self, decision: Decision, about: About, leaves: Leaves) {
        if decision.verdict > Verdict::Allow || matches!(about, About::Part(_)) {
            self.out.findings.push(Finding { decision, about, leaves });
        }
    }

    pub(super) fn ask(&mut self, rule: &'static str, reason: impl Into<std::borrow::Cow<'static, str>>) {
        self.find(Decision::ask(rule, reason), About::Whole, Leaves::Not);
    }

    pub(super) fn deny(&mut self, rule: &'static str, reason: impl Into<std::borrow::Cow<'static, str>>) {
        self.find(Decision::deny(rule, reason), About::Whole, Leaves::Beyond);
    }

    pub(super) fn too_complex(&mut self) {
        self.deny("shell.too-complex", "the command is too complex to be checked; do it in smaller steps");
    }

    /// Begins a part; what is found about it refers to its number.
    pub(super) fn part(&mut self, program: &str, args: &[Arg]) -> usize {
        let words = [program].into_iter().chain(args.iter().skip(1).map(|arg| arg.text.as_str()));
        let is_exact = args.iter().all(|arg| arg.known == Known::Exactly && !arg.glob);
        self.out.parts.push(Part { words: words.map(str::to_owned).collect(), is_exact });
        self.out.parts.len() - 1
    }

    /// The same command without the options in front of its subcommand. Rules can refuse it, and never allow by it.
    pub(super) fn part_behind(&mut self, program: &str, args: &[Arg], start: usize) {
        let words = [program].into_iter().chain(args.iter().skip(start).map(|arg| arg.text.as_str()));
        self.out.parts.push(Part { words: words.map(str::to_owned).collect(), is_exact: false });
    }

    /// Whether anything was denied so far.
    pub(super) fn is_denied(&self) -> bool {
        self.out.findings.iter().any(|finding| finding.decision.verdict == Verdict::Deny)
    }

    /// Looks at a text only for what must be denied: a string in a program, the words of a wrapper.
    pub(super) fn text_for_denials(&mut self, text: &str) -> bool {
        let (findings, parts, paths) = (self.out.findings.len(), self.out.parts.len(), self.out.paths.len());
        self.text(text);
        self.out.parts.truncate(parts);
        self.out.paths.truncate(paths);
        let denial =
            self.out.findings.split_off(findings).into_iter().find(|found| found.decision.verdict == Verdict::Deny);
        let is_denied = denial.is_some();
        self.out.findings.extend(denial.map(|found| Finding { about: About::Whole, ..found }));
        is_denied
    }

    /// Walks a command text.
    pub(super) fn text(&mut self, text: &str) -> Flow {
        if self.texts >= TEXTS_MAX {
            self.too_complex();
            return Flow::default();
        }
        self.texts += 1;
        let flow = match parse(text) {
            Ok(node) => self.node(&node, &Flow::default()),
            Err(SyntaxError::TooDeep) => {
                self.too_complex();
                Flow::default()
            }
            Err(error @ SyntaxError::At(_)) => {
                self.ask("shell.syntax", format!("the command cannot be understood: {error}"));
                self.fragments(text);
                Flow { any: true, ..Flow::default() }
            }
        };
        self.texts -= 1;
        flow
    }

    /// What cannot be parsed is still searched for what must be denied, piece by piece.
    fn fragments(&mut self, text: &str) {
        let text = text.replace("\\\n", "");
        let pieces =
            text.split(['\n', ';', '|', '&', '(', ')', '{', '}', '`']).map(str::trim).filter(|piece| !piece.is_empty());
        for piece in pieces.take(4096) {
            let mut piece = piece.trim_start_matches(['$', '!', '"', '\'', ' ']);
            while let Some((word, rest)) = piece.split_once(char::is_whitespace)
                && matches!(word, "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "time" | "in" | "!")
            {
                piece = rest.trim_start();
            }
            if let Ok(node @ Node::Simple(_)) = parse(piece) {
                drop(self.node(&node, &Flow::default()));
            } else {
                let bare: String = piece.chars().filter(|c| !matches!(c, '"' | '\'' | '\\' | '<' | '>')).collect();
                let args: Vec<Arg> = bare
                    .split_whitespace()
                    .map(|word| Arg { known: Known::Guess, ..Arg::exact(self.guess_home(word)) })
                    .collect();
                if !args.is_empty() {
                    self.invoke(&args, &Flow::default());
                }
            }
        }
    }

    pub(super) fn guess_home(&self, word: &str) -> String {
        let home = self.scope.home.to_string_lossy();
        let word = word.replace("$ENV{HOME}", &home).replace("${HOME}", &home).replace("$HOME", &home);
        match word.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
            _ => word,
        }
    }

    pub(super) fn node(&mut self, node: &Node, input: &Flow) -> Flow {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            if self.steps == STEPS_MAX + 1 {
                self.too_complex();
            }
            return Flow::default();
        }
        match node {
            Node::Simple(simple) => self.simple(simple, input),
            Node::Pipeline(nodes) => {
                let mut flow = input.clone();
                for (n, node) in nodes.iter().enumerate() {
                    let out = self.node(node, &flow);
                    if n > 0 || flow.any {
                        let text = out.text.clone();
                        flow.add(&out);
                        flow.text = text;
                    } else {
                        flow = out;
                    }
                    flow.any = true;
                }
                flow
            }
            Node::Sequence(nodes) => {
                let mut flow = Flow::default();
                for node in nodes {
                    let out = self.node(node, input);
                    flow.add(&out);
                }
                flow
            }
            Node::Background(node) => {
                self.ask("shell.background", "it leaves a process running that outlives the call");
                self.node(node, input)
            }
            Node::Subshell(node, redirects) => {
                let input = self.redirected(redirects, input);
                let (cwd, known, vars) = (self.cwd.clone(), self.cwd_known, self.vars.clone());
                let flow = self.node(node, &input);
                (self.cwd, self.cwd_known, self.vars) = (cwd, known, vars);
                flow
            }
            Node::Redirected(node, redirects) => {
                let input = self.redirected(redirects, input);
                self.node(node, &input)
            }
            Node::Loop { name, words, body } => self.loop_(name, words, body, input),
            Node::Words(words) => {
                self.expand_all(words);
                Flow::default()
            }
            Node::Function { name, body } => {
                self.ask("shell.function", format!("it defines {}, which then can stand for anything", escaped(name)));
                self.functions.insert(name.clone(), (**body).clone());
                if multiplies(body, name) {
                    self.deny("destroy.fork-bomb", "it starts itself again and again until the machine stops");
                }
                self.node(body, &Flow::default())
            }
            Node::Test(words) => {
                let args = self.expand_all(words);
                let all: Vec<Arg> = [Arg::exact("[[")].into_iter().chain(args).collect();
                self.invoke(&all, input)
            }
            Node::Arithmetic(word) => {
                self.arithmetic(word);
                Flow::default()
            }
        }
    }

    /// An arithmetic expression runs what stands in subscripts, also out of quotes.
    pub(super) fn arithmetic(&mut self, word: &Word) {
        let text = self.expand_text(word);
        if text.text.contains("$(") || text.text.contains('`') {
            self.deny("shell.hidden-substitution", "arithmetic runs a command that stands in a quoted text");
        }
    }

    fn loop_(&mut self, name: &str, words: &[Word], body: &Node, input: &Flow) -> Flow {
        self.judge_variable(name);
        let values = self.expand_all(words);
        let known = values.len() <= VALUES_MAX;
        let mut flow = Flow::default();
        let none = [Arg { known: Known::Guess, ..Arg::exact("") }];
        let values = if values.is_empty() { &none[..] } else { &values[..] };
        // Of many values, all could matter: those that are not tried are not known.
        for value in values.iter().take(if known { VALUES_MAX } else { 2 * VALUES_MAX }) {
            let certain = known && value.known == Known::Exactly && !value.glob;
            let known = if certain { Known::Exactly } else { Known::Guess };
            self.vars.insert(name.to_owned(), Value { text: value.text.clone(), known });
            let out = self.node(body, input);
            flow.add(&out);
        }
        self.vars.insert(name.to_owned(), Value { text: String::new(), known: Known::Guess });
        flow
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.vars.insert(name.to_owned(), value);
    }

    fn simple(&mut self, simple: &Simple, input: &Flow) -> Flow {
        let outer = std::mem::take(&mut self.substituted);
        let args = self.expand_all(&simple.words);
        let input = self.redirected(&simple.redirects, input);
        for assignment in &simple.assignments {
            self.expand_all(&assignment.others);
            let value = self.expand_text(&assignment.value);
            self.judge_variable(&assignment.name);
            if simple.words.is_empty() {
                // What was set is used to find what must be denied; nothing is allowed because of it.
                self.set(&assignment.name, Value { text: value.text, known: Known::Guess });
            }
        }
        let flow = if args.is_empty() {
            if !simple.words.is_empty() {
                self.ask("shell.unknown-program", "which program it runs is not known before it runs");
            }
            Flow { any: true, ..self.substituted.clone() }
        } else {
            self.invoke(&args, &input)
        };
        self.substituted = outer;
        flow
    }

    /// Judges that a variable is set for a program or for the rest of the command.
    pub(super) fn judge_variable(&mut self, name: &str) {
        match self.table.variable(name) {
            Verdict::Allow => {}
            Verdict::Deny => {
                let reason = format!("the variable {} decides what other programs run or load", escaped(name));
                self.deny("env.poison", reason);
            }
            // Variables of the shell's own are written small; programs look for the others.
            Verdict::Ask if name.chars().any(|c| c.is_ascii_lowercase()) => {}
            Verdict::Ask => self.ask("env.set", format!("it sets the variable {} for other programs", escaped(name))),
        }
    }

    /// A `$(...)`: what it gives out, as far as that is known.
    pub(super) fn substitution(&mut self, script: &Node) -> Arg {
        self.ask("shell.substitution", "it puts the output of a command into another");
        let (cwd, known, vars) = (self.cwd.clone(), self.cwd_known, self.vars.clone());
        let outer = std::mem::take(&mut self.substituted);
        let flow = self.node(script, &Flow::default());
        (self.cwd, self.cwd_known, self.vars) = (cwd, known, vars);
        self.substituted = outer;
        self.substituted.add(&Flow { text: None, ..flow.clone() });
        let text = flow.text.unwrap_or_default();
        Arg { known: Known::Guess, is_output: true, ..Arg::exact(text.trim_end_matches('\n')) }
    }

    /// A `<(...)` or `>(...)`.
    pub(super) fn process_substitution(&mut self, script: &Node) {
        self.ask("shell.substitution", "it hands the output of a command to another as a file");
        let outer = std::mem::take(&mut self.substituted);
        // What a `>(...)` reads is not known, so it counts as something.
        let flow = self.node(script, &Flow { any: true, ..Flow::default() });
        self.substituted = outer;
        self.substituted.add(&Flow { text: None, ..flow });
    }

    fn redirected(&mut self, redirects: &[Redirect], input: &Flow) -> Flow {
        let mut input = input.clone();
        for redirect in redirects {
            let target = self.expand_text(&redirect.target);
            match redirect.direction {
                Direction::Read => {
                    let is_secret = self.file(&target, Access::Read);
                    input = Flow { any: true, reads: true, secret: is_secret, ..Flow::default() };
                }
                Direction::Write => drop(self.file(&target, Access::Write)),
                Direction::Duplicate => {
                    let is_descriptor = target.text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit());
                    if !is_descriptor || target.known != Known::Exactly {
                        self.file(&target, Access::Write);
                    }
                }
                Direction::Text => {
                    input = Flow { any: true, text: Some(target.text), ..self.substituted.clone() };
                }
                Direction::Document => {
                    let body = redirect.body.get().map(|body| self.expand_text(body));
                    input = Flow { any: true, text: body.map(|body| body.text), ..self.substituted.clone() };
                }
            }
        }
        input
    }

    /// Where a text leads as a path, through the links that the command makes.
    pub(super) fn absolute(&self, text: &str) -> PathBuf {
        let mut path = normalise(&self.cwd.join(text));
        for (link, target) in &self.links {
            if let Ok(rest) = path.strip_prefix(link) {
                path = normalise(&target.join(rest));
            }
        }
        path
    }

    /// Judges a file that is read or written. True if it may hold secrets.
    pub(super) fn file(&mut self, target: &Arg, access: Access) -> bool {
        if target.known == Known::Guess || target.glob && target.text.contains("..") {
            self.ask("shell.unknown-path", "which file it uses is not known before it runs");
        }
        if !self.cwd_known && !Path::new(&target.text).is_absolute() {
            self.ask("shell.unknown-directory", "where it runs is not known before it runs");
        }
        let path = self.absolute(&target.text);
        let decision = self.scope.judge(&path, access, target.glob);
        let is_secret = matches!(decision.rule.as_ref(), "path.credentials" | "path.secret-file" | "path.process");
        let inside = decision.verdict == Verdict::Allow;
        self.out.paths.push(PathUse { path: path.clone(), access, glob: target.glob });
        let about = About::Path(self.out.paths.len() - 1);
        let leaves = Leaves::beyond(decision.rule.ends_with("outside"));
        if inside && access != Access::Read && decision.rule != "path.sink" {
            self.find(
                Decision::ask("write.redirect", format!("it writes {}", escaped(&target.text))),
                about,
                Leaves::Not,
            );
        } else {
            self.find(decision, about, leaves);
        }
        is_secret
    }

    /// Judges a file among a program's words; only what is not simply allowed is kept. True if it may hold secrets.
    pub(super) fn mention(&mut self, text: &str, glob: bool, access: Access) -> Option<Decision> {
        let path = self.absolute(text);
        let decision = self.scope.judge(&path, access, glob);
        self.out.paths.push(PathUse { path, access, glob });
        if decision.verdict == Verdict::Allow {
            return None;
        }
        let about = About::Path(self.out.paths.len() - 1);
        self.find(decision.clone(), about, Leaves::beyond(decision.rule.ends_with("outside")));
        Some(decision)
    }

    /// Calls a function that the command defined, if it is one.
    pub(super) fn call(&mut self, name: &str, args: &[Arg], input: &Flow) -> Option<Flow> {
        let body = self.functions.get(name)?.clone();
        if self.calls.len() >= 4 || self.calls.iter().any(|call| call == name) {
            return Some(Flow { any: true, ..Flow::default() });
        }
        let outer = self.vars.clone();
        for (n, arg) in args.iter().enumerate().skip(1).take(9) {
            self.vars.insert(n.to_string(), Value { text: arg.text.clone(), known: Known::Guess });
        }
        let all: Vec<&str> = args.iter().skip(1).map(|arg| arg.text.as_str()).collect();
        for name in ["@", "*"] {
            self.vars.insert(name.to_owned(), Value { text: all.join(" "), known: Known::Guess });
        }
        self.calls.push(name.to_owned());
        let flow = self.node(&body, input);
        self.calls.pop();
        self.vars = outer;
        Some(flow)
    }
}

/// Whether a function starts itself more than once, or without waiting.
fn multiplies(node: &Node, name: &str) -> bool {
    fn calls(node: &Node, name: &str) -> bool {
        match node {
            Node::Simple(simple) => simple.words.first().and_then(Word::bare) == Some(name),
            Node::Pipeline(nodes) | Node::Sequence(nodes) => nodes.iter().any(|node| calls(node, name)),
            Node::Background(node) | Node::Subshell(node, _) | Node::Redirected(node, _) => calls(node, name),
            _ => false,
        }
    }
    match node {
        Node::Pipeline(nodes) => nodes.iter().any(|node| calls(node, name)),
        Node::Background(node) => calls(node, name) || multiplies(node, name),
        Node::Sequence(nodes) => nodes.iter().any(|node| multiplies(node, name)),
        Node::Subshell(node, _) | Node::Redirected(node, _) => multiplies(node, name),
        _ => false,
    }
}
