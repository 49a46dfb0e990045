//! The netlink socket: a request and its answers, and waiting for changes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::{HEADER_BYTES, Message, sys, u16_at, u32_at};
use crate::sys::wait_readable;

const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
const GROUP_LINK: u32 = 1;
const BUFFER_BYTES: usize = 64 << 10;

/// A socket for requests.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens the socket.
    ///
    /// # Errors
    /// The call's.
    pub fn open() -> io::Result<Self> {
        let socket = sys::netlink_socket(0)?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Sends a request that the kernel answers by a code alone.
    ///
    /// # Errors
    /// The kernel's code.
    pub fn acknowledged(&mut self, message: Message) -> io::Result<()> {
        self.request(message, 0).map(drop)
    }

    /// Sends a request; the bodies of the answers of one kind.
    ///
    /// # Errors
    /// The kernel's code.
    pub fn request(&mut self, message: Message, kind: u16) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        sys::send_all(self.socket.as_fd(), &message.finish(self.sequence))?;
        let mut bodies = Vec::new();
        loop {
            let count = sys::receive(self.socket.as_fd(), &mut self.buffer)?;
            let mut rest = &self.buffer[..count];
            while let (Some(length), Some(answer)) = (u32_at(rest, 0), u16_at(rest, 4)) {
                let length = length as usize;
                let Some(body) = rest.get(HEADER_BYTES..length) else { break };
                let ours = u32_at(rest, 8) == Some(self.sequence);
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
                match answer {
                    _ if !ours => {}
                    MESSAGE_DONE => return Ok(bodies),
                    MESSAGE_ERROR => match u32_at(body, 0) {
                        Some(0) => return Ok(bodies),
                        Some(code) => return Err(io::Error::from_raw_os_error(-(code as i32))),
                        None => return Err(io::Error::from(io::ErrorKind::InvalidData)),
                    },
                    _ if answer == kind => bodies.push(body.to_vec()),
                    _ => {}
                }
            }
        }
    }
}

/// A socket that is told of changes of interfaces.
#[derive(Debug)]
pub struct LinkEvents(OwnedFd);

impl LinkEvents {
    /// Opens the socket.
    ///
    /// # Errors
    /// The call's.
    pub fn open() -> io::Result<Self> {
        let socket = sys::netlink_socket(GROUP_LINK)?;
        Ok(Self(socket))
    }

    /// Waits for a change; false when the time is over.
    ///
    /// # Errors
    /// The call's.
    pub fn wait(&self, timeout_ns: u64) -> io::Result<bool> {
        let ready = wait_readable(&[self.0.as_fd()], timeout_ns)?;
        let mut buffer = [0; 8192];
        // What changed is asked for anew; an overflow says only that much did.
        while sys::receive_now(self.0.as_fd(), &mut buffer).is_ok() {}
        Ok(ready)
    }
}
