use baton_core::{Access, PermissionMode};
use proptest::prelude::*;

use super::*;
use crate::{Call, Context, analyse, evaluate};

fn scope() -> Scope {
    Scope { root: "/home/dev/proj".into(), cwd: "/home/dev/proj".into(), home: "/home/dev".into(), ..Scope::default() }
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
    let list = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect();
    let mut all = Rules::none();
    let settings = PermissionSettings { allow: list(allow), ask: list(ask), deny: list(deny), mode: None };
    all.add(&settings, Origin::Trusted).unwrap();
    all
}

fn verdict(call: &Call, rules: &Rules) -> Verdict {
    evaluate(call, PermissionMode::Ask, rules, &Context { scope: scope(), sandboxed: false, hosts: Vec::new() }).verdict
}

fn command(text: &str, rules: &Rules) -> Verdict {
    verdict(&Call::Command(text.to_owned()), rules)
}

#[test]
fn quotes_hold_a_word_together() {
    let some = rules(&["Bash(make 'two words' \"\" it\"'\"s)", "Bash(touch don't)"], &[], &["Bash(make \"a b\":*)"]);
    assert_eq!(command("make two\\ words '' it\\'s", &some), Verdict::Allow);
    assert_eq!(command("make two words '' it\\'s", &some), Verdict::Ask);
    assert_eq!(command("make 'a b' c", &some), Verdict::Deny);
    // One that is not closed is a character like others.
    assert_eq!(command("touch don\\'t", &some), Verdict::Allow);
}

#[test]
fn rules_speak_of_commands_paths_domains_and_tools() {
    let some = rules(
        &["Bash(npm run test)", "bash(git commit:*)", "Edit(./docs/**)", "WebFetch(domain:example.com)", "mcp__files"],
        &[],
        &["Bash(git log:*)", "Read(**/*.key)"],
    );
    assert_eq!(command("npm run test", &some), Verdict::Allow);
    assert_eq!(command("npm run test -- --x", &some), Verdict::Ask);
    assert_eq!(command("npm run test && npm run other", &some), Verdict::Ask);
    assert_eq!(command("git commit -m x", &some), Verdict::Allow);
    assert_eq!(command("git commit -m x > ~/.bashrc", &some), Verdict::Deny);
    assert_eq!(command("git log -1", &some), Verdict::Deny);
    assert_eq!(command("ls; /usr/bin/git log", &some), Verdict::Deny);
    assert_eq!(command("cat a.key", &some), Verdict::Deny);
    assert_eq!(command("echo x > docs/a.md", &some), Verdict::Allow);
    assert_eq!(command("echo x > src/a.md", &some), Verdict::Ask);
    assert_eq!(verdict(&Call::Write("/home/dev/proj/docs/a.md".into()), &some), Verdict::Allow);
    assert_eq!(verdict(&Call::Write("/home/dev/proj/src/a.rs".into()), &some), Verdict::Ask);
    assert_eq!(verdict(&Call::Fetch("https://docs.example.com/x".into()), &some), Verdict::Allow);
    for url in [
        "https://example.com.evil.test/",
        "https://evil.test/?example.com",
        "https://example.com@evil.test/",
        "https://notexample.com/",
    ] {
        assert_ne!(verdict(&Call::Fetch(url.into()), &some), Verdict::Allow, "{url}");
    }
    let tool = |name: &str| Call::Tool { name: name.to_owned(), access: Access::Execute };
    assert!(some.decide(|rule| rule.matches_tool("mcp__files__read")).is_some());
    assert!(some.decide(|rule| rule.matches_tool("mcp__files2__read")).is_none());
    assert_eq!(verdict(&tool("mcp__other__x"), &some), Verdict::Ask);
}

#[test]
fn bad_rules_say_what_to_write() {
    for rule in [
        "Bash(git log",
        "Bash(:*)",
        "Bash(* log)",
        "Bash(ls | sh)",
        "Read(../x)",
        "WebFetch(example.com)",
        "",
        "git log",
        "mcp__a(x)",
    ] {
        let error = Rule::parse(rule).unwrap_err().to_string();
        assert!(error.contains("write ") && error.contains(rule), "{error}");
    }
}

#[test]
fn rules_that_leave_something_open_refuse_and_never_allow() {
    let open = ["Bash(*migrate*)", "Bash(git push ** --force*)"];
    for rule in open {
        let settings = PermissionSettings { allow: vec![rule.to_owned()], ..PermissionSettings::default() };
        let error = Rules::none().add(&settings, Origin::Trusted).unwrap_err().to_string();
        assert!(error.contains("ask or deny only") && error.contains(rule), "{error}");
    }
    let some = rules(&[], &[], &open);
    for text in [
        "rails db:migrate",
        "sh -c 'npx prisma migrate deploy'",
        "cd x && ./migrate.sh",
        "git push --force",
        "git push origin main --force-with-lease",
        "git -C sub push -u o b --force",
    ] {
        assert_eq!(command(text, &some), Verdict::Deny, "{text}");
    }
    for text in ["ls migrations", "git push origin main", "git log --force", "git push"] {
        assert_ne!(command(text, &some), Verdict::Deny, "{text}");
    }
    assert_eq!(command("git -C . log", &rules(&[], &[], &["Bash(git log:*)"])), Verdict::Deny);
    assert_eq!(command("git -C . commit -m x", &rules(&["Bash(git commit:*)"], &[], &[])), Verdict::Ask);
}

