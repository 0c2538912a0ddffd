//! The terminal: how large it is, text that it does not obey, and text cut to fit it.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns and rows of the terminal that stdout is; none if it is not one.
pub fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// Text of models and programs without what a terminal would obey: escape sequences go as a whole, and control characters
/// other than line breaks and tabs.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let text = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n");
    Cow::Owned(text.chars().filter(|c| !is_obeyed(*c)).collect())
}

/// How many cells a line takes.
pub fn cells(line: &str) -> usize {
    line.width()
}

/// A line cut to so many cells, with an ellipsis where something is missing.
pub fn clip(line: &str, most: usize) -> Cow<'_, str> {
    if cells(line) <= most {
        return Cow::Borrowed(line);
    }
    let (mut short, mut left) = (String::new(), most.saturating_sub(1));
    for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        short.push(c);
    }
    short.push('…');
    Cow::Owned(short)
}

/// The first line of a text, without what a terminal would obey and not too long.
pub fn one_line(text: &str, most: usize) -> String {
    let text = harmless(text);
    let text = text.trim().replace('\t', " ");
    let (line, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let (line, is_cut) = (line.trim_end(), !rest.trim().is_empty());
    if is_cut && cells(line) < most { format!("{line}…") } else { clip(line, most).into_owned() }
}

/// A piece of the screen that is drawn over again and again.
#[derive(Default)]
pub struct Canvas {
    drawn: Vec<String>,
}

impl Canvas {
    /// What to write so that the text stands where the one before stood; nothing if it stands there already. What does not
    /// fit is cut: a line at its end, and the middle of too many lines.
    pub fn draw(&mut self, text: &str, (columns, rows): (usize, usize)) -> Option<String> {
        let lines = fit(text, columns, rows);
        if lines == self.drawn {
            return None;
        }
        // A terminal that became narrower has wrapped what stood there.
        let above: usize = self.drawn.iter().map(|line| cells(line).div_ceil(columns).max(1)).sum();
        let back = if above > 0 { format!("\x1b[{above}A\r\x1b[J") } else { String::new() };
        self.drawn = lines;
        Some(back + &self.drawn.join("\n") + "\n")
    }
}

fn fit(text: &str, columns: usize, rows: usize) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(|line| clip(line, columns).into_owned()).collect();
    // The cursor stands below.
    let most = rows.saturating_sub(1).max(3);
    if lines.len() > most {
        lines.splice(1..=lines.len() - most + 1, ["  …".to_owned()]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(harmless("a\x1b[2Jb\x1b]0;title\x07c\u{9b}d\re\n\tf"), "abcde\n\tf");
        assert_eq!(one_line("  first\x1b[31m red\r\n second", 80), "first red…");
        assert_eq!(one_line("one\n", 80), "one");
    }

    #[test]
    fn lines_are_cut_by_cells() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdef", 4), "abc…");
        assert_eq!(clip("日本語", 5), "日本…");
        assert_eq!(clip("日本語", 4), "日…");
    }

    #[test]
    fn what_is_drawn_again_stands_over_what_was_there() {
        let mut canvas = Canvas::default();
        assert_eq!(canvas.draw("a long line\nb\n", (6, 10)).unwrap(), "a lon…\nb\n");
        assert_eq!(canvas.draw("a long line\nb\n", (6, 10)), None);
        assert_eq!(canvas.draw("c\n", (3, 10)).unwrap(), "\x1b[3A\r\x1b[Jc\n");
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(Canvas::default().draw(&many.join("\n"), (9, 6)).unwrap(), "0\n  …\n17\n18\n19\n");
    }
}
