//! The corpus of commands: what must run unasked, be asked or be denied, as it is, in a hundred forms, and under bad rules.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_core::PermissionMode;
use baton_guard::{Call, Context, Origin, PermissionSettings, Rules, Scope, Verdict, analyse, evaluate};

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
            mark if mark.starts_with("U+") => {
                out.push(char::from_u32(u32::from_str_radix(&mark[2..], 16).unwrap()).unwrap());
            }
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
    Scope {
        root: PathBuf::from("/home/dev/proj"),
        cwd: PathBuf::from("/home/dev/proj"),
        home: PathBuf::from("/home/dev"),
        ..Scope::default()
    }
}

fn verdict(command: &str) -> (Verdict, String) {
    let analysis = analyse(command, &scope());
    let strictest = analysis.findings.into_iter().map(|found| found.decision).reduce(baton_guard::Decision::join);
    strictest
        .map_or((Verdict::Allow, String::new()), |found| (found.verdict, format!("{}: {}", found.rule, found.reason)))
}

#[test]
fn every_row_gets_what_it_deserves() {
    let mut table: BTreeMap<(Verdict, Verdict), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in rows() {
        let (found, why) = verdict(&row.command);
        *table.entry((row.expected, found)).or_default() += 1;
        if found != row.expected {
            wrong.push(format!(
                "{} instead of {} ({}): {} -- {why}",
                found,
                row.expected,
                row.family,
                row.command.escape_debug()
            ));
        }
    }
    println!("expected, found: {table:#?}\n{}", wrong.join("\n"));
    let count = |expected, found| table.get(&(expected, found)).copied().unwrap_or_default();
    let total = |expected| {
        [Verdict::Allow, Verdict::Ask, Verdict::Deny].map(|found| count(expected, found)).iter().sum::<usize>()
    };
    assert_eq!(count(Verdict::Deny, Verdict::Allow) + count(Verdict::Ask, Verdict::Allow), 0, "nothing gets through");
    assert!(count(Verdict::Deny, Verdict::Ask) * 20 <= total(Verdict::Deny), "too many are only asked about");
    assert!(count(Verdict::Allow, Verdict::Allow) * 10 >= total(Verdict::Allow) * 9, "too many questions");
}

/// The command in a hundred other forms that mean the same or more.
fn mutations(command: &str, seed: usize) -> Vec<String> {
    let quoted = command.replace('\'', "'\\''");
    let first = command.split([' ', '\n', ';', '|', '&', '(', ')', '<', '>']).next().unwrap_or_default();
    let plain = first.len() > 1 && first.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let builtin = [
        "export", "declare", "alias", "unset", "source", "cd", "if", "for", "while", "case", "function", "until",
        "coproc", "let", "read", "type", "time", "f", "x", "set", "test", "true", "eval", "command",
    ];
    let mut forms = vec![
        format!("  {command}"),
        format!("\t{command} "),
        format!("{command}\n"),
        format!("( {command}\n)"),
        format!("{{ {command}\n}}"),
        format!("sh -c '{quoted}'"),
        format!("bash -lc '{quoted}'"),
        format!("eval '{quoted}'"),
        format!("if true; then {command}\nfi"),
        format!("while false; do {command}\ndone"),
        format!("true && {{ {command}\n}}"),
        format!("echo \"$( {command}\n)\""),
        format!("cat <( {command}\n)"),
        format!("! {{ {command}\n}}"),
        format!("env sh -c '{quoted}'"),
        format!("timeout 5 sh -c '{quoted}'"),
        format!("f() {{ {command}\n}}; f"),
        format!("for i in 1; do {command}\ndone"),
        format!("case x in x) {command}\n;; esac"),
    ];
    if plain && !builtin.contains(&first) {
        let rest = &command[first.len()..];
        let (head, tail) = first.split_at(1);
        forms.extend([
            format!("/usr/bin/{first}{rest}"),
            format!("/bin/{first}{rest}"),
            format!("'{first}'{rest}"),
            format!("\"{first}\"{rest}"),
            format!("{head}''{tail}{rest}"),
            format!("{head}\"{tail}\"{rest}"),
            format!("\\{first}{rest}"),
            format!("{head}\\\n{tail}{rest}"),
            format!("command {first}{rest}"),
            format!("nice {first}{rest}"),
            format!("env {first}{rest}"),
            format!("timeout 9 {first}{rest}"),
            format!("{first} {rest}"),
        ]);
    }
    let mut round = 0;
    while forms.len() < 100 {
        let length = if round < 2 { 200 } else { [1, 2, 3, 5, 8, 13, 21][(seed + round) % 7] };
        let at = (seed * 31 + round * 17) % (length + 1);
        let joint = ["; ", " && ", " || ", "\n"][round % 4];
        let filler = ["true", "ls", "echo a", "git status"][(seed + round) % 4];
        let mut parts: Vec<&str> = vec![filler; length];
        parts.insert(at, command);
        // What a line ends cannot be joined on that line.
        let joint = if command.contains(['\n', '#', '&']) { "\n" } else { joint };
        forms.push(parts.join(joint));
        round += 1;
    }
    forms
}

#[test]
fn other_forms_are_judged_no_milder() {
    let all = rows();
    let mut looser = Vec::new();
    std::thread::scope(|threads| {
        let halves: Vec<_> = all
            .chunks(all.len().div_ceil(4))
            .enumerate()
            .map(|(n, rows)| {
                threads.spawn(move || {
                    let mut looser = Vec::new();
                    for (m, row) in rows.iter().enumerate() {
                        let (before, _) = verdict(&row.command);
                        for form in mutations(&row.command, n * 1000 + m) {
                            let (after, why) = verdict(&form);
                            if after < before {
                                let start: String = form.chars().take(200).collect();
                                looser.push(format!("{before} became {after}: {} -- {why}", start.escape_debug()));
                            }
                        }
                    }
                    looser
                })
            })
            .collect();
        for half in halves {
            looser.extend(half.join().unwrap());
        }
    });
    assert!(looser.is_empty(), "{} forms:\n{}", looser.len(), looser.join("\n"));
}

#[test]
fn bad_rules_of_a_person_let_nothing_through_that_must_be_denied() {
    let allow = [
        "Bash(git *)",
        "Bash(rg *)",
        "Bash(find *)",
        "Bash(sed *)",
        "Bash(echo *)",
        "Bash(env *)",
        "Bash(curl:*)",
        "Bash(sh:*)",
        "Bash",
    ];
    let mut rules = Rules::none();
    let settings = PermissionSettings { allow: allow.map(str::to_owned).to_vec(), ..PermissionSettings::default() };
    rules.add(&settings, Origin::Trusted).unwrap();
    let context = Context { scope: scope(), sandboxed: true, hosts: Vec::new() };
    for row in rows() {
        for mode in [
            PermissionMode::Ask,
            PermissionMode::AcceptEdits,
            PermissionMode::Auto,
            PermissionMode::Plan,
            PermissionMode::Deny,
        ] {
            let decision = evaluate(&Call::Command(row.command.clone()), mode, &rules, &context);
            if row.expected == Verdict::Deny {
                assert_ne!(decision.verdict, Verdict::Allow, "{} in {mode}", row.command);
            }
        }
    }
}
