//! `baton guard check`: answers about commands and paths, one by one and in batches, with the person's rules.

use serde_json::Value;

use crate::support::{World, run_with_stdin};

fn answer(world: &World, args: &[&str]) -> (String, String) {
    let all = [&["guard", "check", "--json"], args].concat();
    let answer: Value = serde_json::from_str(&world.baton(&all).expect(0).stdout).unwrap();
    assert!(!answer["reason"].as_str().unwrap().is_empty());
    (answer["decision"].as_str().unwrap().to_owned(), answer["rule"].as_str().unwrap().to_owned())
}

#[test]
fn a_question_is_answered_and_nothing_runs() {
    let world = World::new();
    world.file("src/a.rs", "x");
    assert_eq!(answer(&world, &["--command", "git log | head"]).0, "allow");
    assert_eq!(answer(&world, &["--command", "touch made"]).0, "ask");
    assert_eq!(
        answer(&world, &["--command", "ls; r\"\"m -rf \"$BUILD\"/*"]),
        ("deny".into(), "destroy.outside".into())
    );
    assert_eq!(answer(&world, &["--command", "make", "--mode", "plan"]).0, "deny");
    assert_eq!(answer(&world, &["--command", "make", "--mode", "auto", "--sandboxed"]).0, "allow");
    assert_eq!(answer(&world, &["--read", "src/a.rs"]).0, "allow");
    assert_eq!(answer(&world, &["--read", "src/none.rs"]).1, "path.missing");
    assert_eq!(answer(&world, &["--write", "src/new.rs"]).0, "allow");
    assert_eq!(answer(&world, &["--write", "src/new.rs", "--mode", "ask"]).0, "ask");
    assert_eq!(answer(&world, &["--write", "src/new.rs", "--scope", "docs/**"]).1, "path.role");
    assert_eq!(answer(&world, &["--write", ".git/hooks/pre-commit"]).1, "path.git-control");
    let own = world.home().join("config.jsonc").display().to_string();
    assert_eq!(
        answer(&world, &["--command", &format!("echo x > {own}")]),
        ("deny".into(), "path.baton-control".into())
    );
    assert!(!world.project().join("made").exists());
    let text = world.baton(&["guard", "check", "--command", "cargo test"]).expect(0).stdout;
    assert!(text.starts_with("ask  code.build: ") && text.contains("Bash(cargo test:*)"), "{text}");
    assert!(world.baton(&["guard", "check"]).expect(2).stderr.contains("--command"));
}

