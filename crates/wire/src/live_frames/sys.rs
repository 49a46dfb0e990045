//! A timer of the kernel's that takes a thread out of a system call, and the cores of a helper.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::ptr;
use std::time::Duration;

use crate::sys::checked;

/// Interrupts the system calls of the thread that made it, from a time on and again and again.
///
/// The kernel itself sends the signal. A thread that sends it could be kept from running by the very loop that it is to
/// end: in a group with a CPU quota, Linux 6.18 and later stop a thread only as it leaves the kernel.
pub(crate) struct Alarm(libc::timer_t);

// SAFETY: the number of a timer of this process, whichever thread uses it.
unsafe impl Send for Alarm {}
// SAFETY: the kernel locks the timer; nothing is kept here but its number.
unsafe impl Sync for Alarm {}

extern "C" fn ignore(_signal: libc::c_int) {}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

const fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs() as libc::time_t,
        tv_nsec: duration.subsec_nanos() as libc::c_long,
    }
}

impl Alarm {
    /// Of the calling thread, and not set yet. From here on the signal does nothing but interrupt.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid sigaction without flags and a valid sigevent; the handler does nothing at
        // all; the pointers are valid for the calls. The thread's number comes from the system call itself: the standard
        // library declares `gettid` weak, and in a static binary it is then not there.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            checked(libc::sigaction(signal(), &raw const action, ptr::null_mut()))?;
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as libc::c_int;
            let mut timer: libc::timer_t = zeroed();
            checked(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))?;
            Ok(Self(timer))
        }
    }

    /// Interrupts at `first_ns` (`CLOCK_MONOTONIC`; at once if that has passed) and then every `period`. A thread that is
    /// between two system calls then is not interrupted, hence again.
    pub(crate) fn set(&self, first_ns: u64, period: Duration) -> io::Result<()> {
        // A time of zero would switch the timer off.
        let first = Duration::from_nanos(first_ns.max(1));
        let setting = libc::itimerspec { it_interval: timespec(period), it_value: timespec(first) };
        // SAFETY: the timer is there as long as this is, and the setting is valid for the call.
        let set = unsafe {
            libc::timer_settime(self.0, libc::TIMER_ABSTIME, &raw const setting, ptr::null_mut())
        };
        checked(set).map(|_| ())
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is this one's own, and deleted once.
        unsafe { libc::timer_delete(self.0) };
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
