//! Scenarios of the whole crate: definitions as text in, problems, graphs, effects and states out.

mod bounds;
mod files;
mod gates;
mod mistakes;
mod properties;
mod runs;
mod runs_inside;
mod shipped;
mod support;
mod waits;
