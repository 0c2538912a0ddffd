//! Keys kept, secrets taken out of a stream, the audit log checked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use baton_config::{Places, Project};
use baton_guard::audit::{Audit, Decision, Record};
use baton_guard::secrets::Redactor;
use serde_json::Value;

use crate::support::{Run, World, run, run_with_stdin};

/// A provider that takes one key and answers everything else as given.
fn provider(key: &'static str, status: &'static str) -> String {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            answer(stream.unwrap(), key, status);
        }
    });
    url
}

fn answer(mut stream: TcpStream, key: &str, status: &str) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let takes = head[0].starts_with("GET /v1/models ") && head.iter().any(|line| *line == format!("x-api-key: {key}"));
    let (status, body) =
        if takes { ("200 OK", "{}") } else { (status, "{\"error\":{\"message\":\"invalid x-api-key\"}}") };
    drop(write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()));
}

fn login(world: &World, url: &str, key: &str, extra: &[&str]) -> Run {
    let mut command = world.command(&[&["auth", "login", "anthropic"], extra].concat());
    command.env("ANTHROPIC_BASE_URL", url);
    run_with_stdin(command, key.as_bytes())
}

const KEY: &str = concat!("sk-ant-api03-", "q8Zr2mKx7LwVb4Tn9Py");

#[test]
fn secrets_are_taken_out_of_a_stream() {
    let world = World::new();
    let mut command = world.command(&["guard", "redact", "--env", "MINE"]);
    command.env("MINE", "quiet-lantern").env("OPENAI_API_KEY", "plain-looking-key");
    let text = format!("a {KEY} b\nquiet-lantern plain-looking-key\npassword = get_password(user)\n");
    let expected = "a [redacted:anthropic-key] b\n[redacted:known] [redacted:known]\npassword = get_password(user)\n";
    assert_eq!(run_with_stdin(command, text.as_bytes()).expect(0).stdout, expected);
}

#[test]
fn a_key_is_verified_kept_used_and_forgotten() {
    let world = World::new();
    let url = provider(KEY, "401 Unauthorized");
    world.baton(&["exec", "-m", "anthropic/x", "hi"]).expect_error(
        6,
        "ANTHROPIC_API_KEY",
        "baton auth login anthropic",
    );
    let kept = login(&world, &url, &format!("{KEY}\n"), &[]).expect(0);
    assert!(kept.stderr.contains("credentials") && !kept.stderr.contains(KEY), "{kept:?}");
    let file = world.home().join("credentials");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let status = world.baton(&["auth", "status", "--json"]).expect(0).stdout;
    assert!(!status.contains(KEY));
    let rows: Vec<Value> = serde_json::from_str(&status).unwrap();
    assert_eq!((&rows[0]["provider"], &rows[0]["source"]), (&"anthropic".into(), &"file".into()));
    assert_eq!(rows[0]["ends_with"], &KEY[KEY.len() - 4..]);
    assert_eq!(rows[1]["source"], Value::Null);
    assert!(world.baton(&["models", "anthropic/"]).expect(0).stdout.contains("* anthropic/"));

    // The key reaches the provider, and no command of the agent.
    let server = world.serve(
        r#"{"call":[{"tool":"bash","input":{"command":"env; cat /proc/$PPID/environ"}}]}
        {"say":"ok"}"#,
    );
    let mut command = world.command(&["exec", "--json", "--permission-mode", "auto", "-m", "anthropic/x", "hi"]);
    command.env("ANTHROPIC_BASE_URL", &server.url);
    let run_ = run(command).expect(0);
    assert_eq!(server.requests()[0]["auth"], "x-api-key");
    assert!(!run_.stdout.contains(KEY), "{run_:?}");

    world.baton(&["auth", "logout", "anthropic"]).expect(0);
    assert!(!std::fs::read_to_string(&file).unwrap().contains(KEY));
    assert!(world.baton(&["auth", "logout", "anthropic"]).expect(0).stderr.contains("no key"));
}

