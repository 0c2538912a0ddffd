//! Which mounts make a policy true: decided here, carried out in `mounts`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::policy::Policy;

/// What becomes of a path inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Seems to be empty.
    Hide,
    /// As outside, and can be changed.
    Write,
    /// As outside, and cannot be changed.
    ReadOnly,
}

/// The mounts of a policy, parents before what lies in them. `extra` are more paths to hide.
///
/// Every directory between a writable one and a protected path gets a mount of its own: the kernel does not rename a
/// mount, so nobody can move such a directory away and put another in its place.
pub(super) fn mounts(policy: &Policy, extra: impl IntoIterator<Item = PathBuf>) -> Vec<(PathBuf, Mode)> {
    let mut modes: BTreeMap<PathBuf, Mode> = BTreeMap::new();
    let mut set = |path: &Path, mode: Mode| {
        let known = modes.entry(path.to_owned()).or_insert(mode);
        *known = mode.max(*known);
    };
    for path in policy.hidden.iter().cloned().chain(extra) {
        set(&path, Mode::Hide);
    }
    for path in &policy.readable {
        set(path, Mode::ReadOnly);
    }
    for path in policy.writable.iter().chain([&policy.temp]) {
        set(path, Mode::Write);
    }
    for protected in &policy.protected {
        set(&protected.path, Mode::ReadOnly);
        for dir in &policy.writable {
            let between =
                protected.path.ancestors().skip(1).take_while(|above| above.starts_with(dir) && *above != dir);
            between.for_each(|above| set(above, Mode::Write));
        }
    }
    let mut mounts: Vec<_> = modes.into_iter().collect();
    mounts.sort_by_key(|(path, _)| path.components().count());
    mounts
}

/// The mount points in `/proc/self/mountinfo`, with their options.
pub(super) fn mount_points(mountinfo: &str) -> Vec<(PathBuf, String)> {
    let point = |line: &str| {
        let mut fields = line.split(' ').skip(4);
        Some((unescape(fields.next()?), fields.next()?.to_owned()))
    };
    let mut points: Vec<(PathBuf, String)> = Vec::new();
    for (path, options) in mountinfo.lines().filter_map(point) {
        // Only the last of those at one place can be reached.
        points.retain(|(covered, _)| *covered != path);
        points.push((path, options));
    }
    points
}

/// The kernel writes white space in paths as `\` and three octal digits.
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let value = octal.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// The sockets in the file system that `/proc/net/unix` tells of: a service behind one would act for a command, and the
/// kernel does not count connecting as writing.
pub(super) fn sockets(table: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.find(" /").map(|at| PathBuf::from(&line[at + 1..]));
    let mut sockets: Vec<_> = table.lines().filter_map(path).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

#[cfg(test)]
mod tests {
    use super::super::policy::{Network, Protected, StandIn};
    use super::*;

    #[test]
    fn parents_come_first_and_are_pinned() {
        let policy = Policy {
            writable: vec!["/w".into(), "/h/state/clone".into()],
            protected: vec![Protected::new("/w/.git/modules/x/hooks", StandIn::Dir)],
            hidden: vec!["/h/state".into(), "/w".into()],
            readable: vec!["/h/state/outputs".into()],
            temp: "/t".into(),
            network: Network::Loopback,
        };
        let mounts = mounts(&policy, ["/s.sock".into()]);
        let shown: Vec<_> = mounts.iter().map(|(path, mode)| (path.to_str().unwrap(), *mode)).collect();
        assert_eq!(
            shown,
            [
                ("/s.sock", Mode::Hide),
                ("/t", Mode::Write),
                ("/w", Mode::Write),
                ("/h/state", Mode::Hide),
                ("/w/.git", Mode::Write),
                ("/h/state/clone", Mode::Write),
                ("/h/state/outputs", Mode::ReadOnly),
                ("/w/.git/modules", Mode::Write),
                ("/w/.git/modules/x", Mode::Write),
                ("/w/.git/modules/x/hooks", Mode::ReadOnly),
            ]
        );
    }

    #[test]
    fn what_is_covered_is_not_a_mount_point() {
        let mountinfo =
            "1 0 0:1 / /proc rw - proc p rw\n2 1 0:2 / /a rw - tmpfs t rw\n3 1 0:3 / /proc rw,noexec - proc p rw\n";
        assert_eq!(mount_points(mountinfo), [("/a".into(), "rw".into()), ("/proc".into(), "rw,noexec".into())]);
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let mountinfo = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n30 22 0:5 / /a\\040b ro,nosuid - tmpfs t rw\n";
        assert_eq!(mount_points(mountinfo), [("/".into(), "rw,relatime".into()), ("/a b".into(), "ro,nosuid".into())]);
        let unix = "Num RefCount Protocol Flags Type St Inode Path\n\
            000: 00000002 00000000 00010000 0001 01 8 /run/a b.sock\n000: 00000002 00000000 00010000 0001 01 9 @x\n\
            000: 00000003 00000000 00000000 0001 03 9\n";
        assert_eq!(sockets(unix), [PathBuf::from("/run/a b.sock")]);
    }
}
