//! The same targets under libFuzzer, which keeps the cases that reach new code. See CONTRIBUTING.md for how to run it.

#![no_main]

use std::sync::LazyLock;

use baton_fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("BATON_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).expect("BATON_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.check)(bytes));
