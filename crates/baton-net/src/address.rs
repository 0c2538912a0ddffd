//! Which addresses are public: pure decisions on URLs and IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Ports below 1024 that speak HTTP.
const LOW_PORTS: [u16; 2] = [80, 443];
/// Higher ports that browsers refuse, too, because other services listen there and could be talked to in disguise.
const REFUSED_PORTS: [u16; 21] = [
    1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669,
    6697, 11211,
];

/// Names that are resolved by this machine or its network, whatever the address is in the end.
const LOCAL_SUFFIXES: [&str; 7] = ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa"];

/// A private host that the person lets be reached: `localhost:3000`, `[::1]:8080`, or `wiki.internal` on every port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedHost {
    host: String,
    port: Option<u16>,
}

impl AllowedHost {
    /// The host, without its port.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn covers(&self, url: &Url) -> bool {
        host_of(url).is_some_and(|host| host == self.host)
            && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a host, such as localhost:3000");
        let with_port = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = match with_port {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let url: Url = format!("http://{host}/").parse().map_err(|_| wrong())?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.username().is_empty() && url.port().is_none();
        let host = host_of(&url).filter(|_| is_plain).ok_or_else(wrong)?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl TryFrom<String> for AllowedHost {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AllowedHost> for String {
    fn from(host: AllowedHost) -> Self {
        host.to_string()
    }
}

/// How far a URL may be trusted to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The person named this host: it may be private.
    Allowed,
    /// Only a public address may be connected to.
    Public,
}

/// Whether a URL may be fetched as far as it tells by itself; names are checked again when they are resolved. The
/// error says why not. Numbers in any spelling (`0x7f.1`, `2130706433`) are addresses already: the URL's parser
/// reads them as browsers do.
pub(crate) fn check(url: &Url, allowed: &[AllowedHost]) -> Result<Reach, String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only http and https can be fetched, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user name or password in the URL is not sent; leave it out".to_owned());
    }
    if allowed.iter().any(|host| host.covers(url)) {
        return Ok(Reach::Allowed);
    }
    match url.host() {
        None => return Err("it has no host".to_owned()),
        Some(Host::Ipv4(address)) => public(address.into())?,
        Some(Host::Ipv6(address)) => public(address.into())?,
        Some(Host::Domain(name)) if is_local(name) => {
            return Err(format!("{name} is a name of this machine or its network"));
        }
        Some(Host::Domain(_)) => {}
    }
    match url.port() {
        Some(port) if (port < 1024 && !LOW_PORTS.contains(&port)) || REFUSED_PORTS.contains(&port) => {
            Err(format!("port {port} is not one of the web"))
        }
        _ => Ok(Reach::Public),
    }
}

/// Whether an address is one of the public internet; the error says what it is instead.
pub(crate) fn public(address: IpAddr) -> Result<(), String> {
    let private = match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    };
    private.map_or(Ok(()), |what| Err(format!("{address} is {what}")))
}

/// Whether two URLs are of one host; `www.` makes no difference.
pub(crate) fn is_same_site(one: &Url, other: &Url) -> bool {
    let host = |url: &Url| host_of(url).map(|host| host.strip_prefix("www.").unwrap_or(&host).to_owned());
    host(one) == host(other) && one.port_or_known_default() == other.port_or_known_default()
}

/// The host in one spelling.
fn host_of(url: &Url) -> Option<String> {
    url.host_str().map(|host| host.trim_end_matches('.').to_ascii_lowercase())
}

