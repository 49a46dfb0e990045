//! System calls of the packet path.
#![allow(unsafe_code)]
// The kernel aligns what it writes into a ring.
#![allow(clippy::cast_ptr_alignment)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};

use crate::sink::Captured;
use crate::socket::{PacketKind, Received};

const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;
const ETH_P_IP: u16 = libc::ETH_P_IP as u16;
const BLOCK_BYTES: usize = 1 << 20;
const BLOCK_COUNT: usize = 64;
/// A block that is not full is handed over after this time.
const BLOCK_TIMEOUT_MS: u32 = 1;
/// How much of each frame the sink keeps: everything up to the pattern, and some.
const KEPT_BYTES: u32 = 96;
/// A send call that waits longer than this for room gives up.
const SEND_TIMEOUT_MICROSECONDS: libc::suseconds_t = 100_000;

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set_option<T>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is valid for reads of its own size during the call.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

fn interface_ioctl(name: &str, call: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = interface_request(name)?;
    // SAFETY: plain system call; the descriptor is owned from here on.
    let socket = unsafe {
        OwnedFd::from_raw_fd(checked(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?)
    };
    // SAFETY: `request` is a valid ifreq for the duration of the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), call, &raw mut request) })?;
    Ok(request)
}

pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let request = interface_ioctl(name, libc::SIOCGIFINDEX)?;
    // SAFETY: the call above filled this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
}

pub(crate) fn interface_mac(name: &str) -> io::Result<[u8; 6]> {
    let request = interface_ioctl(name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the call above filled this member of the union.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let mut mac = [0; 6];
    for (byte, value) in mac.iter_mut().zip(address.sa_data) {
        *byte = value as u8;
    }
    Ok(mac)
}

pub(crate) fn interface_mtu_bytes(name: &str) -> io::Result<usize> {
    let request = interface_ioctl(name, libc::SIOCGIFMTU)?;
    // SAFETY: the call above filled this member of the union.
    usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).map_err(io::Error::other)
}

fn bind(socket: BorrowedFd<'_>, protocol: u16, interface: u32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface as c_int;
    // SAFETY: `address` is a valid sockaddr_ll and its size is given.
    checked(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
    .map(drop)
}

fn unbound_packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the descriptor is owned from here on. Protocol 0 receives nothing yet.
    unsafe {
        Ok(OwnedFd::from_raw_fd(checked(libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            0,
        ))?))
    }
}

/// A packet socket bound to an interface; protocol 0 receives nothing.
pub(crate) fn packet_socket(protocol: u16, interface: u32) -> io::Result<OwnedFd> {
    let socket = unbound_packet_socket()?;
    bind(socket.as_fd(), protocol, interface)?;
    Ok(socket)
}

const fn instruction(code: u16, jump_true: u8, jump_false: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: jump_true, jf: jump_false, k: value }
}

fn attach_filter(socket: BorrowedFd<'_>, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

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

#[inline]
pub(crate) fn send(socket: BorrowedFd<'_>, frame: &[u8]) -> io::Result<()> {
    // SAFETY: `frame` is valid for reads of its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until one of the descriptors is readable; false when the time is over.
pub(crate) fn wait_readable(descriptors: &[BorrowedFd<'_>], timeout_ns: u64) -> io::Result<bool> {
    let mut entries: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|descriptor| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `entries` and `timeout` are valid for the duration of the call.
    let ready = unsafe {
        libc::ppoll(
            entries.as_mut_ptr(),
            entries.len() as libc::nfds_t,
            &raw const timeout,
            std::ptr::null(),
        )
    };
    match checked(ready) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        other => other.map(|count| count > 0),
    }
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
        received_realtime_ns: stamp_of(&message).unwrap_or_else(virtoll_clock::realtime_ns),
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

/// Sets what bulk sending wants: past the queueing discipline, and no wait without end.
pub(crate) fn prepare_for_bulk_sending(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
    let timeout = libc::timeval { tv_sec: 0, tv_usec: SEND_TIMEOUT_MICROSECONDS };
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &timeout)
}

/// Frames of one size and the headers that `sendmmsg` wants, all allocated once.
pub(crate) struct SendBatch {
    frame_bytes: usize,
    arena: Box<[u8]>,
    _parts: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers in the headers point into boxes that the batch owns and that move with it.
unsafe impl Send for SendBatch {}

impl SendBatch {
    pub(crate) fn new(frames: usize, frame_bytes: usize) -> Self {
        let mut arena = vec![0_u8; frames * frame_bytes].into_boxed_slice();
        let mut parts: Box<[libc::iovec]> = arena
            .chunks_exact_mut(frame_bytes)
            .map(|frame| libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame_bytes })
            .collect();
        let headers = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all-zero bytes are a valid mmsghdr.
                let mut header: libc::mmsghdr = unsafe { zeroed() };
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { frame_bytes, arena, _parts: parts, headers }
    }

    #[inline]
    pub(crate) fn frame(&mut self, index: usize) -> &mut [u8] {
        &mut self.arena[index * self.frame_bytes..(index + 1) * self.frame_bytes]
    }

    /// Sends the first `count` frames; how many the kernel accepted.
    #[inline]
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let headers = &mut self.headers[..count];
        let (mut next, mut accepted) = (0, 0);
        while next < count {
            let rest = &mut headers[next..];
            // SAFETY: the headers point to parts and frames that the batch owns; the kernel only reads the frames.
            let sent = unsafe {
                libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0)
            };
            if sent >= 0 {
                next += sent as usize;
                accepted += sent as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => next += 1,
                _ => return Err(error),
            }
        }
        Ok(accepted)
    }
}

