//! The `bpf` system call: maps, programs, links, test runs on live frames.
#![allow(unsafe_code)]
// Maps begin at a page, and their values at multiples of 8 bytes.
#![allow(clippy::cast_ptr_alignment)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use libc::c_long;

use super::attributes::{
    LinkAttributes, LoadAttributes, MapAttributes, RunAttributes, UpdateAttributes,
};
use super::{AttachMode, refused};

const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
const PROGRAM_RUN: c_long = 10;
const LINK_CREATE: c_long = 28;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FLAG_MAPPABLE: u32 = 1 << 10;
const FLAG_LIVE_FRAMES: u32 = 1 << 1;
const LICENCE: &[u8] = b"Dual MIT/GPL\0";
const LOG_BYTES: usize = 1 << 20;

/// Kinds of maps, by the kernel's numbers.
pub(crate) mod map_kinds {
    pub(crate) const ARRAY: u32 = 2;
    pub(crate) const DEVICES: u32 = 14;
}

fn bpf<T>(command: c_long, attributes: &mut T) -> io::Result<c_long> {
    // SAFETY: `attributes` is a valid, zero-extended beginning of the kernel's union for `command`; the addresses in
    // it are those of buffers that the callers below keep alive, of the stated sizes.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: c_long) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(descriptor as i32) }
}

fn create_map(kind: u32, value_bytes: usize, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapAttributes {
        kind,
        key_bytes: 4,
        value_bytes: value_bytes as u32,
        entries,
        flags,
        ..MapAttributes::default()
    };
    bpf(MAP_CREATE, &mut attributes)
        .or_else(|cause| {
            if cause.raw_os_error() != Some(libc::EPERM) || !allow_locked_memory() {
                return Err(cause);
            }
            bpf(MAP_CREATE, &mut attributes)
        })
        .map(owned)
        .map_err(|cause| refused("make a BPF map", &cause, ""))
}

/// Up to Linux 5.10 maps and programs are locked memory, of which a process may have 64 KiB by default. Whether this one
/// may have more now; libbpf does the same.
fn allow_locked_memory() -> bool {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is valid for the call, which only reads it.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) == 0 }
}

/// A map of the devices to redirect to, from 0 on.
pub(crate) fn devices(interfaces: &[u32]) -> io::Result<OwnedFd> {
    let map = create_map(map_kinds::DEVICES, 4, interfaces.len() as u32, 0)?;
    for (key, value) in (0_u32..).zip(interfaces) {
        let mut attributes = UpdateAttributes {
            map: map.as_raw_fd() as u32,
            key: ptr::from_ref(&key) as u64,
            value: ptr::from_ref(value) as u64,
            ..UpdateAttributes::default()
        };
        bpf(MAP_UPDATE, &mut attributes)
            .map_err(|cause| refused("redirect to the interface", &cause, ""))?;
    }
    Ok(map)
}

/// Values that a program and this process both see.
pub(crate) struct Shared<T> {
    map: OwnedFd,
    memory: *mut u8,
    mapped_bytes: usize,
    entries: usize,
    kind: PhantomData<T>,
}

// SAFETY: the mapping belongs to this value; it is read and written by volatile copies only.
unsafe impl<T: Pod> Send for Shared<T> {}

impl<T: Pod> Shared<T> {
    /// Zeroed values.
    pub(crate) fn create(entries: u32) -> io::Result<Self> {
        let map = create_map(map_kinds::ARRAY, size_of::<T>(), entries.max(1), FLAG_MAPPABLE)?;
        let stride = size_of::<T>().next_multiple_of(8);
        let mapped_bytes = (stride * entries.max(1) as usize).next_multiple_of(4096);
        // SAFETY: a fresh mapping of the map that the kernel has just made, of its size rounded up to pages.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(refused("map BPF data", &io::Error::last_os_error(), ""));
        }
        let entries = entries.max(1) as usize;
        Ok(Self { map, memory: memory.cast(), mapped_bytes, entries, kind: PhantomData })
    }

    fn place(&self, index: usize) -> *mut T {
        assert!(index < self.entries, "index {index} of {}", self.entries);
        // SAFETY: the index is within the mapping.
        unsafe { self.memory.add(index * size_of::<T>().next_multiple_of(8)).cast() }
    }

    /// A copy of one value.
    pub(crate) fn get(&self, index: usize) -> T {
        // SAFETY: the place is within the mapping and aligned to 8 bytes; any pattern of bytes is valid.
        unsafe { ptr::read_volatile(self.place(index)) }
    }

    /// Writes one value.
    pub(crate) fn set(&mut self, index: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { ptr::write_volatile(self.place(index), value) }
    }
}

