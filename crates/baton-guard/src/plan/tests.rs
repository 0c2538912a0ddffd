use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;
use crate::evaluate::{Call, evaluate};

fn scope() -> Scope {
    Scope {
        root: "/w".into(),
        cwd: "/w/sub".into(),
        home: "/home/dev".into(),
        own: vec!["/state/baton".into()],
        ..Scope::default()
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn plan(commands: &[&str], paths: &[&str]) -> Result<Plan, Vec<String>> {
    Plan::new("# Do it", &strings(commands), &strings(paths), &Rules::none(), &scope())
}

fn verdict(call: &Call, plan: &Plan) -> Verdict {
    let context = Context { scope: scope(), sandboxed: true, hosts: Vec::new() };
    evaluate(call, PermissionMode::Ask, &plan.rules().unwrap(), &context).verdict
}

#[test]
fn grants_are_named_from_one_place_whatever_the_directory_is() {
    let plan = plan(
        &["cargo test", "git add:*", "cargo test", "git commit -m \"two words\""],
        &["a.rs", "../src/**", "/w/docs/", "~/notes/x", "/data/out/*"],
    )
    .unwrap();
    assert_eq!(
        plan.grants(),
        [
            "Bash(cargo test)",
            "Bash(git add:*)",
            "Bash(git commit -m \"two words\")",
            "Edit(./sub/a.rs)",
            "Edit(./src/**)",
            "Edit(./docs)",
            "Edit(~/notes/x)",
            "Edit(//data/out/*)"
        ]
    );
}

#[test]
fn what_is_granted_is_what_is_named_and_nothing_beside_it() {
    let plan = plan(&["cargo test", "git add:*", "git commit -m 'two words'"], &["/w/src/**"]).unwrap();
    for (command, expected) in [
        ("cargo test", Verdict::Allow),
        ("cargo test --release", Verdict::Ask),
        ("cargo test && cargo run", Verdict::Ask),
        ("cargo test; rm -rf /", Verdict::Deny),
        ("cargo test > /w/src/log", Verdict::Allow),
        ("cargo test > /w/log", Verdict::Ask),
        ("git add -A .", Verdict::Allow),
        ("git add . | sh", Verdict::Deny),
        ("git commit -m \"two words\"", Verdict::Allow),
        ("git commit -m two words", Verdict::Ask),
        ("git commit -m 'two words' --amend", Verdict::Ask),
    ] {
        assert_eq!(verdict(&Call::Command(command.to_owned()), &plan), expected, "{command}");
    }
    for (path, expected) in [
        ("/w/src/deep/a.rs", Verdict::Allow),
        ("/w/a.rs", Verdict::Ask),
        ("/w/src/.git/config", Verdict::Deny),
        // What is asked for wherever it lies is not what a pattern means.
        ("/w/src/.env", Verdict::Ask),
        ("/w/src/.github/workflows/ci.yml", Verdict::Ask),
    ] {
        assert_eq!(verdict(&Call::Write(path.into()), &plan), expected, "{path}");
    }
}

#[test]
fn what_cannot_be_granted_is_told_back_one_by_one() {
    for (commands, paths, says) in [
        (&["make && make install"][..], &[][..], "joins several commands"),
        (&["sudo ls"], &[], "cannot be granted"),
        (&["sudo:*"], &[], "cannot be granted"),
        (&["rm -rf /"], &[], "cannot be granted"),
        (&["git:*"], &[], "leaves open"),
        (&["ls *"], &[], "wildcard"),
        (&["*"], &[], "wildcard"),
        (&["cp a /data/b"], &[], "asked for all the same"),
        (&["cp a /w/AGENTS.md"], &[], "asked for all the same"),
        (&["eval \"$X\""], &[], "asked for all the same"),
        (&["echo a\u{202e}b"], &[], "not shown"),
        (&["ls\nls"], &[], "more than one line"),
        (&[""], &[], "is empty"),
        (&[], &["/w/.git/hooks/x"], "path.git-control"),
        (&[], &["/w/.baton/config.jsonc"], "path.baton-control"),
        (&[], &["/state/baton/x"], "path.baton-control"),
        (&[], &["~/.ssh/**"], "cannot be granted"),
        (&[], &["../AGENTS.md"], "asked for every time"),
        (&[], &["/w/**/.env"], "asked for every time"),
        (&[], &["!a"], "excepts"),
        (&[], &["/w"], "path.root"),
    ] {
        let problems = plan(commands, paths).unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(says), "{commands:?} {paths:?}: {problems:?}");
    }
    assert_eq!(plan(&["cp a /data/b"], &["/data/b"]).err(), None, "the path is what was missing");
    assert_eq!(plan(&["sudo ls", "make; make"], &["/w/.git/x"]).unwrap_err().len(), 3);
    assert!(Plan::new(" ", &[], &[], &Rules::none(), &scope()).is_err());
    let mut rules = Rules::none();
    let deny = strings(&["Bash(git push:*)", "Edit(./vendor/**)"]);
    rules.add(&PermissionSettings { deny, ..PermissionSettings::default() }, Origin::Trusted).unwrap();
    let denied = Plan::new("x", &strings(&["git push origin x"]), &strings(&["../vendor/a"]), &rules, &scope());
    assert_eq!(denied.unwrap_err().len(), 2);
}

#[test]
fn a_kept_plan_is_found_by_its_first_digits_and_only_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let plans = Plans::new(dir.path().join("plans"));
    let plan = plan(&["cargo test"], &[]).unwrap();
    let hash = plan.hash();
    assert!(matches!(plans.find(&hash), Err(PlanError::Missing(_))));
    plans.keep(&plan).unwrap();
    plans.keep(&plan).unwrap();
    let file = dir.path().join("plans").join(format!("{hash}.json"));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(plans.find(&hash[..12]).unwrap(), plan);
    assert!(matches!(plans.find(&hash[..11]), Err(PlanError::NoHash(_))));
    assert!(matches!(plans.find("../../../../x"), Err(PlanError::NoHash(_))));
    let twin = dir.path().join("plans").join(format!("{}{}.json", &hash[..12], "0".repeat(52)));
    std::fs::write(&twin, "{}").unwrap();
    assert!(matches!(plans.find(&hash[..12]), Err(PlanError::Ambiguous(_))));
    std::fs::remove_file(twin).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    for changed in [text.replace("cargo test", "cargo run"), text.replace('{', "{\"more\":1,"), String::new()] {
        std::fs::write(&file, changed).unwrap();
        assert!(matches!(plans.find(&hash), Err(PlanError::Changed { .. })));
    }
}

#[test]
fn only_so_many_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let plans = Plans::new(dir.path());
    for number in 0..110 {
        plans.keep(&Plan::new(&number.to_string(), &[], &[], &Rules::none(), &scope()).unwrap()).unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 100);
}

proptest! {
    #[test]
    fn no_two_plans_have_one_hash(
        one in ("[a-c]{1,3}", prop::collection::vec("[a-c]{1,2}", 0..3), prop::collection::vec("[a-c]{1,2}", 0..3)),
        two in ("[a-c]{1,3}", prop::collection::vec("[a-c]{1,2}", 0..3), prop::collection::vec("[a-c]{1,2}", 0..3)),
    ) {
        let made = |(text, commands, paths): (String, Vec<String>, Vec<String>)| Plan { commands, paths, text };
        prop_assert_eq!(one == two, made(one).hash() == made(two).hash());
    }
}
