//! What the kernel was found to be able to do, kept until something changes that it depends on.
//!
//! A memory that is wrong does no harm: a sandbox that cannot be made means that the command is not run.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Level;

/// What the answer depends on besides the system that was started: settings of the kernel, and where this process lives.
const SETTINGS: [&str; 3] = [
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
];

#[derive(Serialize, Deserialize)]
struct Memory {
    key: String,
    level: Level,
}

/// Everything that the answer depends on; `None` if it cannot be told.
pub(super) fn key(levels: &[Level]) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let own = fs::metadata("/proc/self/exe").ok()?;
    let home = fs::read_link("/proc/self/ns/user").ok()?;
    let settings = SETTINGS.map(|file| fs::read_to_string(file).unwrap_or_default().trim().to_owned());
    let program = (own.dev(), own.ino(), own.size(), own.mtime(), own.mtime_nsec());
    let user = rustix::process::geteuid().as_raw();
    Some(format!("{} {levels:?} {user} {} {program:?} {settings:?}", boot.trim(), home.display()))
}

/// What was found when everything was as it is now.
pub(super) fn recall(file: &Path, key: &str) -> Option<Level> {
    let memory: Memory = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (memory.key == key).then_some(memory.level)
}

/// Keeps what was found.
pub(super) fn keep(file: &Path, key: String, level: Level) -> io::Result<()> {
    let dir = file.parent().unwrap_or(file);
    fs::create_dir_all(dir)?;
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(&serde_json::to_vec(&Memory { key, level })?)?;
    new.persist(file)?;
    Ok(())
}
