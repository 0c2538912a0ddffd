//! The way to a provider: proxies, certificate authorities, slow and broken servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::support::{World, run};

const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Reads one request and returns its first line.
fn read_request(stream: &mut impl Read) -> String {
    let mut reader = BufReader::new(stream);
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).unwrap();
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    first
}

fn head(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n")
}

#[test]
fn requests_go_through_a_proxy() {
    let world = World::new();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = proxy.local_addr().unwrap();
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let first = read_request(&mut stream);
        write!(stream, "{}{ANSWER}", head(ANSWER.len())).unwrap();
        first
    });
    let mut command = world.command(&["exec", "-m", "compat/m", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", "http://model.invalid/v1").env("HTTP_PROXY", format!("http://{address}"));
    assert_eq!(run(command).expect(0).stdout, "hello\n");
    assert_eq!(seen.join().unwrap().trim(), "POST http://model.invalid/v1/chat/completions HTTP/1.1");
}

#[test]
fn a_certificate_authority_of_ones_own_is_trusted_when_it_is_named() {
    let world = World::new();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let authority = world.file("ca.pem", certified.cert.pem());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, socket);
            // A client that does not trust us hangs up in the middle of the greeting.
            if stream.conn.complete_io(&mut stream.sock).is_ok() {
                read_request(&mut stream);
                write!(stream, "{}{ANSWER}", head(ANSWER.len())).unwrap();
            }
        }
    });
    let command = || {
        let mut command = world.command(&["exec", "-m", "compat/m", "hi"]);
        command.env("BATON_COMPAT_BASE_URL", &url).env("BATON_RETRY__TRANSIENT__ATTEMPTS", "1");
        command
    };
    run(command()).expect_error(6, "certificate", "HTTPS_PROXY");
    for variable in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "BATON_NETWORK__CA_FILE"] {
        let mut trusting = command();
        trusting.env(variable, &authority);
        assert_eq!(run(trusting).expect(0).stdout, "hello\n", "{variable}");
    }
    let mut wrong = command();
    wrong.env("SSL_CERT_FILE", world.project().join("nothing.pem"));
    run(wrong).expect_error(2, "SSL_CERT_FILE", "unset");
    let mut wrong = command();
    wrong.env("NODE_EXTRA_CA_CERTS", world.file("empty.pem", ""));
    run(wrong).expect_error(2, "empty.pem", "PEM");
}

#[test]
fn a_server_that_goes_silent_in_the_middle() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            read_request(&mut stream);
            let half = ANSWER.replace("\"stop\"", "null");
            write!(stream, "{}{}", head(10_000), half.split("data: [DONE]").next().unwrap()).unwrap();
            held.push(stream);
        }
    });
    let mut command = world.command(&["exec", "--json", "-m", "compat/m", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", url).env("BATON_NETWORK__SILENCE_TIMEOUT_MS", "60");
    command.env("BATON_RETRY__TRANSIENT__ATTEMPTS", "2");
    let run = run(command).expect(6);
    assert_eq!(run.of("retry").len(), 1);
    assert_eq!(run.of("message.end")[0]["message"]["content"][0]["text"], "hello", "what arrived is kept");
    assert!(run.of("error")[0]["message"].as_str().unwrap().contains("went silent"), "{:?}", run.of("error"));
}

#[test]
fn a_server_that_only_shows_signs_of_life() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            read_request(&mut stream);
            drop(stream.write_all(head(100_000_000).as_bytes()));
            // Pings until the other side hangs up.
            while stream.write_all(b": ping\n\n").is_ok() {}
        }
    });
    let mut command = world.command(&["exec", "-m", "compat/m", "hi"]);
    command.env("BATON_COMPAT_BASE_URL", url).env("BATON_NETWORK__ANSWER_TIMEOUT_MS", "100");
    command.env("BATON_RETRY__TRANSIENT__ATTEMPTS", "1");
    run(command).expect_error(6, "did not finish its answer", "answer_timeout_ms");
}

#[test]
fn a_wait_that_is_too_long_is_not_waited() {
    let world = World::new();
    let run = world.play(r#"{"fail":{"status":429,"retry_after":7200}}"#, &[]).expect(6);
    assert!(run.of("retry").is_empty());
    assert!(run.of("error")[0]["message"].as_str().unwrap().ends_with("(it asks to wait 7200 s)"));
}
