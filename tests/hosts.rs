//! Allowed hosts: what commands in the sandbox reach through Baton's proxy, and what they do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::support::{Live, World, run};

/// Answers everybody with the head of what they sent; where it listens.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(stream.write_all(format!("got: {}", head(&stream)).as_bytes())));
        }
    });
    address
}

/// What was sent up to an empty line.
fn head(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut text = String::new();
    while reader.read_line(&mut text).is_ok_and(|bytes| bytes > 2) {}
    text
}

/// Functions for scripts: `ask HEAD` sends a head to the proxy and prints what comes back; `reaches ADDRESS PORT` says
/// whether there is a way around it.
const TOOLS: &str = r#"
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}"
    printf "$1" >&3
    timeout 20 cat <&3
    exec 3>&-
}
reaches() { if (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; then echo "reached $1"; else echo "no way to $1"; fi; }
"#;

/// Whether this system has the level that has a network of its own; the other says that it has not.
fn has_network(world: &World) -> bool {
    let shown = world.baton(&["sandbox", "--show", "--allow-host", "*.crates.io"]).expect(0).stdout;
    let is_there = shown.starts_with("level: namespaces");
    assert_eq!(shown.contains("\n  *.crates.io\n"), is_there, "{shown}");
    if !is_there {
        let run = world.baton(&["sandbox", "--allow-host", "example.com", "--", "true"]);
        assert!(run.stderr.contains("no sandbox") || run.stderr.contains("sandbox.hosts cannot be reached"), "{run:?}");
    }
    is_there
}

#[test]
fn a_listed_host_is_reached_and_no_other() {
    let world = World::new();
    if !has_network(&world) {
        return;
    }
    let (allowed, other) = (echo(), echo());
    let (_, port) = allowed.rsplit_once(':').unwrap();
    let (_, other_port) = other.rsplit_once(':').unwrap();
    let script = format!(
        r"{TOOLS}
        ask 'CONNECT {allowed} HTTP/1.1\r\n\r\nhello\r\n\r\n'
        ask 'GET http://{allowed}/x HTTP/1.1\r\nHost: {allowed}\r\n\r\n'
        echo; echo refused:
        ask 'CONNECT {other} HTTP/1.1\r\n\r\n'
        ask 'CONNECT localhost:{port} HTTP/1.1\r\n\r\n'
        ask 'CONNECT evil.example:443 HTTP/1.1\r\n\r\n'
        echo malformed:
        ask 'CONNECT 2130706433:{port} HTTP/1.1\r\n\r\n'
        ask 'CONNECT u@{allowed} HTTP/1.1\r\n\r\n'
        ask 'GET http://{allowed}/ HTTP/1.1\r\nHost: {other}\r\n\r\n'
        ask 'GET http://{allowed}/ HTTP/1.1\r\nX: y\nHost: {other}\r\n\r\n'
        echo around:
        reaches 127.0.0.1 {port}; reaches 127.0.0.1 {other_port}; reaches 192.0.2.1 80; reaches 1.1.1.1 443
        env | grep -i proxy | sort"
    );
    let run = world.baton(&["sandbox", "--allow-host", &allowed, "--", "bash", "-c", &script]).expect(0);
    let said = run.stdout.replace('\r', "");
    assert!(said.starts_with("HTTP/1.1 200 Connection established\n\ngot: hello\n"), "{run:?}");
    assert!(said.contains(&format!("got: GET /x HTTP/1.1\nHost: {allowed}\nConnection: close\n")), "{run:?}");
    let (_, said) = said.split_once("refused:\n").unwrap();
    let (refused, said) = said.split_once("malformed:\n").unwrap();
    let (malformed, around) = said.split_once("around:\n").unwrap();
    assert_eq!(refused.matches("HTTP/1.1 403 Forbidden\n").count(), 3, "{run:?}");
    assert!(refused.contains("baton: evil.example:443 is not among sandbox.hosts\n"), "{run:?}");
    assert_eq!(malformed.matches("HTTP/1.1 400 Bad Request\n").count(), 4, "{run:?}");
    assert!(!around.contains("reached") && around.matches("no way to").count() == 4, "{run:?}");
    assert_eq!(around.matches("=http://127.0.0.1:").count(), 6, "{run:?}");
    assert!(around.contains("\nno_proxy=localhost,127.0.0.1,::1\n"), "{run:?}");
}

#[test]
fn nobody_else_gets_to_the_proxy() {
    let world = World::new();
    if !has_network(&world) {
        return;
    }
    let script = r#"echo "{\"kind\":\"up\",\"port\":\"${HTTP_PROXY##*:}\"}"; read -r _"#;
    let mut command = world.command(&["sandbox", "--allow-host", "example.com", "--", "bash", "-c", script]);
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    let port = live.until("up")["port"].as_str().unwrap().to_owned();
    // Somebody else may have the same port out here: then it is not the proxy that answers.
    if let Ok(mut stream) = TcpStream::connect(format!("127.0.0.1:{port}")) {
        stream.write_all(b"CONNECT x HTTP/1.1\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        assert!(!String::from_utf8_lossy(&answer).contains("baton:"), "it listens outside");
    }
    live.child.stdin.take().unwrap().write_all(b"done\n").unwrap();
    assert_eq!(live.wait(), 0);
}

#[test]
fn signals_still_reach_the_command() {
    let world = World::new();
    let script = "trap 'exit 5' INT; echo '{\"kind\":\"begun\"}'; while :; do sleep 0.05; done";
    let mut command = world.command(&["sandbox", "--allow-host", "example.com", "--", "bash", "-c", script]);
    command.stdin(Stdio::null());
    let mut live = Live::start(command);
    live.until("begun");
    live.signal(rustix::process::Signal::INT);
    assert_eq!(live.wait(), 5);
}

#[test]
fn agents_reach_what_the_person_lists() {
    let world = World::new();
    let has_network = has_network(&world);
    let allowed = echo();
    let client = format!(
        "{TOOLS}\nask 'GET http://{allowed}/a HTTP/1.1\\r\\n\\r\\n'; ask 'CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n'"
    );
    world.file("client.sh", client);
    let call = serde_json::json!({"call": [{"tool": "bash", "input": {"command": "bash client.sh"}}]});
    let script = format!("{call}\n{call}\n{{\"say\":\"done\"}}");
    // A repository has no say in it.
    let setting = format!("{{\"sandbox\": {{\"hosts\": [\"{allowed}\"]}}}}");
    world.file(".baton/config.jsonc", &setting);
    let run_it = || world.play(&script, &["--permission-mode", "auto"]).expect(0);
    let run = run_it();
    assert!(run.outputs().iter().all(|output| !output.contains("got: GET")), "{:?}", run.outputs());
    assert!(run.of("notice").iter().any(|event| event.to_string().contains("`sandbox` is ignored here")), "{run:?}");
    std::fs::remove_file(world.project().join(".baton/config.jsonc")).unwrap();

    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::write(world.home().join("config.jsonc"), &setting).unwrap();
    let run = run_it();
    let outputs = run.outputs();
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        assert_eq!(output.contains("got: GET /a HTTP/1.1"), has_network, "{output}");
        let note = "[refused by the sandbox, since not among sandbox.hosts: evil.example:443]";
        assert_eq!(output.contains(note), has_network, "{output}");
    }
}

#[test]
fn baton_itself_may_need_a_proxy() {
    let world = World::new();
    if !has_network(&world) {
        return;
    }
    let outer = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = outer.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut tunnel, _) = outer.accept().unwrap();
        let asked = head(&tunnel);
        tunnel.write_all(b"HTTP/1.1 200 OK\r\n\r\nearly,").unwrap();
        let inner = head(&tunnel);
        tunnel.write_all(b"late\n").unwrap();
        drop(tunnel);
        let (mut plain, _) = outer.accept().unwrap();
        plain.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        [asked, inner, head(&plain)]
    });
    let script = format!(
        "{TOOLS}\nask 'CONNECT registry.invalid:443 HTTP/1.1\\r\\n\\r\\nhi\\r\\n\\r\\n'; \
         ask 'GET http://registry.invalid/x HTTP/1.1\\r\\n\\r\\n'"
    );
    let mut command = world.command(&["sandbox", "--allow-host", "registry.invalid", "--", "bash", "-c", &script]);
    command.env("HTTPS_PROXY", format!("http://me:key@{at}")).env("HTTP_PROXY", format!("http://{at}"));
    let run = run(command).expect(0);
    let said = run.stdout.replace('\r', "");
    assert!(said.contains("\n\nearly,late\n") && said.ends_with("HTTP/1.1 204 No Content\n\n"), "{run:?}");
    let [asked, inner, plain] = serving.join().unwrap().map(|text| text.replace('\r', ""));
    let expected = "CONNECT registry.invalid:443 HTTP/1.1\nHost: registry.invalid:443\n";
    assert_eq!(asked, format!("{expected}Proxy-Authorization: Basic bWU6a2V5\n\n"));
    assert_eq!(inner, "hi\n\n");
    let expected = "GET http://registry.invalid/x HTTP/1.1\nHost: registry.invalid\nConnection: close\n\n";
    assert_eq!(plain, expected, "{run:?}");
}
