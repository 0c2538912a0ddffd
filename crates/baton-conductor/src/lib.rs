//! The conductor: the deterministic program that owns runs. Never a model.
//!
//! May use every crate below it. So far it finds definitions and the project's commands; what they mean is decided in
//! `baton-workflow`.

mod library;
mod settings;

pub use library::{Library, LibraryError, Origin, Shelved};
pub use settings::ProjectSettings;
