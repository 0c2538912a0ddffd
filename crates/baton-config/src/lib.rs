//! Settings: JSONC layers, their merge, which layer set what, and edits that keep comments; and the places of Baton's files.
//!
//! May use `baton-core`. It knows no setting by name: each crate owns the struct of its own
//! [`Section`]; this crate reads it from the layers and says where a wrong value stands.

mod config;
mod edit;
mod layer;
mod places;
mod project;
mod small_file;

pub use config::{Config, ConfigError, Reader, Section, Warning};
pub use edit::{EditError, Edited, append};
pub use layer::{Layer, LayerError, LayerKind};
pub use places::{Places, PlacesError};
pub use project::{Project, RootKind};
