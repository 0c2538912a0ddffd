use baton_core::PermissionMode;
use proptest::prelude::*;

use super::*;
use crate::{Call, Context, Origin, PermissionSettings, Rules, Scope, evaluate};

fn table() -> Data {
    shipped::parse(SHIPPED).unwrap()
}

fn decide(proposal: &Proposal, call: &str) -> Verdict {
    let mut settings = PermissionSettings::default();
    for Proposed { verdict, rule } in &proposal.rules {
        let list = if *verdict == Verdict::Deny { &mut settings.deny } else { &mut settings.ask };
        list.push(rule.clone());
    }
    let mut rules = Rules::none();
    rules.add(&settings, Origin::Trusted).unwrap();
    let scope = Scope { root: "/w".into(), cwd: "/w".into(), home: "/h".into(), ..Scope::default() };
    let path = |path: &str| std::path::Path::new("/w").join(path);
    let call = match call.split_once(':') {
        Some(("edit", file)) => Call::Write(path(file)),
        Some(("read", file)) => Call::Read(path(file)),
        _ => Call::Command(call.to_owned()),
    };
    // In this mode nothing is refused but by a rule.
    evaluate(&call, PermissionMode::Yolo, &rules, &Context { scope, sandboxed: false, hosts: Vec::new() }).verdict
}

#[test]
fn every_sentence_of_the_table_gives_the_rules_of_its_row() {
    let all = Table::new(table()).unwrap();
    let read = |said: &str| all.read(said);
    for (n, row) in table().rows.iter().enumerate() {
        assert!(!row.matches.is_empty() && !row.other.is_empty() && !row.stops.is_empty() && !row.leaves.is_empty());
        for said in &row.matches {
            let (proposal, found) = read(said).unwrap_or_else(|| panic!("{}: {said}", row.id));
            assert_eq!(found, n, "{}: {said} is taken for {:?}", row.id, proposal.rules);
            assert!(proposal.rules.iter().all(|proposed| proposed.verdict == Verdict::Deny), "{proposal:?}");
        }
        for said in &row.other {
            assert_ne!(read(said).map(|(_, found)| found), Some(n), "{}: {said}", row.id);
        }
    }
}

#[test]
fn the_rules_stop_what_was_meant_and_leave_the_rest() {
    for row in table().rows {
        let proposal = correction(&row.matches[0]).unwrap();
        for call in &row.stops {
            assert_eq!(decide(&proposal, call), Verdict::Deny, "{}: {call} under {:?}", row.id, proposal.rules);
        }
        for call in &row.leaves {
            assert_ne!(decide(&proposal, call), Verdict::Deny, "{}: {call} under {:?}", row.id, proposal.rules);
        }
    }
}

#[test]
fn what_cannot_be_said_as_a_rule_gives_none() {
    for said in [
        "",
        "#",
        "# Heading",
        "fix the bug",
        "use tabs",
        "always write tests first",
        "never give up",
        "don't push on fridays",
        "never commit without running the tests",
        "never use unwrap",
        "don't be so verbose",
        "never push or sing",
        "don't touch anything",
        "never edit ../other/file.txt",
        "never run `a | b`",
        "never push\nand then some more text",
        "# Task\n\nnever push",
    ] {
        assert_eq!(correction(said), None, "{said}");
    }
    assert_eq!(correction(&format!("never push {}", "again ".repeat(200))), None);
}

#[test]
fn several_things_and_questions_are_understood() {
    let rules = |said: &str| -> Vec<String> {
        let proposal = correction(said).unwrap_or_else(|| panic!("{said}"));
        proposal.rules.iter().map(|proposed| format!("{} {}", proposed.verdict, proposed.rule)).collect()
    };
    assert_eq!(
        rules("never touch a.txt, b/c.txt or `LICENSE`"),
        ["deny Edit(a.txt)", "deny Edit(b/c.txt)", "deny Edit(LICENSE)"]
    );
    assert!(rules("don't commit or push").join(" ").contains("deny Bash(git push:*)"));
    assert_eq!(rules("ask me before you push")[0], "ask Bash(git push:*)");
    assert_eq!(rules("always ask before pushing")[0], "ask Bash(git push:*)");
    assert_eq!(rules("never push without asking me first")[0], "ask Bash(git push:*)");
    assert_eq!(rules("Please don\u{2019}t  push again!!")[0], "deny Bash(git push:*)");
    assert_eq!(rules("never edit /etc/hosts"), ["deny Edit(//etc/hosts)"]);
    assert_eq!(rules("never edit ~/.profile"), ["deny Edit(~/.profile)"]);
    assert_eq!(rules("use pnpm instead of npm"), ["deny Bash(npm:*)", "deny Bash(npx:*)"]);
    assert_eq!(rules("never run `make release`"), ["deny Bash(make release:*)"]);
}

proptest! {
    #[test]
    fn whatever_is_said_the_rules_can_be_read(said in "(never|don't|ask before|use|stay out of|no)( [a-z./`*'\"~]{1,8}){0,6}") {
        if let Some(proposal) = correction(&said) {
            prop_assert!(!proposal.rules.is_empty());
            for proposed in proposal.rules {
                prop_assert!(Rule::parse(&proposed.rule).is_ok(), "{}", proposed.rule);
                prop_assert!(proposed.verdict > Verdict::Allow);
            }
        }
    }

    #[test]
    fn any_text_ends(said in ".{0,400}") {
        correction(&said);
    }
}
