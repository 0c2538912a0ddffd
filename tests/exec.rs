//! What `baton exec` does when all goes well.

use serde_json::json;

use crate::support::{World, run_with_stdin};

#[test]
fn the_answer_is_on_stdout_and_the_talk_on_stderr() {
    let world = World::new();
    world.file("a.txt", "hello\n");
    let model = world.script(
        r#"{"say":"looking","call":[{"tool":"read","input":{"path":"a.txt"}}]}
           {"say":"It says hello."}"#,
    );
    let run = world.baton(&["exec", "-m", &model, "what does a.txt say?"]).expect(0);
    assert_eq!(run.stdout, "It says hello.\n");
    assert!(run.stderr.contains("● read a.txt"), "{}", run.stderr);
    assert!(run.stderr.contains("done") && run.stderr.contains("2 steps"), "{}", run.stderr);
}

#[test]
fn events_come_in_order_and_in_groups() {
    let world = World::new();
    let run = world
        .play(
            r#"{"think":"hm","say":"one","call":[{"tool":"bash","input":{"command":"echo hi"}}]}
               {"say":"two"}"#,
            &[],
        )
        .expect(0);
    let events = run.events();
    let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    let step = ["step.start", "message.start", "thinking.delta", "message.delta", "message.end", "usage"];
    let expected = ["session.start", "turn.start"].into_iter().chain(step).chain(["tool.start"]);
    let rest = ["tool.end", "step.end", "step.start", "message.start", "message.delta", "message.end", "usage"];
    let expected: Vec<_> = expected.chain(rest).chain(["step.end", "turn.end"]).collect();
    let without_updates: Vec<_> = kinds.into_iter().filter(|kind| *kind != "tool.update").collect();
    assert_eq!(without_updates, expected);
    for event in &events {
        assert_eq!(event["v"], 1);
        for field in ["id", "session", "item", "at"] {
            assert!(event[field].is_string(), "{event}");
        }
    }
    let item = |kind: &str| run.of(kind)[0]["item"].clone();
    assert_eq!(item("message.start"), item("message.end"));
    assert_eq!(item("thinking.delta"), item("message.end"));
    assert_eq!(item("tool.start"), item("tool.end"));
    assert_eq!(item("turn.start"), item("turn.end"));
    let end = run.end();
    assert_eq!((&end["reason"], &end["text"], &end["steps"]), (&json!("done"), &json!("two"), &json!(2)));
    assert!(end["usage"]["input_tokens"].as_u64().unwrap() > 0 && end["cost_usd"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_agent_edits_runs_and_keeps_its_directory() {
    let world = World::new();
    world.file("src/lib.sh", "echo wrong\n");
    let run = world
        .play(
            r#"{"call":[{"tool":"edit","input":{"path":"src/lib.sh","old":"wrong","new":"right"}},{"tool":"bash","input":{"command":"cd src"}},{"tool":"bash","input":{"command":"sh lib.sh; basename $PWD"}},{"tool":"write","input":{"path":"new.txt","content":"n"}}]}
               {"say":"done"}"#,
            &[],
        )
        .expect(0);
    assert_eq!(world.read("src/lib.sh"), "echo right\n");
    assert_eq!(world.read("src/new.txt"), "n");
    let outputs = run.outputs();
    assert!(outputs[2] == "right\nsrc", "{outputs:?}");
}

#[test]
fn patterns_may_begin_like_paths() {
    let world = World::new();
    world.file("a.sh", "");
    world.file("sub/b.sh", "");
    std::fs::write(world.home().parent().unwrap().join("h.sh"), "").unwrap();
    let run = world
        .play(
            r#"{"call":[{"tool":"bash","input":{"command":"cd sub"}},{"tool":"glob","input":{"pattern":"../*.sh"}},{"tool":"glob","input":{"pattern":"~/*.sh"}},{"tool":"glob","input":{"pattern":"*.sh"}}]}
               {"say":"ok"}"#,
            &[],
        )
        .expect(0);
    let home = world.project().parent().unwrap().canonicalize().unwrap();
    let outputs = run.outputs();
    assert!(outputs[1].ends_with("/a.sh") && outputs[3] == "b.sh", "{outputs:?}");
    assert!(outputs[2].contains(&format!("{} lies outside", home.display())), "{outputs:?}");
}

#[test]
fn without_permission_the_model_is_told_and_goes_on() {
    let world = World::new();
    let model = world.script(
        r#"{"call":[{"tool":"write","input":{"path":"x","content":"x"}},{"tool":"bash","input":{"command":"touch y"}},{"tool":"ls","input":{}}]}
           {"when":"refused","say":"I was not allowed."}"#,
    );
    let run = world.baton(&["exec", "--permission-mode", "ask", "-m", &model, "--json", "go"]).expect(0);
    let refused: Vec<_> = run.tool_ends().iter().map(|event| event["is_error"] == json!(true)).collect();
    assert_eq!(refused, [true, true, false]);
    assert!(run.outputs()[0].contains("--permission-mode"));
    assert!(!world.project().join("x").exists() && !world.project().join("y").exists());
    let told = world.baton(&["exec", "--permission-mode", "ask", "-m", &model, "go"]).expect(0).stderr;
    assert!(told.contains("a --permission-mode allows them"), "{told}");
}

#[test]
fn writes_outside_the_project_are_refused_unless_added() {
    let world = World::new();
    let outside = world.home().parent().unwrap().join("elsewhere");
    std::fs::create_dir(&outside).unwrap();
    let script = format!(
        r#"{{"call":[{{"tool":"write","input":{{"path":"{}/x","content":"x"}}}}]}}
           {{"say":"ok"}}"#,
        outside.display()
    );
    let run = world.play(&script, &[]).expect(0);
    assert!(run.outputs()[0].contains("outside of the workspace"), "{:?}", run.outputs());
    assert!(!outside.join("x").exists());
    world.play(&script, &["--add-dir", outside.to_str().unwrap()]).expect(0);
    assert!(outside.join("x").exists());
}

#[test]
fn a_prompt_comes_from_words_pipes_and_files() {
    let world = World::new();
    world.file("task.md", "from a file");
    let said = |when: &str| world.script(&format!(r#"{{"when":"{when}","say":"yes"}}"#));
    let command = |model: &str, args: &[&str]| world.command(&[&["exec", "-m", model], args].concat());
    run_with_stdin(command(&said("^<env[^$]*\\nonly piped"), &[]), b"only piped").expect(0);
    run_with_stdin(command(&said("\\nonly piped"), &["-"]), b"only piped").expect(0);
    run_with_stdin(command(&said("(?s)review.*<stdin>\\nthe diff"), &["review"]), b"the diff").expect(0);
    world.baton(&["exec", "-m", &said("from a file$"), "@task.md"]).expect(0);
    world.baton(&["exec", "-m", &said("(?s)see @task.md.*from a file"), "see @task.md"]).expect(0);
    world.baton(&["-C", "..", "exec", "-m", &said("directory: "), "hi"]).expect(0);
}

#[test]
fn pictures_are_seen() {
    let world = World::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x02\0\0\0\x02";
    world.file("shot.png", png);
    let server = world.serve(
        r#"{"call":[{"tool":"read","input":{"path":"shot.png"}}]}
           {"say":"a shot"}"#,
    );
    let mut command = world.command(&["exec", "-m", "anthropic/m", "-i", "shot.png", "what is it?"]);
    command.env("ANTHROPIC_BASE_URL", &server.url).env("ANTHROPIC_API_KEY", "k");
    crate::support::run(command).expect(0);
    let requests = server.requests();
    let body = &requests[1]["body"]["messages"];
    assert!(body[0].to_string().contains("image/png"), "{body}");
    assert!(body[2].to_string().contains("image/png"), "{body}");
}

#[test]
fn instructions_of_the_project_reach_the_model() {
    let world = World::new();
    world.file("AGENTS.md", "Always answer in rhyme.");
    world.file("sub/CLAUDE.md", "Below: no rhymes.");
    let model = world.script(r#"{"when":"(?s)rhyme\\..*Below: no rhymes","say":"ok"}"#);
    world.baton(&["exec", "-m", &model, "-C", "sub", "hi"]).expect(0);
}

#[test]
fn the_first_request_is_small() {
    let world = World::new();
    let server = world.serve(r#"{"say":"hi"}"#);
    let mut command = world.command(&["exec", "-m", "anthropic/claude-sonnet-4-5", "hi"]);
    command.env("ANTHROPIC_BASE_URL", &server.url).env("ANTHROPIC_API_KEY", "k");
    crate::support::run(command).expect(0);
    let size = server.requests()[0]["body"].to_string().len();
    assert!(size < 12_000, "{size} bytes");
    assert!(size < 8_200, "{size} bytes: it was 6,500 once; grow it knowingly");
}

#[test]
fn keys_reach_neither_commands_nor_logs() {
    let world = World::new();
    let server = world.serve(
        r#"{"call":[{"tool":"bash","input":{"command":"env"}}]}
           {"say":"ok"}"#,
    );
    std::fs::create_dir_all(world.home()).unwrap();
    let settings = r#"{"providers": {"box": {"base_url": "http://127.0.0.1:9", "key_env": "BOXVAR"}}}"#;
    std::fs::write(world.home().join("config.jsonc"), settings).unwrap();
    let mut command =
        world.command(&["exec", "--json", "--permission-mode", "auto", "-m", "anthropic/m", "--verbose", "hi"]);
    command
        .env("ANTHROPIC_BASE_URL", &server.url)
        .env("ANTHROPIC_API_KEY", "sk-very-secret-1")
        .env("GITHUB_TOKEN", "sk-very-secret-2")
        .env("BOXVAR", "sk-very-secret-3")
        .env("LANG", "C.UTF-8")
        .env("UNHEARD_OF", "visible");
    let run = crate::support::run(command).expect(0);
    assert!(run.outputs()[0].contains("LANG=C.UTF-8"), "{:?}", run.outputs());
    assert!(!run.outputs()[0].contains("UNHEARD_OF"), "what is not known to be harmless is not handed on");
    let logs = std::process::Command::new("grep").arg("-r").arg("sk-very-secret").arg(world.home()).output().unwrap();
    assert!(logs.stdout.is_empty());
    assert!(!run.stdout.contains("sk-very-secret") && !run.stderr.contains("sk-very-secret"));
}

#[test]
fn state_is_kept_outside_of_the_project() {
    let world = World::new();
    world.play(r#"{"say":"ok"}"#, &[]).expect(0);
    let names: Vec<_> = std::fs::read_dir(world.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".git"]);
    let projects = std::fs::read_to_string(world.home().join("projects.json")).unwrap();
    assert!(projects.contains("project-"), "{projects}");
    let ids: Vec<_> = std::fs::read_dir(world.home().join("projects")).unwrap().map(Result::unwrap).collect();
    assert!(ids[0].path().join("log/baton.log").is_file());
}

#[test]
fn the_full_output_of_a_long_command_is_kept_in_a_file() {
    let world = World::new();
    let run = world
        .play(
            r#"{"call":[{"tool":"bash","input":{"command":"seq 1 100000"}}]}
               {"say":"ok"}"#,
            &[],
        )
        .expect(0);
    let end = &run.tool_ends()[0];
    assert!(end["output"].as_str().unwrap().len() < 60_000);
    let kept = std::fs::read_to_string(end["meta"]["output_path"].as_str().unwrap()).unwrap();
    assert_eq!(kept.lines().count(), 100_000);
}
