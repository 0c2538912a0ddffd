//! Agents behind the guard: what the kernel keeps in when the parser lets something pass, what nobody gets to see, and
//! what is on record.

use std::fs;
use std::net::TcpListener;

use crate::support::{Run, World, run};

/// A token of a known form; made up here, so that no scanner finds it in this file.
fn token() -> String {
    format!("ghp_{}", "Zr4nT7kQ2mW9xB5vL8cY1sD6fG3hJ0pAeUiO")
}

/// Runs commands at a level of the sandbox.
fn at_level(world: &World, level: &str, commands: &[&str]) -> Run {
    let calls = commands
        .iter()
        .map(|command| serde_json::json!({"tool": "bash", "input": {"command": command}}).to_string())
        .collect::<Vec<_>>()
        .join(",");
    let model = world.script(&format!("{{\"call\":[{calls}]}}\n{{\"say\":\"done\"}}"));
    let mut command = world.command(&["exec", "--json", "-m", &model, "go"]);
    command.env("BATON_SANDBOX__LEVEL", level);
    run(command)
}

/// Only scripts that do what their names do not tell: the guard does not look into them.
const SCRIPTS: [(&str, &str); 5] = [
    ("outside.sh", "echo x > ../outside.txt || echo kept in"),
    ("hook.sh", "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit || echo kept in"),
    ("settings.sh", "mkdir -p .baton; echo '{}' > .baton/config.jsonc || echo kept in"),
    ("keys.sh", "cat \"$KEYS\" 2>/dev/null | grep -c secret || echo kept in"),
    ("net.sh", "(exec 3<>/dev/tcp/127.0.0.1/PORT) 2>/dev/null && echo connected || echo kept in"),
];

#[test]
fn the_kernel_holds_what_the_parser_lets_pass() {
    for level in ["namespaces", "landlock"] {
        let world = World::new();
        fs::create_dir_all(world.home()).unwrap();
        let keys = world.home().join("credentials");
        fs::write(&keys, "{\"anthropic\": {\"key\": \"secret\"}}").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        for (name, text) in SCRIPTS {
            let text = text.replace("PORT", &port).replace("\"$KEYS\"", &keys.display().to_string());
            world.file(name, text);
        }
        let commands = SCRIPTS.map(|(name, _)| format!("bash {name}"));
        let commands: Vec<&str> = commands.iter().map(String::as_str).chain(["echo fine > inside.txt"]).collect();
        let run = at_level(&world, level, &commands).expect(0);
        assert_eq!(run.of("session.start")[0]["sandbox"], level);
        assert_eq!(run.of("session.start")[0]["mode"], "auto");
        assert!(!world.project().join("../outside.txt").exists(), "{level}");
        assert!(!world.project().join(".git/hooks/pre-commit").exists(), "{level}");
        assert!(!world.project().join(".baton/config.jsonc").exists(), "{level}");
        assert!(!run.stdout.contains("connected"), "{level}: {}", run.stdout);
        assert!(run.outputs()[3].contains("kept in"), "{level}: {:?}", run.outputs());
        assert_eq!(world.read("inside.txt"), "fine\n", "{level}");
        drop(listener);
    }
}

#[test]
fn without_a_sandbox_nothing_runs_unasked() {
    let world = World::new();
    let model = world.script(
        r#"{"call":[{"tool":"bash","input":{"command":"ls"}},{"tool":"write","input":{"path":"x","content":"x"}}]}
           {"say":"ok"}"#,
    );
    let with = |args: &[&str]| {
        let mut command = world.command(&[&["exec", "--json", "-m", &model, "go"], args].concat());
        command.env("BATON_SANDBOX__LEVEL", "none");
        run(command)
    };
    with(&["--permission-mode", "auto"]).expect_error(7, "no sandbox", "--permission-mode");
    let asked = with(&[]).expect(0);
    assert_eq!(asked.of("session.start")[0]["mode"], "ask");
    assert!(asked.of("notice").iter().any(|notice| notice["text"].as_str().unwrap().contains("no sandbox")));
    assert!(asked.tool_ends().iter().all(|end| end["is_error"] == true), "{:?}", asked.outputs());
    assert!(!world.project().join("x").exists());
    with(&["--permission-mode", "yolo"]).expect(0);
    assert!(world.project().join("x").exists());
}

