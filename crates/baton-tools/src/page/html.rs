//! HTML becomes compact markdown in one pass over its tokens: no tree, no recursion, so that no page can exhaust the
//! stack or make the work grow faster than the page.

use std::mem;

use html5gum::{DefaultEmitter, EndTag, StartTag, Token, Tokenizer};

/// Deeper lists and quotations are not indented further: indentation would grow with the square of the page.
const INDENT_MAX: usize = 6;
/// Links may become longer than they are written; beyond this the rest is left out.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// A longer link says nothing to a reader.
const HREF_BYTES_MAX: usize = 500;
/// More columns get no line below their heads.
const COLUMNS_MAX: usize = 64;

/// Elements whose content nobody reads; the last of them only if there is something else to read.
const UNREAD: [&[u8]; 14] = [
    b"script",
    b"style",
    b"noscript",
    b"template",
    b"svg",
    b"math",
    b"iframe",
    b"object",
    b"canvas",
    b"audio",
    b"video",
    b"select",
    b"textarea",
    b"nav",
];
/// Elements without content or end.
const VOID: [&[u8]; 13] =
    [b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"source", b"track", b"wbr"];
/// Elements that stand on lines of their own.
const BLOCKS: [&[u8]; 25] = [
    b"address",
    b"article",
    b"aside",
    b"body",
    b"center",
    b"dd",
    b"details",
    b"dialog",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"header",
    b"hgroup",
    b"html",
    b"legend",
    b"main",
    b"p",
    b"section",
    b"summary",
    b"caption",
];

/// The text of a page as markdown.
pub(super) fn to_markdown(html: &str, absolute: impl Fn(&str) -> Option<String>) -> String {
    let text = convert(html, &absolute, true);
    // A page that is all navigation, or never closes it.
    if text.trim().is_empty() { convert(html, &absolute, false) } else { text }
}

fn convert(html: &str, absolute: &dyn Fn(&str) -> Option<String>, skip_navigation: bool) -> String {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let skipped = if skip_navigation { &UNREAD[..] } else { &UNREAD[..UNREAD.len() - 1] };
    let mut writer = Writer::new(absolute, skipped);
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => writer.start(&tag),
            Token::EndTag(EndTag { name, .. }) => writer.end(&name),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if writer.out.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    writer.finish()
}

struct Writer<'a> {
    absolute: &'a dyn Fn(&str) -> Option<String>,
    skipped: &'static [&'static [u8]],
    out: String,
    /// Line breaks due before the next text.
    breaks: usize,
    /// Whether a space is due before the next text.
    space: bool,
    /// What opens the next text: a bullet, the marks of a heading.
    opening: String,
    /// The element that is not read, and how many of its name are open.
    unread: Option<(Vec<u8>, usize)>,
    lists: Vec<Option<u32>>,
    quotes: usize,
    code: Code,
    link: Option<Link>,
    /// Cells of the row so far; rows of the table so far.
    cells: usize,
    rows: usize,
    in_cell: bool,
}

/// Whether what comes is code.
#[derive(PartialEq)]
enum Code {
    No,
    /// In a line.
    Inline,
    /// Lines of their own.
    Block,
}

struct Link {
    href: String,
    is_open: bool,
}

