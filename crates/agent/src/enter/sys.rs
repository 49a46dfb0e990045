//! System calls of `enter`: namespaces, loop devices, fork, the end of a child.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::path::Path;
use std::process::ExitCode;

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, set_parent_process_death_signal, wait,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::sys::checked;

/// Kinds of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces(UnshareFlags);

impl Default for Namespaces {
    fn default() -> Self {
        Self(UnshareFlags::empty())
    }
}

impl Namespaces {
    /// From names with commas between them.
    pub fn from_names(text: &str) -> Option<Self> {
        let mut flags = UnshareFlags::empty();
        for name in text.split(',') {
            flags |= match name {
                "cgroup" => UnshareFlags::NEWCGROUP,
                "ipc" => UnshareFlags::NEWIPC,
                "mount" => UnshareFlags::NEWNS,
                "net" => UnshareFlags::NEWNET,
                "pid" => UnshareFlags::NEWPID,
                "uts" => UnshareFlags::NEWUTS,
                _ => return None,
            };
        }
        Some(Self(flags))
    }

    /// Whether mounts are its own.
    pub fn has_mount(self) -> bool {
        self.0.contains(UnshareFlags::NEWNS)
    }

    /// Whether a child is the first that lives in them.
    pub fn has_pid(self) -> bool {
        self.0.contains(UnshareFlags::NEWPID)
    }
}

/// Makes namespaces of these kinds and enters them; mounts of a new mount namespace are its own.
///
/// # Errors
/// The calls'.
pub fn unshare(namespaces: Namespaces) -> io::Result<()> {
    if namespaces.0.is_empty() {
        return Ok(());
    }
    // SAFETY: descriptors and file system attributes stay shared; the process has one thread.
    unsafe { unshare_unsafe(namespaces.0) }?;
    if namespaces.0.contains(UnshareFlags::NEWNS) {
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    }
    Ok(())
}

/// Enters the network namespace of a file below /proc or /run/netns.
///
/// # Errors
/// The file's or the call's.
pub fn enter_network(file: &Path) -> io::Result<()> {
    let namespace = File::open(file)?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Takes all other capabilities away from this process and from every program that it will execute, for good.
///
/// # Errors
/// The call's.
pub fn keep_capabilities(kept: u64) -> io::Result<()> {
    for number in 0..u64::BITS {
        if kept >> number & 1 == 1 {
            continue;
        }
        // SAFETY: plain library calls; the process has one thread.
        match checked(unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0)
        }) {
            // Past the last one that this kernel knows.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            outcome => outcome?,
        };
    }
    // SAFETY: as above.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}

const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of the kernel's `linux/loop.h`, of which only the flags are set.
#[repr(C)]
struct LoopInfo {
    numbers: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names: [[u8; 64]; 2],
    key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    descriptor: u32,
    block_bytes: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

/// The number of a loop device that nobody uses; another may be faster to use it.
///
/// # Errors
/// The call's.
pub fn free_loop_device(control: &File) -> io::Result<i32> {
    // SAFETY: the request takes no argument, and the descriptor is open.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })
}

/// Has a loop device show a file for reading, until its last user is gone (Linux 5.8 and newer).
///
/// # Errors
/// The call's; `ResourceBusy` where the device shows another one already.
pub fn show_in_loop_device(device: &File, content: &File) -> io::Result<()> {
    let config = LoopConfig {
        descriptor: content.as_raw_fd().cast_unsigned(),
        block_bytes: 0,
        info: LoopInfo {
            numbers: [0; 5],
            number: 0,
            encryption: [0; 2],
            flags: LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR,
            names: [[0; 64]; 2],
            key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: both descriptors are open, and the kernel only reads the structure, which lives until the call returns.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) }).map(drop)
}

/// A descriptor that this process was started with; the program to be executed does not get it.
///
/// # Errors
/// There is none of this number.
pub fn inherited(number: i32) -> io::Result<File> {
    if number <= 2 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the number was given for this process to own; that it is open is asked before it is used.
    let file = unsafe { File::from_raw_fd(number) };
    match fcntl_getfd(&file).and_then(|flags| fcntl_setfd(&file, flags | FdFlags::CLOEXEC)) {
        Ok(()) => Ok(file),
        Err(cause) => {
            std::mem::forget(file);
            Err(cause.into())
        }
    }
}

/// Forks; the child's number in the parent, none in the child.
///
/// # Errors
/// The call's.
pub fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the process has one thread, so that the child may do whatever the parent might.
    checked(unsafe { libc::fork() }).map(Pid::from_raw)
}

/// Has this process killed when its parent ends.
///
/// # Errors
/// The call's.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Gives back the pages of the program's file, which are read again when they are needed: this process counts as a
/// part of the guest, and waits for most of its life.
pub fn release_code() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, length) in unwritten(&maps) {
        let place = std::ptr::without_provenance_mut(start);
        // SAFETY: the mapping was never written to, so that its content comes back from the file.
        unsafe { libc::madvise(place, length, libc::MADV_DONTNEED) };
    }
}

/// Start and length of the mappings of a file that were never written to, from the text of `/proc/PID/maps`: code, and
/// the file's beginning with the constants. What the linker has relocated is elsewhere, and is lost if given back.
fn unwritten(maps: &str) -> Vec<(usize, usize)> {
    let range = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [range, rights, offset, _, _, path] = words[..] else { return None };
        let kept =
            rights == "r-xp" || rights == "r--p" && offset.bytes().all(|digit| digit == b'0');
        let (start, end) = range.split_once('-').filter(|_| kept && path.starts_with('/'))?;
        let start = usize::from_str_radix(start, 16).ok()?;
        Some((start, usize::from_str_radix(end, 16).ok()?.checked_sub(start)?))
    };
    maps.lines().filter_map(range).collect()
}

/// Reaps children until this one has ended, then ends in the same way: with its exit code, or by its signal.
///
/// # Errors
/// The wait's.
pub fn end_as(child: Pid) -> io::Result<ExitCode> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Ok(repeat(status)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

fn repeat(status: WaitStatus) -> ExitCode {
    if let Some(number) = status.terminating_signal() {
        // SAFETY: plain system calls; the default action replaces no handler of ours.
        unsafe {
            libc::signal(number, libc::SIG_DFL);
            libc::raise(number);
        }
        return ExitCode::from(u8::try_from(128 + number).unwrap_or(1));
    }
    let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["r-xp", "r--p", "rw-p", "00000000", "/bin/a", "7f00-7f01", "7f01-7f00", "08:01"])) {
            prop_assert!(unwritten(&text).len() <= text.lines().count());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "madvise(2)")]
    fn what_was_written_to_is_not_given_back() {
        let maps = "\
7000-9000 r--p 00000000 fe:00 5383155                    /agent
9000-c000 r-xp 00002000 fe:00 5383155                    /agent
c000-d000 r--p 00005000 fe:00 5383155                    /agent
d000-e000 rw-p 00006000 fe:00 5383155                    /agent
e000-f000 r--p 00000000 00:00 0 
f000-10000 r-xp 00000000 00:00 0                          [vdso]
";
        assert_eq!(unwritten(maps), [(0x7000, 0x2000), (0x9000, 0x3000)]);
        release_code();
        assert!(!unwritten(&fs::read_to_string("/proc/self/maps").unwrap()).is_empty());
    }
}
