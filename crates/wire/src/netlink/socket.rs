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
    pub(super) sequence: u32,
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
    pub(crate) fn acknowledged(&mut self, message: Message) -> io::Result<()> {
        self.request(message, 0).map(drop)
    }

    /// Sends a request; the bodies of the answers of one kind.
    ///
    /// # Errors
    /// The kernel's code.
    pub(crate) fn request(&mut self, message: Message, kind: u16) -> io::Result<Vec<Vec<u8>>> {
        let mut bodies = Vec::new();
        self.each(message, kind, |body| bodies.push(body.to_vec()))?;
        Ok(bodies)
    }

    /// Sends a request and looks at the body of each answer of one kind.
    ///
    /// # Errors
    /// The kernel's code.
    pub(super) fn each(
        &mut self,
        message: Message,
        kind: u16,
        mut look: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence += 1;
        sys::send_all(self.socket.as_fd(), &message.finish(self.sequence))?;
        loop {
            let count = sys::receive(self.socket.as_fd(), &mut self.buffer)?;
            for (sequence, answer, body) in answers(&self.buffer[..count]) {
                match answer {
                    _ if sequence != self.sequence => {}
                    MESSAGE_DONE => return Ok(()),
                    MESSAGE_ERROR => return code(body),
                    _ if answer == kind => look(body),
                    _ => {}
                }
            }
        }
    }

    /// Sends requests of which only the last, the newest, is acknowledged; `first` is the number of the first. All are
    /// carried out, also those after one that was refused.
    ///
    /// # Errors
    /// The kernel's first refusal.
    pub(super) fn answered(&mut self, requests: &[u8], first: u32) -> io::Result<()> {
        sys::send_all(self.socket.as_fd(), requests)?;
        let mut outcome = Ok(());
        loop {
            let count = sys::receive(self.socket.as_fd(), &mut self.buffer)?;
            for (sequence, answer, body) in answers(&self.buffer[..count]) {
                if answer == MESSAGE_ERROR && (first..=self.sequence).contains(&sequence) {
                    outcome = outcome.and_then(|()| code(body));
                    if sequence == self.sequence {
                        return outcome;
                    }
                }
            }
        }
    }
}

/// The answers that came together: sequence number, kind and body of each.
pub(super) fn answers(mut bytes: &[u8]) -> impl Iterator<Item = (u32, u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let (kind, sequence) = (u16_at(bytes, 4)?, u32_at(bytes, 8)?);
        let body = bytes.get(HEADER_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((sequence, kind, body))
    })
}

/// What the kernel says: 0, or an error's number, negative.
pub(super) fn code(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error((code as i32).wrapping_neg())),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// A socket that receives the kernel's notifications of interface changes.
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
