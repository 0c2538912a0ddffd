//! Giving up rights for good.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Drops all capabilities, now and for programs that are started, set-user-id ones included.
pub(super) fn drop_all() -> io::Result<()> {
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // Whoever may not do this has none to drop, and the line above keeps it so.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// A dump of memory would be written by the kernel, wherever its settings say.
pub(super) fn no_core_dumps() {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap_or_default();
}