impl<T: Pod> Shared<T> {
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= size_of::<T>());
        // SAFETY: the aligned word lies within the first value, and is shared with the program as an atomic.
        unsafe { AtomicU64::from_ptr(self.memory.add(offset).cast()) }
    }

    fn part_place<S: Pod>(&self, offset: usize) -> *mut S {
        assert!(offset.is_multiple_of(8) && offset + size_of::<S>() <= size_of::<T>());
        // SAFETY: the part lies within the first value.
        unsafe { self.memory.add(offset).cast() }
    }

    /// A copy of a part of the first value.
    pub(crate) fn part<S: Pod>(&self, offset: usize) -> S {
        // SAFETY: the place lies within the mapping and is aligned to 8 bytes; any pattern of bytes is valid.
        unsafe { ptr::read_volatile(self.part_place(offset)) }
    }

    /// Writes a part of the first value.
    pub(crate) fn set_part<S: Pod>(&mut self, offset: usize, part: &S) {
        // SAFETY: as in `part`.
        unsafe { ptr::write_volatile(self.part_place(offset), *part) }
    }

    /// One 64-bit field of the first value, while the program runs.
    pub(crate) fn field(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Sets one 64-bit field of the first value, while the program runs.
    pub(crate) fn set_field(&mut self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }
}

impl<T> AsFd for Shared<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `create` with this size, and no reference into it exists.
        unsafe { libc::munmap(self.memory.cast(), self.mapped_bytes) };
    }
}

/// The verifier's log: up to the first NUL. Behind it is what was there before the verifier went back in its log.
fn log_text(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}

/// Loads a program; on a refusal once more with the verifier's log.
pub(crate) fn load_program(name: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut attributes = LoadAttributes {
        kind: PROGRAM_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        ..LoadAttributes::default()
    };
    for (place, byte) in attributes.name[..15].iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    if let Ok(program) = bpf(PROGRAM_LOAD, &mut attributes) {
        return Ok(owned(program));
    }
    let mut log = vec![0_u8; LOG_BYTES];
    attributes.log_level = 1;
    attributes.log_bytes = LOG_BYTES as u32;
    attributes.log = log.as_mut_ptr() as u64;
    bpf(PROGRAM_LOAD, &mut attributes)
        .map(owned)
        .map_err(|cause| refused(&format!("load the XDP program {name}"), &cause, &log_text(&log)))
}

/// Attaches a program to an interface for as long as the descriptor is open.
pub(crate) fn attach_xdp(
    program: BorrowedFd<'_>,
    interface: u32,
    mode: AttachMode,
) -> io::Result<OwnedFd> {
    let flags = match mode {
        AttachMode::Native => 1 << 2,
        AttachMode::Generic => 1 << 1,
    };
    let mut attributes =
        LinkAttributes { program: program.as_raw_fd() as u32, interface, kind: ATTACH_XDP, flags };
    bpf(LINK_CREATE, &mut attributes)
        .map(owned)
        .map_err(|cause| refused("attach the XDP program", &cause, ""))
}

/// Runs a program on `repeat` frames that then leave for real; a signal ends it earlier, which is no error.
pub(crate) fn run_live(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let mut attributes = RunAttributes {
        program: program.as_raw_fd() as u32,
        in_bytes: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat,
        batch,
        flags: FLAG_LIVE_FRAMES,
        ..RunAttributes::default()
    };
    match bpf(PROGRAM_RUN, &mut attributes) {
        Ok(_) => Ok(()),
        Err(cause) if cause.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(cause) => Err(refused("run the XDP program on live frames", &cause, "")),
    }
}

/// Runs a program once on a copy of `frame`; its verdict, and the frame as it left it.
pub(crate) fn run_once(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    let mut output = vec![0; frame.len()];
    let mut attributes = RunAttributes {
        program: program.as_raw_fd() as u32,
        in_bytes: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        out_bytes: output.len() as u32,
        data_out: output.as_mut_ptr() as u64,
        repeat: 1,
        ..RunAttributes::default()
    };
    bpf(PROGRAM_RUN, &mut attributes)
        .map_err(|cause| refused("run the XDP program", &cause, ""))?;
    output.truncate(attributes.out_bytes as usize);
    Ok((attributes.result, output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_verifier_took_back_is_not_in_its_log() {
        let log = b"R4 unbounded memory access\nprocessed 9 insns\n\0from 568 to 569: safe\n\0\0";
        assert_eq!(log_text(log), "R4 unbounded memory access\nprocessed 9 insns\n");
        assert_eq!(log_text(b"all of it"), "all of it");
        assert_eq!(log_text(b"\0\0"), "");
    }
}