/// Whether a name is one that this machine or its network gives a meaning to.
pub(crate) fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('.')
        || LOCAL_SUFFIXES
            .iter()
            .any(|suffix| name.strip_suffix(suffix).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "this machine (unspecified)",
        (127, ..) => "this machine (loopback)",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "in a private network",
        (100, 64..=127, _) => "in a provider's private network",
        (169, 254, _) => "link-local, where clouds keep credentials",
        // Azure's platform server answers on a public address, but only from inside.
        (168, 63, 129) if address == Ipv4Addr::new(168, 63, 129, 16) => "a cloud's platform server",
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113) | (198, 18..=19, _) => "set aside, not public",
        (224..=239, ..) => "multicast",
        (240..=255, ..) => "reserved",
        _ => return None,
    })
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        not_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            embedded(high, low)
        }
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Some("this machine"),
        [0xfc00..=0xfdff, ..] => Some("in a private network"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        // Teredo, identifiers and other protocols' own, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("set aside, not public"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("not a public address"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(url: &str) -> bool {
        check(&url.parse().unwrap(), &[]).is_err()
    }

    #[test]
    fn what_is_not_public_is_refused() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://017700000001/",
            "http://\u{ff11}27.0.0.1/",
            "http://0/",
            "http://0.0.0.0/",
            "http://10.1.2.3/",
            "http://172.16.0.1/",
            "http://172.31.255.255/",
            "http://192.168.1.1/",
            "http://100.64.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://168.63.129.16/",
            "http://192.0.0.192/",
            "http://198.18.0.1/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::]/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::10.0.0.1]/",
            "http://[64:ff9b:1::1]/",
            "http://[2002:7f00:1::]/",
            "http://[2002:c0a8:101::1]/",
            "http://[2001:0:4136:e378::1]/",
            "http://[fc00::1]/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1]/",
            "http://[ff02::1]/",
            "http://[100::1]/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://printer.local/",
            "http://metadata.google.internal/",
            "http://metadata.google.internal./",
            "http://router/",
            "http://router./",
            "https://user:secret@example.com/",
            "https://user@example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "data:text/plain,x",
            "https://example.com:22/",
            "https://example.com:25/",
            "https://example.com:6379/",
        ] {
            assert!(refused(url), "{url}");
        }
    }

    #[test]
    fn what_is_public_is_not() {
        for url in [
            "https://example.com/",
            "http://example.com:8080/a?b#c",
            "https://example.com.:8443/",
            "https://localhost.example.com/",
            "https://mylocalhost.com/",
            "https://1.1.1.1/",
            "https://172.32.0.1/",
            "https://100.128.0.1/",
            "https://[2606:4700::1111]/",
            "https://[64:ff9b::1.1.1.1]/",
            "https://[2002:101:101::]/",
            "https://[::ffff:1.1.1.1]/",
        ] {
            assert!(!refused(url), "{url}");
        }
    }

    #[test]
    fn the_person_may_allow_private_hosts() {
        for (entry, url, reached) in [
            ("localhost:3000", "http://localhost:3000/a", true),
            ("localhost:3000", "http://LOCALHOST.:3000/a", true),
            ("localhost:3000", "http://localhost:3001/", false),
            ("localhost:3000", "http://127.0.0.1:3000/", false),
            ("localhost:80", "http://localhost/", true),
            ("localhost:80", "https://localhost/", false),
            ("wiki.internal", "https://wiki.internal:9000/", true),
            ("[::1]:8080", "http://[0:0::1]:8080/", true),
            ("127.0.0.1:22", "http://127.1:22/", true),
            ("localhost:3000", "http://u:p@localhost:3000/", false),
        ] {
            let allowed: AllowedHost = entry.parse().unwrap();
            assert_eq!(allowed.to_string().parse(), Ok(allowed.clone()));
            assert_eq!(check(&url.parse().unwrap(), &[allowed]) == Ok(Reach::Allowed), reached, "{entry} {url}");
        }
        for wrong in ["", "http://localhost", "localhost:", "localhost:99999", "a b", "localhost/x", "u@h", "::1"] {
            assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_site_is_one_host() {
        for (one, other, same) in [
            ("https://example.com/a", "https://www.example.com/b", true),
            ("https://example.com/", "https://EXAMPLE.com./", true),
            ("https://example.com/", "https://example.com:8443/", false),
            ("https://example.com/", "https://docs.example.com/", false),
            ("https://example.com/", "https://example.com.evil.net/", false),
        ] {
            assert_eq!(is_same_site(&one.parse().unwrap(), &other.parse().unwrap()), same, "{one} {other}");
        }
    }

    proptest! {
        /// However an IPv4 address is wrapped, it is judged alike.
        #[test]
        fn wrappings_do_not_help(bits: u32) {
            let plain = Ipv4Addr::from(bits);
            let verdict = public(plain.into()).is_ok();
            let [a, b, c, d] = plain.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for wrapped in [
                plain.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 1, 2, 3, 4, 5),
            ] {
                prop_assert_eq!(public(wrapped.into()).is_ok(), verdict);
            }
            for spelling in [format!("http://{bits}/"), format!("http://{bits:#x}/"), format!("http://0{bits:o}/")] {
                prop_assert_eq!(check(&spelling.parse().unwrap(), &[]).is_ok(), verdict);
            }
        }

        /// Beyond the global unicast range only wrapped addresses can be public.
        #[test]
        fn only_global_addresses_are_public(bits: u128) {
            let address = Ipv6Addr::from(bits);
            prop_assume!(address.to_ipv4_mapped().is_none() && address.segments()[..2] != [0x64, 0xff9b]);
            prop_assert!(public(address.into()).is_err() || bits >> 125 == 1);
        }
    }
}
