//! The syntax tree of a shell command: what bash would run, with every word in its parts.

use std::cell::OnceCell;
use std::rc::Rc;

/// A command or several.
#[derive(Debug, Clone)]
pub enum Node {
    /// A program with its words, assignments and redirections.
    Simple(Simple),
    /// `a | b`: each reads what the one before wrote.
    Pipeline(Vec<Node>),
    /// One after the other, whether or not each runs: `a; b && c || d`, and the parts of `if`, `while`, `case`.
    Sequence(Vec<Node>),
    /// `a &`: goes on after the call.
    Background(Box<Node>),
    /// `( a )`: its variables and its directory end with it.
    Subshell(Box<Node>, Vec<Redirect>),
    /// Something with redirections of its own: `{ a; } > f`, `while ...; done < f`.
    Redirected(Box<Node>, Vec<Redirect>),
    /// `for name in words; do body; done`, also `select`.
    Loop {
        /// The variable.
        name: String,
        /// Its values.
        words: Vec<Word>,
        /// What is run for each.
        body: Box<Node>,
    },
    /// Words that are expanded, but are no command: the subject and the patterns of `case`.
    Words(Vec<Word>),
    /// `name() { body; }`.
    Function {
        /// What calls it.
        name: String,
        /// What it does.
        body: Box<Node>,
    },
    /// `[[ ... ]]`.
    Test(Vec<Word>),
    /// `(( ... ))`.
    Arithmetic(Word),
}

/// A simple command.
#[derive(Debug, Clone, Default)]
pub struct Simple {
    /// `name=value` in front.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// What is read from and written to.
    pub redirects: Vec<Redirect>,
}

/// `name=value`, `name+=value`, `name[i]=value`, `name=(a b)`.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// What is expanded on the way: the subscript and the members of a list.
    pub others: Vec<Word>,
    /// The value; empty for a list.
    pub value: Word,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// `<`
    Read,
    /// `>`, `>>`, `>|`, `&>`, `<>`
    Write,
    /// `>&`, `<&`: a descriptor, or a file if it is no number.
    Duplicate,
    /// `<<`
    Document,
    /// `<<<`
    Text,
}

/// One redirection.
#[derive(Debug, Clone)]
pub struct Redirect {
    /// What it does.
    pub direction: Direction,
    /// The file, descriptor, delimiter or text.
    pub target: Word,
    /// The lines of a here-document, which are found after the command.
    pub body: Rc<OnceCell<Word>>,
}

/// A word: its parts stand together without a blank.
#[derive(Debug, Clone, Default)]
pub struct Word {
    /// The parts.
    pub parts: Vec<Part>,
}

/// A part of a word.
#[derive(Debug, Clone)]
pub enum Part {
    /// Bare text, in which `*`, `{}` and a leading `~` mean something.
    Bare(String),
    /// Text that means itself.
    Quoted(String),
    /// `$name`, `${name...}`.
    Variable(Variable),
    /// `$(...)`, `` `...` ``.
    Substitution {
        /// What is run.
        script: Box<Node>,
        /// Whether the result stays one word.
        quoted: bool,
    },
    /// `<(...)`, `>(...)`.
    Process(Box<Node>),
    /// `$((...))`.
    Arithmetic(Word),
}

/// The value of a variable.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its name, also `@`, `1`, `?` and the like.
    pub name: String,
    /// What stands between the name and the argument: `:-`, `%`, `@P`; with `!` in front if indirect.
    pub operator: String,
    /// The subscript and the argument of the operator.
    pub words: Vec<Word>,
    /// Whether it stands in double quotes.
    pub quoted: bool,
}

impl Word {
    /// The text, if it is nothing but bare characters: what can be a reserved word.
    pub fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Bare(text)] => Some(text),
            _ => None,
        }
    }
}
