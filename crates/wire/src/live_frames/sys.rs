//! A signal that takes a thread out of a system call.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::ptr;

use crate::sys::checked;

/// From its time on the calling thread's system calls are interrupted, once a millisecond, until it is dropped.
pub(crate) struct Alarm(libc::timer_t);

const REPEAT_NS: libc::c_long = 1_000_000;

extern "C" fn ignore(_signal: libc::c_int) {}

impl Alarm {
    pub(crate) fn at(monotonic_ns: u64) -> io::Result<Self> {
        let signal = libc::SIGRTMIN() + 3;
        // SAFETY: all-zero bytes are a valid sigaction without flags; the handler does nothing at all.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            checked(libc::sigaction(signal, &raw const action, ptr::null_mut()))?;
        }
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: all-zero bytes are a valid sigevent; the thread is the calling one; `timer` is valid for a write.
        unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            // Not `gettid`: the standard library declares it weak, and in a static binary it is then not there.
            event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as libc::pid_t;
            checked(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))?;
        }
        let alarm = Self(timer);
        let time = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: REPEAT_NS },
            it_value: libc::timespec {
                tv_sec: (monotonic_ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (monotonic_ns % 1_000_000_000) as libc::c_long,
            },
        };
        // SAFETY: the timer was made above and `time` is valid for the duration of the call.
        unsafe {
            let absolute = libc::TIMER_ABSTIME;
            checked(libc::timer_settime(timer, absolute, &raw const time, ptr::null_mut()))?;
        }
        Ok(alarm)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer was made in `at` and is deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}
