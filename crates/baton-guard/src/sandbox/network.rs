//! A loopback that the commands of one session share: a server that one has started can be reached by the next.
//!
//! A network belongs to the user namespace that it was made in, so whoever joins it joins both. Making a network is also
//! what takes longest of all namespaces, so sharing it makes every command but the first start faster.
//!
//! A socket belongs to the network in which it was made, whoever holds it. So Baton can hear the commands on a listener that
//! was handed out to it, and nothing of Baton has to run inside.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::{helper, namespaces};

/// Said when the network is there.
const MADE: &[u8] = b"made\n";
/// Asks for a listener in it.
pub(super) const LISTEN: &str = "listen";

/// A user namespace and the network in it. They are there as long as their handles are.
#[derive(Debug)]
pub(super) struct Shared {
    user: File,
    network: File,
    listener: Option<TcpListener>,
}

/// The handles of a network, as a process that is started inherits them.
#[derive(Debug)]
pub(super) struct Door([OwnedFd; 2]);

impl Door {
    /// Their numbers.
    pub(super) fn numbers(&self) -> [i32; 2] {
        self.0.each_ref().map(AsRawFd::as_raw_fd)
    }
}

impl Shared {
    /// Has a helper make a network, takes hold of it and of a listener on its loopback if there is to be one, and lets the
    /// helper go.
    pub(super) fn make(program: &Path, listens: bool) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut maker = Command::new(program);
        maker.arg0("baton").arg(helper::NETWORK).args(listens.then_some(LISTEN)).env_clear();
        let mut maker =
            maker.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut said = Vec::new();
        if let Some(out) = maker.stdout.as_mut() {
            out.take(MADE.len() as u64).read_to_end(&mut said)?;
        }
        let shared = if said == MADE {
            Self::of(maker.id(), listens.then_some(&ours))
        } else {
            Err(io::Error::other("it was not made"))
        };
        // It waits for the end of its input.
        drop(ours);
        let output = maker.wait_with_output()?;
        shared.map_err(|error| {
            let why = String::from_utf8_lossy(&output.stderr);
            io::Error::new(error.kind(), format!("cannot make a network for commands: {error} {}", why.trim()))
        })
    }

    fn of(process: u32, post: Option<&UnixStream>) -> io::Result<Self> {
        let open = |kind: &str| File::open(format!("/proc/{process}/ns/{kind}"));
        Ok(Self { user: open("user")?, network: open("net")?, listener: post.map(receive).transpose()? })
    }

    /// The listener in it, if there is one.
    pub(super) fn listener(&self) -> io::Result<Option<TcpListener>> {
        self.listener.as_ref().map(TcpListener::try_clone).transpose()
    }

    /// Handles for one process to join by.
    pub(super) fn door(&self) -> io::Result<Door> {
        Ok(Door([rustix::io::dup(&self.user)?, rustix::io::dup(&self.network)?]))
    }
}

/// The helper's part: makes a network and waits until it is let go.
pub(super) fn hold(listens: bool) -> io::Result<()> {
    namespaces::make(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)?;
    if listens {
        hand_out(&TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)?;
    }
    io::stdout().write_all(MADE)?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Sends the listener out. It is there before the network is said to be made, so nobody has to wait for it.
fn hand_out(listener: &TcpListener) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut parcel = SendAncillaryBuffer::new(&mut space);
    let handles = [listener.as_fd()];
    if !parcel.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other("there is no room for a listener"));
    }
    sendmsg(io::stdin(), &[IoSlice::new(b"l")], &mut parcel, SendFlags::empty())?;
    Ok(())
}

fn receive(post: &UnixStream) -> io::Result<TcpListener> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut parcel = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(post, &mut [IoSliceMut::new(&mut [0])], &mut parcel, flags)?;
    let handle = parcel.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
        _ => None,
    });
    handle.map(TcpListener::from).ok_or_else(|| io::Error::other("it gave no listener"))
}

/// Joins a network by its inherited handles, which are closed.
pub(super) fn join(door: [i32; 2]) -> io::Result<()> {
    for (number, kind) in door.into_iter().zip([CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWNET]) {
        // Opened anew: a number alone is no handle.
        let handle = File::open(format!("/proc/self/fd/{number}"))?;
        setns(&handle, kind)?;
        nix::unistd::close(number)?;
    }
    Ok(())
}
