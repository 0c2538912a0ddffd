//! System calls that shells have no words for, made from inside.

#![allow(unsafe_code, reason = "raw system calls are the point; every pointer is to live memory of this process")]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use libc::{c_long, syscall};

/// Makes the call and says `ESCAPED` if it was not refused.
pub fn run(args: &[String]) -> ExitCode {
    let name = args[0].as_str();
    let arg = |at: usize| args.get(at).map_or("", String::as_str);
    let number = |at: usize| arg(at).parse::<c_long>().unwrap_or(0);
    let text = |at: usize| CString::new(arg(at)).unwrap();
    let zeros = [0_u64; 64];
    let memory = zeros.as_ptr();
    let here = c".".as_ptr();
    let got_out = match name {
        "memory_exec" => return memory_exec(&args[1..]),
        "make_shared" => return make_shared(number(1), &text(2)),
        "remove_shared" => {
            unsafe {
                syscall(libc::SYS_shmctl, syscall(libc::SYS_shmget, number(1), 0, 0), libc::IPC_RMID, 0);
                syscall(libc::SYS_mq_unlink, text(2).as_ptr());
            }
            false
        }
        "serve_and_fetch" => return serve_and_fetch(),
        "connect" => std::net::TcpStream::connect(arg(1)).is_ok(),
        "dns" => UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.send_to(b"\x00\x01question", arg(1)))
            .is_ok_and(|_| false),
        "abstract_connect" => {
            SocketAddr::from_abstract_name(arg(1)).and_then(|address| UnixStream::connect_addr(&address)).is_ok()
        }
        "unix_connect" => UnixStream::connect(arg(1)).is_ok(),
        "unix_send" => UnixDatagram::unbound().and_then(|socket| socket.send_to(b"x", arg(1))).is_ok(),
        "unix_pair_send" => UnixDatagram::pair()
            .and_then(|(socket, _)| {
                socket.connect(arg(1))?;
                socket.send(b"x")
            })
            .is_ok(),
        "create_set_id" => {
            let flags = libc::O_CREAT | libc::O_WRONLY;
            done(unsafe { syscall(libc::SYS_openat, libc::AT_FDCWD, text(1).as_ptr(), flags, 0o6755) })
        }
        "truncate" => done(unsafe { syscall(libc::SYS_truncate, text(1).as_ptr(), 1_u64) }),
        "exchange" => {
            let (from, to) = (text(1), text(2));
            done(unsafe { syscall(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), 2) })
                && !arg(2).contains(".git")
        }
        "pidfd_signal" => {
            let handle = unsafe { syscall(libc::SYS_pidfd_open, number(1), 0) };
            done(unsafe { syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGSTOP, 0, 0) })
        }
        "pidfd_getfd" => {
            let handle = unsafe { syscall(libc::SYS_pidfd_open, number(1), 0) };
            done(unsafe { syscall(libc::SYS_pidfd_getfd, handle, 0, 0) })
        }
        "prlimit" => {
            let limit = [1_u64, 1];
            done(unsafe { syscall(libc::SYS_prlimit64, number(1), libc::RLIMIT_FSIZE, limit.as_ptr(), 0) })
        }
        // By any handle of a ruleset, which the next command would get as well.
        "widen" => {
            let outside = File::open(arg(1)).unwrap();
            // `struct landlock_path_beneath_attr`: all rights, and a handle, without a gap between them.
            let mut rule = [0_u8; 12];
            rule[..8].copy_from_slice(&0xffff_u64.to_ne_bytes());
            rule[8..].copy_from_slice(&outside.as_raw_fd().to_ne_bytes());
            (3..1024).any(|handle| unsafe { syscall(libc::SYS_landlock_add_rule, handle, 1, rule.as_ptr(), 0) } == 0)
        }
        // Where the shell is no child of Baton, what it is a child of ends with Baton, and everything with that.
        "death_signal" => {
            let mut signal = 0;
            unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
            signal != libc::SIGKILL
        }
        "ptrace" => done(unsafe { syscall(libc::SYS_ptrace, 0x4206, number(1), 0, 0) }),
        "process_vm_readv" => {
            let mut buffer = [0_u8; 8];
            let local = [buffer.as_mut_ptr() as u64, 8];
            let remote = [first_mapping(number(1)), 8];
            done(unsafe {
                syscall(libc::SYS_process_vm_readv, number(1), local.as_ptr(), 1_u64, remote.as_ptr(), 1_u64, 0_u64)
            })
        }
        "tiocsti" => terminal(0x5412, c"x".as_ptr() as u64),
        "tioclinux" => terminal(0x541C, c"\x03".as_ptr() as u64),
        // Allowed would be another error than "not permitted" or "no such call": the arguments are nonsense.
        "io_uring_setup" => allowed(unsafe { syscall(libc::SYS_io_uring_setup, 1, memory) }),
        "userfaultfd" => allowed(unsafe { syscall(libc::SYS_userfaultfd, 1) }),
        "bpf" => allowed(unsafe { syscall(libc::SYS_bpf, 0, memory, 64) }),
        "perf_event_open" => allowed(unsafe { syscall(libc::SYS_perf_event_open, memory, 0, -1, -1, 0) }),
        "keyctl" => allowed(unsafe { syscall(libc::SYS_keyctl, 0, -3, 0) }),
        "add_key" => allowed(unsafe { syscall(libc::SYS_add_key, c"user".as_ptr(), c"x".as_ptr(), memory, 1, -3) }),
        "mount" => allowed(unsafe { syscall(libc::SYS_mount, c"x".as_ptr(), here, c"tmpfs".as_ptr(), 0, 0) }),
        "umount" => allowed(unsafe { syscall(libc::SYS_umount2, c"/dev".as_ptr(), 2) }),
        "chroot" => allowed(unsafe { syscall(libc::SYS_chroot, here) }),
        "pivot_root" => allowed(unsafe { syscall(libc::SYS_pivot_root, here, here) }),
        "open_tree" => allowed(unsafe { syscall(libc::SYS_open_tree, libc::AT_FDCWD, here, 1) }),
        "open_tree_attr" => allowed(unsafe { syscall(467, libc::AT_FDCWD, here, 1, 0, 0) }),
        "move_mount" => {
            allowed(unsafe { syscall(libc::SYS_move_mount, libc::AT_FDCWD, here, libc::AT_FDCWD, here, 0) })
        }
        "fsopen" => allowed(unsafe { syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) }),
        "mount_setattr" => allowed(unsafe { syscall(libc::SYS_mount_setattr, libc::AT_FDCWD, here, 0, memory, 32) }),
        "unshare_user" => allowed(unsafe { syscall(libc::SYS_unshare, libc::CLONE_NEWUSER) }),
        "unshare_mount" => allowed(unsafe { syscall(libc::SYS_unshare, libc::CLONE_NEWNS) }),
        // With flags that contradict each other, so that no child comes of it.
        "clone_user" => {
            let flags = libc::CLONE_NEWUSER | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM;
            allowed(unsafe { syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
        }
        "clone3" => allowed(unsafe { syscall(libc::SYS_clone3, memory, 1) }),
        "setns" => {
            let own = File::open("/proc/self/ns/mnt").unwrap();
            allowed(unsafe { syscall(libc::SYS_setns, own.as_raw_fd(), 0) })
        }
        "open_by_handle_at" => allowed(unsafe { syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, memory, 0) }),
        "init_module" => allowed(unsafe { syscall(libc::SYS_init_module, memory, 0, c"".as_ptr()) }),
        "kexec_load" => allowed(unsafe { syscall(libc::SYS_kexec_load, 0, 0, 0, 0xff) }),
        "reboot" => allowed(unsafe { syscall(libc::SYS_reboot, 0, 0, 0, 0) }),
        "swapon" => allowed(unsafe { syscall(libc::SYS_swapon, here, 0) }),
        "acct" => allowed(unsafe { syscall(libc::SYS_acct, here) }),
        #[cfg(target_arch = "x86_64")]
        "iopl" => allowed(unsafe { syscall(libc::SYS_iopl, 3) }),
        #[cfg(target_arch = "x86_64")]
        "x32" => allowed(unsafe { syscall(0x4000_0000 + libc::SYS_getpid) }),
        "setxattr" => done(unsafe { syscall(libc::SYS_setxattr, text(1).as_ptr(), c"user.x".as_ptr(), memory, 1, 0) }),
        "socket" => done(unsafe { syscall(libc::SYS_socket, number(1), number(2), number(3)) }),
        "mq_open" => done(unsafe { syscall(libc::SYS_mq_open, text(1).as_ptr(), 0, 0, 0) }),
        "shmget" => done(unsafe { syscall(libc::SYS_shmget, number(1), 0, 0) }),
        "setuid" => (unsafe { libc::geteuid() } != 0) && done(unsafe { syscall(libc::SYS_setuid, 0) }),
        other => panic!("no such call: {other}"),
    };
    if got_out {
        println!("ESCAPED");
    }
    ExitCode::SUCCESS
}

