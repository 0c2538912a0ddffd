//! The corpus of secrets and of what looks like them: how many are found, how often the redactor errs.

use std::collections::BTreeMap;

use baton_guard::secrets::Redactor;

struct Row {
    is_secret: bool,
    class: String,
    text: String,
    span: String,
    id: String,
    registered: String,
}

/// The mark at which the text is fed in two writes.
const CHUNK: &str = "⟦CHUNK⟧";

fn marks(text: &str) -> String {
    let marks = [("⟦+⟧", ""), ("⟦LF⟧", "\n"), ("⟦CR⟧", "\r"), ("⟦TAB⟧", "\t"), ("⟦ESC⟧", "\u{1b}"), ("⟦BEL⟧", "\u{7}")];
    marks.iter().fold(text.to_owned(), |text, (mark, meaning)| text.replace(mark, meaning))
}

fn rows() -> Vec<Row> {
    let lines = include_str!("secrets.tsv").lines().skip(1);
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let field = |n: usize| fields.get(n).map(|text| marks(text)).unwrap_or_default();
            let span = field(3).replace(CHUNK, "");
            Row {
                is_secret: fields[0] == "secret",
                class: field(1),
                text: field(2),
                span,
                id: field(6),
                registered: field(7),
            }
        })
        .collect()
}

fn redact(row: &Row) -> String {
    let known = Some(row.registered.as_str()).filter(|value| !value.is_empty());
    let (mut stream, mut out) = (Redactor::knowing(known).stream(), Vec::new());
    row.text.split(CHUNK).for_each(|part| stream.push(part.as_bytes(), &mut out));
    stream.finish(&mut out);
    String::from_utf8(out).unwrap()
}

/// Whether any part of the span that is longer than the four characters one may keep is left.
fn is_gone(out: &str, row: &Row) -> bool {
    let rest: String = row.text.replace(CHUNK, "").replacen(&row.span, "\u{0}", 1);
    let span: Vec<char> = row.span.chars().collect();
    let is_left = |window: &[char]| {
        let part: String = window.iter().collect();
        out.contains(&part) && !rest.contains(&part)
    };
    !span.windows(5.min(span.len())).any(is_left)
}

#[test]
fn the_corpus() {
    let mut table: BTreeMap<(bool, String), (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows() {
        let out = redact(&row);
        let is_right = if row.is_secret { is_gone(&out, &row) && out != row.text } else { out == row.text };
        let (right, all) = table.entry((!row.is_secret, row.class.clone())).or_default();
        *right += usize::from(is_right);
        *all += 1;
        if !is_right {
            wrong.push(format!("{} {}: {} came out as {out}", row.id, row.class, row.text));
        }
    }
    println!("{:12} {:12} {:>5} {:>5}", "", "class", "right", "all");
    for ((is_other, class), (right, all)) in &table {
        println!("{:12} {class:12} {right:>5} {all:>5}", if *is_other { "not-secret" } else { "secret" });
    }
    println!("{wrong:#?}");
    let share = |of: &dyn Fn(&bool, &str) -> bool| {
        let (right, all) = table
            .iter()
            .filter(|((is_other, class), _)| of(is_other, class))
            .fold((0, 0), |sum, (_, row)| (sum.0 + row.0, sum.1 + row.1));
        #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
        let share = right as f64 / all as f64;
        println!("{right} of {all}: {share:.3}");
        share
    };
    assert!(share(&|is_other, _| !is_other) >= 0.98, "recall");
    assert!(share(&|is_other, class| !is_other && class == "registered") >= 1.0, "registered values");
    assert!(share(&|is_other, _| *is_other) >= 0.97, "precision");
}
