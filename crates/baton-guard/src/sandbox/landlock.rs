//! Landlock: which directories can be written, and at its own level which can be read.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::policy::{Network, Policy};

/// The oldest form that also keeps signals and abstract sockets in. Without the first, a command could end Baton before
/// Baton has put back what the command has changed.
const NEEDED: ABI = ABI::V6;

/// Devices that programs expect.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What nobody may look into at this level, since there is no private one.
const SHARED: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev"];

/// A second wall inside namespaces: whatever the mounts say, writing is limited to these places. Does what the kernel can.
pub(super) fn confine_writes(policy: &Policy) -> io::Result<()> {
    let places = ["/tmp", "/var/tmp", "/dev"].map(PathBuf::from);
    let writable = policy.writable.iter().chain([&policy.temp]).chain(&places);
    let mut rules = ruleset(CompatLevel::BestEffort, NEEDED)?;
    rules = grant(rules, Path::new("/"), AccessFs::from_read(NEEDED))?;
    for dir in writable {
        rules = grant(rules, dir, everything())?;
    }
    rules.restrict_self().map_err(io::Error::other)?;
    Ok(())
}

/// The only wall for files: what can be read, what can be written. All or an error.
pub(super) fn ruleset_of(policy: &Policy) -> io::Result<OwnedFd> {
    let mut rules = ruleset(CompatLevel::HardRequirement, NEEDED)?;
    let shared = SHARED.iter().map(PathBuf::from);
    // Most are not there, which one call tells, and resolving them takes many.
    let hidden = policy.hidden.iter().filter(|path| fs::metadata(path).is_ok());
    let holes: Vec<PathBuf> = hidden.filter_map(|path| path.canonicalize().ok()).chain(shared).collect();
    for path in around(Path::new("/"), &holes) {
        rules = grant(rules, &path, AccessFs::from_read(NEEDED))?;
    }
    for readable in &policy.readable {
        for path in around(readable, &holes_below(&holes, readable)) {
            rules = grant(rules, &path, AccessFs::from_read(NEEDED))?;
        }
    }
    for dir in policy.writable.iter().chain([&policy.temp]) {
        for path in around(dir, &holes_below(&holes, dir)) {
            rules = grant(rules, &path, everything())?;
        }
    }
    for name in DEVICES {
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = grant(rules, &Path::new("/dev").join(name), access)?;
    }
    if policy.network == Network::Host {
        // The address of the name server is often a link to there.
        let resolver = Path::new("/etc/resolv.conf").canonicalize().unwrap_or_default();
        rules = grant(rules, &resolver, BitFlags::from(AccessFs::ReadFile))?;
    }
    // With a hard requirement there is one, or there was an error.
    Option::from(rules).ok_or_else(|| io::Error::other("the kernel has no Landlock"))
}

fn everything() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEEDED) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

fn ruleset(compatibility: CompatLevel, abi: ABI) -> io::Result<RulesetCreated> {
    Ruleset::default()
        .set_compatibility(compatibility)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)
}

/// A path that is not there, or may not be looked at, needs no grant.
fn grant(rules: RulesetCreated, path: &Path, access: impl Into<BitFlags<AccessFs>>) -> io::Result<RulesetCreated> {
    let Ok(handle) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access.into() } else { access.into() & AccessFs::from_file(NEEDED) };
    rules.add_rule(PathBeneath::new(handle, access)).map_err(io::Error::other)
}

fn holes_below(holes: &[PathBuf], dir: &Path) -> Vec<PathBuf> {
    holes.iter().filter(|hole| hole.starts_with(dir) && *hole != dir).cloned().collect()
}

/// The fewest paths that together are everything below `top` but the holes.
fn around(top: &Path, holes: &[PathBuf]) -> Vec<PathBuf> {
    if holes.iter().any(|hole| hole == top) {
        return Vec::new();
    }
    if !holes.iter().any(|hole| hole.starts_with(top)) {
        return vec![top.to_owned()];
    }
    let entries = fs::read_dir(top).into_iter().flatten().flatten();
    // A link is judged by where it leads.
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    real.flat_map(|entry| around(&entry.path(), holes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_left_out_and_siblings_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in ["a/b", "a/c/d", "a/c/e", "f"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        let mut found = around(top, &[top.join("a/c/d"), top.join("f")]);
        found.sort();
        assert_eq!(found, ["a/b", "a/c/e"].map(|name| top.join(name)));
        assert_eq!(around(top, &[PathBuf::from("/elsewhere")]), [top]);
        assert!(around(top, &[top.to_owned()]).is_empty());
    }
}
