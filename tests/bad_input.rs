//! Bad input: each gives a clear message with the next step and leaves nothing half-done.

use std::net::TcpListener;

use serde_json::json;

use crate::support::{World, run, run_with_stdin};

#[test]
fn an_unknown_provider() {
    World::new().baton(&["exec", "-m", "antropic/x", "hi"]).expect_error(
        2,
        "no provider `antropic`",
        "anthropic, openai",
    );
}

#[test]
fn a_model_without_a_provider() {
    World::new().baton(&["exec", "-m", "gpt", "hi"]).expect_error(2, "provider/name", "baton models");
}

#[test]
fn a_missing_key_names_the_variable() {
    let world = World::new();
    for (model, variable) in
        [("anthropic/x", "ANTHROPIC_API_KEY"), ("openai/x", "OPENAI_API_KEY"), ("gemini/x", "GEMINI_API_KEY")]
    {
        world.baton(&["exec", "-m", model, "hi"]).expect_error(6, variable, "export");
    }
    world.baton(&["exec", "hi"]).expect_error(6, "ANTHROPIC_API_KEY", "baton demo");
}

#[test]
fn an_unreachable_host() {
    let world = World::new();
    // A port that was free a moment ago, with nobody behind it.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = world.command(&["exec", "-m", "compat/x", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", format!("http://user:pass@127.0.0.1:{port}/v1"));
    let run = run(command);
    assert!(!run.stderr.contains("pass"), "{run:?}");
    run.expect_error(6, &format!("cannot reach compat at http://127.0.0.1:{port}"), "base URL");
}

