//! System calls for facts about the machine.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::os::fd::AsRawFd;

use libc::c_int;

use crate::sys::{checked, owned};

/// The machine's architecture as the kernel names it.
pub fn machine() -> Option<String> {
    rustix::system::uname().machine().to_str().ok().map(str::to_owned)
}

fn configured(name: c_int) -> Option<u64> {
    // SAFETY: plain library call.
    u64::try_from(unsafe { libc::sysconf(name) }).ok()
}

/// The size of a page in bytes.
pub fn page_size() -> Option<u64> {
    configured(libc::_SC_PAGESIZE)
}

/// The unit of process times that the kernel shows, in Hz.
pub fn clock_tick() -> Option<u64> {
    configured(libc::_SC_CLK_TCK)
}

/// The kernel's timer tick in Hz: the step of the clock that only a tick advances. None if
/// the kernel reports a resolution finer than any tick: then no tick drives that clock.
pub fn scheduler_tick() -> Option<u64> {
    let mut step = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `step` is valid for the write.
    checked(unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) }).ok()?;
    let nanoseconds = u64::try_from(step.tv_nsec).ok().filter(|_| step.tv_sec == 0)?;
    let rate = 1_000_000_000_u64.checked_add(nanoseconds / 2)?.checked_div(nanoseconds)?;
    (1..=10_000).contains(&rate).then_some(rate)
}

/// File systems by the number that they give themselves (linux/magic.h).
const FILE_SYSTEMS: [(u32, &str); 11] = [
    (0x0000_ef53, "ext4"),
    (0x0102_1994, "tmpfs"),
    (0x0102_1997, "9p"),
    (0x00c0_ffee, "hostfs"),
    (0x6573_5546, "fuse"),
    (0x7371_7368, "squashfs"),
    (0x794c_7630, "overlay"),
    (0x8584_58f6, "ramfs"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xe0f5_e1e2, "erofs"),
];

/// The name of the file system that a path is on, or its number in hexadecimal digits.
pub fn file_system(path: &str) -> Option<String> {
    let kind = rustix::fs::statfs(path).ok()?.f_type as u32;
    let known = FILE_SYSTEMS.iter().find(|(number, _)| *number == kind);
    Some(known.map_or_else(|| format!("{kind:#x}"), |(_, name)| (*name).to_owned()))
}

/// How many processors are on, where /sys is not there.
pub fn online_processors() -> Option<u64> {
    configured(libc::_SC_NPROCESSORS_ONLN)
}

/// The effective user.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What the hypervisor calls itself in the cpuid leaf for it. Meaningful only if the processor has the flag.
#[cfg(target_arch = "x86_64")]
pub fn hypervisor_signature() -> Option<String> {
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    let text = String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned();
    (!text.is_empty()).then_some(text)
}

/// No such leaf on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn hypervisor_signature() -> Option<String> {
    None
}

fn ethtool(interface: &str, data: *mut libc::c_void) -> Option<()> {
    // SAFETY: all-zero bytes are a valid ifreq; the caller's `data` is valid for what its command writes.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        if interface.len() >= request.ifr_name.len() {
            return None;
        }
        for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data.cast();
        let socket =
            owned(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)).ok()?;
        checked(libc::ioctl(socket.as_raw_fd(), 0x8946, &raw mut request)).ok().map(drop)
    }
}

/// An ethtool query whose command and answer are words; none if the driver has none. `words` must have room for what the
/// command answers, which the kernel does not check.
pub fn ethtool_words(interface: &str, words: &mut [u32]) -> Option<()> {
    ethtool(interface, words.as_mut_ptr().cast())
}

/// The answer to an ethtool query of one word; none if the driver has none.
pub fn ethtool_word(interface: &str, query: u32) -> Option<u32> {
    let mut words = [query, 0];
    ethtool(interface, words.as_mut_ptr().cast())?;
    Some(words[1])
}

/// Carries out an ethtool command of one word; none if the driver has none, or this process may not.
pub fn set_ethtool_word(interface: &str, command: u32, value: u32) -> Option<()> {
    ethtool(interface, [command, value].as_mut_ptr().cast())
}

/// The name of an interface's driver.
pub fn driver(interface: &str) -> Option<String> {
    // struct ethtool_drvinfo: command, driver[32], and 160 bytes more.
    let mut answer = [0_u32; 49];
    answer[0] = 3;
    ethtool(interface, answer.as_mut_ptr().cast())?;
    let bytes: Vec<u8> = answer[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
    (!name.is_empty()).then_some(name)
}