impl<'a> Writer<'a> {
    fn new(absolute: &'a dyn Fn(&str) -> Option<String>, skipped: &'static [&'static [u8]]) -> Self {
        Self {
            absolute,
            skipped,
            out: String::new(),
            breaks: 0,
            space: false,
            opening: String::new(),
            unread: None,
            lists: Vec::new(),
            quotes: 0,
            code: Code::No,
            link: None,
            cells: 0,
            rows: 0,
            in_cell: false,
        }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((unread, depth)) = &mut self.unread {
            *depth += usize::from(name == unread && !tag.self_closing);
            return;
        }
        let is_void = VOID.contains(&name);
        if !is_void && !tag.self_closing && (self.skipped.contains(&name) || is_hidden(tag)) {
            self.unread = Some((name.to_vec(), 1));
            return;
        }
        match name {
            b"title" => "title: ".clone_into(&mut self.opening),
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.block(2);
                self.opening = format!("{} ", "#".repeat(usize::from(name[1] - b'0')));
            }
            b"br" => self.block(1),
            b"hr" => {
                self.block(2);
                self.write("---");
                self.block(2);
            }
            b"ul" | b"menu" => self.list(None),
            b"ol" => self.list(Some(attribute(tag, b"start").and_then(|text| text.parse().ok()).unwrap_or(1))),
            b"li" => self.item(),
            b"blockquote" => {
                self.block(2);
                self.quotes += 1;
            }
            b"pre" => {
                self.block(2);
                self.write("```");
                self.breaks = 1;
                self.code = Code::Block;
            }
            b"code" | b"kbd" | b"samp" if self.code == Code::No => {
                self.opening.push('`');
                self.code = Code::Inline;
            }
            b"a" => {
                self.close_link();
                let href = attribute(tag, b"href").filter(|href| is_useful(href));
                let href = href.and_then(|href| (self.absolute)(&href)).filter(|href| href.len() <= HREF_BYTES_MAX);
                self.link = href.map(|href| Link { href, is_open: false });
            }
            b"img" => {
                if let Some(alt) = attribute(tag, b"alt").filter(|alt| !alt.trim().is_empty()) {
                    self.text(&format!("[image: {}]", alt.trim()));
                }
            }
            b"table" => {
                self.block(2);
                (self.rows, self.cells, self.in_cell) = (0, 0, false);
            }
            b"tr" => {
                self.end_row();
                self.block(1);
            }
            b"td" | b"th" => self.cell(),
            name if BLOCKS.contains(&name) => self.block(self.gap(name)),
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((unread, depth)) = &mut self.unread {
            if name == unread {
                *depth -= 1;
                if *depth == 0 {
                    self.unread = None;
                }
            }
            return;
        }
        match name {
            b"title" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                self.block(2);
                self.opening.clear();
            }
            b"ul" | b"ol" | b"menu" => {
                self.lists.pop();
                self.block(if self.lists.is_empty() { 2 } else { 1 });
            }
            b"blockquote" => {
                self.block(2);
                self.quotes = self.quotes.saturating_sub(1);
            }
            b"pre" if self.code == Code::Block => {
                self.code = Code::No;
                self.breaks = 1;
                self.space = false;
                self.write("```");
                self.block(2);
            }
            b"code" | b"kbd" | b"samp" if self.code == Code::Inline => {
                self.code = Code::No;
                // Nothing came: what would have opened it is taken back.
                if self.opening.pop().is_none() {
                    self.out.push('`');
                }
            }
            b"a" => self.close_link(),
            b"td" | b"th" => self.in_cell = false,
            b"tr" => self.end_row(),
            b"table" => {
                self.end_row();
                self.block(2);
            }
            name if BLOCKS.contains(&name) => self.block(self.gap(name)),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.unread.is_some() {
            return;
        }
        if self.code == Code::Block {
            self.lines(text);
            return;
        }
        let is_space = |c: char| c.is_whitespace() || c == '\u{a0}';
        for (at, word) in text.split(is_space).enumerate() {
            self.space |= at > 0;
            // Zero-width characters hide words from people, and from nobody else.
            let word = word.trim_matches(['\u{200b}', '\u{feff}']);
            if !word.is_empty() {
                self.write(word);
            }
        }
    }

    fn lines(&mut self, text: &str) {
        for (at, line) in text.split('\n').enumerate() {
            self.breaks += usize::from(at > 0);
            let line = line.trim_end_matches('\r');
            if !line.is_empty() {
                self.write(line);
            }
        }
    }

    /// Adds a text, and before it whatever is due.
    fn write(&mut self, text: &str) {
        if !self.out.is_empty() && self.breaks > 0 {
            let indent =
                if self.code == Code::Block || !self.opening.is_empty() { 0 } else { self.lists.len().min(INDENT_MAX) };
            for _ in 0..self.breaks {
                self.out.push('\n');
                self.out.extend(std::iter::repeat_n("> ", self.quotes.min(INDENT_MAX)));
            }
            self.out.extend(std::iter::repeat_n("  ", indent));
        } else if self.space && !self.out.is_empty() && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
        (self.breaks, self.space) = (0, false);
        self.out.push_str(&mem::take(&mut self.opening));
        if let Some(link) = self.link.as_mut().filter(|link| !link.is_open) {
            link.is_open = true;
            self.out.push('[');
        }
        self.out.push_str(text);
    }

    /// What follows stands on a line of its own, or after an empty one.
    fn block(&mut self, breaks: usize) {
        if self.in_cell {
            self.space = true;
            return;
        }
        if self.link.as_ref().is_some_and(|link| link.is_open) {
            self.close_link();
        }
        // The first block of a list item stands beside its bullet.
        if self.opening.is_empty() || self.opening.starts_with('#') {
            self.breaks = self.breaks.max(breaks);
            self.space = false;
        }
    }

    /// Paragraphs stand apart, except in lists.
    fn gap(&self, name: &[u8]) -> usize {
        if name == b"p" && self.lists.is_empty() { 2 } else { 1 }
    }

    fn list(&mut self, first: Option<u32>) {
        let breaks = if self.lists.is_empty() { 2 } else { 1 };
        self.opening.clear();
        self.block(breaks);
        self.lists.push(first);
    }

    fn item(&mut self) {
        self.opening.clear();
        self.block(1);
        if self.in_cell {
            return;
        }
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(INDENT_MAX));
        self.opening = match self.lists.last_mut() {
            Some(Some(number)) => {
                let bullet = format!("{indent}{number}. ");
                *number = number.saturating_add(1);
                bullet
            }
            _ => format!("{indent}- "),
        };
    }

    fn cell(&mut self) {
        self.in_cell = false;
        self.close_link();
        self.opening.clear();
        self.space = false;
        self.write(if self.cells == 0 { "| " } else { " | " });
        self.cells += 1;
        self.in_cell = true;
    }

    fn end_row(&mut self) {
        self.in_cell = false;
        let cells = mem::take(&mut self.cells);
        if cells == 0 {
            return;
        }
        self.close_link();
        self.space = false;
        self.write(" |");
        if self.rows == 0 && cells <= COLUMNS_MAX {
            self.breaks = 1;
            self.write(&format!("|{}", "---|".repeat(cells)));
        }
        self.rows += 1;
        self.breaks = 1;
    }

    fn close_link(&mut self) {
        if let Some(Link { href, is_open: true }) = self.link.take() {
            self.out.push_str("](");
            self.out.push_str(&href);
            self.out.push(')');
        }
    }

    fn finish(mut self) -> String {
        self.close_link();
        if self.code == Code::Block {
            self.out.push_str("\n```");
        }
        self.out
    }
}

fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let (_, value) = tag.attributes.iter().find(|(key, _)| key.as_slice() == name)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Links within the page, programs and data lead nowhere.
fn is_useful(href: &str) -> bool {
    let href = href.trim_start().to_ascii_lowercase();
    !href.is_empty() && !["#", "javascript:", "data:", "blob:"].iter().any(|start| href.starts_with(start))
}

/// What people do not see, a model should not read.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let style = || attribute(tag, b"style").unwrap_or_default().replace(char::is_whitespace, "").to_ascii_lowercase();
    attribute(tag, b"hidden").is_some() || style().contains("display:none")
}

#[cfg(test)]
mod tests;