#[test]
fn a_server_that_never_answers() {
    let world = World::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = world.command(&["exec", "-m", "compat/x", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", format!("http://{}/v1", silent.local_addr().unwrap()));
    command.env("BATON_NETWORK__FIRST_BYTE_TIMEOUT_MS", "50");
    run(command).expect_error(6, "gave no answer", "first_byte_timeout_ms");
}

#[test]
fn a_server_that_does_not_stream() {
    let world = World::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", server.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = server.accept().unwrap();
        drop(stream.read(&mut vec![0; 65536]));
        let page = "<html>sign in</html>";
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}", page.len())
            .unwrap();
    });
    let mut command = world.command(&["exec", "-m", "compat/x", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", url);
    run(command).expect_error(6, "<html>sign in</html>", "proxy");
}

#[test]
fn malformed_and_exhausted_scripts_name_file_and_line() {
    let world = World::new();
    let model = world.script("{\"say\":\"ok\"}\n{\"sya\":\"typo\"}\n");
    world.baton(&["exec", "-m", &model, "hi"]).expect_error(2, "script.jsonl line 2", "sya");
    let model = world.script("\n{\"call\":[{\"tool\":\"ls\",\"input\":{}}]}\n");
    let run = world.baton(&["exec", "-m", &model, "hi"]);
    run.expect_error(2, "script.jsonl line 2", "repeat");
    world.baton(&["exec", "-m", "script/nowhere.jsonl", "hi"]).expect_error(2, "nowhere.jsonl", "cannot read");
}

#[test]
fn a_prompt_of_ten_megabytes() {
    let world = World::new();
    let prompt = "word ".repeat(2_000_000);
    let model = world.script(r#"{"say":"long"}"#);
    let tight = world.command(&["exec", "-m", "anthropic/claude-sonnet-4-5", "-"]);
    let mut tight = tight;
    tight.env("ANTHROPIC_API_KEY", "k");
    run_with_stdin(tight, prompt.as_bytes()).expect_error(
        2,
        "too many for anthropic/claude-sonnet-4-5",
        "path of a large file",
    );
    let refused = run_with_stdin(world.command(&["exec", "-m", &model, "-"]), prompt.as_bytes());
    refused.expect_error(2, "1000000 at most", "path of a large file");
    let fits = "word ".repeat(600_000);
    assert_eq!(run_with_stdin(world.command(&["exec", "-m", &model, "-"]), fits.as_bytes()).expect(0).stdout, "long\n");
}

#[test]
fn no_prompt_at_all() {
    let world = World::new();
    let model = world.script(r#"{"say":"ok"}"#);
    world.baton(&["exec", "-m", &model]).expect_error(2, "prompt is empty", "baton exec");
    world.baton(&["exec", "-m", &model, "@missing.md"]).expect_error(2, "missing.md", "cannot read");
    world.baton(&["exec", "-m", &model, "-i", "missing.png", "hi"]).expect_error(2, "missing.png", "cannot read");
}

#[test]
fn a_directory_that_is_not_there_or_disappears() {
    let world = World::new();
    world.baton(&["exec", "-C", "nowhere", "hi"]).expect_error(2, "nowhere", "-C DIR");
    world.file("sub/x", "");
    let run = world
        .play(
            r#"{"call":[{"tool":"bash","input":{"command":"cd sub"}},{"tool":"bash","input":{"command":"rm -r ../sub"}},{"tool":"bash","input":{"command":"echo alive"}},{"tool":"bash","input":{"command":"basename $PWD"}}]}
               {"say":"ok"}"#,
            &[],
        )
        .expect(0);
    let outputs = run.outputs();
    assert!(outputs[1].contains("is gone"), "{outputs:#?}");
    assert_eq!(outputs[3], "project", "{outputs:#?}");
}

#[test]
fn tools_and_inputs_that_do_not_exist() {
    let world = World::new();
    world.file("bad.bin", b"\xff\xfe\x00\x01");
    world.file("latin.txt", b"caf\xe9\n");
    let run = world
        .play(
            r#"{"call":[{"tool":"teleport","input":{}},{"tool":"read","input":{"pth":"x"}},{"tool":"read","input":{"path":"bad.bin"}},{"tool":"read","input":{"path":"latin.txt"}},{"tool":"bash","input":{"command":"printf '\\377ok'"}}]}
               {"say":"ok"}"#,
            &[],
        )
        .expect(0);
    let outputs = run.outputs();
    assert!(outputs[0].contains("no tool `teleport`") && outputs[0].contains("read, write"), "{outputs:?}");
    assert!(outputs[1].contains("path: string"), "{outputs:?}");
    assert!(outputs[2].contains("binary"), "{outputs:?}");
    assert!(outputs[3].contains("caf\u{fffd}"), "{outputs:?}");
    assert!(outputs[4].contains("\u{fffd}ok"), "{outputs:?}");
    let errors: Vec<_> = run.tool_ends().iter().map(|event| event["is_error"].clone()).collect();
    assert_eq!(errors, [json!(true), json!(true), json!(true), json!(false), json!(false)]);
}

#[test]
fn broken_settings_stop_and_wrong_or_unknown_ones_warn() {
    let world = World::new();
    let model = world.script(r#"{"say":"ok"}"#);
    std::fs::create_dir_all(world.home()).unwrap();
    let config = world.home().join("config.jsonc");
    std::fs::write(&config, "{\n  \"limitz\": {}\n}").unwrap();
    let run = world.baton(&["exec", "-m", &model, "hi"]).expect(0);
    assert!(run.stderr.contains("config.jsonc:2: unknown setting `limitz`"), "{run:?}");
    std::fs::write(&config, "{\n  \"limits\": {\"steps\": \"many\"}\n}").unwrap();
    let run = world.baton(&["exec", "-m", &model, "hi"]).expect(0);
    assert!(run.stderr.contains("config.jsonc:2: `limits.steps`: invalid type"), "{run:?}");
    std::fs::write(&config, "{\n\n  oops\n}").unwrap();
    world.baton(&["exec", "-m", &model, "hi"]).expect_error(2, "config.jsonc:4", "Expected colon");
}

#[test]
fn a_cap_on_money_that_cannot_be_kept() {
    let world = World::new();
    let mut command = world.command(&["exec", "-m", "compat/mystery", "--max-usd", "1", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", "http://127.0.0.1:9/v1");
    run(command).expect_error(2, "price of compat/mystery is not known", "models");
}

#[test]
fn instructions_that_are_too_long_are_cut_and_said() {
    let world = World::new();
    world.file("AGENTS.md", "word ".repeat(20_000));
    let run = world.play(r#"{"say":"ok"}"#, &[]).expect(0);
    let notices = run.of("notice");
    assert!(notices[0]["text"].as_str().unwrap().contains("AGENTS.md is cut"), "{notices:?}");
}

#[test]
fn settings_that_would_hang_or_flood() {
    let world = World::new();
    std::fs::create_dir_all(world.project().join(".baton")).unwrap();
    let config = world.project().join(".baton/config.jsonc");
    assert!(std::process::Command::new("mkfifo").arg(&config).status().unwrap().success());
    world.play(r#"{"say":"ok"}"#, &[]).expect_error(2, "not a regular file", "config.jsonc");
    std::fs::remove_file(&config).unwrap();
    std::fs::write(&config, " ".repeat(2_000_000)).unwrap();
    world.play(r#"{"say":"ok"}"#, &[]).expect_error(2, "larger than", "config.jsonc");
    std::fs::write(&config, format!("{{\"a\":{}", "[".repeat(200_000))).unwrap();
    world.play(r#"{"say":"ok"}"#, &[]).expect_error(2, "nesting", "config.jsonc:1");
}

#[test]
fn a_repository_cannot_redirect_keys() {
    let world = World::new();
    let server = world.serve(r#"{"say":"stolen"}"#);
    world.file(".baton/config.jsonc", format!(r#"{{"providers": {{"anthropic": {{"base_url": "{}"}}}}}}"#, server.url));
    let mut command = world.command(&["exec", "-m", "anthropic/x", "hi"]);
    command.env("ANTHROPIC_API_KEY", "k").env("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    command.env("BATON_RETRY__TRANSIENT__ATTEMPTS", "1");
    let run = run(command).expect(6);
    assert!(run.stderr.contains("`providers` is ignored here"), "{run:?}");
    assert!(server.requests().is_empty());
}

#[test]
fn a_repository_cannot_choose_a_script() {
    let world = World::new();
    world.file("evil.jsonl", r#"{"call":[{"tool":"bash","input":{"command":"touch owned"}}]}"#);
    world.file(".baton/config.jsonc", r#"{"model": "script/evil.jsonl"}"#);
    world.baton(&["exec", "--permission-mode", "auto", "hi"]).expect_error(6, "ANTHROPIC_API_KEY", "export a key");
    assert!(!world.project().join("owned").exists());
}

#[test]
fn what_controls_programs_is_not_written() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"write","input":{"path":".git/config","content":"x"}},{"tool":"write","input":{"path":".git/hooks/pre-commit","content":"x"}},{"tool":"write","input":{"path":".baton/config.jsonc","content":"{}"}}]}
                    {"say":"ok"}"#;
    let run = world.play(script, &[]).expect(0);
    assert!(run.outputs().iter().all(|output| output.starts_with("refused: ")), "{:?}", run.outputs());
}

#[test]
fn pipes_where_files_are_expected() {
    let world = World::new();
    let pipe = world.project().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    world.baton(&["exec", "-m", "script/pipe", "hi"]).expect_error(2, "not a regular file", "script");
    let model = world.script(r#"{"say":"ok"}"#);
    world.baton(&["exec", "-m", &model, "@pipe"]).expect_error(2, "not a file", "pipe");
}

#[test]
fn numbers_beyond_reason() {
    let world = World::new();
    world.play(r#"{"say":"ok"}"#, &["--max-time", "18446744073709551615"]).expect(0);
    let huge = r#"{"call":[{"tool":"ls","input":{}}],"usage":{"input":18446744073709551615,"output":18446744073709551615},"repeat":2}"#;
    world.play(&format!("{huge}\n{{\"say\":\"ok\"}}"), &[]).expect(0);
    world.play(r#"{"say":"ok"}"#, &["--max-time", "0"]).expect(2);
    world.play(r#"{"say":"ok"}"#, &["--max-steps", "0"]).expect(2);
}

#[test]
fn a_directory_that_is_no_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let dir = world.project().join(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::create_dir_all(dir.join(".git")).unwrap();
    let model = world.script(r#"{"say":"ok"}"#);
    let mut command = world.command(&["exec", "-m", &model, "hi"]);
    command.current_dir(dir);
    run(command).expect(0);
}

#[test]
fn output_that_cannot_be_written() {
    let world = World::new();
    let model = world.script(r#"{"say":"ok"}"#);
    for args in [
        &["exec", "--json", "-m", &model, "hi"][..],
        &["exec", "-m", &model, "hi"],
        &["completions", "bash"],
        &["models"],
    ] {
        let mut command = world.command(args);
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_home_directory_stays_read_only() {
    let world = World::new();
    let model = world.script(
        r#"{"call":[{"tool":"write","input":{"path":"x","content":"x"}}]}
           {"say":"ok"}"#,
    );
    let mut command = world.command(&["exec", "-m", &model, "--permission-mode", "auto", "hi"]);
    command.env("HOME", world.project().canonicalize().unwrap());
    let run = run(command).expect(0);
    assert!(run.stderr.contains("read-only"), "{run:?}");
    assert!(!world.project().join("x").exists());
}
