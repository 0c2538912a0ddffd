//! Settings: JSONC layers, their merge, which layer set what, and edits that keep comments; and the places of Baton's files.
//!
//! May use `baton-core`. It knows no setting by name: each crate owns the struct of its own
//! [`Section`]; this crate reads it from the layers and says where a wrong value stands. What is done with all sections
//! (explaining, checking, a schema) works on a list of [`SectionInfo`].

mod config;
mod edit;
mod explain;
mod fill;
mod held;
mod key;
mod layer;
mod lock;
mod places;
mod project;
mod schema;
mod section;
mod small_file;
mod sources;
mod values;
mod warning;

pub use config::{Config, Reader};
pub use edit::{EditError, Edited, append, set, unset, value_at};
pub use explain::{Setting, Source, explain, problems};
pub use fill::Filling;
pub use held::Held;
pub use key::{KeyError, parse_key, show_key};
pub use layer::{Layer, LayerError, LayerKind};
pub use lock::{InUse, Lock};
pub use places::{Places, PlacesError};
pub use project::{Project, RootKind};
pub use schema::{known_keys, nearest_key, schema};
pub use section::{Allowed, Section, SectionInfo, Tighten};
pub use sources::{Change, Sources, Watch};
pub use warning::{ConfigError, Problem, Warning};
