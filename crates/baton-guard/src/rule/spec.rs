//! What a rule speaks of: words of a command, a path, a domain.

use std::path::{Path, PathBuf};

use crate::path::{Pattern, Scope, normalise, wildcard};

/// Stands for any number of words.
const MANY: &str = "**";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spec {
    /// Everything.
    Any,
    /// The words of a command, where `**` stands for any number of them.
    Words(Vec<String>),
    /// Any word of a command, wherever it stands.
    Anywhere(String),
    /// Paths, from some place on.
    Path { base: Base, pattern: Pattern, is_exception: bool },
    /// A domain and what lies below it.
    Domain(String),
}

/// Where a path pattern starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Root,
    Home,
    Workspace,
}

impl Spec {
    pub(super) fn command(text: &str) -> Result<Self, String> {
        let (text, is_prefix) = match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
            Some(text) => (text, true),
            None => (text, false),
        };
        let words = words(text);
        if words.is_empty() {
            return Err("has no words of a command".to_owned());
        }
        if words[0].contains(['*', '?']) && (words.len() > 1 || is_prefix) {
            return Err("has a wildcard in place of the program".to_owned());
        }
        if text.contains(['|', ';', '&', '>', '<', '`', '\n']) {
            return Err("joins several commands, but each is judged by itself".to_owned());
        }
        if words[0].contains(['*', '?']) {
            return Ok(Self::Anywhere(words[0].clone()));
        }
        let rest = is_prefix.then(|| MANY.to_owned());
        Ok(Self::Words(words.into_iter().chain(rest).collect()))
    }

    pub(super) fn path(text: &str) -> Result<Self, String> {
        let (text, is_exception) = match text.strip_prefix('!') {
            Some(text) => (text, true),
            None => (text, false),
        };
        if text.is_empty() {
            return Err("has no path".to_owned());
        }
        if text.split('/').any(|part| part == "..") {
            return Err("leads upward with `..`".to_owned());
        }
        let (base, pattern) = if let Some(rest) = text.strip_prefix("//") {
            (Base::Root, rest.to_owned())
        } else if let Some(rest) = text.strip_prefix("~/") {
            (Base::Home, rest.to_owned())
        } else if text == "~" {
            (Base::Home, "**".to_owned())
        } else if text.starts_with("./") || text.trim_end_matches('/').contains('/') {
            // As in .gitignore, a slash ties it to the workspace, and a leading one does, too.
            (Base::Workspace, text.trim_start_matches("./").trim_start_matches('/').to_owned())
        } else {
            (Base::Workspace, format!("**/{text}"))
        };
        Ok(Self::Path { base, pattern: Pattern::new(&pattern), is_exception })
    }

    pub(super) fn domain(text: &str) -> Result<Self, String> {
        let domain = text.strip_prefix("domain:").ok_or_else(|| "names no domain".to_owned())?.trim().to_lowercase();
        let domain = domain.strip_prefix("*.").unwrap_or(&domain);
        let is_name = !domain.is_empty() && domain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        if is_name { Ok(Self::Domain(domain.to_owned())) } else { Err("has a domain that is none".to_owned()) }
    }

    /// Whether it leaves open what comes between the words that it names: enough to refuse by, too little to allow by.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Anywhere(_) => true,
            // At the end it is the form `:*`.
            Self::Words(words) => words[..words.len() - 1].iter().any(|word| word == MANY),
            Self::Any | Self::Path { .. } | Self::Domain(_) => false,
        }
    }

    pub(super) fn is_exception(&self) -> bool {
        matches!(self, Self::Path { is_exception: true, .. })
    }

    pub(super) fn matches_words(&self, words: &[String]) -> bool {
        match self {
            Self::Any => true,
            Self::Words(wanted) => follow(wanted, words),
            Self::Anywhere(wanted) => words.iter().any(|word| wildcard(wanted, word)),
            Self::Path { .. } | Self::Domain(_) => false,
        }
    }

    pub(super) fn matches_path(&self, path: &Path, glob: bool, scope: &Scope) -> bool {
        match self {
            Self::Any => true,
            Self::Path { base, pattern, .. } => {
                let base: PathBuf = match base {
                    Base::Root => PathBuf::from("/"),
                    Base::Home => scope.home.clone(),
                    Base::Workspace => scope.root.clone(),
                };
                let path = normalise(path);
                let Ok(inner) = path.strip_prefix(&base) else { return false };
                let text = inner.to_string_lossy();
                let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
                if glob { pattern.may_cover(&parts) } else { pattern.covers(&parts) }
            }
            Self::Words(_) | Self::Anywhere(_) | Self::Domain(_) => false,
        }
    }

    pub(super) fn matches_url(&self, url: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Domain(domain) => host(url).is_some_and(|host| {
                host == *domain || host.strip_suffix(domain.as_str()).is_some_and(|before| before.ends_with('.'))
            }),
            Self::Words(_) | Self::Anywhere(_) | Self::Path { .. } => false,
        }
    }
}

/// The words of a command. Quotes hold one together; where one is not closed, all of them are characters like others.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { text.split_whitespace().map(str::to_owned).collect() } else { words }
}

/// Whether words follow a pattern, in which [`MANY`] stands for any number of them.
fn follow(wanted: &[String], words: &[String]) -> bool {
    let (mut w, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < words.len() {
        match wanted.get(w) {
            Some(many) if many == MANY => {
                retry = Some((w, at));
                w += 1;
            }
            // The program is named as it is.
            Some(one) if *one == words[at] || at > 0 && wildcard(one, &words[at]) => {
                w += 1;
                at += 1;
            }
            _ => {
                let Some((many, from)) = retry else { return false };
                retry = Some((many, from + 1));
                (w, at) = (many + 1, from + 1);
            }
        }
    }
    wanted[w..].iter().all(|word| word == MANY)
}

/// The host of an address, in small letters; none if it has none or could be read in two ways.
pub(crate) fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let known = matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https");
    if !known || authority.contains(['@', '\\', '\0', '%', ' ']) || !authority.is_ascii() {
        return None;
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        None => authority,
        Some(_) => return None,
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}
