//! System calls that no command in a sandbox may make.
//!
//! Everything else is allowed: what a filter of this kind can do is to take away ways into the kernel that builds and
//! tests do not need, and ways around the other walls.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, apply_filter, sock_filter,
};

use super::Level;
use super::policy::Network;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever the arguments are.
const REFUSED: &[c_long] = &[
    // Other views of the file system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // Other namespaces and other processes.
    libc::SYS_setns,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// `open_tree_attr`, which libc does not name yet; the number is the same everywhere.
const OPEN_TREE_ATTR: c_long = 467;

/// Said not to exist, so that programs use what can be judged by its arguments, or do without.
const UNKNOWN: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// New namespaces of every kind.
const NEW_NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

/// Typing into the terminal of the person, and pasting into the console.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541C]; // TIOCSTI, TIOCLINUX

/// Where a mode that may carry these bits is an argument: the call, which argument, and which one has to have `O_CREAT`.
const SET_ID_BITS: [u64; 2] = [0o4000, 0o2000];
const MODES: &[(c_long, u8, Option<u8>)] = &[
    (libc::SYS_fchmod, 1, None),
    (libc::SYS_fchmodat, 2, None),
    (452, 2, None), // fchmodat2
    (libc::SYS_mknodat, 2, None),
    (libc::SYS_openat, 3, Some(2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2, Some(1)),
];

/// Memory, queues and semaphores that processes share by number or name, which only a namespace keeps apart.
const SHARED: [c_long; 4] = [libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open];

/// Attributes of files, which Landlock does not look at.
const ATTRIBUTES: [c_long; 8] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463, // setxattrat
    466, // removexattrat
];

/// Puts the filter on this process and all that it starts. Cannot be undone.
pub(super) fn apply(level: Level, network: Network) -> io::Result<()> {
    put_on(&filter(level, network)?)
}

/// The filter of a level.
pub(super) fn filter(level: Level, network: Network) -> io::Result<BpfProgram> {
    program(level, network).map_err(io::Error::other)
}

/// Puts a filter on this thread and all that it starts. Does not allocate.
pub(super) fn put_on(filter: &BpfProgram) -> io::Result<()> {
    apply_filter(filter).map_err(|error| match error {
        Error::Prctl(error) | Error::Seccomp(error) => error,
        _ => io::Error::from_raw_os_error(libc::EINVAL),
    })
}

/// One program, since the kernel compiles each anew for every command.
fn program(level: Level, network: Network) -> Result<BpfProgram, seccompiler::BackendError> {
    let filter = |rules: Rules, error: i32| -> Result<BpfProgram, _> {
        let action = SeccompAction::Errno(error.cast_unsigned());
        SeccompFilter::new(rules, SeccompAction::Allow, action, std::env::consts::ARCH.try_into()?)?.try_into()
    };
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    let mut parts = vec![filter(refused(level, network)?, libc::EPERM)?, filter(unknown, libc::ENOSYS)?];
    if level == Level::Landlock {
        let attributes = ATTRIBUTES.iter().map(|call| (*call, Vec::new())).collect();
        parts.push(filter(attributes, libc::EOPNOTSUPP)?);
    }
    if cfg!(target_arch = "x86_64") {
        parts.push(refuse_x32());
    }
    Ok(parts.into_iter().reduce(then).unwrap_or_default())
}

/// Two filters in one: where the first ends, having found no rule for the call, the second goes on. They must not have
/// rules for the same call.
fn then(mut first: BpfProgram, second: BpfProgram) -> BpfProgram {
    let end = first.pop();
    debug_assert_eq!(end, Some(sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW }));
    first.extend(second);
    first
}

const RETURN: u16 = 0x06; // BPF_RET | BPF_K
const ALLOW: u32 = 0x7fff_0000; // SECCOMP_RET_ALLOW

