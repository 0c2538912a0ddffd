//! Which files a role may write: globs, their union, and paths that stay inside the working tree.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

/// A path inside the working tree: relative, with `/`, without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelPath(String);

/// A path that leads out of the working tree, or nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a path inside the project: {why}")]
pub struct BadPath {
    text: String,
    why: &'static str,
}

impl RelPath {
    /// The path, if it stays inside.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        const LENGTH_MAX: usize = 4096;
        let bad = |why| Err(BadPath { text: text.chars().take(200).collect(), why });
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if text.len() > LENGTH_MAX {
            bad("it is longer than 4096 bytes")
        } else if text.starts_with('/') {
            bad("give it relative to the project's root")
        } else if text.contains(['\0', '\n', '\r']) {
            bad("it contains a line break or a zero byte")
        } else if parts.contains(&"..") {
            bad("`..` is not allowed")
        } else if parts.is_empty() {
            bad("it is empty")
        } else {
            Ok(Self(parts.join("/")))
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RelPath {
    type Error = BadPath;

    fn try_from(text: String) -> Result<Self, BadPath> {
        Self::parse(&text)
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pattern of paths: `*` stays within one directory, `**` does not.
#[derive(Debug, Clone)]
pub struct Glob {
    text: String,
    matcher: GlobMatcher,
}

impl Glob {
    /// The pattern, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let why = if text.trim().is_empty() {
            "it is empty".to_owned()
        } else if text.starts_with('/') {
            "give it relative to the project's root, without the first `/`".to_owned()
        } else if text.split('/').any(|part| part == "..") {
            "`..` leads out of the project".to_owned()
        } else {
            match GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build() {
                Ok(glob) => return Ok(Self { text: text.to_owned(), matcher: glob.compile_matcher() }),
                Err(error) => error.kind().to_string(),
            }
        };
        Err(format!("bad glob `{text}`: {why}"))
    }

    /// Whether the path is meant.
    pub fn matches(&self, path: &RelPath) -> bool {
        self.matcher.is_match(path.as_str())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A path that the pattern means, for questions about all of them.
    pub(crate) fn example(&self) -> Option<RelPath> {
        let mut text = String::new();
        let mut chars = self.text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '*' if chars.peek() == Some(&'*') => {
                    chars.next();
                    text.push_str("any");
                }
                '*' => text.push_str("any"),
                '?' => text.push('a'),
                '[' => text.push(chars.by_ref().take_while(|inner| *inner != ']').last()?),
                '{' => {
                    let inner: String = chars.by_ref().take_while(|inner| *inner != '}').collect();
                    text.push_str(inner.split(',').next()?);
                }
                '\\' => text.extend(chars.next()),
                other => text.push(other),
            }
        }
        RelPath::parse(&text).ok().filter(|path| self.matches(path))
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

impl Serialize for Glob {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The union of globs: what one role may write.
#[derive(Debug, Clone)]
pub struct Scope {
    globs: Vec<Glob>,
    set: GlobSet,
}

impl Scope {
    /// Whatever one of the globs means.
    pub fn of(globs: &[Glob]) -> Self {
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            builder.add(glob.matcher.glob().clone());
        }
        // Every glob was compiled before; a set that is too large as a whole allows nothing.
        Self { globs: globs.to_vec(), set: builder.build().unwrap_or_default() }
    }

    /// Whether the role may write this file.
    pub fn allows(&self, path: &RelPath) -> bool {
        self.set.is_match(path.as_str())
    }

    /// The globs that make up the scope.
    pub fn globs(&self) -> &[Glob] {
        &self.globs
    }
}
