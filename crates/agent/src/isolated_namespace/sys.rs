//! A network namespace of one's own.
#![allow(unsafe_code)]

use std::io;

use crate::sys::checked;

/// Puts this process into a network namespace of its own, which is gone when it ends; an ordinary user gets a user
/// namespace with it.
///
/// # Errors
/// The call's.
pub fn own_network() -> io::Result<()> {
    // SAFETY: plain system calls; the process has one thread.
    unsafe {
        checked(libc::unshare(libc::CLONE_NEWNET))
            .or_else(|_| checked(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)))
            .map(drop)
    }
}