fn refused(level: Level, network: Network) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().chain([&OPEN_TREE_ATTR]).map(|call| (*call, Vec::new())).collect();
    // All of these bits are in the lower half, and a filter looks at the halves one by one.
    let has_bits = |argument: u8, bits: u64| Condition::new(argument, Len::Dword, Op::MaskedEq(bits), bits);
    let is = |argument: u8, value: u64| Condition::new(argument, Len::Dword, Op::Eq, value);
    let is_not =
        |argument: u8, value: i32| Condition::new(argument, Len::Dword, Op::Ne, u64::from(value.cast_unsigned()));
    let mut refuse = |call: c_long, conditions: Vec<Condition>| -> Result<(), seccompiler::BackendError> {
        rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
        Ok(())
    };

    for flag in NEW_NAMESPACES.map(|flag| u64::from(flag.cast_unsigned())) {
        refuse(libc::SYS_unshare, vec![has_bits(0, flag)?])?;
        // For clone the low byte is a signal, and a new time namespace cannot be asked for.
        if flag > 0xff {
            refuse(libc::SYS_clone, vec![has_bits(0, flag)?])?;
        }
    }
    for request in TERMINAL_INPUT {
        refuse(libc::SYS_ioctl, vec![is(1, request)?])?;
    }
    for (call, mode, flags) in MODES {
        for bit in SET_ID_BITS {
            let mut conditions = vec![has_bits(*mode, bit)?];
            if let Some(flags) = flags {
                let create = u64::from(libc::O_CREAT.cast_unsigned());
                conditions.push(has_bits(*flags, create)?);
            }
            refuse(*call, conditions)?;
        }
    }

    // Of netlink, only looking at network devices; the rest are doors to the kernel, or (vsock) out of a virtual machine.
    let mut families = vec![libc::AF_NETLINK];
    if level == Level::Namespaces {
        families.push(libc::AF_UNIX);
    }
    if level == Level::Namespaces || network == Network::Host {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let others = families.iter().map(|family| is_not(0, *family)).collect::<Result<_, _>>()?;
    refuse(libc::SYS_socket, others)?;
    let route = u64::from(libc::AF_NETLINK.cast_unsigned());
    refuse(libc::SYS_socket, vec![is(0, route)?, is_not(2, libc::NETLINK_ROUTE)?])?;
    if level == Level::Landlock {
        // Pairs of streams are fine; one of datagrams could be sent anywhere by giving an address.
        let datagram = u64::from(libc::SOCK_DGRAM.cast_unsigned());
        refuse(libc::SYS_socketpair, vec![Condition::new(1, Len::Dword, Op::MaskedEq(0xf), datagram)?])?;
        let unix = is_not(0, libc::AF_UNIX)?;
        refuse(libc::SYS_socketpair, vec![unix])?;
        // Others' limits and priorities; 0 is oneself.
        refuse(libc::SYS_prlimit64, vec![is_not(0, 0)?])?;
        refuse(libc::SYS_setpriority, vec![is_not(1, 0)?])?;
        rules.extend(SHARED.map(|call| (call, Vec::new())));
    }
    Ok(rules)
}

/// The same calls have other numbers in the x32 form of x86-64, which nothing uses: `number & 0x4000_0000` is refused.
fn refuse_x32() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const IF_BITS: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
    const ERROR: u32 = 0x0005_0000; // SECCOMP_RET_ERRNO
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        step(LOAD_NUMBER, 0, 0, 0),
        step(IF_BITS, 0, 1, 0x4000_0000),
        step(RETURN, 0, 0, ERROR | libc::ENOSYS.cast_unsigned()),
        step(RETURN, 0, 0, ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_compiles() {
        for level in [Level::Namespaces, Level::Landlock] {
            for network in [Network::Loopback, Network::Host] {
                let program = program(level, network).unwrap();
                assert!(program.len() < 4096);
                let rules = refused(level, network).unwrap();
                assert!(UNKNOWN.iter().chain(&ATTRIBUTES).all(|call| !rules.contains_key(call)));
            }
        }
    }
}
