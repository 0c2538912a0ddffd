//! Models for Baton: wire formats, providers, catalogue, retry and limits, budgets, scripted model, cassettes.
//!
//! May use `baton-core`, `baton-config`, `baton-net` (and `baton-guard`). It must never know tools, sessions or
//! surfaces. Provider wire types never leave this crate; callers see [`Request`], [`Delta`] and
//! [`Answer`] only. Every call passes the [`Gate`].

mod budget;
mod cassette;
mod catalogue;
mod endpoint;
mod error;
mod gate;
mod http;
mod limiter;
mod model_ref;
mod models;
mod probe;
mod provider;
mod rehearsal;
mod request;
mod retry;
pub mod script;
mod transport;
pub mod wire;

pub use budget::{Budget, Caps, estimate_tokens};
pub use cassette::{Cassette, CassetteError, Marks, Recording};
pub use catalogue::{ALIASES, AliasSettings, Catalogue, ModelFacts, ModelInfo, ModelSettings};
pub use endpoint::{Auth, Endpoint, Env, PRESETS, Preset, ProviderSetting, ProviderSettings, Secret};
pub use error::{LlmError, LlmErrorKind};
pub use gate::{CallEvent, Gate, Model};
pub use http::{NetworkSettings, ROLE_HEADER};
pub use model_ref::ModelRef;
pub use models::{LlmSettings, Models, Opened, Tape, WebSearchSetting, read_script};
pub use probe::{KeyVerdict, probe_key};
pub use provider::Provider;
pub use rehearsal::RehearsalProvider;
pub use request::{Abilities, Answer, Delta, Effort, Past, Request, Search, Source, message_bytes};
pub use retry::{Again, RetryPolicy, Schedule};
