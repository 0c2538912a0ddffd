//! Landlock: which directories can be written, and at its own level which can be read.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::basis::Basis;
use super::policy::{Network, Policy};

/// The oldest form that also keeps signals and abstract sockets in. Without the first, a command could end Baton before
/// Baton has put back what the command has changed.
const NEEDED: ABI = ABI::V6;

/// Devices that programs expect.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

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
pub(super) fn ruleset_of(policy: &Policy) -> io::Result<(OwnedFd, Basis)> {
    let mut rules = ruleset(CompatLevel::HardRequirement, NEEDED)?;
    let mut basis = Basis::of(policy);
    let root = Some(Path::new("/")).filter(|root| !basis.is_hole(root));
    let tops = root.into_iter().chain(policy.readable.iter().map(PathBuf::as_path));
    let readable = tops.map(|top| (top, AccessFs::from_read(NEEDED)));
    let writable = policy.writable.iter().chain([&policy.temp]).map(|top| (top.as_path(), everything()));
    for (top, access) in readable.chain(writable) {
        for path in basis.around(top) {
            rules = grant(rules, &path, access)?;
        }
    }
    for name in DEVICES {
        let access = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = grant(rules, basis.place(Path::new("/dev").join(name)), access)?;
    }
    if policy.network == Network::Host {
        // The address of the name server is often a link to there.
        let resolver = Path::new("/etc/resolv.conf").canonicalize().unwrap_or_default();
        rules = grant(rules, basis.place(resolver), BitFlags::from(AccessFs::ReadFile))?;
    }
    // With a hard requirement there is one, or there was an error.
    let ruleset = Option::from(rules).ok_or_else(|| io::Error::other("the kernel has no Landlock"))?;
    Ok((ruleset, basis))
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
