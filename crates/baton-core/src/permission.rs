//! Permission modes, and what a tool does to the world.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Looks only.
    Read,
    /// Reads from the network. What is asked for leaves the machine.
    Network,
    /// Changes files.
    Write,
    /// Runs programs.
    Execute,
}

impl Access {
    /// Everything a tool can do to the world, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Read, Self::Network, Self::Write, Self::Execute];

    /// Whether the world may be another one afterwards.
    pub fn changes(self) -> bool {
        match self {
            Self::Read | Self::Network => false,
            Self::Write | Self::Execute => true,
        }
    }
}

/// How much an agent may do without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// What writes, executes or reaches the network is asked for; where nobody is there, refused.
    Ask,
    /// Edits of files in the workspace go unasked.
    AcceptEdits,
    /// Read-only, and what reaches the network is asked for.
    Plan,
    /// No questions for what stays inside the workspace, or reads the public web.
    Auto,
    /// Nothing that writes, executes or reaches the network.
    Deny,
    /// Everything.
    Yolo,
}

impl PermissionMode {
    /// Every mode, in the order of the documentation.
    pub const ALL: [Self; 6] = [Self::Ask, Self::AcceptEdits, Self::Plan, Self::Auto, Self::Deny, Self::Yolo];

    /// Whether an agent may do more in this mode than in the other.
    pub fn is_wider_than(self, other: Self) -> bool {
        let order = [Self::Deny, Self::Plan, Self::Ask, Self::AcceptEdits, Self::Auto, Self::Yolo];
        let rank = |mode| order.iter().position(|one| *one == mode);
        rank(self) > rank(other)
    }

    /// The one of the two in which an agent may do less.
    #[must_use]
    pub fn narrower(self, other: Self) -> Self {
        if self.is_wider_than(other) { other } else { self }
    }

    /// The name used on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Plan => "plan",
            Self::Auto => "auto",
            Self::Deny => "deny",
            Self::Yolo => "yolo",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    /// Takes Baton's names and those of other agents.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "ask" | "default" => Self::Ask,
            "accept-edits" | "acceptEdits" => Self::AcceptEdits,
            "plan" => Self::Plan,
            "auto" => Self::Auto,
            "deny" | "dontAsk" => Self::Deny,
            "yolo" | "bypassPermissions" => Self::Yolo,
            _ => {
                let names: Vec<_> = Self::ALL.iter().map(|mode| mode.name()).collect();
                return Err(format!("not a permission mode: one of {}", names.join(", ")));
            }
        })
    }
}