#[test]
fn a_server_of_one_command_is_reached_by_the_next() {
    let world = World::new();
    fs::copy(env!("CARGO_BIN_EXE_baton"), world.project().join("server")).unwrap();
    world.file("answers.jsonl", r#"{"say":"hello"}"#);
    // Somebody out here has the port already, and is not disturbed.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    taken.set_nonblocking(true).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    world.file("reach.sh", format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"));
    let script = r#"{"call":[{"tool":"bash_background","input":{"command":"./server dev model-server --script answers.jsonl --port PORT","until":"http://"}}]}
                    {"call":[{"tool":"bash","input":{"command":"bash reach.sh"}}]}
                    {"say":"done"}"#;
    let model = world.script(&script.replace("PORT", &port));
    let run = world.baton(&["exec", "--json", "-m", &model, "go"]).expect(0);
    assert_eq!(run.outputs()[1], "reached", "{:?}", run.outputs());
    assert!(taken.accept().is_err(), "nobody has come from in there");
}

#[test]
fn secrets_are_seen_by_nobody() {
    let world = World::new();
    let token = token();
    world.file("notes.txt", format!("GITHUB_TOKEN={token}\n"));
    // Split over writes, and beyond what a result shows.
    world.file(
        "print.sh",
        format!("printf '{}'; sleep 0.1; printf '{}\\n'; seq 1 5000; cat notes.txt", &token[..11], &token[11..]),
    );
    let model = world.script(
        r#"{"call":[{"tool":"bash","input":{"command":"bash print.sh"}},{"tool":"read","input":{"path":"notes.txt"}},{"tool":"grep","input":{"pattern":"TOKEN"}},{"tool":"bash_background","input":{"command":"cat notes.txt"}}]}
           {"fail":{"status":401,"body":"no such key TOKEN"}}"#
            .replace("\"no such key TOKEN\"", &format!("\"no such key {token}\""))
            .as_str(),
    );
    let prompt = format!("use {token} for the request");
    let seen = world.baton(&["exec", "--json", "--verbose", "-m", &model, &prompt]);
    assert_eq!(seen.tool_ends().len(), 4, "{seen:?}");
    assert!(!seen.stdout.contains(&token[4..]) && !seen.stderr.contains(&token[4..]), "{seen:?}");
    assert!(seen.of("notice").iter().any(|notice| notice["text"].as_str().unwrap().contains("--send-secrets")));
    let found = std::process::Command::new("grep").args(["-rl", &token[4..]]).arg(world.home()).output().unwrap();
    let kept = String::from_utf8(found.stdout).unwrap();
    // What undo keeps is what the files held.
    assert!(kept.lines().all(|file| file.contains("/undo/")), "{kept}");
    // Only the model reads it: neither the events nor the session have it.
    let model = world.script(&format!(r#"{{"when":"{token}","say":"ok"}}"#));
    let sent = world.baton(&["exec", "--json", "--send-secrets", "-m", &model, &prompt]).expect(0);
    assert!(!sent.stdout.contains(&token[4..]), "{sent:?}");
    let found = std::process::Command::new("grep").args(["-rl", &token[4..]]).arg(world.home()).output().unwrap();
    assert!(String::from_utf8(found.stdout).unwrap().lines().all(|file| file.contains("/undo/")));
}

#[test]
fn what_is_not_on_record_does_not_happen() {
    let world = World::new();
    let script = r#"{"call":[{"tool":"bash","input":{"command":"touch made"}},{"tool":"web_fetch","input":{"url":"https://example.com"}}]}
                    {"say":"ok"}"#;
    world.play(script, &[]).expect(0);
    let logged = world.baton(&["audit", "query", "--kind", "tool"]).expect(0).stdout;
    let decisions: Vec<_> = logged.lines().map(|line| line.split(' ').nth(5).unwrap()).collect();
    assert_eq!(decisions, ["allowed", "denied"], "{logged}");
    world.baton(&["audit", "verify"]).expect(0);

    fs::remove_file(world.project().join("made")).unwrap();
    let project = fs::read_dir(world.home().join("projects")).unwrap().next().unwrap().unwrap().path();
    fs::write(project.join("audit/log.jsonl"), "{}\n").unwrap();
    let run = world.play(script, &[]);
    assert_eq!(run.code, 8, "{run:?}");
    assert!(!world.project().join("made").exists());
    world.baton(&["audit", "verify"]).expect(3);
}

#[test]
fn what_can_never_run_is_not_offered() {
    let world = World::new();
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("config.jsonc"), r#"{"permissions": {"deny": ["Bash", "WebFetch"]}}"#).unwrap();
    let run = world.play(r#"{"say":"ok"}"#, &[]).expect(0);
    let tools = run.of("session.start")[0]["tools"].to_string();
    assert!(!tools.contains("bash") && !tools.contains("web_fetch") && tools.contains("edit"), "{tools}");
    let run = world.play(r#"{"say":"ok"}"#, &["--permission-mode", "deny"]).expect(0);
    let tools = run.of("session.start")[0]["tools"].to_string();
    assert!(!tools.contains("edit") && tools.contains("read"), "{tools}");
}
