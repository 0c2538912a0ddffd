//! The proxy as a command meets it: over real connections.

#![allow(missing_docs, reason = "tests speak by their names")]

use std::net::SocketAddr;

use baton_core::HostPattern;
use baton_net::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers each connection with what it was sent, up to an empty line and `more` bytes, and then ends it.
async fn server(more: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                let end = |seen: &[u8]| seen.windows(4).position(|window| window == b"\r\n\r\n");
                while end(&seen).is_none_or(|end| seen.len() < end + 4 + more) {
                    if client.read_buf(&mut seen).await.unwrap() == 0 {
                        break;
                    }
                }
                client.write_all(b"seen: ").await.unwrap();
                client.write_all(&seen).await.unwrap();
            });
        }
    });
    address
}

fn proxy(hosts: &[String]) -> Proxy {
    let hosts: Vec<HostPattern> = hosts.iter().map(|host| host.parse().unwrap()).collect();
    Proxy::start(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), hosts).unwrap()
}

/// What comes back for these bytes.
async fn say(proxy: &Proxy, text: &str) -> String {
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_tunnel_leads_to_a_listed_address() {
    let at = server(0).await;
    let proxy = proxy(&[at.to_string()]);
    // The first bytes may come with the request.
    let answer = say(&proxy, &format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\nhello\r\n\r\n")).await;
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nseen: hello\r\n\r\n");
    assert_eq!(proxy.refusals(), 0);
}

#[tokio::test]
async fn a_plain_request_arrives_as_servers_expect_it() {
    let at = server(3).await;
    let proxy = proxy(&[at.to_string()]);
    let next = "GET http://other.example/ HTTP/1.1\r\n\r\n";
    let request = format!("POST http://{at}/a?b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc{next}");
    let expected = format!("POST /a?b HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(say(&proxy, &request).await, format!("seen: {expected}"), "and nothing that follows");
}

#[tokio::test]
async fn everything_else_is_refused_and_remembered() {
    let at = server(0).await;
    let port = at.port();
    let proxy = proxy(&[format!("127.0.0.1:{port}"), "*.example.com".to_owned(), "listed.example".to_owned()]);
    let before = proxy.refusals();
    for asked in [
        "evil.example:443".to_owned(),
        "example.com:443".to_owned(),
        "notexample.com:443".to_owned(),
        "a.example.com:22".to_owned(),
        "a.example.com.evil.net:443".to_owned(),
        "127.0.0.2:80".to_owned(),
        "127.0.0.1:1".to_owned(),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        "169.254.169.254:80".to_owned(),
    ] {
        let answer = say(&proxy, &format!("CONNECT {asked} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{asked}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\nbaton: {asked} is not among sandbox.hosts\n")), "{answer}");
    }
    let refused = proxy.refused_since(before);
    assert_eq!((refused.len(), refused[0].as_str()), (10, "evil.example:443"));
    assert_eq!(proxy.refused_since(proxy.refusals()), Vec::<String>::new());
    for head in [
        format!("CONNECT 2130706433:{port} HTTP/1.1\r\n\r\n"),
        format!("CONNECT 0x7f000001:{port} HTTP/1.1\r\n\r\n"),
        format!("CONNECT 127.1:{port} HTTP/1.1\r\n\r\n"),
        format!("CONNECT u@127.0.0.1:{port} HTTP/1.1\r\n\r\n"),
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nX: y\nHost: evil.example\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: listed.example\r\n\r\n".to_owned(),
    ] {
        let answer = say(&proxy, &head).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}: {answer}");
    }
    let long = format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nX: {}", "x".repeat(1 << 20));
    let answer = say(&proxy, &long).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_name_of_this_machine_can_be_listed() {
    let at = server(0).await;
    let proxy = proxy(&[format!("localhost:{}", at.port())]);
    let answer = say(&proxy, &format!("CONNECT LOCALHOST.:{} HTTP/1.1\r\n\r\nx\r\n\r\n", at.port())).await;
    assert!(answer.ends_with("seen: x\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn too_many_are_sent_away_and_all_end_with_the_proxy() {
    let at = server(0).await;
    let proxy = proxy(&[at.to_string()]);
    let mut open = Vec::new();
    for _ in 0..64 {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.write_all(format!("CONNECT {at} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        client.read_exact(&mut [0; 39]).await.unwrap();
        open.push(client);
    }
    let mut one_more = TcpStream::connect(proxy.address()).await.unwrap();
    let mut answer = String::new();
    one_more.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let address = proxy.address();
    drop(proxy);
    for mut client in open {
        assert!(!matches!(client.read(&mut [0; 1]).await, Ok(1..)));
    }
    assert!(TcpStream::connect(address).await.is_err());
}
