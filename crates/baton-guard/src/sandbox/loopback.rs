//! Bringing up the loopback of a new network namespace.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `RTM_NEWLINK`
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`
const REQUEST_WITH_ANSWER: u16 = 0x1 | 0x4;
/// The loopback is the first device of every namespace.
const LOOPBACK: i32 = 1;
/// `IFF_UP`
const UP: u32 = 0x1;

/// Must be called in the new namespace.
pub(super) fn bring_up() -> io::Result<()> {
    // The default protocol of netlink is the one for routes and devices.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut answer = [0; 512];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    // An error message: header (16 bytes), then a negative error number, or 0 for success.
    match answer.get(16..20).filter(|_| length >= 20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::Error::other("netlink gave no answer")),
    }
}

/// `struct nlmsghdr` and `struct ifinfomsg`.
fn request() -> Vec<u8> {
    const LENGTH: u32 = 32;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes()); // sequence
    message.extend(0_u32.to_ne_bytes()); // port
    message.extend([0; 4]); // family, padding, type
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes()); // flags
    message.extend(UP.to_ne_bytes()); // which flags change
    message
}
