use super::*;

fn scope() -> Scope {
    Scope { root: "/home/dev/proj".into(), cwd: "/home/dev/proj".into(), home: "/home/dev".into(), ..Scope::default() }
}

#[test]
fn the_shipped_list_is_read_and_its_examples_hold() {
    let file: File = shipped::parse(SHIPPED).unwrap();
    assert!(!file.paths.is_empty());
    for rule in &file.paths {
        let access = if rule.write.is_some() { Access::Write } else { Access::Read };
        let is_hit = |path: &str| {
            let Compiled { rule, patterns, but } =
                PROTECTED.iter().find(|compiled| compiled.rule.id == rule.id).unwrap();
            let scope = scope();
            let only = Compiled {
                rule: Protected {
                    id: rule.id.clone(),
                    reason: String::new(),
                    patterns: Vec::new(),
                    but: Vec::new(),
                    matches: Vec::new(),
                    other: Vec::new(),
                    ..*rule
                },
                patterns: patterns.clone(),
                but: but.clone(),
            };
            scope
                .protected_by(std::slice::from_ref(&only), Path::new(path), access, false, scope.place(Path::new(path)))
                .is_some()
        };
        for path in &rule.matches {
            assert!(is_hit(path), "{} should cover {path}", rule.id);
        }
        for path in &rule.other {
            assert!(!is_hit(path), "{} should not cover {path}", rule.id);
        }
    }
}

#[test]
fn places_are_compared_by_component() {
    let mut scope = scope();
    scope.added.push("/data/added".into());
    assert_eq!(scope.place(Path::new("/home/dev/proj/src")), Place::Inside);
    assert_eq!(scope.place(Path::new("/home/dev/proj-evil/x")), Place::Outside);
    assert_eq!(scope.place(Path::new("/data/added/x")), Place::Inside);
    assert_eq!(scope.place(Path::new("/home/dev/.cargo/registry/src/x")), Place::Readable);
    assert_eq!(scope.judge(Path::new("/usr/include/stdio.h"), Access::Read, false).verdict, Verdict::Allow);
    assert_eq!(scope.judge(Path::new("/usr/include/stdio.h"), Access::Write, false).verdict, Verdict::Deny);
    assert_eq!(scope.judge(Path::new("/home/dev/other"), Access::Write, false).verdict, Verdict::Ask);
}

#[test]
fn a_role_writes_only_its_files() {
    let scope = Scope { writable: Some(vec![Pattern::new("tests/**/*.rs")]), ..scope() };
    let verdict = |path: &str| scope.judge(&scope.meant(path), Access::Write, false).verdict;
    assert_eq!(verdict("tests/a/b.rs"), Verdict::Allow);
    assert_eq!(verdict("tests/x.sh"), Verdict::Deny);
    assert_eq!(verdict("src/main.rs"), Verdict::Deny);
}
