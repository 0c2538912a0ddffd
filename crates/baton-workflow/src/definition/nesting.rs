//! How deep a text nests, judged before it is parsed: the parser recurses, and a deep text would end the process.

/// Brackets inside brackets.
const BRACKETS_MAX: usize = 40;
/// Operators, dots and calls in one expression.
const CHAIN_MAX: usize = 150;
/// Columns of indentation, and `elif`s in one file.
const INDENT_MAX: usize = 60;
const ELIF_MAX: usize = 60;

/// The line at which a text nests too deep, and what is too much there.
pub(super) fn too_deep(text: &str) -> Option<(u32, String)> {
    let mut chains = vec![0_usize];
    let mut elifs = 0;
    let mut open: Option<&'static str> = None;
    for (number, line) in text.lines().enumerate() {
        let too = |what: String| Some((u32::try_from(number + 1).unwrap_or(u32::MAX), what));
        if open.is_none() {
            let indent = line.chars().take_while(|char| char.is_whitespace()).count();
            if chains.len() == 1 && indent > INDENT_MAX && indent < line.chars().count() {
                return too(format!("an indentation of {indent} columns, at most {INDENT_MAX} are read"));
            }
            elifs += line.split_whitespace().filter(|word| *word == "elif").count();
            if elifs > ELIF_MAX {
                return too(format!("more than {ELIF_MAX} times `elif`"));
            }
        }
        if let Some(what) = scan(line, &mut chains, &mut open) {
            return too(what);
        }
        // Outside of brackets a line ends the expression.
        if chains.len() == 1 && open.is_none() {
            chains[0] = 0;
        }
    }
    None
}

/// Counts what one line adds: for each open bracket the operators since the last separator. Says what is too much.
fn scan(line: &str, chains: &mut Vec<usize>, open: &mut Option<&'static str>) -> Option<String> {
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        let mut skip = char.len_utf8();
        match *open {
            Some(quote) => {
                if char == '\\' {
                    skip += rest[skip..].chars().next().map_or(0, char::len_utf8);
                } else if rest.starts_with(quote) {
                    skip = quote.len();
                    *open = None;
                }
            }
            None => match char {
                '#' => break,
                '"' | '\'' => {
                    let quote = [r#"""""#, "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
                    skip = quote.map_or(1, str::len);
                    *open = quote;
                }
                '(' | '[' | '{' => {
                    count(chains);
                    chains.push(0);
                }
                ')' | ']' | '}' if chains.len() > 1 => {
                    chains.pop();
                }
                ',' | ';' => {
                    if let Some(chain) = chains.last_mut() {
                        *chain = 0;
                    }
                }
                '+' | '-' | '*' | '/' | '%' | '|' | '&' | '^' | '~' | '<' | '>' | '.' | '=' | ':' => count(chains),
                char if char.is_alphabetic() => {
                    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
                    if ["not", "and", "or", "if", "else", "in", "for", "lambda"].contains(&&rest[..end]) {
                        count(chains);
                    }
                    skip = end;
                }
                _ => {}
            },
        }
        if chains.len() > BRACKETS_MAX {
            return Some(format!("more than {BRACKETS_MAX} brackets inside each other"));
        }
        if chains.last().is_some_and(|chain| *chain > CHAIN_MAX) {
            return Some(format!("an expression with more than {CHAIN_MAX} operators"));
        }
        rest = &rest[skip.min(rest.len())..];
    }
    // A text in single quotes ends with its line.
    if open.is_some_and(|quote| quote.len() == 1) {
        *open = None;
    }
    None
}

fn count(chains: &mut [usize]) {
    if let Some(chain) = chains.last_mut() {
        *chain += 1;
    }
}