fn done(result: c_long) -> bool {
    eprintln!("{result}: {}", io::Error::last_os_error());
    result >= 0
}

/// Whether the call went past the filter, whatever came of it then.
fn allowed(result: c_long) -> bool {
    let error = io::Error::last_os_error().raw_os_error();
    eprintln!("{result}: {}", io::Error::last_os_error());
    result >= 0 || !matches!(error, Some(libc::EPERM | libc::ENOSYS))
}

/// An address in another process, if it lets itself be looked at.
fn first_mapping(pid: c_long) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()).unwrap_or(0x1000)
}

/// The request on a terminal: its own, or a new one.
fn terminal(request: u64, argument: u64) -> bool {
    let file = ["/dev/tty", "/dev/ptmx"].iter().find_map(|path| File::options().read(true).write(true).open(path).ok());
    let descriptor = file.as_ref().map_or(0, AsRawFd::as_raw_fd);
    let result = unsafe { syscall(libc::SYS_ioctl, descriptor, request, argument) };
    // Without a terminal the kernel would say so; the filter is asked first.
    allowed(result)
}

fn memory_exec(args: &[String]) -> ExitCode {
    let program = std::fs::read(&args[0]).unwrap();
    let handle = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::empty()).unwrap();
    let mut file = File::from(handle);
    file.write_all(&program).unwrap();
    let error = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd())).args(&args[1..]).exec();
    panic!("{error}");
}

/// Memory with a number and a queue with a name, for others to find.
fn make_shared(key: c_long, name: &std::ffi::CStr) -> ExitCode {
    let memory = unsafe { syscall(libc::SYS_shmget, key, 4096, libc::IPC_CREAT | 0o600) };
    let queue = unsafe { syscall(libc::SYS_mq_open, name.as_ptr(), libc::O_CREAT, 0o600, 0) };
    if memory >= 0 && queue >= 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve_and_fetch() -> ExitCode {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let client =
        std::thread::spawn(move || io::read_to_string(std::net::TcpStream::connect(address).unwrap()).unwrap());
    server.accept().unwrap().0.write_all(b"served").unwrap();
    println!("{}", client.join().unwrap());
    ExitCode::SUCCESS
}
