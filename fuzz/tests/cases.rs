//! A fixed number of cases of every target, the same each time. Many more: see CONTRIBUTING.md.

use baton_fuzz::{TARGETS, Target, minimise, run};

const CASES: u64 = 2_000;

fn check(name: &str) {
    let target = Target::named(name).unwrap();
    assert!(target.seeds().len() >= 3, "{name} has too few samples");
    if let Err(found) = run(&target, CASES, 7, |_, _| {}) {
        let found = minimise(&target, found);
        panic!("{}\n{}", found.message, found.case.escape_ascii());
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn all_are_here() {
            assert_eq!([$(stringify!($name)),*], TARGETS.map(|target| target.name));
        }
    };
}

targets! { anthropic responses chat gemini edit patch script cassette marks proxy config claude_code codex session }
