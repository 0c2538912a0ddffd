//! Names and ids: one type for each kind of thing, checked where it is made.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name that is accepted.
pub(crate) const NAME_LENGTH_MAX: usize = 64;

/// A text that is no name, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a {kind} name: use letters, digits, `_` and `-`, starting with a letter, at most 64 characters"
)]
pub struct BadName {
    text: String,
    kind: &'static str,
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_LENGTH_MAX
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '-')
}

macro_rules! name {
    ($kind:literal, $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name, if it is one.
            pub fn parse(text: &str) -> Result<Self, BadName> {
                if is_name(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadName { text: text.chars().take(NAME_LENGTH_MAX).collect(), kind: $kind })
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!("workflow", /// A workflow.
    WorkflowName);
name!("role", /// A role in a workflow.
    RoleName);
name!("state", /// A state of a workflow.
    StateName);
name!("parameter", /// A parameter of a workflow.
    ParamName);
name!("field", /// A field of evidence.
    FieldName);
name!("agent", /// An agent file, without its ending.
    AgentName);
name!("branch", /// One branch of `parallel`.
    BranchName);

/// How a state was left.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Outcome(Arc<str>);

impl Outcome {
    /// The gate was passed, the action done, the join met.
    pub const PASS: &'static str = "pass";
    /// The attempt failed.
    pub const FAIL: &'static str = "fail";
    /// No attempt, token or dollar is left, or the time for an answer is over.
    pub const EXHAUSTED: &'static str = "exhausted";

    /// The outcome of this name.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The outcome as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes an id that was made elsewhere.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One instance of a workflow.
    RunId
);
id!(
    /// One effect of a run: `RUN/STATE/COUNT`, so that a replay gives the same.
    EffectId
);
id!(
    /// One conversation that plays roles of a run; roles can swap it.
    Player
);
id!(
    /// The content of the whole working tree, as git names it.
    TreeHash
);
id!(
    /// The content of one file.
    FileHash
);
id!(
    /// Everything that a run pins: definition, what it loads and calls, the project's commands.
    DefinitionHash
);

impl EffectId {
    /// The id of the effect with this number.
    pub(crate) fn numbered(run: &RunId, state: &StateName, count: u64) -> Self {
        Self(format!("{run}/{state}/{count}"))
    }

    /// The state in which the effect was made.
    pub fn state(&self) -> Option<StateName> {
        self.0.rsplit('/').nth(1).and_then(|name| StateName::parse(name).ok())
    }
}

impl RunId {
    /// The run that an effect starts.
    pub fn child(effect: &EffectId) -> Self {
        Self(effect.0.replace('/', "."))
    }
}

/// A place in a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Pos {
    /// The file as the caller named it.
    pub file: Arc<str>,
    /// Its line, from 1.
    pub line: u32,
}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
