//! The web: who may reach it, and how.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;

use crate::support::{World, run};

/// Serves one page to everybody; the address it listens on.
fn page(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                line.clear();
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(write!(stream, "{head}{body}"));
        }
    });
    address
}

fn script(url: &str) -> String {
    format!("{{\"call\":[{{\"tool\":\"web_fetch\",\"input\":{{\"url\":\"{url}\"}}}}]}}\n{{\"say\":\"done\"}}")
}

#[test]
fn only_the_person_lets_private_hosts_be_reached() {
    let address = page("<h1>Dev server</h1>");
    let url = format!("http://{address}/");
    let outcome = |world: &World, mode: &str| {
        let model = world.script(&script(&url));
        let run = world.baton(&["exec", "-m", &model, "--json", "--permission-mode", mode, "go"]).expect(0);
        run.of("tool.end")[0].clone()
    };
    let world = World::new();
    let setting = format!("{{\"web\": {{\"allow_private\": [\"{address}\"]}}}}");
    world.file(".baton/config.jsonc", &setting);
    let refused = outcome(&world, "auto");
    assert!(refused["output"].as_str().unwrap().contains("loopback"), "a repository may not allow it: {refused}");
    let model = world.script(&script("https://example.com/"));
    let run = world.baton(&["exec", "-m", &model, "--json", "--permission-mode", "auto", "go"]).expect(0);
    assert!(run.outputs()[0].contains("it reaches the network"), "{:?}", run.outputs());

    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::write(world.home().join("config.jsonc"), &setting).unwrap();
    let fetched = outcome(&world, "auto");
    assert!(fetched["output"].as_str().unwrap().contains("\n# Dev server\n"), "{fetched}");
    assert_eq!(fetched["meta"]["untrusted"], true);
}

#[test]
fn a_proxy_is_used_but_not_for_what_is_private() {
    let world = World::new();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let mut first = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut first).unwrap();
        write!(stream, "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").unwrap();
        first
    });
    let calls = ["http://169.254.169.254/", "https://localhost/", "http://site.invalid/a"]
        .map(|url| format!("{{\"tool\":\"web_fetch\",\"input\":{{\"url\":\"{url}\"}}}}"))
        .join(",");
    let model = world.script(&format!("{{\"call\":[{calls}]}}\n{{\"say\":\"done\"}}"));
    let mut command = world.command(&["exec", "--json", "--permission-mode", "yolo", "-m", &model, "hi"]);
    command.env("HTTPS_PROXY", format!("http://{address}")).env("HTTP_PROXY", format!("http://{address}"));
    let run = run(command).expect(0);
    // They run beside each other, and end in any order.
    let mut ends = run.of("tool.end");
    ends.sort_by_key(|end| end["call"].to_string());
    assert!(ends[0]["output"].as_str().unwrap().contains("link-local"), "{ends:?}");
    assert!(ends[1]["output"].as_str().unwrap().contains("a name of this machine"), "{ends:?}");
    assert!(ends[2]["is_error"].as_bool().unwrap(), "{ends:?}");
    assert_eq!(seen.join().unwrap().trim(), "CONNECT site.invalid:443 HTTP/1.1");
}

const SEARCH: &str = include_str!("../crates/baton-llm/tests/streams/anthropic_search.sse");

#[test]
fn a_provider_searches_and_gets_its_own_words_back() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // The provider pauses in the middle, and goes on when it is asked with the same history.
    let answers = [SEARCH.replace("\"end_turn\"", "\"pause_turn\""), SEARCH.to_owned()];
    let seen = std::thread::spawn(move || {
        answers.map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
            write!(stream, "{head}content-length: {}\r\n\r\n{answer}", answer.len()).unwrap();
            serde_json::from_slice::<Value>(&body).unwrap()
        })
    });
    let model = "anthropic/claude-sonnet-4-5";
    let mut command = world.command(&["exec", "--json", "--web-search", "-m", model, "go"]);
    command.env("ANTHROPIC_API_KEY", "key").env("ANTHROPIC_BASE_URL", &url);
    let run = run(command).expect(0);
    let [first, second] = seen.join().unwrap();
    assert!(first["tools"].to_string().contains("\"web_search_20250305\""), "{}", first["tools"]);
    assert_eq!(first["tools"], second["tools"]);
    let paused = &second["messages"][1]["content"];
    assert_eq!(paused[2]["content"][0]["encrypted_content"], "EqgfCioIARgB", "{paused}");
    assert_eq!(paused[3]["citations"][0]["encrypted_index"], "Eo8BCioIAhgB", "{paused}");
    let notices = run.of("notice");
    let told =
        notices.iter().find_map(|notice| notice["text"].as_str().filter(|text| text.contains("searched the web")));
    assert!(told.unwrap().contains("“rust release”\n  Rust blog https://blog.rust-lang.org/"), "{told:?}");
}

#[test]
fn who_cannot_search_says_so() {
    let world = World::new();
    let model = world.script(r#"{"say":"hi"}"#);
    let run = world.baton(&["exec", "--json", "--web-search", "-m", &model, "go"]).expect(0);
    assert!(run.of("notice")[0]["text"].as_str().unwrap().contains("cannot search the web: it is a script"));
}
