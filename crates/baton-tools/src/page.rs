//! Web pages as text: what kind a body is, in which charset, and what a model should read of it.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

mod html;

/// How far into a page its charset may be declared.
const DECLARATION_BYTES: usize = 1024;
/// How much of a body of unknown type is looked at.
const SNIFFED_BYTES: usize = 4096;

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Becomes markdown.
    Html,
    /// Passed on as it is.
    Text,
    /// Not for a model to read.
    Binary,
    /// The server does not say: its bytes do.
    Unknown,
}

impl Kind {
    /// What a media type says.
    pub(crate) fn of(media_type: Option<&str>) -> Self {
        let Some(media_type) = media_type.map(essence) else { return Self::Unknown };
        let (kind, subtype) = media_type.split_once('/').unwrap_or((&media_type, ""));
        match (kind, subtype) {
            ("text", "html") | ("application", "xhtml+xml") => Self::Html,
            ("text", _) => Self::Text,
            (_, name) if name.ends_with("+json") || name.ends_with("+xml") || name.ends_with("+yaml") => Self::Text,
            (
                "application",
                "json"
                | "jsonl"
                | "x-ndjson"
                | "ndjson"
                | "json5"
                | "xml"
                | "javascript"
                | "ecmascript"
                | "x-javascript"
                | "typescript"
                | "yaml"
                | "x-yaml"
                | "toml"
                | "x-toml"
                | "sql"
                | "graphql"
                | "x-sh"
                | "x-httpd-php"
                | "x-www-form-urlencoded"
                | "x-tex"
                | "rtf"
                | "pgp-signature"
                | "pem-certificate-chain",
            ) => Self::Text,
            ("application" | "binary", "octet-stream" | "") | ("", _) => Self::Unknown,
            _ => Self::Binary,
        }
    }

    /// What the bytes say, where the server does not.
    pub(crate) fn or_sniffed(self, bytes: &[u8]) -> Self {
        if self != Self::Unknown {
            return self;
        }
        let start = &bytes[..bytes.len().min(SNIFFED_BYTES)];
        // The last character may be cut.
        let is_utf8 = std::str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
        if !is_utf8 || start.contains(&0) {
            return Self::Binary;
        }
        let text = start.trim_ascii_start().to_ascii_lowercase();
        if text.starts_with(b"<!doctype html") || text.starts_with(b"<html") { Self::Html } else { Self::Text }
    }
}

/// A media type without its parameters.
pub(crate) fn essence(media_type: &str) -> String {
    let name = media_type.split(';').next().unwrap_or_default().trim();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "/+-._".contains(*c);
    name.chars().filter(plain).take(100).collect::<String>().to_ascii_lowercase()
}

/// The text of a body: by its byte order mark, by what the server says, by what the page says, else UTF-8 if it is
/// that, and otherwise what old pages without a word about it are in.
pub(crate) fn decode(bytes: &[u8], media_type: Option<&str>, kind: Kind) -> String {
    let said = media_type.and_then(|media_type| parameter(media_type, "charset"));
    let encoding = said.and_then(|name| Encoding::for_label(name.as_bytes())).or_else(|| declared(bytes, kind));
    let encoding = encoding.unwrap_or_else(|| {
        // Where reading was cut, the last character may be.
        let is_cut =
            |error: std::str::Utf8Error| error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii();
        if std::str::from_utf8(bytes).map_or_else(is_cut, |_| true) { UTF_8 } else { WINDOWS_1252 }
    });
    encoding.decode(bytes).0.into_owned()
}

/// The charset in `<meta charset="...">` or `<meta http-equiv content="...; charset=...">`.
fn declared(bytes: &[u8], kind: Kind) -> Option<&'static Encoding> {
    if kind != Kind::Html {
        return None;
    }
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]).to_ascii_lowercase();
    let meta = start.match_indices("<meta").find_map(|(at, _)| {
        let tag = start[at..].split('>').next()?;
        parameter(tag, "charset").map(str::to_owned)
    })?;
    let found = Encoding::for_label(meta.as_bytes())?;
    // A page that could be read this far is not in UTF-16, whatever it says.
    Some(if found.is_ascii_compatible() { found } else { UTF_8 })
}

/// The value of `name=value` or `name="value"`.
fn parameter<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let at = text.to_ascii_lowercase().find(name)? + name.len();
    let value = text.get(at..)?.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| c.is_whitespace() || "\"';/>".contains(c)).unwrap_or(value.len());
    (end > 0).then(|| &value[..end])
}

/// What a model should read of a text: markdown where it is HTML. `absolute` makes links of the page whole.
pub(crate) fn readable(text: String, kind: Kind, absolute: impl Fn(&str) -> Option<String>) -> String {
    if kind == Kind::Html { html::to_markdown(&text, absolute) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_media_type() {
        for (media_type, kind) in [
            ("text/html; charset=utf-8", Kind::Html),
            ("Application/XHTML+XML", Kind::Html),
            ("text/markdown", Kind::Text),
            ("application/json", Kind::Text),
            ("application/vnd.api+json", Kind::Text),
            ("image/svg+xml", Kind::Text),
            ("image/png", Kind::Binary),
            ("application/pdf", Kind::Binary),
            ("application/zip", Kind::Binary),
            ("application/octet-stream", Kind::Unknown),
            ("", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(Some(media_type)), kind, "{media_type}");
        }
        assert_eq!(essence(" text/HTML\n[evil] ; x"), "text/htmlevil");
    }

    #[test]
    fn without_a_media_type_the_bytes_decide() {
        let sniff = |bytes: &[u8]| Kind::of(None).or_sniffed(bytes);
        assert_eq!(sniff(b"  <!DOCTYPE html><p>x"), Kind::Html);
        assert_eq!(sniff(b"plain"), Kind::Text);
        assert_eq!(sniff(b"PK\x03\x04\0\0"), Kind::Binary);
        assert_eq!(sniff(b"\xff\xd8\xff"), Kind::Binary);
        let mut cut = vec![b'x'; SNIFFED_BYTES - 1];
        cut.extend("é".as_bytes());
        assert_eq!(sniff(&cut), Kind::Text);
    }

    #[test]
    fn charsets_are_found_wherever_they_are_said() {
        let latin = b"caf\xe9";
        for (bytes, media_type, text) in [
            (&latin[..], Some("text/html; charset=ISO-8859-1"), "café"),
            (latin, Some("text/html"), "café"),
            (latin, None, "café"),
            ("café".as_bytes(), Some("text/html"), "café"),
            (b"\xef\xbb\xbfx", Some("text/html; charset=latin1"), "x"),
            (b"\xff\xfex\0", Some("text/html"), "x"),
            (b"\x82\xa0", Some("text/html; charset=\"Shift_JIS\""), "あ"),
            (b"caf\xe9", Some("text/html; charset=nonsense"), "café"),
        ] {
            assert_eq!(decode(bytes, media_type, Kind::Html), text, "{media_type:?}");
        }
        let page = b"<html><meta http-equiv='Content-Type' content='text/html; charset=koi8-r'>\xc1";
        assert!(decode(page, Some("text/html"), Kind::Html).ends_with('а'));
        // Wrong words about a charset garble the text, but nothing breaks.
        assert_eq!(decode("é".as_bytes(), Some("text/html; charset=ascii"), Kind::Html), "Ã©");
    }
}
