//! What people see on the command line: help, version, lists, completions, the demo.

use crate::support::World;

#[test]
fn help_teaches() {
    let world = World::new();
    insta::assert_snapshot!("help", world.baton(&["--help"]).expect(0).stdout);
    insta::assert_snapshot!("help_exec", world.baton(&["exec", "--help"]).expect(0).stdout);
    insta::assert_snapshot!("help_guard_check", world.baton(&["guard", "check", "--help"]).expect(0).stdout);
    insta::assert_snapshot!("help_model_server", world.baton(&["dev", "model-server", "--help"]).expect(0).stdout);
    assert!(world.baton(&[]).expect(2).stderr.contains("Usage: baton"));
    assert!(world.baton(&["exec", "--permission-mode", "sudo", "x"]).expect(2).stderr.contains("accept-edits"));
}

#[test]
fn the_version_is_one_line() {
    assert_eq!(World::new().baton(&["--version"]).expect(0).stdout, concat!("baton ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn models_are_listed_with_prices_and_for_scripts_as_json() {
    let world = World::new();
    let table = world.baton(&["models", "sonnet-5-5"]).expect(0).stdout;
    assert!(table.contains("anthropic/claude-sonnet-5-5") && table.contains("default"), "{table}");
    let json = world.baton(&["models", "--json"]).expect(0).stdout;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert!(rows.len() > 30);
    let row = rows.iter().find(|row| row["model"] == "anthropic/claude-sonnet-4-5").unwrap();
    assert_eq!((row["context"].as_u64(), row["price"]["output"].as_f64()), (Some(200_000), Some(15.0)));
    assert_eq!(row["ready"], false);
}

#[test]
fn models_of_the_settings_are_listed_and_used() {
    let world = World::new();
    std::fs::create_dir_all(world.home()).unwrap();
    let settings = r#"{
        "providers": {"box": {"base_url": "http://127.0.0.1:9/v1"}},
        "models": {"box/tiny": {"context": 10, "output": 5}},
        "retry": {"transient": {"attempts": 1}}
    }"#;
    std::fs::write(world.home().join("config.jsonc"), settings).unwrap();
    assert!(world.baton(&["models", "box"]).expect(0).stdout.contains("* box/tiny"));
    world.baton(&["exec", "-m", "box/tiny", "hi"]).expect_error(2, "takes 10 at most", "more context");
    let run = world.baton(&["exec", "-m", "box/other", "hi"]).expect(6);
    assert!(run.stderr.contains("box/other is not in the catalogue"), "{run:?}");
}

#[test]
fn doctor_says_what_works() {
    let world = World::new();
    let run = world.baton(&["doctor"]).expect(0);
    assert!(run.stdout.contains("git version") && run.stdout.contains("ANTHROPIC_API_KEY or"), "{}", run.stdout);
    let mut command = world.command(&["doctor", "--json"]);
    command.env("ANTHROPIC_API_KEY", "sk-secret");
    command.env("OPENAI_BASE_URL", "http://me:sk-secret@127.0.0.1/v1").env("OPENAI_API_KEY", "sk-secret");
    let run = crate::support::run(command).expect(0);
    assert!(!run.stdout.contains("sk-secret"));
    let checks: Vec<serde_json::Value> = serde_json::from_str(&run.stdout).unwrap();
    let anthropic = checks.iter().find(|check| check["name"] == "anthropic").unwrap();
    assert_eq!(anthropic["state"], "ok");
    let mut command = world.command(&["doctor"]);
    command.env("PATH", "/nonexistent");
    assert!(crate::support::run(command).expect(3).stdout.contains("not found"));
}

#[test]
fn completions_complete() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(World::new().baton(&["completions", shell]).expect(0).stdout.contains("permission-mode"));
    }
}

#[test]
fn the_demo_is_a_workflow_that_nobody_leaves() {
    let world = World::new();
    let told = world.baton(&["demo"]).expect(0).stderr;
    let refused = told.lines().filter(|line| line.contains("refused to ping") && line.contains("src/slug.sh")).count();
    assert_eq!(refused, 2, "by tool and by shell: {told}");
    assert!(told.contains("All tests pass.") && told.contains("exit 1") && told.contains("fail → GREEN"), "{told}");
    assert_eq!(told.matches("    Baton-Effect: run_").count(), 2, "{told}");
    assert!(told.contains("baton init"), "{told}");
    // In a git hook these point at the person's repository, which the demo must leave alone.
    let mut in_a_hook = world.command(&["demo"]);
    in_a_hook.env("GIT_DIR", world.project().join(".git")).env("GIT_WORK_TREE", world.project());
    crate::support::run(in_a_hook).expect(0);
    assert_eq!(std::fs::read_dir(world.project().join(".git")).unwrap().count(), 1);
    let events = world.baton(&["demo", "--json"]).expect(0);
    assert_eq!(events.of("run.refused").len(), 2);
    let ends = events.of("run.end");
    assert!(ends.len() == 3 && ends.iter().all(|end| end["end"] == "done"), "{ends:?}");
    assert!(!world.home().join("projects.json").exists(), "the sample is no project of the person's");
}

#[test]
fn the_demo_goes_on_where_it_was_interrupted() {
    let world = World::new();
    let dir = world.project().join("show");
    let mut command = world.command(&["demo", "--json", "--dir", dir.to_str().unwrap()]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let is_review = |line: &String| line.contains("run.state") && line.contains("REVIEW_TEST");
    assert!(lines.map_while(Result::ok).any(|line| is_review(&line)), "it is shown where it is");
    child.kill().unwrap();
    child.wait().unwrap();
    let told = world.baton(&["demo", "--dir", dir.to_str().unwrap()]).expect(0).stderr;
    assert!(told.contains("goes on") && told.matches("    Baton-Effect: run_").count() == 2, "{told}");
}
