//! Requests to the proxy: what is sent on leads to the host that was judged, and is one request.

use baton_core::HostPort;
use baton_net::proxy::{Head, Kind, read_head};

/// A case is what a client sends.
pub(super) fn check(case: &[u8]) {
    let whole = read_head(case);
    for length in 0..case.len().min(256) {
        let part = read_head(&case[..length]);
        assert!(part == Ok(None) || part == whole || whole.is_err(), "how it arrives makes a difference at {length}");
    }
    let Ok(Some(Head { length, asked, kind })) = whole else { return };
    assert!(length <= case.len() && case[..length].ends_with(b"\r\n\r\n"));
    assert_eq!(HostPort::parse(&asked.to_string(), None).as_ref(), Ok(&asked), "one spelling");
    let Kind::Plain(plain) = kind else { return };
    let sent = plain.for_server();
    let end = sent.windows(4).position(|window| window == b"\r\n\r\n");
    assert_eq!(end, Some(sent.len() - 4), "one request");
    let lines: Vec<&[u8]> = sent.split(|byte| *byte == b'\n').collect();
    assert!(
        lines[..lines.len() - 1].iter().all(|line| line.iter().position(|byte| *byte == b'\r') == Some(line.len() - 1))
    );
    let hosts: Vec<_> = lines.iter().filter(|line| line.to_ascii_lowercase().starts_with(b"host:")).collect();
    let [host] = hosts[..] else { panic!("{} hosts", hosts.len()) };
    let host = String::from_utf8_lossy(&host[5..]);
    assert_eq!(HostPort::parse(host.trim(), Some(80)).as_ref(), Ok(&asked), "the server is told the same");
    // Another proxy reads the same out of it.
    let Ok(Some(again)) = read_head(&plain.for_proxy(None)) else { return };
    assert_eq!(again.asked, asked);
}
