//! Starlark's compiler and interpreter recurse: they run where there is stack enough for what the limits let through.

use std::thread;

/// Reserved, not used: pages count when they are touched.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Runs `work` on a thread with a large stack and waits for it. None if there is no such thread to be had.
pub(crate) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let handle = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).ok()?;
        handle.join().ok()
    })
}
