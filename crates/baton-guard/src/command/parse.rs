//! The parser of shell commands: bash's grammar, linear in time, bounded in depth, and strict: what it does not know is an
//! error, never skipped.
//!
//! It is our own because the guard needs what the libraries do not give together: words in parts as bash reads them,
//! no recursion that hostile input can drive, and no recovery that guesses. A test compares it with bash itself.

use std::cell::OnceCell;
use std::rc::Rc;

use super::syntax::{Assignment, Direction, Node, Part, Redirect, Simple, Word};

/// The deepest nesting that is followed.
const DEPTH_MAX: usize = 48;
/// How often the parser may look at each byte before it gives up: `((` can be two things, and is tried as both.
const EFFORT_MAX: usize = 64;

/// Why a command cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// Not what bash would accept, or a form that is not supported.
    #[error("it cannot be understood from byte {0} on")]
    At(usize),
    /// A limit was reached.
    #[error("it is nested too deeply to be checked")]
    TooDeep,
}

/// Parses a whole command line.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    Parser::new(text, 0).whole()
}

/// A here-document whose lines are still to come.
struct Pending {
    delimiter: String,
    strip_tabs: bool,
    is_literal: bool,
    body: Rc<OnceCell<Word>>,
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    effort: usize,
    pending: Vec<Pending>,
}

