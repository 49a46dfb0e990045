//! System calls of netlink sockets.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

/// A route netlink socket, a member of `groups`.
///
/// # Errors
/// The calls'.
pub fn netlink_socket(groups: u32) -> io::Result<OwnedFd> {
    // No protocol is protocol 0, which is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Sends one message on a socket.
///
/// # Errors
/// The call's.
pub fn send_all(socket: BorrowedFd<'_>, message: &[u8]) -> io::Result<()> {
    send(socket, message, SendFlags::empty())?;
    Ok(())
}

/// Takes one message from a socket; how many bytes it has.
///
/// # Errors
/// The call's.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (bytes, _) = recv(socket, buffer, RecvFlags::empty())?;
    Ok(bytes)
}

/// Takes one message that is there.
///
/// # Errors
/// The call's; there is none.
pub fn receive_now(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (bytes, _) = recv(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok(bytes)
}
