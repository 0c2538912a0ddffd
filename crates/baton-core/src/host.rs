//! Hosts that commands may reach: what a person lists, and what a program asks for, in one spelling each.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The ports of a listed host without one.
const WEB_PORTS: [u16; 2] = [80, 443];
/// What the name system takes.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A host in one spelling: small letters, no dot at the end, addresses as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name that has to be resolved.
    Name(String),
    /// An address. One of IPv4 in the guise of IPv6 is the one of IPv4.
    Address(IpAddr),
}

impl FromStr for Host {
    type Err = String;

    /// Reads a host strictly. Numbers in odd spellings (`0x7f.1`, `2130706433`), which programs read in different ways, are
    /// no hosts, and neither are letters beyond ASCII: those have a spelling in ASCII.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a host", text.escape_debug());
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']').and_then(|inner| inner.parse().ok()).ok_or_else(wrong)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=LABEL_BYTES_MAX).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_label) {
            return Err(wrong());
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
            || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_number {
            return Ok(Self::Address(IpAddr::V4(name.parse().map_err(|_| wrong())?)));
        }
        Ok(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A host and a port: what a connection is made to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Reads `host:port`; without a port, the one given, if any.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, String> {
        let (host, port) = split_port(text)?;
        let port = port.or(default_port).ok_or_else(|| format!("`{}` has no port", text.escape_debug()))?;
        Ok(Self { host: host.parse()?, port })
    }

    /// Where a URL leads; `None` if it is not one of http or https, or could be read in two ways.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let port = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        Self::parse(authority, Some(port)).ok()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A host of the setting `sandbox.hosts`: `example.com`, `*.example.com` (every name below), `10.0.0.7:8080`. Without a port
/// it stands for the ports 80 and 443.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    which: Which,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    Exactly(Host),
    Below(String),
}

impl HostPattern {
    /// Whether it covers this host and port.
    pub fn covers(&self, asked: &HostPort) -> bool {
        let is_port = self.port.map_or_else(|| WEB_PORTS.contains(&asked.port), |port| port == asked.port);
        is_port
            && match (&self.which, &asked.host) {
                (Which::Exactly(host), asked) => host == asked,
                (Which::Below(suffix), Host::Name(name)) => {
                    name.strip_suffix(suffix.as_str()).is_some_and(|before| before.ends_with('.') && before.len() > 1)
                }
                (Which::Below(_), Host::Address(_)) => false,
            }
    }

    /// Whether it names one host, and not all below one.
    pub fn is_exact(&self) -> bool {
        matches!(self.which, Which::Exactly(_))
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = "write example.com, *.example.com, or example.com:8443";
        let (host, port) = split_port(text).map_err(|why| format!("{why}; {hint}"))?;
        if let Some(suffix) = host.strip_prefix("*.") {
            return match suffix.parse() {
                Ok(Host::Name(suffix)) if suffix.contains('.') => Ok(Self { which: Which::Below(suffix), port }),
                Ok(Host::Name(_)) => Err(format!("`{text}` is too wide; {hint}")),
                _ => Err(format!("`{}` is not a host; {hint}", text.escape_debug())),
            };
        }
        let host = host.parse().map_err(|why| format!("{why}; {hint}"))?;
        Ok(Self { which: Which::Exactly(host), port })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.which {
            Which::Exactly(host) => host.fmt(f)?,
            Which::Below(suffix) => write!(f, "*.{suffix}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl TryFrom<String> for HostPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> Self {
        pattern.to_string()
    }
}

/// The port behind the last colon, unless that is one inside an address.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let Some((host, port)) = text.rsplit_once(':').filter(|_| !text.ends_with(']')) else { return Ok((text, None)) };
    // A number in Rust may have a sign.
    let number = port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    match number.filter(|port| *port != 0) {
        Some(port) => Ok((host, Some(port))),
        None => Err(format!("`{}` has no port that there is", text.escape_debug())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(pattern: &str, asked: &str) -> bool {
        pattern.parse::<HostPattern>().unwrap().covers(&HostPort::parse(asked, None).unwrap())
    }

    #[test]
    fn a_listed_host_is_that_host() {
        for (pattern, asked) in [
            ("example.com", "example.com:443"),
            ("example.com", "EXAMPLE.com.:80"),
            ("Example.COM.", "example.com:80"),
            ("example.com:8443", "example.com:8443"),
            ("*.crates.io", "static.crates.io:443"),
            ("*.crates.io", "a.b.crates.io:443"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "[::ffff:127.0.0.1]:8080"),
            ("[::1]:8080", "[0:0::1]:8080"),
            ("localhost:3000", "localhost:3000"),
        ] {
            assert!(covers(pattern, asked), "{pattern} {asked}");
        }
        for (pattern, asked) in [
            ("example.com", "example.com:8443"),
            ("example.com:8443", "example.com:443"),
            ("example.com", "www.example.com:443"),
            ("example.com", "example.com.evil.net:443"),
            ("example.com", "notexample.com:443"),
            ("*.crates.io", "crates.io:443"),
            ("*.crates.io", "evilcrates.io:443"),
            ("*.crates.io", "crates.io.evil.net:443"),
            ("*.crates.io", "static.crates.io:22"),
            ("localhost:3000", "127.0.0.1:3000"),
        ] {
            assert!(!covers(pattern, asked), "{pattern} {asked}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_no_host() {
        for text in [
            "",
            ".",
            "a..b",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "127.1",
            "0177.0.0.1",
            "127.0.0.1.1",
            "1.2.3.256",
            "u@example.com",
            "example.com/",
            "exam ple.com",
            "example.com\r\n",
            "ex\u{e4}mple.com",
            "\u{ff11}27.0.0.1",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "[fe80::1%eth0]",
            "*",
            "a*b.com",
            "example.com..",
            "%31",
        ] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
        for text in
            ["example.com:", "example.com:0", "example.com:+80", "example.com:99999", "a:b:80", "a:80:80", "::1:80"]
        {
            assert!(HostPort::parse(text, Some(80)).is_err(), "{text}");
        }
        for text in
            ["*", "*.com", "*.1.1.1.1", "*.*.example.com", "https://example.com", "example.com/x", "*example.com"]
        {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_url_leads_to_one_host() {
        let leads = |url: &str| HostPort::of_url(url).map(|at| at.to_string());
        assert_eq!(leads("https://Example.com/a?b"), Some("example.com:443".to_owned()));
        assert_eq!(leads("http://example.com:8080"), Some("example.com:8080".to_owned()));
        assert_eq!(leads("http://[::1]/"), Some("[::1]:80".to_owned()));
        for url in ["https://u@example.com", "ftp://example.com", "https://a\\@b.com/", "https://", "x"] {
            assert_eq!(leads(url), None, "{url}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_has_one_spelling(text in "[-a-zA-Z0-9.:*_\\[\\]]{0,40}") {
            if let Ok(pattern) = text.parse::<HostPattern>() {
                prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
            }
            if let Ok(asked) = HostPort::parse(&text, Some(80)) {
                prop_assert_eq!(HostPort::parse(&asked.to_string(), None), Ok(asked));
            }
        }
    }
}