pub(super) type Parsed<T> = Result<T, SyntaxError>;

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, depth: usize) -> Self {
        Self { text, at: 0, depth, effort: text.len().saturating_mul(EFFORT_MAX) + 1024, pending: Vec::new() }
    }

    /// All of the text as commands.
    pub(super) fn whole(&mut self) -> Parsed<Node> {
        let node = self.list(&[])?;
        self.documents()?;
        if self.at < self.text.len() { Err(self.error()) } else { Ok(node) }
    }

    pub(super) fn error(&self) -> SyntaxError {
        SyntaxError::At(self.at)
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(self.error()) }
    }

    /// Counts work, so that trying things twice at every level cannot take forever.
    pub(super) fn spend(&mut self, bytes: usize) -> Parsed<()> {
        self.effort = self.effort.checked_sub(bytes + 1).ok_or(SyntaxError::TooDeep)?;
        Ok(())
    }

    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return Err(SyntaxError::TooDeep);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// The commands of a substitution, up to its closing parenthesis.
    pub(super) fn enclosed(&mut self, end: &'static str) -> Parsed<Node> {
        self.deeper(|parser| {
            let outer = std::mem::take(&mut parser.pending);
            let node = parser.list(&[end])?;
            if !parser.pending.is_empty() {
                return Err(parser.error());
            }
            parser.pending = outer;
            parser.expect(end)?;
            Ok(node)
        })
    }

    /// Skips blanks, joined lines and comments, but no line ends.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    /// Skips blanks and line ends; the lines of here-documents follow a line end.
    fn lines(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if !self.eat("\n") {
                return Ok(());
            }
            self.documents()?;
        }
    }

    fn documents(&mut self) -> Parsed<()> {
        for pending in std::mem::take(&mut self.pending) {
            let mut body = String::new();
            while self.at < self.text.len() {
                let line = self.document_line(pending.is_literal);
                let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { &line };
                if line == pending.delimiter {
                    break;
                }
                body.push_str(line);
                body.push('\n');
            }
            let word = if pending.is_literal {
                Word { parts: vec![Part::Quoted(body)] }
            } else {
                self.spend(body.len())?;
                self.deeper(|parser| Parser::new(&body, parser.depth).document())?
            };
            // Each document is read once.
            drop(pending.body.set(word));
        }
        Ok(())
    }

    /// The next line of a document. In one that is not quoted, lines are joined before the delimiter is looked for.
    fn document_line(&mut self, is_literal: bool) -> String {
        let mut whole = String::new();
        loop {
            let line = self.rest().split('\n').next().unwrap_or_default();
            self.at = (self.at + line.len() + 1).min(self.text.len());
            let slashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
            if is_literal || slashes % 2 == 0 || self.at == self.text.len() {
                return whole + line;
            }
            whole.push_str(&line[..line.len() - 1]);
        }
    }

    fn is_at_end_of_list(&self, ends: &[&str]) -> bool {
        let rest = self.rest();
        rest.is_empty()
            || ends.iter().any(|end| match *end {
                ")" | ";;" => rest.starts_with(end),
                word => self.is_reserved(word),
            })
    }

    /// Whether a reserved word stands here, and nothing that only begins like it.
    fn is_reserved(&self, word: &str) -> bool {
        self.rest().strip_prefix(word).is_some_and(|rest| {
            rest.is_empty()
                || rest.starts_with([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'])
                || rest.starts_with("\\\n")
        })
    }

    /// Commands up to one of the ends, which is left.
    fn list(&mut self, ends: &[&'static str]) -> Parsed<Node> {
        let mut nodes = Vec::new();
        loop {
            self.lines()?;
            if self.is_at_end_of_list(ends) {
                break;
            }
            let node = self.and_or()?;
            self.blanks();
            let node = if self.rest().starts_with("&&") {
                return Err(self.error());
            } else if self.eat("&") {
                Node::Background(Box::new(node))
            } else {
                node
            };
            nodes.push(node);
            self.blanks();
            if self.is_at_end_of_list(ends) {
                break;
            }
            if matches!(nodes.last(), Some(Node::Background(_))) {
                continue;
            }
            if !(self.rest().starts_with('\n') || !self.rest().starts_with(";;") && self.eat(";")) {
                return Err(self.error());
            }
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    /// A list that may not be empty, with the word that ends it.
    fn block(&mut self, end: &'static str) -> Parsed<Node> {
        let node = self.list(&[end])?;
        self.expect(end)?;
        Ok(node)
    }

    fn and_or(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.pipeline()?];
        loop {
            self.blanks();
            if !(self.eat("&&") || self.eat("||")) {
                break;
            }
            self.lines()?;
            nodes.push(self.pipeline()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    fn pipeline(&mut self) -> Parsed<Node> {
        loop {
            self.blanks();
            if self.is_reserved("!") {
                self.at += 1;
            } else if self.is_reserved("time") {
                self.at += 4;
                self.blanks();
                if self.is_reserved("-p") {
                    self.at += 2;
                }
            } else {
                break;
            }
        }
        let mut nodes = vec![self.command()?];
        loop {
            self.blanks();
            if self.rest().starts_with("||") || !(self.eat("|&") || self.eat("|")) {
                break;
            }
            self.lines()?;
            nodes.push(self.command()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Pipeline(nodes) })
    }

    fn command(&mut self) -> Parsed<Node> {
        self.spend(0)?;
        self.blanks();
        let compound = self.deeper(Self::compound)?;
        let Some(node) = compound else { return self.simple() };
        if matches!(node, Node::Function { .. }) {
            return Ok(node);
        }
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        Ok(match node {
            Node::Subshell(inner, _) => Node::Subshell(inner, redirects),
            node if redirects.is_empty() => node,
            node => Node::Redirected(Box::new(node), redirects),
        })
    }

    fn compound(&mut self) -> Parsed<Option<Node>> {
        if self.rest().starts_with("((") {
            let start = self.at;
            self.at += 2;
            match self.arithmetic("))") {
                Ok(word) => return Ok(Some(Node::Arithmetic(word))),
                Err(SyntaxError::TooDeep) => return Err(SyntaxError::TooDeep),
                Err(SyntaxError::At(_)) => self.at = start,
            }
        }
        if self.eat("(") {
            return Ok(Some(Node::Subshell(Box::new(self.enclosed(")")?), Vec::new())));
        }
        let Some(word) = ["{", "[[", "if", "while", "until", "for", "select", "case", "function", "coproc"]
            .into_iter()
            .find(|word| self.is_reserved(word))
        else {
            return Ok(None);
        };
        self.at += word.len();
        Ok(Some(match word {
            "{" => Node::Sequence(vec![self.block("}")?]),
            "[[" => self.test()?,
            "if" => self.if_()?,
            "while" | "until" => {
                let condition = self.block("do")?;
                Node::Sequence(vec![condition, self.block("done")?])
            }
            "for" | "select" => self.for_()?,
            "case" => self.case()?,
            "function" => {
                self.blanks();
                let name = self.word()?.and_then(|word| word.bare().map(str::to_owned)).ok_or(self.error())?;
                self.blanks();
                if self.eat("(") {
                    self.blanks();
                    self.expect(")")?;
                }
                self.function(name)?
            }
            _ => {
                // `coproc NAME { ...; }` has a name only before a compound command.
                self.blanks();
                let start = self.at;
                let named = self.word().ok().flatten().is_some_and(|word| word.bare().is_some());
                self.blanks();
                if !(named && (self.is_reserved("{") || self.peek() == Some(b'('))) {
                    self.at = start;
                }
                Node::Background(Box::new(self.command()?))
            }
        }))
    }

    fn function(&mut self, name: String) -> Parsed<Node> {
        self.lines()?;
        let body = self.command()?;
        if matches!(body, Node::Simple(_)) {
            return Err(self.error());
        }
        Ok(Node::Function { name, body: Box::new(body) })
    }

    fn if_(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.block("then")?];
        loop {
            nodes.push(self.list(&["elif", "else", "fi"])?);
            if self.eat("elif") {
                nodes.push(self.block("then")?);
            } else if self.eat("else") {
                nodes.push(self.block("fi")?);
                return Ok(Node::Sequence(nodes));
            } else {
                self.expect("fi")?;
                return Ok(Node::Sequence(nodes));
            }
        }
    }

    fn for_(&mut self) -> Parsed<Node> {
        self.blanks();
        if self.eat("((") {
            let head = Node::Arithmetic(self.arithmetic("))")?);
            self.blanks();
            self.eat(";");
            return Ok(Node::Sequence(vec![head, self.do_or_braces()?]));
        }
        let name = self.word()?.and_then(|word| word.bare().map(str::to_owned)).ok_or(self.error())?;
        self.lines()?;
        let mut words = Vec::new();
        if self.is_reserved("in") {
            self.at += 2;
            loop {
                self.blanks();
                match self.word()? {
                    Some(word) => words.push(word),
                    None => break,
                }
            }
        }
        self.blanks();
        self.eat(";");
        Ok(Node::Loop { name, words, body: Box::new(self.do_or_braces()?) })
    }

    fn do_or_braces(&mut self) -> Parsed<Node> {
        self.lines()?;
        if self.is_reserved("{") {
            self.at += 1;
            return self.block("}");
        }
        self.expect("do")?;
        self.block("done")
    }

    fn case(&mut self) -> Parsed<Node> {
        self.blanks();
        let mut words = vec![self.word()?.ok_or(self.error())?];
        let mut nodes = Vec::new();
        self.lines()?;
        self.expect("in")?;
        loop {
            self.lines()?;
            if self.is_reserved("esac") {
                self.at += 4;
                nodes.insert(0, Node::Words(words));
                return Ok(Node::Sequence(nodes));
            }
            self.eat("(");
            loop {
                self.blanks();
                words.push(self.word()?.ok_or(self.error())?);
                self.blanks();
                if self.eat(")") {
                    break;
                }
                self.expect("|")?;
            }
            nodes.push(self.list(&[";;", ";&", "esac"])?);
            if !(self.eat(";;&") || self.eat(";;") || self.eat(";&") || self.is_reserved("esac")) {
                return Err(self.error());
            }
        }
    }

    /// The words between `[[` and `]]`; its operators are of no interest, but what its words expand to is.
    fn test(&mut self) -> Parsed<Node> {
        let mut words = Vec::new();
        loop {
            self.lines()?;
            if self.is_reserved("]]") {
                self.at += 2;
                return Ok(Node::Test(words));
            }
            match self.word()? {
                Some(word) => words.push(word),
                None if matches!(self.peek(), Some(b'(' | b')' | b'<' | b'>' | b'&' | b'|')) => self.at += 1,
                None => return Err(self.error()),
            }
        }
    }

    fn simple(&mut self) -> Parsed<Node> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            let declares = simple.words.first().and_then(Word::bare).is_some_and(|word| {
                matches!(word, "declare" | "typeset" | "local" | "export" | "readonly" | "alias" | "eval" | "let")
            });
            if (simple.words.is_empty() || declares)
                && let Some(assignment) = self.assignment(declares)?
            {
                simple.assignments.push(assignment);
                continue;
            }
            let start = self.at;
            match self.word()? {
                Some(word) => {
                    let is_first = simple.words.is_empty() && simple.assignments.is_empty();
                    self.blanks();
                    if is_first && self.peek() == Some(b'(') {
                        self.at += 1;
                        self.blanks();
                        self.expect(")")?;
                        return self
                            .function(self.text[start..].split('(').next().unwrap_or_default().trim().to_owned());
                    }
                    simple.words.push(word);
                }
                None if self.peek() == Some(b'(') => return Err(self.error()),
                None if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty() => {
                    return Err(self.error());
                }
                None => return Ok(Node::Simple(simple)),
            }
        }
    }

    /// `name=value`. With a builtin that declares, only lists are taken here: the rest are ordinary words.
    fn assignment(&mut self, only_lists: bool) -> Parsed<Option<Assignment>> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if length == 0 || rest.as_bytes()[0].is_ascii_digit() {
            return Ok(None);
        }
        let start = self.at;
        let mut others = Vec::new();
        self.at += length;
        if self.peek() == Some(b'[') {
            self.at += 1;
            match self.arithmetic("]") {
                Ok(word) => others.push(word),
                Err(SyntaxError::TooDeep) => return Err(SyntaxError::TooDeep),
                Err(SyntaxError::At(_)) => {
                    self.at = start;
                    return Ok(None);
                }
            }
        }
        if !(self.eat("+=") || self.eat("=")) || only_lists && self.peek() != Some(b'(') {
            self.at = start;
            return Ok(None);
        }
        let mut value = Word::default();
        if self.eat("(") {
            loop {
                self.lines()?;
                match self.word()? {
                    Some(word) => others.push(word),
                    None => break,
                }
            }
            self.expect(")")?;
        } else {
            value = self.word()?.unwrap_or_default();
        }
        Ok(Some(Assignment { name: rest[..length].to_owned(), others, value }))
    }

    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let rest = self.rest();
        let mut prefix = rest.bytes().take_while(u8::is_ascii_digit).count();
        if prefix == 0 && rest.starts_with('{') {
            let name = rest[1..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
            if name > 0 && rest[1 + name..].starts_with('}') {
                prefix = name + 2;
            }
        }
        let operator = &rest[prefix..];
        let both = prefix == 0 && operator.starts_with("&>");
        if !(both || operator.starts_with(['<', '>']))
            || prefix == 0 && operator.starts_with(['<', '>']) && operator[1..].starts_with('(')
        {
            return Ok(None);
        }
        let (token, direction) = [
            ("&>>", Direction::Write),
            ("&>", Direction::Write),
            ("<<<", Direction::Text),
            ("<<-", Direction::Document),
            ("<<", Direction::Document),
            ("<>", Direction::Write),
            ("<&", Direction::Duplicate),
            ("<", Direction::Read),
            (">>", Direction::Write),
            (">|", Direction::Write),
            (">&", Direction::Duplicate),
            (">", Direction::Write),
        ]
        .into_iter()
        .find(|(token, _)| operator.starts_with(token))
        .ok_or(self.error())?;
        self.at += prefix + token.len();
        self.blanks();
        let start = self.at;
        let target = self.word()?.ok_or(self.error())?;
        let body = Rc::new(OnceCell::new());
        if direction == Direction::Document {
            let raw = &self.text[start..self.at];
            let mut delimiter = String::new();
            for part in &target.parts {
                match part {
                    Part::Bare(text) | Part::Quoted(text) => delimiter.push_str(text),
                    _ => return Err(self.error()),
                }
            }
            let is_literal = raw.contains(['\'', '"', '\\']);
            self.pending.push(Pending { delimiter, strip_tabs: token == "<<-", is_literal, body: Rc::clone(&body) });
        }
        Ok(Some(Redirect { direction, target, body }))
    }
}
