//! The driver: runs cases, catches what breaks, and makes it small.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::mutate::Mutator;
use crate::targets::Target;

/// A case that broke a promise.
#[derive(Debug)]
pub struct Found {
    /// The case.
    pub case: Vec<u8>,
    /// What the panic said.
    pub message: String,
}

/// Runs the samples as they are, then so many cases made from them. `before` hears of each before it runs.
pub fn run(target: &Target, cases: u64, seed: u64, mut before: impl FnMut(u64, &[u8])) -> Result<(), Found> {
    let samples = target.seeds();
    for sample in &samples {
        before(0, sample);
        check(target, sample)?;
    }
    let mut mutator = Mutator::new(samples, target.words, seed);
    let mut case = Vec::new();
    for number in 1..=cases {
        mutator.next(&mut case);
        before(number, &case);
        check(target, &case)?;
    }
    Ok(())
}

fn check(target: &Target, case: &[u8]) -> Result<(), Found> {
    catch_unwind(AssertUnwindSafe(|| (target.check)(case))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let message = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Found { case: case.to_vec(), message: message.unwrap_or_default() }
    })
}

/// The smallest case that still breaks a promise, as far as leaving out pieces leads.
pub fn minimise(target: &Target, found: Found) -> Found {
    let mut smallest = found;
    let mut size = smallest.case.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < smallest.case.len() {
            let mut shorter = smallest.case.clone();
            shorter.drain(start..(start + size).min(shorter.len()));
            match check(target, &shorter) {
                Err(found) => smallest = found,
                Ok(()) => start += size,
            }
        }
        size /= 2;
    }
    smallest
}
