//! System calls of a socket that captures ICMP frames with the kernel's stamps.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_int;

use super::{PacketKind, Received};
use crate::sys::{ETH_P_ALL, attach_filter, bind, instruction, set_option, unbound_packet_socket};

const ETH_P_IP: u16 = libc::ETH_P_IP as u16;

/// A socket for the ICMP frames of an interface, stamped by the kernel; what this machine sends is left out.
pub(crate) fn icmp_capture(interface: u32) -> io::Result<OwnedFd> {
    let socket = unbound_packet_socket()?;
    // ldh [12]; jeq ETH_P_IP; ldb [23]; jeq ICMP; ret all; ret 0
    let mut program = [
        instruction(0x28, 0, 0, 12),
        instruction(0x15, 0, 3, u32::from(ETH_P_IP)),
        instruction(0x30, 0, 0, 23),
        instruction(0x15, 0, 1, libc::IPPROTO_ICMP as u32),
        instruction(0x06, 0, 0, u32::MAX),
        instruction(0x06, 0, 0, 0),
    ];
    attach_filter(socket.as_fd(), &mut program)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
    let room: c_int = 8 << 20;
    let forced = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room);
    if forced.is_err() {
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &room)?;
    }
    bind(socket.as_fd(), ETH_P_ALL, interface)?;
    Ok(socket)
}

/// Takes one frame with its stamp without waiting; none if there is none.
pub(crate) fn receive_stamped(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<Received>> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; 16];
    // SAFETY: all-zero bytes are a valid msghdr.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: every pointer in `message` is valid for its stated length during the call.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if bytes < 0 {
        let error = io::Error::last_os_error();
        let later = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        return if later { Ok(None) } else { Err(error) };
    }
    let outgoing = address.sll_pkttype == libc::PACKET_OUTGOING;
    Ok(Some(Received {
        bytes: bytes as usize,
        realtime_ns: stamp_of(&message).unwrap_or_else(virtoll_clock::realtime_ns),
        kind: if outgoing { PacketKind::Outgoing } else { PacketKind::Incoming },
    }))
}

fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: `message` was filled by recvmsg; the macros walk its control buffer, which outlives this call, and the
    // timespec is read only from a control message of that type and without assuming its alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_TIMESTAMPNS
            {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}
