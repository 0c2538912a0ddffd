//! Checks of a definition before any run: names that fit, then proofs that a run ends and never gets stuck.

mod bound;
mod freeze;
mod names;
mod proof;

use crate::definition::Definition;
use crate::problem::Problem;

pub use bound::{Bound, bound};

/// Everything that is wrong with a definition. Proofs speak only of definitions whose names fit.
pub(crate) fn problems(definition: &Definition) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        definition.workflows().flat_map(|workflow| names::problems(workflow, definition)).collect();
    if problems.is_empty() {
        problems.extend(bound::endless_calls(definition));
    }
    if problems.is_empty() {
        problems.extend(definition.workflows().flat_map(proof::problems));
    }
    problems.sort();
    problems.dedup();
    problems
}
