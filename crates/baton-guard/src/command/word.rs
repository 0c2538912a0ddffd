//! Words: quotes, expansions and substitutions as bash reads them.

use super::parse::{Parsed, Parser, SyntaxError};
use super::syntax::{Node, Part, Variable, Word};

/// What ends a bare word.
fn is_meta(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
}

/// Gathers parts; text that is not quoted grows together.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn bare(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Part::Bare(last)) => last.push_str(text),
            _ => self.0.push(Part::Bare(text.to_owned())),
        }
    }

    fn quoted(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Part::Quoted(last)) => last.push_str(text),
            _ => self.0.push(Part::Quoted(text.to_owned())),
        }
    }

    fn text(&mut self, text: &str, quoted: bool) {
        if quoted { self.quoted(text) } else { self.bare(text) }
    }

    fn word(self) -> Word {
        Word { parts: self.0 }
    }
}

impl Parser<'_> {
    /// The word that stands here, or none if something else does.
    pub(super) fn word(&mut self) -> Parsed<Option<Word>> {
        let mut parts = Parts::default();
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    self.at += 2;
                    let script = self.enclosed(")")?;
                    parts.0.push(Part::Process(Box::new(script)));
                }
                byte if is_meta(byte) => break,
                _ => self.piece(&mut parts, false)?,
            }
        }
        self.spend(self.at - start)?;
        // A word of joined lines only is none.
        Ok((self.at > start && !parts.0.is_empty()).then(|| parts.word()))
    }

    /// One piece of a word outside of double quotes: a quotation, an expansion or plain text.
    fn piece(&mut self, parts: &mut Parts, in_arithmetic: bool) -> Parsed<()> {
        match self.peek() {
            Some(b'\\') => {
                self.at += 1;
                // What bash makes of a last backslash depends on what stands before it.
                let escaped = self.rest().chars().next().ok_or(self.error())?;
                self.at += escaped.len_utf8();
                if escaped != '\n' {
                    parts.quoted(escaped.encode_utf8(&mut [0; 4]));
                }
            }
            Some(b'\'') => {
                let length = self.rest()[1..].find('\'').ok_or(self.error())?;
                parts.quoted(&self.rest()[1..=length]);
                self.at += length + 2;
            }
            Some(b'"') => {
                self.at += 1;
                parts.quoted("");
                self.double_quoted(parts)?;
            }
            Some(b'$') => self.dollar(parts, false)?,
            Some(b'`') => self.backquoted(parts, false)?,
            _ => {
                let rest = self.rest();
                let end = rest
                    .bytes()
                    .position(|byte| {
                        matches!(byte, b'\\' | b'\'' | b'"' | b'$' | b'`')
                            || if in_arithmetic {
                                matches!(byte, b'(' | b')' | b'[' | b']' | b'}')
                            } else {
                                is_meta(byte)
                            }
                    })
                    .unwrap_or(rest.len());
                if end == 0 {
                    return Err(self.error());
                }
                parts.bare(&rest[..end]);
                self.at += end;
            }
        }
        Ok(())
    }

    /// The rest of a double-quoted text, with its closing quote.
    fn double_quoted(&mut self, parts: &mut Parts) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let end = rest.find(['"', '\\', '$', '`']).ok_or(self.error())?;
            parts.quoted(&rest[..end]);
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape(parts, "\""),
                Some(b'$') => self.dollar(parts, true)?,
                _ => self.backquoted(parts, true)?,
            }
        }
    }

    /// A backslash in double quotes or a here-document: it only quotes what would mean something.
    fn escape(&mut self, parts: &mut Parts, also: &str) {
        self.at += 1;
        let Some(next) = self.rest().chars().next() else {
            parts.quoted("\\");
            return;
        };
        match next {
            '\n' => self.at += 1,
            '$' | '`' | '\\' => {
                self.at += 1;
                parts.quoted(next.encode_utf8(&mut [0; 4]));
            }
            next if also.contains(next) => {
                self.at += 1;
                parts.quoted(next.encode_utf8(&mut [0; 4]));
            }
            _ => parts.quoted("\\"),
        }
    }

    /// The lines of a here-document that is not quoted.
    pub(super) fn document(mut self) -> Parsed<Word> {
        let mut parts = Parts::default();
        loop {
            let rest = self.rest();
            let end = rest.find(['\\', '$', '`']).unwrap_or(rest.len());
            parts.quoted(&rest[..end]);
            self.at += end;
            match self.peek() {
                None => return Ok(parts.word()),
                Some(b'\\') => self.escape(&mut parts, ""),
                Some(b'$') => self.dollar(&mut parts, true)?,
                _ => self.backquoted(&mut parts, true)?,
            }
        }
    }

    /// Whatever begins with `$`.
    fn dollar(&mut self, parts: &mut Parts, quoted: bool) -> Parsed<()> {
        self.at += 1;
        let rest = self.rest();
        if rest.starts_with("((") {
            let start = self.at;
            self.at += 2;
            match self.arithmetic("))") {
                Ok(word) => {
                    parts.0.push(Part::Arithmetic(word));
                    return Ok(());
                }
                Err(SyntaxError::TooDeep) => return Err(SyntaxError::TooDeep),
                Err(SyntaxError::At(_)) => self.at = start,
            }
        }
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let script = Box::new(self.enclosed(")")?);
                parts.0.push(Part::Substitution { script, quoted });
            }
            Some(b'[') => {
                self.at += 1;
                parts.0.push(Part::Arithmetic(self.arithmetic("]")?));
            }
            Some(b'{') => {
                self.at += 1;
                if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|' | b'(')) {
                    self.eat("|");
                    let script = Box::new(self.enclosed("}")?);
                    parts.0.push(Part::Substitution { script, quoted });
                } else {
                    let variable = self.deeper(|parser| parser.braced(quoted))?;
                    parts.0.push(Part::Variable(variable));
                }
            }
            Some(b'\'') if !quoted => {
                self.at += 1;
                self.ansi_quoted(parts)?;
            }
            Some(b'"') if !quoted => {
                self.at += 1;
                parts.quoted("");
                self.double_quoted(parts)?;
            }
            // Bash joins lines before it looks at the `$`.
            Some(b'\\') if self.peek_at(1) == Some(b'\n') => return Err(self.error()),
            Some(_) => {
                let length = name_length(self.rest());
                if length == 0 {
                    parts.text("$", quoted);
                } else {
                    let name = self.rest()[..length].to_owned();
                    self.at += length;
                    // Here, too: the name may go on in the next line.
                    if self.rest().starts_with("\\\n") {
                        return Err(self.error());
                    }
                    parts.0.push(Part::Variable(Variable { name, operator: String::new(), words: Vec::new(), quoted }));
                }
            }
            None => parts.text("$", quoted),
        }
        Ok(())
    }

    /// The inside of `${...}` with its closing brace.
    fn braced(&mut self, quoted: bool) -> Parsed<Variable> {
        let mut operator = String::new();
        let mut words = Vec::new();
        // `${#}`, `${!}` and `${#-...}` are variables; `${#name}` and `${!name}` are operators.
        if matches!(self.peek(), Some(b'!' | b'#'))
            && !matches!(self.peek_at(1), Some(b'}' | b':' | b'-' | b'+' | b'=' | b'%'))
        {
            operator.push_str(&self.rest()[..1]);
            self.at += 1;
        }
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length = if digits > 0 { digits } else { name_length(rest) };
        if length == 0 {
            return Err(self.error());
        }
        let name = rest[..length].to_owned();
        self.at += length;
        if self.eat("[") {
            words.push(self.arithmetic("]")?);
        }
        let mut argument = Parts::default();
        let start = self.at;
        loop {
            match self.peek().ok_or(self.error())? {
                b'}' => break,
                // Whether a quote quotes here depends on the operator.
                b'\'' if quoted => return Err(self.error()),
                b'"' if quoted => {
                    self.at += 1;
                    self.double_quoted(&mut argument)?;
                }
                b'\\' if quoted => self.escape(&mut argument, "\"}"),
                b'\\' | b'\'' | b'"' => self.piece(&mut argument, false)?,
                b'$' => self.dollar(&mut argument, quoted)?,
                b'`' => self.backquoted(&mut argument, quoted)?,
                b'<' | b'>' if !quoted && self.peek_at(1) == Some(b'(') => {
                    self.at += 2;
                    let script = self.enclosed(")")?;
                    argument.0.push(Part::Process(Box::new(script)));
                }
                _ => {
                    let length = self.rest().chars().next().map_or(1, char::len_utf8);
                    argument.text(&self.rest()[..length], quoted);
                    self.at += length;
                }
            }
        }
        self.spend(self.at - start)?;
        self.at += 1;
        let mut word = argument.word();
        if let Some(Part::Bare(text) | Part::Quoted(text)) = word.parts.first_mut() {
            let length = match text.as_bytes() {
                [b':', b'-' | b'=' | b'?' | b'+', ..]
                | [b'@', _, ..]
                | [b'#', b'#', ..]
                | [b'%', b'%', ..]
                | [b'/', b'/', ..]
                | [b'^', b'^', ..]
                | [b',', b',', ..] => 2,
                [] => 0,
                _ if text.is_char_boundary(1) => 1,
                _ => return Err(self.error()),
            };
            if !text.is_char_boundary(length) {
                return Err(self.error());
            }
            operator.push_str(&text[..length]);
            text.drain(..length);
        }
        words.push(word);
        Ok(Variable { name, operator, words, quoted })
    }

    /// An arithmetic expression up to its end, which is taken, too.
    pub(super) fn arithmetic(&mut self, end: &'static str) -> Parsed<Word> {
        self.deeper(|parser| {
            let mut parts = Parts::default();
            let start = parser.at;
            let mut open = 0_usize;
            loop {
                let Some(byte) = parser.peek() else {
                    parser.spend(parser.at - start)?;
                    return Err(parser.error());
                };
                if open == 0 && parser.rest().starts_with(end) {
                    parser.at += end.len();
                    break;
                }
                match byte {
                    b'(' | b'[' => open += 1,
                    b')' | b']' if open > 0 => open -= 1,
                    b')' | b']' => {
                        parser.spend(parser.at - start)?;
                        return Err(parser.error());
                    }
                    b'}' => {}
                    _ => {
                        parser.piece(&mut parts, true)?;
                        continue;
                    }
                }
                parts.bare(&parser.rest()[..1]);
                parser.at += 1;
            }
            parser.spend(parser.at - start)?;
            Ok(parts.word())
        })
    }

    /// A command in backquotes. Its text is unescaped first, and then is a command of its own.
    fn backquoted(&mut self, parts: &mut Parts, quoted: bool) -> Parsed<()> {
        self.at += 1;
        let mut inner = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find(['`', '\\']).ok_or(self.error())?;
            inner.push_str(&rest[..end]);
            self.at += end;
            if self.eat("`") {
                break;
            }
            self.at += 1;
            let escaped = self.rest().chars().next().ok_or(self.error())?;
            if !(matches!(escaped, '`' | '\\' | '$') || quoted && escaped == '"') {
                inner.push('\\');
            }
            inner.push(escaped);
            self.at += escaped.len_utf8();
        }
        self.spend(inner.len())?;
        let script: Node = self.deeper(|parser| {
            let mut nested = Parser::new(&inner, parser.depth);
            nested.whole()
        })?;
        parts.0.push(Part::Substitution { script: Box::new(script), quoted });
        Ok(())
    }

    /// The rest of `$'...'`.
    fn ansi_quoted(&mut self, parts: &mut Parts) -> Parsed<()> {
        let mut bytes = Vec::new();
        let mut is_cut = false;
        loop {
            let rest = self.rest();
            let end = rest.find(['\'', '\\']).ok_or(self.error())?;
            bytes.extend_from_slice(&rest.as_bytes()[..end]);
            self.at += end;
            if self.eat("'") {
                break;
            }
            self.at += 1;
            let letter = self.rest().chars().next().ok_or(self.error())?;
            self.at += letter.len_utf8();
            match letter {
                'a' => bytes.push(7),
                'b' => bytes.push(8),
                'e' | 'E' => bytes.push(27),
                'f' => bytes.push(12),
                'n' => bytes.push(b'\n'),
                'r' => bytes.push(b'\r'),
                't' => bytes.push(b'\t'),
                'v' => bytes.push(11),
                '\\' | '\'' | '"' | '?' => bytes.push(letter as u8),
                '0'..='7' => {
                    self.at -= 1;
                    let value = self.number(8, 3).unwrap_or_default();
                    bytes.push((value & 0xff) as u8);
                }
                'x' => match self.number(16, 2) {
                    Some(value) => bytes.push((value & 0xff) as u8),
                    None => bytes.extend_from_slice(b"\\x"),
                },
                'u' | 'U' => match self.number(16, if letter == 'u' { 4 } else { 8 }).and_then(char::from_u32) {
                    Some(found) => bytes.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes()),
                    None => return Err(self.error()),
                },
                'c' => {
                    let control = self.rest().bytes().next().filter(u8::is_ascii).ok_or(self.error())?;
                    self.at += 1;
                    bytes.push(control & 0x1f);
                }
                other => {
                    bytes.push(b'\\');
                    bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            // Bash ends the text at a NUL.
            if !is_cut && bytes.last() == Some(&0) {
                is_cut = true;
            }
        }
        if is_cut {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            bytes.truncate(end);
        }
        parts.quoted(&String::from_utf8_lossy(&bytes));
        Ok(())
    }

    fn number(&mut self, radix: u32, digits_max: usize) -> Option<u32> {
        let digits = self.rest().chars().take(digits_max).take_while(|c| c.is_digit(radix)).count();
        let value = u32::from_str_radix(&self.rest()[..digits], radix).ok()?;
        self.at += digits;
        Some(value)
    }
}

/// How long the name of a variable is that stands here: a name, one digit, or one of the special ones.
fn name_length(text: &str) -> usize {
    match text.bytes().next() {
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {
            text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
        }
        Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => 1,
        _ => 0,
    }
}
