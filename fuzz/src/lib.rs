//! Fuzz targets: parsers of foreign bytes are fed with mutated samples, and must keep their promises.
//!
//! A target is a function of bytes that panics when a promise is broken. The same targets serve the
//! tests (a fixed number of cases) and the binary of this crate (as many as one likes).

mod driver;
mod mutate;
mod targets;

pub use driver::{Found, minimise, run};
pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
