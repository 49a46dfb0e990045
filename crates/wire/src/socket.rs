//! A packet socket for single frames: marks, path delay, the timekeeper's capture.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::mac::MacAddress;
use crate::sys::{self as calls, packet_socket, wait_readable};

mod sys;

/// How a captured frame came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// It arrived.
    Incoming,
    /// This machine sent it.
    Outgoing,
}

/// A captured frame's length, stamp and direction.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes written to the buffer.
    pub bytes: usize,
    /// The kernel's receive stamp, `CLOCK_REALTIME` nanoseconds.
    pub realtime_ns: u64,
    /// Its direction.
    pub kind: PacketKind,
}

/// A raw packet socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// A socket that only sends on `interface`; nothing is queued on it.
    ///
    /// # Errors
    /// No such interface, or no right to open packet sockets (`CAP_NET_RAW`).
    pub fn for_sending(interface: &str) -> io::Result<Self> {
        let socket = packet_socket(0, interface_index(interface)?)?;
        Ok(Self { socket })
    }

    /// A socket that sends, and receives the ICMP frames that arrive at `interface`, stamped by the kernel.
    ///
    /// # Errors
    /// As [`Self::for_sending`].
    pub fn for_icmp(interface: &str) -> io::Result<Self> {
        let socket = sys::icmp_capture(interface_index(interface)?)?;
        Ok(Self { socket })
    }

    /// Sends one frame: one system call.
    ///
    /// # Errors
    /// The call's.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        calls::send(self.socket.as_fd(), frame)
    }

    /// Takes the next frame, waiting at most `timeout_ns`; none when the time is over.
    ///
    /// # Errors
    /// The call's.
    pub fn receive(&self, buffer: &mut [u8], timeout_ns: u64) -> io::Result<Option<Received>> {
        if !wait_readable(&[self.socket.as_fd()], timeout_ns)? {
            return Ok(None);
        }
        sys::receive_stamped(self.socket.as_fd(), buffer)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The number of an interface.
///
/// # Errors
/// No such interface.
pub fn interface_index(name: &str) -> io::Result<u32> {
    calls::interface_index(name)
}

/// The link address of an interface.
///
/// # Errors
/// No such interface.
pub fn interface_mac(name: &str) -> io::Result<MacAddress> {
    calls::interface_mac(name).map(MacAddress)
}
