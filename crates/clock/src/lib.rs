//! Clocks: readings in nanoseconds, waiting until a time, and the CPU time of threads and processes.
//!
//! Nothing here corrects a clock; it only reads.

mod sys;

pub use sys::{CpuTime, process_and_children_cpu, sleep_until_monotonic, thread_cpu};

/// Nanoseconds in a second.
pub const NANOSECONDS: u64 = 1_000_000_000;

/// The clocks that the agent reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_REALTIME`: the time of day; the kernel stamps received packets with it.
    Realtime,
    /// `CLOCK_MONOTONIC`: never set back; slewed by NTP.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`: the bare counter.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`: monotonic, and counts suspended time.
    Boottime,
    /// `CLOCK_THREAD_CPUTIME_ID`: what the calling thread has used.
    ThreadCpu,
}

/// One clock's reading in nanoseconds.
#[inline]
pub fn now_ns(clock: Clock) -> u64 {
    sys::now_ns(clock)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    sys::now_ns(Clock::Monotonic)
}

/// `CLOCK_REALTIME` in nanoseconds.
#[inline]
pub fn realtime_ns() -> u64 {
    sys::now_ns(Clock::Realtime)
}

/// CPU time of the calling thread in nanoseconds, exactly: user and kernel together.
pub fn thread_cpu_ns() -> u64 {
    sys::now_ns(Clock::ThreadCpu)
}

/// All clocks, read back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Time of day.
    pub realtime_ns: u64,
    /// Monotonic time.
    pub monotonic_ns: u64,
    /// The bare counter.
    pub monotonic_raw_ns: u64,
    /// Time since boot.
    pub boottime_ns: u64,
}

impl Readings {
    /// Reads all clocks.
    pub fn take() -> Self {
        Self {
            realtime_ns: now_ns(Clock::Realtime),
            monotonic_ns: now_ns(Clock::Monotonic),
            monotonic_raw_ns: now_ns(Clock::MonotonicRaw),
            boottime_ns: now_ns(Clock::Boottime),
        }
    }
}

/// What `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`, in nanoseconds: of seven tries the one whose two monotonic
/// readings enclose the real-time reading most tightly.
pub fn realtime_minus_monotonic_ns() -> i64 {
    closest_offset().1
}

/// The time between the two monotonic readings, of which half is the error at most; the difference.
fn closest_offset() -> (u64, i64) {
    let tries = (0..7).map(|_| {
        let before = monotonic_ns();
        let realtime = realtime_ns();
        let after = monotonic_ns();
        let middle = before + (after - before) / 2;
        (after - before, realtime as i64 - middle as i64)
    });
    tries.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_does_not_go_back_and_sleeping_reaches_its_time() {
        let due = monotonic_ns() + 2_000_000;
        sleep_until_monotonic(due);
        assert!(monotonic_ns() >= due);
    }

    #[test]
    fn the_offset_maps_one_clock_to_the_other() {
        let started = monotonic_ns();
        let (between, offset) = closest_offset();
        let before = monotonic_ns();
        let realtime = realtime_ns() as i64;
        let after = monotonic_ns();
        // A clock that is being set right gains less than a thousandth.
        let error = (between / 2 + 1 + (after - started) / 1_000) as i64;
        assert!(before as i64 + offset - error <= realtime, "{before} {offset} {realtime} {error}");
        assert!(realtime <= after as i64 + offset + error, "{after} {offset} {realtime} {error}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "getrusage(2)")]
    fn work_costs_cpu_time() {
        let before = thread_cpu();
        let mut sum = 0_u64;
        while thread_cpu().user_ns + thread_cpu().system_ns
            < before.user_ns + before.system_ns + 1_000_000
        {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}
