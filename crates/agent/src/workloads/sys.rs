//! System calls that are the workloads' own work.
#![allow(unsafe_code)]

use std::io;

/// Fresh anonymous memory, straight from the kernel and given back on drop.
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
        // SAFETY: a fresh private mapping that overlaps nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), bytes })
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

/// Forks a child that exits at once and waits for it; true if it exited with status 0.
///
/// # Errors
/// The fork's or the wait's.
pub fn fork_and_wait() -> io::Result<bool> {
    // SAFETY: the child calls nothing but _exit, which is safe after a fork of a process with threads.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(0) };
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
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