#[test]
fn a_wrong_key_is_told_from_no_network_and_neither_is_kept() {
    let world = World::new();
    let url = provider(KEY, "401 Unauthorized");
    login(&world, &url, "wrong-key", &[]).expect_error(6, "does not take this key", "copy the key again");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    login(&world, &format!("http://{nobody}"), KEY, &[]).expect_error(6, "could not be verified", "--no-verify");
    let troubled = provider("nobody's", "503 Service Unavailable");
    login(&world, &troubled, KEY, &[]).expect_error(6, "could not be verified", "--no-verify");
    assert!(!world.home().join("credentials").exists());
    let other = provider("nobody's", "404 Not Found");
    assert!(login(&world, &other, KEY, &[]).expect(0).stderr.contains("no list of models"));
    login(&world, &format!("http://{nobody}"), KEY, &["--no-verify"]).expect(0);
}

#[test]
fn bad_logins_say_what_is_wrong() {
    let world = World::new();
    login(&world, "http://127.0.0.1:9", "", &[]).expect_error(2, "there is no key", "baton auth login");
    login(&world, "http://127.0.0.1:9", "two words", &[]).expect_error(2, "no key", "baton auth login");
    world.baton(&["auth", "login", "antropic"]).expect_error(2, "no provider `antropic`", "anthropic");
    world.baton(&["auth", "login", "ollama"]).expect_error(2, "wants no key", "");
}

#[test]
fn a_key_file_that_others_can_read_does_not_count() {
    let world = World::new();
    login(&world, "http://127.0.0.1:9", KEY, &["--no-verify"]).expect(0);
    let file = world.home().join("credentials");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    world.baton(&["auth", "status"]).expect_error(8, "can be read by others", "chmod 600");
    world.baton(&["exec", "-m", "anthropic/x", "hi"]).expect_error(6, "no key for anthropic", "export");
    let model = world.script(r#"{"say":"ok"}"#);
    assert!(world.baton(&["exec", "-m", &model, "hi"]).expect(0).stderr.contains("can be read by others"));
}

#[test]
fn the_environment_counts_first() {
    let world = World::new();
    login(&world, "http://127.0.0.1:9", KEY, &["--no-verify"]).expect(0);
    let mut command = world.command(&["auth", "status"]);
    command.env("ANTHROPIC_AUTH_TOKEN", "another-key-of-some-length");
    let status = run(command).expect(0).stdout;
    assert!(status.contains("ANTHROPIC_AUTH_TOKEN, …ngth"), "{status}");
    let server = world.serve(r#"{"say":"ok"}"#);
    let mut command = world.command(&["exec", "-m", "anthropic/x", "hi"]);
    command.env("ANTHROPIC_AUTH_TOKEN", "another-key-of-some-length").env("ANTHROPIC_BASE_URL", &server.url);
    run(command).expect(0);
    assert_eq!(server.requests()[0]["auth"], "authorization");
}

#[test]
fn the_audit_log_is_read_and_checked() {
    let world = World::new();
    assert!(world.baton(&["audit", "verify"]).expect(0).stdout.contains("intact: 0 entries"));
    let places = Places { config_dir: world.home(), state_dir: world.home(), home: None };
    let project = Project::find(&world.project().canonicalize().unwrap(), &places);
    let audit = Audit::new(&world.home(), &project.id, Redactor::new());
    for (kind, decision) in [("command", Decision::Allowed), ("file.write", Decision::Denied)] {
        let record =
            Record { kind: kind.into(), actor: "main".into(), what: format!("a {kind}"), decision: Some(decision) };
        audit.append("2027-01-02T03:04:05Z".parse().unwrap(), record).unwrap();
    }
    let all = world.baton(&["audit", "query"]).expect(0).stdout;
    assert_eq!(all.lines().next(), Some("1 2027-01-02T03:04:05Z main command allowed a command"));
    let denied = world.baton(&["audit", "query", "--json", "--decision", "denied", "--kind", "file"]).expect(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&denied).unwrap()["seq"], 2);
    assert_eq!(world.baton(&["audit", "export"]).expect(0).stdout, std::fs::read_to_string(audit.file()).unwrap());
    assert!(world.baton(&["audit", "verify"]).expect(0).stdout.contains("intact: 2 entries"));
    let changed = std::fs::read_to_string(audit.file()).unwrap().replacen("denied", "failed", 1);
    std::fs::write(audit.file(), changed).unwrap();
    let report = world.baton(&["audit", "verify", "--json"]).expect(3).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["intact"], &report["findings"][0]["finding"]), (&false.into(), &"edited".into()), "{report}");
}
