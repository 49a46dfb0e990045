//! Rings and batches: the system calls of bulk sending and receiving.
#![allow(unsafe_code)]
// The kernel aligns what it writes into a ring.
#![allow(clippy::cast_ptr_alignment)]

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};
use virtoll_clock::monotonic_ns;

use crate::sink::Captured;
use crate::sys::{
    ETH_P_ALL, attach_filter, bind, checked, instruction, set_option, unbound_packet_socket,
};

const BLOCK_BYTES: usize = 1 << 18;
const BLOCK_COUNT: usize = 256;
/// A block that is not full is handed over after this time. At a low rate each block holds what comes in it, so all of
/// them together are how long a busy machine may keep the sink from running without a loss: a second.
const BLOCK_TIMEOUT_MS: u32 = 4;
/// How much of each frame the sink keeps: everything up to the pattern, and some.
const KEPT_BYTES: u32 = 96;
/// The same when frames are captured.
const WHOLE_FRAME_BYTES: u32 = 1536;
/// What the kernel books for a frame besides its bytes.
const FRAME_OVERHEAD_BYTES: usize = 704;
/// A frame that has had no room for so long is refused.
const SEND_TIMEOUT_NS: u64 = 100_000_000;

/// Frames of a packet socket leave past the queueing discipline, where the kernel knows how.
pub(crate) fn bypass_queueing(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Not known to gVisor's network stack, nor to Linux before 3.14: frames then go the way that this kernel has.
    where_known(set_option(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32))
}

/// A UDP socket is told when a queue has no room for a datagram; else the kernel drops it and says nothing.
pub(crate) fn report_full_queues(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let (level, option) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    } else {
        (libc::IPPROTO_IP, libc::IP_RECVERR)
    };
    where_known(set_option(socket, level, option, &1_i32))
}

/// What a socket sends leaves by this interface, whatever other route there is.
pub(crate) fn bind_to_interface(socket: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let (place, bytes) = (name.as_ptr().cast(), name.len() as libc::socklen_t);
    // SAFETY: the name is valid for reads of its length during the call.
    checked(unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
        libc::setsockopt(socket.as_raw_fd(), level, option, place, bytes)
    })
    .map(drop)
}

fn where_known(set: io::Result<()>) -> io::Result<()> {
    match set {
        Err(unknown)
            if matches!(unknown.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// The kernel takes about so many frames of `frame_bytes` before the first of them has left the path: a sender that is
/// faster than the path then waits instead of filling queues, which costs the path more than the frames themselves.
pub(crate) fn keep_few_on_the_way(
    socket: BorrowedFd<'_>,
    frame_bytes: usize,
    frames: usize,
) -> io::Result<()> {
    // The kernel doubles what is asked for.
    let bytes = frames * (frame_bytes + FRAME_OVERHEAD_BYTES) / 2;
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &(bytes as c_int))
}

/// Frames of one size and the headers that `sendmmsg` wants, all allocated once. The first `head_bytes` of each frame are
/// the kernel's to write, and are not handed to it.
pub(crate) struct SendBatch {
    frame_bytes: usize,
    head_bytes: usize,
    arena: Box<[u8]>,
    parts: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

// SAFETY: the raw pointers in the headers point into boxes that the batch owns and that move with it.
unsafe impl Send for SendBatch {}

impl SendBatch {
    pub(crate) fn new(frames: usize, frame_bytes: usize, head_bytes: usize) -> Self {
        let mut arena = vec![0_u8; frames * frame_bytes].into_boxed_slice();
        let mut parts: Box<[libc::iovec]> = arena
            .chunks_exact_mut(frame_bytes)
            .map(|frame| &mut frame[head_bytes..])
            .map(|handed| libc::iovec {
                iov_base: handed.as_mut_ptr().cast(),
                iov_len: handed.len(),
            })
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
        Self { frame_bytes, head_bytes, arena, parts, headers }
    }

    #[inline]
    pub(crate) fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        let first = index * self.frame_bytes;
        assert!(bytes <= self.frame_bytes, "the frame is larger than its place");
        self.parts[index].iov_len = bytes - self.head_bytes;
        &mut self.arena[first..first + bytes]
    }

    /// Sends the first `count` frames; how many the kernel accepted.
    #[inline]
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        let headers = &mut self.headers[..count];
        let (mut next, mut accepted, mut full_since_ns) = (0, 0, None);
        while next < count {
            let rest = &mut headers[next..];
            // SAFETY: the headers point to parts and frames that the batch owns; the kernel only reads the frames.
            let sent = unsafe {
                let (count, flags) = (rest.len() as libc::c_uint, libc::MSG_DONTWAIT);
                libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), count, flags)
            };
            if sent >= 0 {
                next += sent as usize;
                accepted += sent as usize;
                full_since_ns = None;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // So many frames are on their way that the socket's buffer is full: they will leave it.
                Some(libc::EAGAIN) => {
                    let now = monotonic_ns();
                    if now - *full_since_ns.get_or_insert(now) > SEND_TIMEOUT_NS {
                        (next, full_since_ns) = (next + 1, None);
                    }
                }
                Some(libc::ENOBUFS | libc::ENOMEM) => next += 1,
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
    pub(crate) fn open(interface: u32, whole_frames: bool) -> io::Result<Self> {
        let socket = unbound_packet_socket()?;
        let fd = socket.as_fd();
        let kept_bytes = if whole_frames { WHOLE_FRAME_BYTES } else { KEPT_BYTES };
        attach_filter(fd, &mut [instruction(0x06, 0, 0, kept_bytes)])?;
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
