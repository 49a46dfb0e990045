//! System calls of netlink sockets.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::sys::checked;

/// A route netlink socket, a member of `groups`.
///
/// # Errors
/// The calls'.
pub fn netlink_socket(groups: u32) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is owned from here on; all-zero bytes are a valid sockaddr_nl, which is valid for the
    // duration of the call.
    unsafe {
        let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_ROUTE);
        let socket = OwnedFd::from_raw_fd(checked(socket)?);
        let mut address: libc::sockaddr_nl = zeroed();
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = groups;
        let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        checked(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size))?;
        Ok(socket)
    }
}

/// Sends one message on a socket.
///
/// # Errors
/// The call's.
pub fn send_all(socket: BorrowedFd<'_>, message: &[u8]) -> io::Result<()> {
    // SAFETY: `message` is valid for reads of its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes one message from a socket; how many bytes it has.
///
/// # Errors
/// The call's.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(socket, buffer, 0)
}

/// Takes one message that is there.
///
/// # Errors
/// The call's; there is none.
pub fn receive_now(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(socket, buffer, libc::MSG_DONTWAIT)
}

fn receive_with(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: `buffer` is valid for writes of its length.
    let count =
        unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}
