//! Identifiers: one type for each kind of thing, so that a session is never taken for an item.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// Where fresh ids come from. They sort by time of creation within one source.
pub trait IdSource: Send + Sync {
    /// An id that was never handed out before.
    fn fresh(&self) -> Ulid;
}

/// Ids 1, 2, 3...; for tests and replays.
#[derive(Debug, Default)]
pub struct SequentialIds(AtomicU64);

impl IdSource for SequentialIds {
    fn fresh(&self) -> Ulid {
        Ulid(u128::from(self.0.fetch_add(1, Ordering::Relaxed) + 1))
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes an id that was made elsewhere (a file, a provider, a person).
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

macro_rules! fresh_id {
    ($prefix:literal, $(#[$doc:meta])* $name:ident) => {
        text_id!($(#[$doc])* $name);

        impl $name {
            /// A new id from the source, marked with its kind.
            pub fn fresh(ids: &dyn IdSource) -> Self {
                Self(format!(concat!($prefix, "_{}"), ids.fresh()))
            }
        }
    };
}

fresh_id!("ses", /// One agent's durable conversation.
    SessionId);
fresh_id!("evt", /// One event of the stream.
    EventId);
fresh_id!("itm", /// Groups the start, the deltas and the end of one thing.
    ItemId);
fresh_id!("apr", /// One question to a person about a tool call.
    ApprovalId);
text_id!(
    /// One tool call. The provider chose it, or Baton did where the wire format has none.
    CallId
);
text_id!(
    /// The workflow role an agent plays; `main` outside runs.
    AgentRole
);

impl CallId {
    /// An id for a call whose wire format carries none.
    pub fn fresh(ids: &dyn IdSource) -> Self {
        Self(format!("call_{}", ids.fresh()))
    }
}

impl Default for AgentRole {
    fn default() -> Self {
        Self::new("main")
    }
}
