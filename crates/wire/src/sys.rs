//! System calls of the packet path.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

/// The least that the kernel gives (`sched_setattr(2)`: 0.1 ms).
const SHORTEST_SLICE_NS: u64 = 100_000;
const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
pub(crate) const ETH_P_ALL: u16 = libc::ETH_P_ALL as u16;

pub(crate) fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub(crate) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
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

/// Waits for a grace period of RCU: what any processor ran in the kernel's network path when this was called is over.
///
/// # Errors
/// A kernel that does not offer it.
pub(crate) fn grace_period() -> io::Result<()> {
    // SAFETY: plain system call without pointers.
    let waited = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if waited < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
        [*byte] = value.to_ne_bytes(); // signed on x86, unsigned on Arm
    }
    Ok(mac)
}

pub(crate) fn bind(socket: BorrowedFd<'_>, protocol: u16, interface: u32) -> io::Result<()> {
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

pub(crate) fn unbound_packet_socket() -> io::Result<OwnedFd> {
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

pub(crate) const fn instruction(
    code: u16,
    jump_true: u8,
    jump_false: u8,
    value: u32,
) -> libc::sock_filter {
    libc::sock_filter { code, jt: jump_true, jf: jump_false, k: value }
}

pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

#[inline]
pub(crate) fn send(socket: BorrowedFd<'_>, frame: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, frame, SendFlags::empty())?;
    Ok(())
}

/// Waits until one of the descriptors is readable; false when the time is over.
pub(crate) fn wait_readable(descriptors: &[BorrowedFd<'_>], timeout_ns: u64) -> io::Result<bool> {
    let mut entries: Vec<PollFd<'_>> = descriptors
        .iter()
        .map(|descriptor| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN))
        .collect();
    let timeout = Timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as i64,
        tv_nsec: (timeout_ns % 1_000_000_000) as i64,
    };
    match poll(&mut entries, Some(&timeout)) {
        Err(Errno::INTR) => Ok(false),
        other => Ok(other? > 0),
    }
}

/// Pins the calling thread to one core.
pub(crate) fn pin_thread(cpu: u32) -> io::Result<()> {
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Raises the calling thread's priority as far as permitted, sets its timer slack to 1 ns, and asks for the shortest time
/// slice, so that it runs as soon as it wakes (from Linux 6.12 on). What is not permitted is left unchanged.
pub(crate) fn prefer_thread(niceness: c_int) {
    let _refused = setpriority_process(None, niceness);
    let _unknown = set_current_timer_slack(NonZeroU64::new(1));
    let _unknown = set_time_slice(SHORTEST_SLICE_NS);
}

/// The calling thread's time slice, with its niceness unchanged.
fn set_time_slice(slice_ns: u64) -> io::Result<()> {
    let niceness = getpriority_process(None)?;
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: niceness,
        sched_priority: 0,
        sched_runtime: slice_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `attributes` is valid for reads of the size that it states during the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    checked(result as c_int).map(drop)
}

/// The calling thread's time slice; 0 if its kernel has none of its own for it.
#[cfg(test)]
pub(crate) fn time_slice_ns() -> io::Result<u64> {
    // SAFETY: all zero is a valid value of this structure of integers.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: `attributes` is valid for writes of `size` bytes during the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    checked(result as c_int).map(|_| attributes.sched_runtime)
}
