//! System calls of the forwarder's receiving socket.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, socklen_t};

use crate::frame::{KIND, MARKER, MARKER_MASK};
use crate::sys::{
    ETH_P_ALL, attach_filter, bind, checked, instruction, set_option, unbound_packet_socket,
};

/// Where the test frame's own bytes begin in an untagged IPv4 frame.
const PAYLOAD: u32 = 42;
const ETHERTYPE: u32 = 12;
const ETHERTYPE_IPV4: u32 = 0x0800;
const PROTOCOL: u32 = 23;
const PROTOCOL_UDP: u32 = 17;
/// The filter's word for how a frame came by (`SKF_AD_OFF + SKF_AD_PKTTYPE`), and what a frame that leaves has there.
const PACKET_TYPE: u32 = 0xffff_f004;
const OUTGOING: u32 = 4;
/// Two seconds of 20 000 frames a second, of which the kernel books some 800 bytes each.
const ROOM_BYTES: c_int = 32 << 20;

/// A socket for the untagged IPv4 test frames that arrive at an interface.
pub(crate) fn open(interface: u32) -> io::Result<OwnedFd> {
    let socket = unbound_packet_socket()?;
    let fd = socket.as_fd();
    let mut program = [
        instruction(0x28, 0, 0, PACKET_TYPE),
        instruction(0x15, 8, 0, OUTGOING),
        instruction(0x28, 0, 0, ETHERTYPE),
        instruction(0x15, 0, 6, ETHERTYPE_IPV4),
        instruction(0x30, 0, 0, PROTOCOL),
        instruction(0x15, 0, 4, PROTOCOL_UDP),
        instruction(0x30, 0, 0, PAYLOAD + KIND as u32),
        instruction(0x54, 0, 0, u32::from(MARKER_MASK)),
        instruction(0x15, 0, 1, u32::from(MARKER)),
        instruction(0x06, 0, 0, u32::MAX),
        instruction(0x06, 0, 0, 0),
    ];
    attach_filter(fd, &mut program)?;
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM_BYTES).is_err() {
        set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &ROOM_BYTES)?;
    }
    bind(fd, ETH_P_ALL, interface)?;
    Ok(socket)
}

/// Frames that had no room since the last call.
pub(crate) fn missed_frames(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all-zero bytes are valid statistics.
    let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
    let mut bytes = size_of::<libc::tpacket_stats>() as socklen_t;
    // SAFETY: `statistics` is valid for writes of its size.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut bytes,
        )
    })?;
    Ok(u64::from(statistics.tp_drops))
}
