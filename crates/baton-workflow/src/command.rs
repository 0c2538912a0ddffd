//! Commands as lists of arguments: text is split without a shell, unless a shell is needed and the text is trusted.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A program and its arguments; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Argv(Vec<String>);

/// What cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    /// There is no program.
    #[error("a command needs a program")]
    Empty,
    /// A quote is not closed.
    #[error("cannot split `{0}` into arguments: a quote is not closed")]
    Quotes(String),
    /// No program can be given such an argument.
    #[error("an argument contains a zero byte")]
    ZeroByte,
}

/// Characters that mean something to a shell and nothing to a program.
const SHELL: [char; 16] = ['|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '[', '~', '{', '#', '\n'];

impl Argv {
    /// The arguments as they are.
    pub fn new(words: Vec<String>) -> Result<Self, BadCommand> {
        if words.iter().any(|word| word.contains('\0')) {
            Err(BadCommand::ZeroByte)
        } else if words.first().is_none_or(String::is_empty) {
            Err(BadCommand::Empty)
        } else {
            Ok(Self(words))
        }
    }

    /// Text that came from somewhere: split into words as a shell would, but nothing in it is special.
    pub fn split(text: &str) -> Result<Self, BadCommand> {
        let words = shlex::split(text).ok_or_else(|| BadCommand::Quotes(text.chars().take(200).collect()))?;
        Self::new(words)
    }

    /// Text that the definition or the settings hold: it may use the shell.
    pub fn trusted(text: &str) -> Result<Self, BadCommand> {
        if text.contains(SHELL) || text.contains('=') {
            Self::new(vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()])
        } else {
            Self::split(text)
        }
    }

    /// Trusted if it is one of these texts, else split.
    pub(crate) fn from_text(text: &str, trusted: &BTreeSet<String>) -> Result<Self, BadCommand> {
        if trusted.contains(text) { Self::trusted(text) } else { Self::split(text) }
    }

    /// Program and arguments.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for Argv {
    type Error = BadCommand;

    fn try_from(words: Vec<String>) -> Result<Self, BadCommand> {
        Self::new(words)
    }
}

impl From<Argv> for Vec<String> {
    fn from(argv: Argv) -> Self {
        argv.0
    }
}

impl fmt::Display for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [sh, c, text] if sh == "sh" && c == "-c" => f.write_str(text),
            words => match shlex::try_join(words.iter().map(String::as_str)) {
                Ok(text) => f.write_str(&text),
                Err(_) => f.write_str(&words.join(" ")),
            },
        }
    }
}
