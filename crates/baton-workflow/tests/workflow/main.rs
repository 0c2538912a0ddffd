//! Scenarios of the whole crate: definitions as text in, problems, graphs, effects and states out.

mod files;
mod gates;
mod mistakes;
mod properties;
mod runs;
mod shipped;
mod support;
