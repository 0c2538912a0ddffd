//! Requests to the proxy: a pure parser that takes one reading of a head or none.

use std::fmt::Write;

use baton_core::HostPort;

/// The longest head that is read.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;
const FIELDS_MAX: usize = 100;
/// What concerns one connection only, and what this proxy says itself.
const NOT_SENT_ON: [&str; 8] =
    ["connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"];

/// The field by which a proxy is told who asks.
pub(super) const PROXY_KEY: &str = "Proxy-Authorization";

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// How many bytes it had; what follows belongs to what it asks for.
    pub length: usize,
    /// Where it leads.
    pub asked: HostPort,
    /// What it asks for.
    pub kind: Kind,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Bytes both ways, as they are.
    Tunnel,
    /// One request in plain HTTP.
    Plain(Plain),
}

/// A request that is sent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    method: String,
    /// The host as the address has it, for the field that repeats it.
    authority: String,
    path: String,
    fields: Vec<(String, Vec<u8>)>,
    /// How many bytes of a body follow.
    pub body: u64,
}

impl Plain {
    /// The head for the server itself, which ends the connection after its answer: what would follow was not checked.
    pub fn for_server(&self) -> Vec<u8> {
        self.head(&self.path, None)
    }

    /// The head for another proxy, with what that wants to know about who asks.
    pub fn for_proxy(&self, key: Option<&[u8]>) -> Vec<u8> {
        self.head(&format!("http://{}{}", self.authority, self.path), key)
    }

    fn head(&self, target: &str, key: Option<&[u8]>) -> Vec<u8> {
        let (method, host) = (&self.method, &self.authority);
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n").into_bytes();
        let key = key.map(|key| (PROXY_KEY, key));
        for (name, value) in self.fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).chain(key) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// The reason, for whoever reads the answer.
    pub why: String,
}

impl Refusal {
    pub(super) fn new(status: u16, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }

    /// The answer that says so.
    pub(super) fn answer(&self) -> String {
        let reason = match self.status {
            403 => "Forbidden",
            408 => "Request Timeout",
            411 => "Length Required",
            431 => "Request Header Fields Too Large",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            _ => "Bad Request",
        };
        let body = format!("baton: {}\n", self.why);
        let mut answer = format!("HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n", self.status);
        // Writing to a string cannot fail.
        let _ = write!(answer, "Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        answer
    }
}

/// Reads the head at the start of these bytes; `None` if there has to be more.
pub fn read_head(bytes: &[u8]) -> Result<Option<Head>, Refusal> {
    let bad = |why: &str| Refusal::new(400, why);
    let seen = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let end = seen.windows(4).position(|window| window == b"\r\n\r\n");
    let text = &seen[..end.map_or(seen.len(), |end| end + 4)];
    let is_stray = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || text[at - 1] != b'\r',
        b'\r' => text.get(at + 1).is_some_and(|next| *next != b'\n'),
        b'\t' => false,
        byte => byte.is_ascii_control(),
    };
    if text.iter().enumerate().any(is_stray) {
        return Err(bad("the head of the request has a control character or a lone line break in it"));
    }
    let Some(end) = end else {
        let is_too_long = bytes.len() >= HEAD_BYTES_MAX;
        let too_long = || Refusal::new(431, format!("the head of the request is longer than {HEAD_BYTES_MAX} bytes"));
        return if is_too_long { Err(too_long()) } else { Ok(None) };
    };
    let mut lines = seen[..end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = lines.next().and_then(|line| std::str::from_utf8(line).ok()).filter(|line| line.is_ascii());
    let mut words = line.unwrap_or_default().split(' ');
    let (method, target, version, more) = (words.next(), words.next(), words.next(), words.next());
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) = (method, target, version, more) else {
        return Err(bad("the first line is not one of HTTP/1.1"));
    };
    if !is_token(method.as_bytes()) || target.contains('\t') {
        return Err(bad("the first line is not one of HTTP/1.1"));
    }
    let fields = lines.map(field).collect::<Option<Vec<_>>>().ok_or_else(|| bad("a field of the head is malformed"))?;
    if fields.len() > FIELDS_MAX {
        return Err(Refusal::new(431, format!("the head of the request has more than {FIELDS_MAX} fields")));
    }
    let (asked, kind) = if method == "CONNECT" {
        (HostPort::parse(target, None).map_err(|why| bad(&why))?, Kind::Tunnel)
    } else {
        let (asked, plain) = plain(method, target, &fields)?;
        (asked, Kind::Plain(plain))
    };
    Ok(Some(Head { length: end + 4, asked, kind }))
}

