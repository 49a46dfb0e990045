//! System calls of the clocks.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::{Clock, NANOSECONDS};

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuTime {
    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

impl std::ops::Add for CpuTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { user_ns: self.user_ns + other.user_ns, system_ns: self.system_ns + other.system_ns }
    }
}

#[inline]
pub(crate) fn now_ns(clock: Clock) -> u64 {
    let number = match clock {
        Clock::Realtime => libc::CLOCK_REALTIME,
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
        Clock::Boottime => libc::CLOCK_BOOTTIME,
        Clock::ThreadCpu => libc::CLOCK_THREAD_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the duration of the call; a clock that fails leaves it zero.
    unsafe { libc::clock_gettime(number, &raw mut time) };
    time.tv_sec as u64 * NANOSECONDS + time.tv_nsec as u64
}

/// Sleeps until `CLOCK_MONOTONIC` is at least `due_ns`; a signal does not shorten it.
pub fn sleep_until_monotonic(due_ns: u64) {
    let due = libc::timespec {
        tv_sec: (due_ns / NANOSECONDS) as libc::time_t,
        tv_nsec: (due_ns % NANOSECONDS) as libc::c_long,
    };
    // SAFETY: `due` is a valid timespec; with TIMER_ABSTIME the kernel does not write the remaining time.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const due,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> CpuTime {
    usage(libc::RUSAGE_THREAD)
}

/// CPU time of this process and of its children that were waited for.
pub fn process_and_children_cpu() -> CpuTime {
    usage(libc::RUSAGE_SELF) + usage(libc::RUSAGE_CHILDREN)
}

fn usage(who: libc::c_int) -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for one rusage, and all-zero bytes are a valid rusage if the call fails.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    CpuTime { user_ns: nanoseconds(usage.ru_utime), system_ns: nanoseconds(usage.ru_stime) }
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * NANOSECONDS + time.tv_usec as u64 * 1_000
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn seconds_and_microseconds_are_nanoseconds() {
        assert_eq!(nanoseconds(libc::timeval { tv_sec: 3, tv_usec: 7 }), 3_000_007_000);
    }
}