#[test]
fn a_repository_tightens_before_trust_and_allows_only_after() {
    let settings = PermissionSettings {
        allow: vec!["Bash(make:*)".into()],
        deny: vec!["Bash(ls:*)".into()],
        ..PermissionSettings::default()
    };
    for (origin, made) in [(Origin::Untrusted, Verdict::Ask), (Origin::Trusted, Verdict::Allow)] {
        let mut all = Rules::none();
        all.add(&settings, origin).unwrap();
        assert_eq!(command("make x", &all), made);
        assert_eq!(command("ls -a", &all), Verdict::Deny);
    }
}

#[test]
fn always_allow_is_narrow_and_works() {
    for (text, expected) in [
        ("cargo test --lib", "Bash(cargo test:*)"),
        ("npm run build -- -x", "Bash(npm run build:*)"),
        ("./run.sh", ""),
        ("touch a.txt", "Bash(touch a.txt)"),
        ("rm -rf ~", ""),
        ("ls $(x)", ""),
    ] {
        let proposed = propose(&Call::Command(text.to_owned()), Some(&analyse(text, &scope())), &scope());
        assert_eq!(proposed.join(" "), expected, "{text}");
        if !proposed.is_empty() {
            let list: Vec<&str> = proposed.iter().map(String::as_str).collect();
            assert_eq!(command(text, &rules(&list, &[], &[])), Verdict::Allow, "{text}");
        }
    }
    let path = Call::Write("/home/dev/proj/a.rs".into());
    assert_eq!(propose(&path, None, &scope()), ["Edit(./a.rs)"]);
}

#[test]
fn modes_do_what_their_names_say() {
    use PermissionMode as Mode;
    let at = |mode, sandboxed| {
        move |text: &str| {
            evaluate(
                &Call::Command(text.to_owned()),
                mode,
                &Rules::none(),
                &Context { scope: scope(), sandboxed, hosts: Vec::new() },
            )
            .verdict
        }
    };
    for mode in [Mode::Ask, Mode::AcceptEdits] {
        assert_eq!(
            [at(mode, true)("ls"), at(mode, true)("make"), at(mode, true)("rm -rf ~")],
            [Verdict::Allow, Verdict::Ask, Verdict::Deny]
        );
    }
    assert_eq!([at(Mode::Plan, true)("ls"), at(Mode::Plan, true)("make")], [Verdict::Allow, Verdict::Deny]);
    assert_eq!(
        [at(Mode::Auto, true)("make"), at(Mode::Auto, true)("curl https://x.example"), at(Mode::Auto, true)("sudo ls")],
        [Verdict::Allow, Verdict::Ask, Verdict::Deny]
    );
    assert_eq!(at(Mode::Auto, false)("make"), Verdict::Ask);
    assert_eq!(at(Mode::Deny, true)("ls"), Verdict::Deny);
    assert_eq!(at(Mode::Yolo, false)("rm -rf ~"), Verdict::Allow);
    let denied = rules(&[], &[], &["Bash(rm:*)"]);
    let yolo = evaluate(
        &Call::Command("rm x".into()),
        Mode::Yolo,
        &denied,
        &Context { scope: scope(), sandboxed: false, hosts: Vec::new() },
    );
    assert_eq!(yolo.verdict, Verdict::Deny);
}

fn rule() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "Bash",
        "Bash(git:*)",
        "Bash(git log:*)",
        "Bash(rm:*)",
        "Bash(ls)",
        "Bash(make)",
        "Bash(curl:*)",
        "Read(src/**)",
        "Edit(src/**)",
        "Edit",
        "Read",
        "Bash(env:*)",
        "Bash(sh:*)",
    ])
    .prop_map(str::to_owned)
}

fn some_command() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "ls",
        "git log",
        "rm -rf ~",
        "make",
        "git log && make",
        "curl https://x.example",
        "cat src/a",
        "echo x > src/a",
        "sh -c 'rm x'",
        "env git log",
        "git -c core.pager=x log",
        "ls $(make)",
        "cat ../x",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn tightening_never_loosens_and_order_does_not_matter(
        allow in prop::collection::vec(rule(), 0..4),
        ask in prop::collection::vec(rule(), 0..3),
        deny in prop::collection::vec(rule(), 0..3),
        more in rule(),
        text in some_command(),
    ) {
        let made = |allow: &[String], ask: &[String], deny: &[String]| {
            let mut all = Rules::none();
            all.add(&PermissionSettings { allow: allow.to_vec(), ask: ask.to_vec(), deny: deny.to_vec(), mode: None }, Origin::Trusted).unwrap();
            command(&text, &all)
        };
        let before = made(&allow, &ask, &deny);
        let added = |list: &[String]| [list, std::slice::from_ref(&more)].concat();
        prop_assert!(made(&allow, &ask, &added(&deny)) >= before);
        prop_assert!(made(&allow, &added(&ask), &deny) >= before);
        prop_assert!(made(&added(&allow), &ask, &deny) <= before);
        let reversed = |list: &[String]| list.iter().rev().cloned().collect::<Vec<_>>();
        prop_assert_eq!(made(&reversed(&allow), &reversed(&ask), &reversed(&deny)), before);
        // Nothing allows what the table denies.
        if command(&text, &Rules::none()) == Verdict::Deny {
            prop_assert_eq!(before, Verdict::Deny);
        }
    }
}
