//! How long processors were idle, as exactly as this kernel tells.
//!
//! A kernel adds an idle period to its account when the period ends. So each processor is read by a thread on that
//! processor: its idle period has then ended, and the account is complete.

use std::fs;
use std::io;
use std::thread;

use virtoll_clock::monotonic_ns;
use virtoll_proto::Error;
use virtoll_proto::reply::traffic::{IdleMeans, ProcessorIdle};

use crate::processors::TICK_NS;
use crate::sys;

/// One processor: when it was read, and how long it had been idle since the machine's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    cpu: u32,
    at_ns: u64,
    idle_ns: u64,
    means: IdleMeans,
}

/// A reading of some processors.
pub struct Idle(Vec<Reading>);

impl Idle {
    /// Reads these processors, one after another.
    ///
    /// # Errors
    /// `system`: this process may not run on one of them.
    pub fn read(cpus: &[u32]) -> Result<Self, Error> {
        let read = |cpu: &u32| read_on(*cpu, None);
        cpus.iter().map(read).collect::<io::Result<_>>().map(Self).map_err(|cause| refused(&cause))
    }

    /// How long each was idle since this reading, by the same means.
    ///
    /// # Errors
    /// As [`Idle::read`].
    pub fn since_then(&self) -> Result<Vec<ProcessorIdle>, Error> {
        let since = |before: &Reading| {
            read_on(before.cpu, Some(before.means)).map(|after| ProcessorIdle {
                cpu: before.cpu,
                between_ns: after.at_ns - before.at_ns,
                idle_ns: after.idle_ns.saturating_sub(before.idle_ns),
                means: before.means,
            })
        };
        self.0.iter().map(since).collect::<io::Result<_>>().map_err(|cause| refused(&cause))
    }
}

fn refused(cause: &io::Error) -> Error {
    Error::system("read the idle time of a processor on that processor", cause)
}

/// A processor's account, read on it; by these means, or by the best that there is.
fn read_on(cpu: u32, means: Option<IdleMeans>) -> io::Result<Reading> {
    let read = || {
        sys::pin(&[cpu as usize])?;
        let all = [IdleMeans::TimerList, IdleMeans::Cpuidle, IdleMeans::Stat];
        let found = all
            .into_iter()
            .filter(|one| means.is_none_or(|wanted| *one == wanted))
            .find_map(|means| {
                let at_ns = monotonic_ns();
                idle_ns(cpu, means).map(|idle_ns| Reading { cpu, at_ns, idle_ns, means })
            });
        found.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("no idle time of processor {cpu}"))
        })
    };
    thread::scope(|scope| scope.spawn(read).join())
        .map_err(|_| io::Error::other("the reader panicked"))?
}

fn idle_ns(cpu: u32, means: IdleMeans) -> Option<u64> {
    match means {
        IdleMeans::TimerList => timer_list(&fs::read_to_string("/proc/timer_list").ok()?, cpu),
        IdleMeans::Cpuidle => cpuidle(cpu),
        IdleMeans::Stat => stat(&fs::read_to_string("/proc/stat").ok()?, cpu),
    }
}

/// The idle time of a processor in `/proc/timer_list`; none for a kernel that has ticks in idle time.
fn timer_list(text: &str, cpu: u32) -> Option<u64> {
    let title = format!("cpu: {cpu}");
    let own = text.lines().skip_while(|line| *line != title).skip(1);
    let own: Vec<&str> = own.take_while(|line| !line.starts_with("cpu: ")).collect();
    let value = |name: &str| {
        let line = own
            .iter()
            .find(|line| line.trim_start().strip_prefix(name).is_some_and(begins_value))?;
        line.split_once(':')?.1.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    // Linux 6.10 and later say "nohz", those before "nohz_mode".
    value(".nohz").or_else(|| value(".nohz_mode")).filter(|mode| *mode > 0)?;
    Some(value(".idle_sleeptime")? + value(".iowait_sleeptime")?)
}

/// Whether a name ends here: `.nohz` is not the beginning of `.nohz_mode`.
fn begins_value(rest: &str) -> bool {
    rest.trim_start().starts_with(':')
}

/// The times in all of a processor's idle states; none where the kernel counts none.
fn cpuidle(cpu: u32) -> Option<u64> {
    let folder = fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle")).ok()?;
    let micros = |state: fs::DirEntry| {
        fs::read_to_string(state.path().join("time")).ok()?.trim().parse::<u64>().ok()
    };
    let micros = folder.map(|state| micros(state.ok()?)).sum::<Option<u64>>()?;
    (micros > 0).then_some(micros * 1_000)
}

/// Idle and waiting for input or output, in `/proc/stat`.
fn stat(text: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let mut columns =
        text.lines().find_map(|line| line.strip_prefix(&name))?.split_ascii_whitespace().skip(3);
    let mut next = || columns.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["cpu:", "cpu0", ".nohz", ".nohz_mode", ":", ".idle_sleeptime", ".iowait_sleeptime", "nsecs"])) {
            let _ = (timer_list(&text, 0), stat(&text, 0));
        }
    }

    const LIST: &str = "Timer List Version: v0.10\nnow at 9 nsecs\n\ncpu: 0\n clock 0:\n  .nohz           : 1\n  \
        .idle_calls     : 7\n  .idle_sleeptime : 500 nsecs\n  .iowait_sleeptime: 20 nsecs\n\ncpu: 1\n  \
        .nohz           : 0\n  .idle_sleeptime : 900 nsecs\n  .iowait_sleeptime: 0 nsecs\n\nTick Device: mode: 1\n";

    #[test]
    fn the_list_of_timers_tells_idle_time_where_it_has_no_ticks() {
        assert_eq!(timer_list(LIST, 0), Some(520));
        assert_eq!(timer_list(LIST, 1), None);
        assert_eq!(timer_list(LIST, 2), None);
        assert_eq!(
            timer_list(&LIST.replace(".nohz           : 0", ".nohz_mode      : 2"), 1),
            Some(900)
        );
    }

    #[test]
    fn the_columns_of_stat_are_those_of_the_processor() {
        let text = "cpu  9 9 9 9 9 9\ncpu1 1 2 3 4 5 6 7 8 0 0\ncpu11 1 2 3 40 50 6\n";
        assert_eq!(stat(text, 1), Some(9 * TICK_NS));
        assert_eq!(stat(text, 11), Some(90 * TICK_NS));
        assert_eq!(stat(text, 2), None);
    }

    #[test]
    fn a_processor_is_never_idle_for_longer_than_the_time_between() {
        let before = Idle::read(&[0]).unwrap();
        thread::sleep(std::time::Duration::from_millis(5));
        let [found] = &before.since_then().unwrap()[..] else { panic!("one processor") };
        // /proc/stat counts in steps.
        assert!(found.idle_ns <= found.between_ns + TICK_NS, "{found:?}");
        assert!(found.between_ns >= 5_000_000);
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        assert!(Idle::read(&[100_000]).is_err());
    }
}
