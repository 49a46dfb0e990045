//! A signal that takes a thread out of a system call, and the cores of a helper.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::ptr;

use crate::sys::checked;

/// A thread whose system calls another one can interrupt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interruptible {
    process: libc::c_long,
    thread: libc::c_long,
}

extern "C" fn ignore(_signal: libc::c_int) {}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

impl Interruptible {
    /// The calling thread. From here on the signal does nothing but interrupt.
    pub(crate) fn this_thread() -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid sigaction without flags; the handler does nothing at all. The thread's
        // number comes from the system call itself: the standard library declares `gettid` weak, and in a static binary
        // it is then not there.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            checked(libc::sigaction(signal(), &raw const action, ptr::null_mut()))?;
            let process = libc::c_long::from(libc::getpid());
            Ok(Self { process, thread: libc::syscall(libc::SYS_gettid) })
        }
    }

    /// Interrupts it. A thread that is between two system calls is not, so this is done until it has come out.
    pub(crate) fn interrupt(self) {
        let signal = libc::c_long::from(signal());
        // SAFETY: plain system call; the thread belongs to this process and lives as long as its helper.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, signal) };
    }
}

/// Moves the calling thread away from a core, if there is another one to be on.
pub(crate) fn leave_core(cpu: Option<u32>) {
    let Some(cpu) = cpu.filter(|cpu| (*cpu as usize) < libc::CPU_SETSIZE as usize) else { return };
    // SAFETY: all-zero bytes are an empty set, `count` and `cpu` stay below its size, and it is valid for the call.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        let count = libc::sysconf(libc::_SC_NPROCESSORS_CONF).clamp(1, 1024) as usize;
        for other in (0..count).filter(|other| *other != cpu as usize) {
            libc::CPU_SET(other, &mut set);
        }
        // With no other core allowed the call fails, and the thread stays.
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