fn plain(method: &str, target: &str, fields: &[(String, &[u8])]) -> Result<(HostPort, Plain), Refusal> {
    let bad = |why: &str| Refusal::new(400, why);
    let scheme_end = target.find("://").ok_or_else(|| bad("this is a proxy: it takes CONNECT and whole addresses"))?;
    if !target[..scheme_end].eq_ignore_ascii_case("http") {
        return Err(bad("only http addresses are sent on; everything else goes through CONNECT"));
    }
    if target.contains('#') {
        return Err(bad("an address that is sent has no `#`"));
    }
    let rest = &target[scheme_end + 3..];
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let asked = HostPort::parse(authority, Some(80)).map_err(|why| bad(&why))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };

    let of = |name: &'static str| {
        fields.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    };
    for host in of("host").map(std::str::from_utf8) {
        // A server believes this field, so it must not name another one.
        if host.ok().and_then(|host| HostPort::parse(host, Some(80)).ok()).as_ref() != Some(&asked) {
            return Err(bad("the field Host names another host than the address"));
        }
    }
    if of("host").count() > 1 || of("content-length").count() > 1 {
        return Err(bad("a field is there twice that must not be"));
    }
    if of("transfer-encoding").next().is_some() {
        return Err(Refusal::new(411, "the length of a body has to be said beforehand"));
    }
    let body = match of("content-length").next() {
        None => 0,
        Some(digits) if digits.iter().all(u8::is_ascii_digit) => std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| bad("the length of the body is no number"))?,
        Some(_) => return Err(bad("the length of the body is no number")),
    };
    let is_sent_on = |name: &str| !NOT_SENT_ON.iter().any(|other| name.eq_ignore_ascii_case(other));
    let fields = fields.iter().filter(|(name, _)| is_sent_on(name)).map(|(name, value)| (name.clone(), value.to_vec()));
    let authority = if asked.port == 80 { asked.host.to_string() } else { asked.to_string() };
    Ok((asked, Plain { method: method.to_owned(), authority, path, fields: fields.collect(), body }))
}

/// A field's name and its value without blanks around it. A line that goes on with the field before has no name.
fn field(line: &[u8]) -> Option<(String, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| is_token(name.as_bytes()))?;
    Some((name.to_owned(), line[colon + 1..].trim_ascii()))
}

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(head: &str) -> u16 {
        read_head(head.as_bytes()).err().map_or(200, |refusal| refusal.status)
    }

    fn get(head: &str) -> Head {
        read_head(head.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_tunnel_leads_where_it_says() {
        let text = "CONNECT Example.com.:443 HTTP/1.1\r\nHost: whatever\r\n\r\n";
        let Head { length, asked, kind } = get(&format!("{text}early"));
        assert_eq!((asked.to_string().as_str(), kind, length), ("example.com:443", Kind::Tunnel, text.len()));
        assert_eq!(read_head(b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n"), Ok(None));
    }

    #[test]
    fn a_plain_request_is_sent_on_and_ends_its_connection() {
        let head = get(
            "POST http://Example.com?q HTTP/1.1\r\nhost: example.com:80\r\nProxy-Connection: keep-alive\r\nX:  y \r\n\
             Connection: keep-alive\r\nContent-Length: 3\r\n\r\nabc",
        );
        let Kind::Plain(plain) = head.kind else { panic!("a tunnel") };
        let rest = "Host: example.com\r\nConnection: close\r\nX: y\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(plain.for_server(), format!("POST /?q HTTP/1.1\r\n{rest}").into_bytes());
        assert_eq!(plain.for_proxy(None), format!("POST http://example.com/?q HTTP/1.1\r\n{rest}").into_bytes());
        assert_eq!(plain.body, 3);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for head in [
            "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
            "GET https://example.com/ HTTP/1.1\r\n\r\n",
            "GET http://u@example.com/ HTTP/1.1\r\n\r\n",
            "GET http://example.com@evil.example/ HTTP/1.1\r\n\r\n",
            "GET http://example.com\\@evil.example/ HTTP/1.1\r\n\r\n",
            "GET http://2130706433/ HTTP/1.1\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nHost : example.com\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nX: a\r\n Host: evil.example\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nX: a\nHost: evil.example\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nX: a\rHost: evil.example\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nX: a\0\r\n\r\n",
            "GET http://example.com/\tx HTTP/1.1\r\n\r\n",
            "GET  http://example.com/ HTTP/1.1\r\n\r\n",
            "GET http://example.com/ HTTP/2\r\n\r\n",
            "GET http://example.com/\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "GET http://example.com/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "GET http://example.com/#x HTTP/1.1\r\n\r\n",
            "CONNECT example.com HTTP/1.1\r\n\r\n",
            "CONNECT http://example.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT u@example.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT 0x7f.1:443 HTTP/1.1\r\n\r\n",
            "CONNECT example.com:443\r\nX: y HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "\u{16}\u{3}\u{1}",
            "GET http://example.com/ HTTP/1.1\n",
        ] {
            assert_eq!(status(head), 400, "{head:?}");
        }
        let chunked = "POST http://example.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(status(chunked), 411);
        assert_eq!(status(&format!("GET http://a.b/{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES_MAX))), 431);
        assert_eq!(status(&format!("GET http://a.b/ HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1))), 431);
    }

    proptest! {
        #[test]
        fn how_the_bytes_arrive_makes_no_difference(
            method in "(GET|POST|CONNECT)", target in "(http://|)[a-z0-9.@:]{1,12}(/[!-~]{0,6})?",
            fields in prop::collection::vec("(Host|Content-Length|X|)[: ]{1,2}[ -~\t\r\n]{0,8}\r\n", 0..4), cut in 0_usize..80,
        ) {
            let text = format!("{method} {target} HTTP/1.1\r\n{}\r\nbody", fields.concat());
            let whole = read_head(text.as_bytes());
            let part = read_head(&text.as_bytes()[..cut.min(text.len())]);
            prop_assert!(part == Ok(None) || part == whole || whole.is_err(), "{part:?} {whole:?}");
        }
    }
}
