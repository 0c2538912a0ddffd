//! Checks of a definition before any run: names that fit, then proofs that a run ends and never gets stuck.

mod bound;
mod freeze;
mod names;
mod proof;

use crate::definition::Definition;
use crate::problem::Problem;

pub use bound::{Bound, bound};

/// Everything that is wrong with a definition. Proofs speak only of definitions whose names fit, and what depends on how a
/// name is meant is only asked if all of it could be read.
pub(crate) fn problems(definition: &Definition, is_whole: bool) -> Vec<Problem> {
    let check = |workflow| names::problems(workflow, definition, is_whole);
    let mut problems: Vec<Problem> = definition.workflows().flat_map(check).collect();
    if !is_whole {
        return problems;
    }
    if problems.is_empty() {
        problems.extend(bound::endless_calls(definition));
    }
    if problems.is_empty() {
        problems.extend(definition.workflows().flat_map(proof::problems));
    }
    problems
}
