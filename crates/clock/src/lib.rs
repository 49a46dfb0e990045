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

/// What the scheduler says of a thread: how long it ran, and how long it was ready to run and had no CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// On a CPU, in nanoseconds.
    pub ran_ns: u64,
    /// Ready to run, without a CPU, in nanoseconds.
    pub waited_ns: u64,
}

impl Scheduled {
    /// The calling thread's so far (`/proc/thread-self/schedstat`); none if the kernel does not say.
    pub fn of_this_thread() -> Option<Self> {
        Self::parsed(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    fn parsed(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace().map(str::parse);
        Some(Self { ran_ns: fields.next()?.ok()?, waited_ns: fields.next()?.ok()? })
    }
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
        offset(before, realtime, monotonic_ns())
    });
    tries.min().unwrap_or_default()
}

/// Of a real-time reading between two monotonic ones: the time between these, and the difference in the middle of it.
fn offset(before_ns: u64, realtime_ns: u64, after_ns: u64) -> (u64, i64) {
    let between_ns = after_ns - before_ns;
    (between_ns, realtime_ns as i64 - (before_ns + between_ns / 2) as i64)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

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
    fn an_offset_is_taken_in_the_middle_of_two_readings() {
        assert_eq!(offset(100, 1_000, 120), (20, 890));
        assert_eq!(offset(1_000, 100, 1_005), (5, -902));
    }

    #[test]
    fn the_offset_is_that_of_the_readings_around_it() {
        let started = monotonic_ns();
        let offset = realtime_minus_monotonic_ns();
        let (monotonic, realtime) = (monotonic_ns(), realtime_ns());
        let passed = monotonic_ns() - started;
        assert!((realtime as i64 - monotonic as i64).abs_diff(offset) <= 2 * passed, "{offset}");
    }

    #[test]
    fn the_time_of_day_is_that_of_the_standard_library() {
        let before = realtime_ns();
        let standard = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let after = now_ns(Clock::Realtime);
        assert!((u128::from(before)..=u128::from(after)).contains(&standard.as_nanos()));
    }

    #[test]
    fn all_clocks_are_read_one_after_the_other() {
        let clocks = [Clock::Realtime, Clock::Monotonic, Clock::MonotonicRaw, Clock::Boottime];
        let before = clocks.map(now_ns);
        let read = Readings::take();
        let after = clocks.map(now_ns);
        let read = [read.realtime_ns, read.monotonic_ns, read.monotonic_raw_ns, read.boottime_ns];
        for ((before, read), after) in before.into_iter().zip(read).zip(after) {
            assert!((before..=after).contains(&read), "{before} {read} {after}");
        }
    }

    #[test]
    fn a_thread_has_used_no_more_than_its_clock_says() {
        let used = thread_cpu();
        assert!(used.user_ns + used.system_ns <= thread_cpu_ns());
        let work = thread_cpu_ns() + 1_000_000;
        while thread_cpu_ns() < work {
            std::hint::spin_loop();
        }
        let all = process_and_children_cpu();
        assert!(all.user_ns + all.system_ns > 0);
    }

    #[test]
    fn the_scheduler_says_how_long_a_thread_waited() {
        let line = "104356791 203647753 31\n";
        let scheduled = Scheduled { ran_ns: 104_356_791, waited_ns: 203_647_753 };
        assert_eq!(Scheduled::parsed(line), Some(scheduled));
        for other in ["", "1", "a b c", "1 -2 3"] {
            assert_eq!(Scheduled::parsed(other), None, "{other}");
        }
    }

    #[test]
    fn cpu_times_add_up_and_never_count_backwards() {
        let (first, second) =
            (CpuTime { user_ns: 2, system_ns: 3 }, CpuTime { user_ns: 10, system_ns: 20 });
        assert_eq!(first + second, CpuTime { user_ns: 12, system_ns: 23 });
        assert_eq!(second.since(first), CpuTime { user_ns: 8, system_ns: 17 });
        assert_eq!(first.since(second), CpuTime::default());
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