/// A `TPACKET_V3` receive ring on one interface.
pub(crate) struct Ring {
    socket: OwnedFd,
    memory: *mut u8,
    block: usize,
}

// SAFETY: the mapping belongs to the ring alone and is used by one thread at a time.
unsafe impl Send for Ring {}

impl Ring {
    pub(crate) fn open(interface: u32) -> io::Result<Self> {
        let socket = unbound_packet_socket()?;
        let fd = socket.as_fd();
        attach_filter(fd, &mut [instruction(0x06, 0, 0, KEPT_BYTES)])?;
        // Not known before Linux 4.20; the frames of this socket are told apart by their direction all the same.
        let _ = set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32);
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let frame_bytes = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCK_COUNT as u32,
            tp_frame_size: frame_bytes as u32,
            tp_frame_nr: (BLOCK_BYTES / frame_bytes * BLOCK_COUNT) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping of the ring that the kernel has just made, of exactly its size.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BLOCK_BYTES * BLOCK_COUNT,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = Self { socket, memory: memory.cast(), block: 0 };
        bind(ring.socket.as_fd(), ETH_P_ALL, interface)?;
        Ok(ring)
    }

    /// Hands the frames of the next block to `take`, if the kernel has finished it; how many.
    pub(crate) fn take_block(&mut self, take: &mut dyn FnMut(Captured<'_>)) -> u64 {
        // SAFETY: `block` is below BLOCK_COUNT, so this is the header of a block within the mapping.
        let (block, header) = unsafe {
            let block = self.memory.add(self.block * BLOCK_BYTES);
            (block, &raw mut (*block.cast::<libc::tpacket_block_desc>()).hdr.bh1)
        };
        // SAFETY: the status word is aligned, lies within the mapping and is shared with the kernel as an atomic.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*header).block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return 0;
        }
        // SAFETY: the block belongs to us until its status is set back; the header is not written meanwhile.
        let (count, first) = unsafe { ((*header).num_pkts, (*header).offset_to_first_pkt) };
        let mut offset = first as usize;
        for _ in 0..count {
            // SAFETY: the kernel links `count` frames within this block by their offsets.
            let (next, frame, incoming) = unsafe { captured(block.add(offset)) };
            if incoming {
                take(frame);
            }
            offset += next;
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % BLOCK_COUNT;
        u64::from(count)
    }

    /// Frames that the kernel dropped for want of room; reading sets the kernel's counter back.
    pub(crate) fn dropped_frames(&self) -> io::Result<u64> {
        // SAFETY: all-zero bytes are valid statistics.
        let mut statistics: libc::tpacket_stats_v3 = unsafe { zeroed() };
        let mut size = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: `statistics` and `size` are valid for writes of the stated size.
        checked(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast::<c_void>(),
                &raw mut size,
            )
        })?;
        Ok(u64::from(statistics.tp_drops))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` with this size, and no reference to it outlives the ring.
        unsafe { libc::munmap(self.memory.cast(), BLOCK_BYTES * BLOCK_COUNT) };
    }
}

/// Reads a frame's header in a block: the distance to the next one, the frame, whether it arrived (not left).
///
/// # Safety
/// `at` must be the start of a frame in a block that the kernel has handed over.
#[inline]
unsafe fn captured<'a>(at: *const u8) -> (usize, Captured<'a>, bool) {
    // SAFETY: the caller vouches for `at`; the kernel aligns frame headers and keeps the captured bytes and the
    // link-level address within the block.
    unsafe {
        let header = &*at.cast::<libc::tpacket3_hdr>();
        let bytes =
            std::slice::from_raw_parts(at.add(header.tp_mac as usize), header.tp_snaplen as usize);
        let address = &*at
            .add(size_of::<libc::tpacket3_hdr>().next_multiple_of(16))
            .cast::<libc::sockaddr_ll>();
        let received_realtime_ns =
            u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        let frame = Captured { bytes, frame_bytes: header.tp_len as usize, received_realtime_ns };
        (header.tp_next_offset as usize, frame, address.sll_pkttype != libc::PACKET_OUTGOING)
    }
}

/// Waits until one of the rings has a block, at most `timeout_ms`.
pub(crate) fn wait_rings(rings: &[Ring], timeout_ms: u32) -> io::Result<()> {
    const MOST: usize = 16;
    let mut entries = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MOST];
    for (entry, ring) in entries.iter_mut().zip(rings) {
        entry.fd = ring.socket.as_raw_fd();
    }
    // SAFETY: `entries` is valid for the duration of the call; negative descriptors are left out by the kernel.
    let ready = unsafe {
        libc::poll(entries.as_mut_ptr(), MOST.min(rings.len()) as libc::nfds_t, timeout_ms as c_int)
    };
    match checked(ready) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Pins the calling thread to one core.
pub(crate) fn pin_thread(cpu: u32) -> io::Result<()> {
    if cpu as usize >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero bytes are an empty set, and `cpu` is below its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        set
    };
    // SAFETY: `set` is valid for reads of its size.
    checked(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
        .map(drop)
}
