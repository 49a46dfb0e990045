//! The system calls that are measured, each as it is.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_char, c_int};

/// How often the handler ran since it was last asked.
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// The parent's number: a call that does nothing else.
#[inline]
pub fn parent() -> libc::pid_t {
    // SAFETY: no memory is involved.
    unsafe { libc::getppid() }
}

/// The size of a file by its name; none if the call failed.
#[inline]
pub fn size_by_name(name: &CStr) -> Option<u64> {
    let mut place = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the name ends with a zero byte; the place is valid for writes and initialised if the call succeeds.
    unsafe {
        (libc::stat(name.as_ptr(), place.as_mut_ptr()) == 0)
            .then(|| place.assume_init_ref().st_size as u64)
    }
}

/// The size of an open file; none if the call failed. By number, since C libraries put other calls in its place.
#[inline]
pub fn size_of_open(descriptor: RawFd) -> Option<u64> {
    let mut place = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the place is valid for writes, laid out as the kernel does, and initialised if the call succeeds.
    unsafe {
        (libc::syscall(libc::SYS_fstat, descriptor, place.as_mut_ptr()) == 0)
            .then(|| place.assume_init_ref().st_size as u64)
    }
}

/// Opens a file for reading and closes it; whether both went well.
#[inline]
pub fn open_and_close(name: &CStr) -> bool {
    // SAFETY: the name ends with a zero byte; the descriptor is this function's own.
    unsafe {
        let descriptor = libc::open(name.as_ptr(), libc::O_RDONLY);
        descriptor >= 0 && libc::close(descriptor) == 0
    }
}

/// Installs the handler of SIGUSR1; whether it was installed before. None if the call failed.
#[inline]
pub fn install_handler() -> Option<bool> {
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: all-zero bytes are a valid sigaction without flags and with an empty mask; the handler touches an atomic
    // number alone; `before` is initialised if the call succeeds.
    unsafe {
        let mut wanted: libc::sigaction = std::mem::zeroed();
        wanted.sa_sigaction = handler as *const () as usize;
        (libc::sigaction(libc::SIGUSR1, &raw const wanted, before.as_mut_ptr()) == 0)
            .then(|| before.assume_init_ref().sa_sigaction == wanted.sa_sigaction)
    }
}

/// Gives SIGUSR1 back to the kernel's own way with it.
pub fn remove_handler() {
    // SAFETY: no memory is involved.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_DFL) };
}

/// Sends this process SIGUSR1; how often the handler has run when the call returns.
#[inline]
pub fn signal_itself(own: libc::pid_t) -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(own, libc::SIGUSR1) };
    HANDLED.swap(0, Ordering::Relaxed)
}

/// As `signal_itself`, with the signal that is none: what sending alone costs.
#[inline]
pub fn signal_nothing(own: libc::pid_t) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(own, 0) == 0 }
}

/// A program with its arguments, made ready for a forked child.
pub struct Program {
    words: Vec<CString>,
    pointers: Vec<*const c_char>,
    output: RawFd,
}

impl Program {
    /// `words`: path and arguments; `output`: what its standard output becomes.
    ///
    /// # Errors
    /// A zero byte in a word.
    pub fn new(words: &[&str], output: RawFd) -> io::Result<Self> {
        let words: Vec<CString> =
            words.iter().map(|word| CString::new(*word)).collect::<Result<_, _>>()?;
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Ok(Self { words, pointers, output })
    }

    /// Becomes that program, with no signal blocked; returns where that failed. For a forked child.
    pub fn become_it(&self) -> i32 {
        let mut none = MaybeUninit::uninit();
        // SAFETY: async-signal-safe calls; the words and the list of them outlive the call.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
            libc::dup2(self.output, 1);
            libc::execv(self.words[0].as_ptr(), self.pointers.as_ptr());
        }
        127
    }
}
