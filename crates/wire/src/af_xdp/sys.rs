//! `AF_XDP` sockets: memory, rings and the send call.
#![allow(unsafe_code)]
// The kernel aligns what it lays into a ring.
#![allow(clippy::cast_ptr_alignment)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use libc::c_int;
use virtoll_clock::monotonic_ns;

use crate::pacing::{BATCH_FRAMES, FrameSender};
use crate::sys::{checked, set_option};

const PLACE_BYTES: usize = 2048;
/// Few: an ordinary user may lock little memory, and a batch has half as many.
const PLACES: usize = 128;
/// A power of two, and as many as there are places: a ring is never full.
const RING_ENTRIES: u32 = 128;
/// The kernel frees the queue of a socket that was closed a little later.
const BIND_TRIES: u32 = 1_000;
const BIND_WAIT: Duration = Duration::from_millis(1);
/// So many send calls without progress and sending is given up.
const MOST_IDLE_CALLS: u32 = 1_000_000;

/// So long without a frame that comes back. A path that delays frames holds them for as long as it delays.
const MOST_IDLE_NS: u64 = 10_000_000_000;

/// A wait for frames that come back, which ends where none does.
struct Returning {
    /// When the last one came back, or the wait began.
    since_ns: u64,
}

impl Returning {
    /// Looks at the clock; `came` says whether a frame has come back since the last look.
    ///
    /// # Errors
    /// None has for too long.
    fn look(&mut self, came: bool, now_ns: u64) -> io::Result<()> {
        if came {
            self.since_ns = now_ns;
        }
        if now_ns.saturating_sub(self.since_ns) < MOST_IDLE_NS {
            return Ok(());
        }
        let sentence = "AF_XDP: for 10 s the interface gave back no frame that it had taken";
        Err(io::Error::new(io::ErrorKind::TimedOut, sentence))
    }
}

struct Mapping {
    memory: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to its owner alone.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(bytes: usize, flags: c_int, descriptor: c_int, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at a place of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                flags | libc::MAP_POPULATE,
                descriptor,
                offset,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { memory: memory.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this size.
        unsafe { libc::munmap(self.memory.cast(), self.bytes) };
    }
}

/// A ring that the kernel and we share; entries are of type `T`.
struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    entry: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(socket: &OwnedFd, offsets: libc::xdp_ring_offset, page: i64) -> io::Result<Self> {
        let bytes = offsets.desc as usize + RING_ENTRIES as usize * size_of::<T>();
        let mapping = Mapping::new(bytes, libc::MAP_SHARED, socket.as_raw_fd(), page)?;
        Ok(Self { mapping, offsets, entry: std::marker::PhantomData })
    }

