//! The corpus of commands: what must run unasked, be asked or be denied, as it is, in a hundred forms, and under bad rules.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_guard::{Scope, Verdict, analyse};

const COMMANDS: &str = include_str!("corpus/commands.tsv");

struct Row {
    expected: Verdict,
    family: &'static str,
    command: String,
}

fn rows() -> Vec<Row> {
    COMMANDS
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut cells = line.splitn(3, '\t');
            let expected = match cells.next() {
                Some("safe-readonly") => Verdict::Allow,
                Some("needs-ask") => Verdict::Ask,
                Some("must-deny") => Verdict::Deny,
                label => panic!("unknown label {label:?} in {line}"),
            };
            Row { expected, family: cells.next().unwrap(), command: unmark(cells.next().unwrap()) }
        })
        .collect()
}

/// Replaces the marks that stand for characters a table cannot hold.
fn unmark(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('⟦') {
        out.push_str(before);
        let (mark, after) = after.split_once('⟧').unwrap();
        match mark {
            "LF" => out.push('\n'),
            "CR" => out.push('\r'),
            "TAB" => out.push('\t'),
            "ESC" => out.push('\u{1b}'),
            "BEL" => out.push('\u{7}'),
            "NUL" => out.push('\0'),
            mark if mark.starts_with("U+") => out.push(char::from_u32(u32::from_str_radix(&mark[2..], 16).unwrap()).unwrap()),
            mark if mark.starts_with("SP*") => out.push_str(&" ".repeat(mark[3..].parse().unwrap())),
            mark => {
                let (count, text) = mark.strip_prefix("REP*").unwrap().split_once(':').unwrap();
                out.push_str(&text.repeat(count.parse().unwrap()));
            }
        }
        rest = after;
    }
    out + rest
}

fn scope() -> Scope {
    Scope { root: PathBuf::from("/home/dev/proj"), cwd: PathBuf::from("/home/dev/proj"), home: PathBuf::from("/home/dev"), ..Scope::default() }
}

fn verdict(command: &str) -> (Verdict, String) {
    let analysis = analyse(command, &scope());
    let strictest = analysis.findings.into_iter().map(|found| found.decision).reduce(baton_guard::Decision::join);
    strictest.map_or((Verdict::Allow, String::new()), |found| (found.verdict, format!("{}: {}", found.rule, found.reason)))
}

#[test]
fn every_row_gets_what_it_deserves() {
    let mut table: BTreeMap<(Verdict, Verdict), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows() {
        let (found, why) = verdict(&row.command);
        *table.entry((row.expected, found)).or_default() += 1;
        if found != row.expected {
            wrong.push(format!("{} instead of {} ({}): {} -- {why}", found, row.expected, row.family, row.command.escape_debug()));
        }
    }
    println!("expected, found: {table:#?}\n{}", wrong.join("\n"));
    let count = |expected, found| table.get(&(expected, found)).copied().unwrap_or_default();
    let total = |expected| [Verdict::Allow, Verdict::Ask, Verdict::Deny].map(|found| count(expected, found)).iter().sum::<usize>();
    assert_eq!(count(Verdict::Deny, Verdict::Allow) + count(Verdict::Ask, Verdict::Allow), 0, "nothing gets through");
    assert!(count(Verdict::Deny, Verdict::Ask) * 20 <= total(Verdict::Deny), "too many are only asked about");
    assert!(count(Verdict::Allow, Verdict::Allow) * 10 >= total(Verdict::Allow) * 9, "too many questions");
}