#[test]
fn a_batch_is_answered_line_by_line() {
    let world = World::new();
    world.file("calls.jsonl", "{\"command\": \"ls\"}\n\n{\"read\": \"/etc/shadow\"}\nnonsense\n{\"write\": \"a\"}\n");
    let answered = world.baton(&["guard", "check", "--batch", "calls.jsonl"]).expect(2).stdout;
    let decisions = |text: &str| {
        let answers = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        answers.map(|answer| answer["decision"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(decisions(&answered), ["allow", "deny", "deny", "allow"]);
    let piped =
        run_with_stdin(world.command(&["guard", "check", "--batch", "-"]), b"{\"command\": \"sudo ls\"}").expect(0);
    assert_eq!(decisions(&piped.stdout), ["deny"]);
    world.baton(&["guard", "check", "--batch", "missing.jsonl"]).expect(2);
}

#[test]
fn rules_of_every_layer_count_and_a_repository_only_tightens() {
    let world = World::new();
    std::fs::create_dir_all(world.home()).unwrap();
    let mine = r#"{"permissions": {"allow": ["Bash(make:*)"], "deny": ["Bash(git push:*)"]}}"#;
    std::fs::write(world.home().join("config.jsonc"), mine).unwrap();
    world.file(
        ".baton/config.jsonc",
        r#"{"permissions": {"allow": ["Bash(touch:*)"], "deny": ["Bash(make clean:*)"]}}"#,
    );
    assert_eq!(answer(&world, &["--command", "make all"]).0, "allow");
    assert_eq!(answer(&world, &["--command", "make clean"]), ("deny".into(), "Bash(make clean:*)".into()));
    assert_eq!(answer(&world, &["--command", "git push"]), ("deny".into(), "Bash(git push:*)".into()));
    assert_eq!(answer(&world, &["--command", "touch a"]).0, "ask");
    let run = world.play(
        r#"{"call":[{"tool":"bash","input":{"command":"make clean"}},{"tool":"bash","input":{"command":"git push"}}]}
           {"say":"ok"}"#,
        &[],
    );
    for (output, rule) in run.expect(0).outputs().iter().zip(["Bash(make clean:*)", "Bash(git push:*)"]) {
        assert!(output.starts_with("refused: ") && output.contains(rule), "{output}");
    }
    world.file(".baton/config.jsonc", r#"{"permissions": {"deny": ["Bash(ls | sh)"]}}"#);
    world.baton(&["guard", "check", "--command", "ls"]).expect_error(2, "Bash(ls | sh)", "permissions");
}

#[test]
fn a_rule_is_kept_beside_what_is_there_and_binds() {
    let world = World::new();
    std::fs::create_dir_all(world.home()).unwrap();
    let file = world.home().join("config.jsonc");
    let mine = "// mine\n{\n  \"model\": \"x/y\", // the best\n}\n";
    std::fs::write(&file, mine).unwrap();
    let kept = world.baton(&["guard", "add", "Bash(git push:*)", "Edit(./vendor/**)"]).expect(0);
    let settings = std::fs::read_to_string(&file).unwrap();
    let line = settings.lines().position(|line| line.contains("git push")).unwrap() + 1;
    assert!(kept.stdout.contains(&format!(
        "deny  Bash(git push:*)\ndeny  Edit(./vendor/**)\nin {}:{line}",
        file.canonicalize().unwrap().display()
    )));
    assert!(settings.starts_with("// mine\n") && settings.contains("// the best"), "{settings}");
    assert_eq!(answer(&world, &["--command", "git -C . push origin x"]).0, "deny");
    assert_eq!(answer(&world, &["--write", "vendor/a.c"]).0, "deny");
    assert!(world.baton(&["guard", "add", "Bash(git push:*)"]).expect(0).stderr.contains("there already"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), settings);
    world.baton(&["guard", "add", "--ask", "WebFetch(domain:example.com)"]).expect(0);
    world.baton(&["guard", "add", "--allow", "Bash(make:*)"]).expect(0);
    assert_eq!(answer(&world, &["--command", "make all"]).0, "allow");
    world.baton(&["guard", "add", "--allow", "Bash(*make*)"]).expect_error(2, "ask or deny only", "baton guard add");
    world.baton(&["guard", "add", "Bash(a | b)"]).expect_error(2, "joins several commands", "baton guard add");
    std::fs::write(&file, "{\"permissions\": {\"deny\": 1}}").unwrap();
    world.baton(&["guard", "add", "Bash(x)"]).expect(2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"permissions\": {\"deny\": 1}}");
}

#[test]
fn a_correction_in_plain_words_is_shown_and_kept_after_a_yes() {
    let world = World::new();
    let file = world.home().join("config.jsonc");
    let asked = world.baton(&["guard", "add", "never run migrations"]).expect(4);
    assert!(asked.stdout.contains("deny  Bash(*migrate*)") && asked.stderr.contains("--yes"), "{asked:?}");
    assert!(!file.exists());
    world.baton(&["guard", "add", "--yes", "never", "run", "migrations"]).expect(0);
    assert_eq!(answer(&world, &["--command", "sh -c 'rails db:migrate'"]), ("deny".into(), "Bash(*migrate*)".into()));
    assert_eq!(answer(&world, &["--command", "make migrate", "--mode", "yolo"]).0, "deny");
    assert_eq!(answer(&world, &["--command", "ls migrations"]).0, "allow");
    world.baton(&["guard", "add", "be nicer"]).expect_error(2, "gives none", "baton guard add 'Bash(");
    world.baton(&["guard", "add", "--allow", "never push"]).expect_error(2, "only a rule can allow", "baton guard add");

    // No model is asked: there is none.
    let proposed = world.baton(&["exec", "# don't touch vendor/ or `it's`.txt"]);
    assert_eq!(proposed.code, 2, "{proposed:?}");
    let proposed = world.baton(&["exec", "# never push"]).expect(0);
    assert!(proposed.stdout.ends_with("baton guard add --yes 'never push'\n"), "{proposed:?}");
    let proposed: Value =
        serde_json::from_str(&world.baton(&["exec", "--json", "# never push"]).expect(0).stdout).unwrap();
    assert_eq!(proposed["correction"]["rules"][0]["rule"], "Bash(git push:*)");
    world.baton(&["exec", "# Heading"]).expect_error(2, "gives no rule", "leave the `#` out");
    let model = world.script(r##"{"when":"# Task","say":"ok"}"##);
    world.baton(&["exec", "-m", &model, "# Task\n\nnever push"]).expect(0);
}

#[test]
fn a_rule_for_one_project_is_personal_and_trusted_as_far_as_the_rest_is() {
    let world = World::new();
    world.baton(&["guard", "add", "--project", "--allow", "Bash(make:*)"]).expect(0);
    assert_eq!(world.read(".baton/.gitignore"), "local.jsonc\nruns/\n");
    assert_eq!(answer(&world, &["--command", "make all"]).0, "allow");
    world.baton(&["guard", "add", "--project", "--yes", "stay out of vendor"]).expect(0);
    assert_eq!(answer(&world, &["--command", "make all"]).0, "allow");
    assert_eq!(answer(&world, &["--command", "cat vendor/x"]).0, "deny");
    world.file(".mcp.json", "{}");
    assert_eq!(answer(&world, &["--command", "make all"]).0, "ask");
    let kept = world.baton(&["guard", "add", "--project", "--allow", "Bash(just:*)"]).expect(0);
    assert!(kept.stderr.contains("only after `baton trust`"), "{kept:?}");
    assert_eq!(answer(&world, &["--command", "just x"]).0, "ask");
    world.baton(&["trust", "--yes"]).expect(0);
    assert_eq!(answer(&world, &["--command", "just x"]).0, "allow");
}