    fn counter(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel states where within the mapping the aligned counters lie; they are shared as atomics.
        unsafe { AtomicU32::from_ptr(self.mapping.memory.add(offset as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.counter(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.offsets.consumer)
    }

    fn entry(&self, number: u32) -> *mut T {
        let index = (number & (RING_ENTRIES - 1)) as usize;
        // SAFETY: the index is below the number of entries for which the mapping has room.
        unsafe { self.mapping.memory.add(self.offsets.desc as usize).cast::<T>().add(index) }
    }
}

/// A socket, its memory and its rings.
pub(crate) struct Sender {
    sending: Ring<libc::xdp_desc>,
    completed: Ring<u64>,
    free: Vec<u64>,
    batch: [libc::xdp_desc; BATCH_FRAMES],
    places: Mapping,
    socket: OwnedFd,
}

fn explain(cause: io::Error) -> io::Error {
    if cause.raw_os_error() == Some(libc::ENOBUFS) {
        let sentence = "too little memory may be locked for AF_XDP (ulimit -l)";
        return io::Error::new(io::ErrorKind::OutOfMemory, sentence);
    }
    cause
}

impl Sender {
    /// Opens a socket that sends on the first queue of an interface.
    pub(crate) fn open(interface: u32) -> io::Result<Self> {
        // SAFETY: plain system call; the descriptor is owned from here on.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_XDP, kind, 0))?)
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let places = Mapping::new(PLACES * PLACE_BYTES, flags, -1, 0)?;
        // SAFETY: all-zero bytes are valid for this structure of integers.
        let mut memory: libc::xdp_umem_reg = unsafe { zeroed() };
        memory.addr = places.memory as u64;
        memory.len = places.bytes as u64;
        memory.chunk_size = PLACE_BYTES as u32;
        let option = |name, value: u32| set_option(socket.as_fd(), libc::SOL_XDP, name, &value);
        set_option(socket.as_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &memory).map_err(explain)?;
        option(libc::XDP_UMEM_FILL_RING, RING_ENTRIES)?;
        option(libc::XDP_UMEM_COMPLETION_RING, RING_ENTRIES)?;
        option(libc::XDP_TX_RING, RING_ENTRIES)?;
        let offsets = offsets(&socket)?;
        let sending = Ring::new(&socket, offsets.tx, libc::XDP_PGOFF_TX_RING)?;
        let completed =
            Ring::new(&socket, offsets.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64)?;
        bind(&socket, interface)?;
        let free = (0..PLACES as u64).map(|place| place * PLACE_BYTES as u64).collect();
        let batch = [libc::xdp_desc { addr: 0, len: 0, options: 0 }; BATCH_FRAMES];
        Ok(Self { sending, completed, free, batch, places, socket })
    }

    /// Writes something into every place.
    pub(crate) fn prepare(&mut self, write: impl Fn(&mut [u8])) {
        for place in 0..PLACES {
            write(self.place((place * PLACE_BYTES) as u64, PLACE_BYTES));
        }
    }

    #[inline]
    fn place(&mut self, address: u64, bytes: usize) -> &mut [u8] {
        assert!(bytes <= PLACE_BYTES && address as usize + PLACE_BYTES <= self.places.bytes);
        // SAFETY: the place lies within the mapping, and the kernel does not read it before it is handed over.
        unsafe { std::slice::from_raw_parts_mut(self.places.memory.add(address as usize), bytes) }
    }

    /// Takes back the places that the kernel has done with.
    #[inline]
    fn reap(&mut self) {
        let done = self.completed.producer().load(Ordering::Acquire);
        let mut next = self.completed.consumer().load(Ordering::Relaxed);
        while next != done {
            // SAFETY: entries between consumer and producer are ours to read.
            self.free.push(unsafe { *self.completed.entry(next) });
            next = next.wrapping_add(1);
        }
        self.completed.consumer().store(next, Ordering::Release);
    }

    /// Kicks the kernel until the ring is empty; how many frames the interface refused.
    #[inline]
    fn flush(&mut self, produced: u32) -> io::Result<usize> {
        let (mut refused, mut idle) = (0, 0);
        loop {
            let before = self.sending.consumer().load(Ordering::Acquire);
            if before == produced {
                return Ok(refused);
            }
            // SAFETY: plain system call without a buffer.
            let sent = unsafe {
                let (socket, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
                libc::sendto(socket, ptr::null(), 0, flags, ptr::null(), 0)
            };
            if sent < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    // The frame that was tried last is completed, and was not sent.
                    Some(libc::EBUSY) => refused += 1,
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR | libc::ENOMEM) => {}
                    _ => return Err(error),
                }
            }
            let moved = self.sending.consumer().load(Ordering::Acquire) != before;
            idle = if moved { 0 } else { idle + 1 };
            if idle > MOST_IDLE_CALLS {
                let sentence = "AF_XDP: the kernel took no frame from the ring in a million calls";
                return Err(io::Error::new(io::ErrorKind::TimedOut, sentence));
            }
            self.reap();
        }
    }

    /// Waits until there is room for a batch.
    #[cold]
    fn wait_for_places(&mut self) -> io::Result<()> {
        let mut returning = Returning { since_ns: monotonic_ns() };
        while self.free.len() < BATCH_FRAMES {
            let before = self.free.len();
            self.reap();
            returning.look(self.free.len() > before, monotonic_ns())?;
        }
        Ok(())
    }
}

impl FrameSender for Sender {
    #[inline]
    fn frame(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        // The ring is empty between batches, so that there are always more places than frames of a batch.
        let address = self.free[self.free.len() - 1 - index];
        self.batch[index] = libc::xdp_desc { addr: address, len: bytes as u32, options: 0 };
        self.place(address, bytes)
    }

    #[inline]
    fn send(&mut self, count: usize) -> io::Result<usize> {
        let first = self.sending.producer().load(Ordering::Relaxed);
        for (number, descriptor) in self.batch[..count].iter().enumerate() {
            let entry = self.sending.entry(first.wrapping_add(number as u32));
            // SAFETY: the ring is empty, so the entry is ours to write.
            unsafe { entry.write(*descriptor) };
        }
        self.free.truncate(self.free.len() - count);
        let produced = first.wrapping_add(count as u32);
        self.sending.producer().store(produced, Ordering::Release);
        let refused = self.flush(produced)?;
        if self.free.len() < BATCH_FRAMES {
            self.wait_for_places()?;
        }
        Ok(count - refused.min(count))
    }
}

fn offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero bytes are valid for this structure of integers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
    let mut bytes = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    // SAFETY: `offsets` and `bytes` are valid for writes of the stated size.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            (&raw mut offsets).cast(),
            &raw mut bytes,
        )
    })?;
    Ok(offsets)
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_xdp.
    let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_ifindex = interface;
    address.sxdp_flags = libc::XDP_COPY;
    for _ in 0..BIND_TRIES {
        // SAFETY: `address` is a valid sockaddr_xdp and its size is given.
        let bound = checked(unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        });
        match bound {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(BIND_WAIT),
            other => return other.map(drop),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_ten_seconds_after_the_last_frame_that_came_back() {
        let mut returning = Returning { since_ns: 5 };
        assert!(returning.look(false, 10_000_000_004).is_ok());
        assert!(returning.look(true, 10_000_000_005).is_ok(), "one has come");
        assert!(returning.look(false, 20_000_000_004).is_ok());
        let ended = returning.look(false, 20_000_000_005).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert!(ended.to_string().contains("gave back no frame"), "{ended}");
    }
}
