//! Scenarios of the whole crate: definitions as text in, problems, graphs, effects and states out.

mod shipped;
mod support;
