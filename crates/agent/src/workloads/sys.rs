//! System calls that are the workloads' own work.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Fresh anonymous memory, straight from the kernel and given back on drop; a forked child keeps its mapping.
pub struct Memory {
    start: *mut u64,
    bytes: usize,
}

impl Memory {
    /// Asks the kernel for memory; its pages come into being when they are touched.
    ///
    /// # Errors
    /// The call's.
    pub fn allocate(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE)
    }

    /// As `allocate`; what this process writes there its forked children read, and the other way round. Who may use
    /// which part at a time is for them to agree on.
    ///
    /// # Errors
    /// The call's.
    pub fn shared(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED)
    }

    fn map(bytes: usize, kind: libc::c_int) -> io::Result<Self> {
        // SAFETY: a fresh mapping that overlaps nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                kind | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), bytes })
    }

    /// The memory as floating-point numbers.
    pub fn doubles(&mut self) -> &mut [f64] {
        // SAFETY: as for `words`; every pattern of bits is an f64.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<f64>()) }
    }

    /// The memory as bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes) }
    }

    /// The memory as words.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is page-aligned, zeroed, `bytes` long and borrowed for as long as the slice lives.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes / size_of::<u64>()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this size and is not used any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// What this kernel says a process may still have; none where it does not say.
pub fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Forks a child that exits at once and waits for it; true if it exited with status 0.
///
/// # Errors
/// The fork's or the wait's.
pub fn fork_and_wait() -> io::Result<bool> {
    wait_for(fork(|| 0)?)
}

/// Forks; the child does its work and exits with the status that it gives. The work must be safe after a fork of a
/// process with threads: system calls on what was made before, and nothing that takes a lock or memory from the heap.
///
/// # Errors
/// The fork's.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<libc::pid_t> {
    // SAFETY: the child does what it is given, and that is asked to be safe here, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = work();
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(status) };
    }
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

/// Waits for a child; true if it exited with status 0.
///
/// # Errors
/// The wait's.
pub fn wait_for(pid: libc::pid_t) -> io::Result<bool> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writes; `pid` is our own child, which nothing else waits for.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if waited == pid {
            return Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Ends a child and waits for it.
pub fn end(pid: libc::pid_t) {
    // SAFETY: our own child, which nothing else waits for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let _ = wait_for(pid);
}

/// A pipe: the end to read from and the end to write to, both closed at an exec.
///
/// # Errors
/// The call's.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the place holds two descriptors, which belong to nobody else.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Reads once into all of `bytes`; false where less came, as at the end of the stream.
#[inline]
pub fn read_all(descriptor: RawFd, bytes: &mut [u8]) -> bool {
    // SAFETY: the place is valid for writes of its size.
    let count = unsafe { libc::read(descriptor, bytes.as_mut_ptr().cast(), bytes.len()) };
    usize::try_from(count) == Ok(bytes.len())
}

/// Writes all of `bytes` at once; false where that did not go.
#[inline]
pub fn write_all(descriptor: RawFd, bytes: &[u8]) -> bool {
    // SAFETY: the place is valid for reads of its size.
    let count = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count) == Ok(bytes.len())
}

/// Closes a descriptor that a forked child has from its parent and does not want.
pub fn close_inherited(descriptor: RawFd) {
    // SAFETY: the child never returns to what owns it.
    unsafe { libc::close(descriptor) };
}

/// The CPUs that this thread may run on.
///
/// # Errors
/// The call's.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: all-zero bytes are the empty set, which the call fills.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect())
    }
}
