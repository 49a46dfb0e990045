//! The CPU time of a process group, from `/proc`: how far a program that runs beside the requests has come.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::Progress;

use crate::processors::TICK_NS;

/// The most readings that are kept: at four a second, for almost three hours.
const MOST_SAMPLES: usize = 40_000;
/// How long the thread sleeps at most before it looks whether it is over.
const LOOK_NS: u64 = 50_000_000;

/// What the processes of a group have used, and their children that were waited for.
pub fn read(group: u32) -> Progress {
    let mut found = Progress { monotonic_ns: monotonic_ns(), cpu_ns: 0, processes: 0 };
    let Ok(entries) = fs::read_dir("/proc") else { return found };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in numbers {
        // One that has just ended has no file any more.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(ticks) = ticks_in_group(&stat, group) {
            found.cpu_ns += ticks * TICK_NS;
            found.processes += 1;
        }
    }
    found
}

/// utime + stime + cutime + cstime, if the process is of that group. The name in parentheses may hold anything.
fn ticks_in_group(stat: &str, group: u32) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // state, ppid, pgrp, ... : field 3 of proc(5) is the first here.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    (number(5)? == u64::from(group)).then_some(())?;
    Some([14, 15, 16, 17].into_iter().filter_map(number).sum())
}

/// Reads a group again and again, on a thread of its own; at both ends the caller itself does, for whose threads a busy
/// guest may have no time.
pub struct Sampler {
    group: u32,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Progress>>,
}

impl Sampler {
    /// Begins with a reading now; none where no thread can be started.
    pub fn start(group: u32, every_ns: u64) -> Option<Self> {
        Self::start_with_room(group, every_ns, MOST_SAMPLES)
    }

    /// The same for so many readings before the last one.
    fn start_with_room(group: u32, every_ns: u64, most: usize) -> Option<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let mut samples = vec![read(group)];
        let work = move || {
            while samples.len() < most {
                let next_ns = monotonic_ns().saturating_add(every_ns);
                while monotonic_ns() < next_ns && !seen.load(Ordering::Acquire) {
                    let left_ns = next_ns.saturating_sub(monotonic_ns());
                    thread::sleep(Duration::from_nanos(left_ns.min(LOOK_NS)));
                }
                if seen.load(Ordering::Acquire) {
                    break;
                }
                samples.push(read(group));
            }
            samples
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(work);
        Some(Self { group, over, thread: thread.ok()? })
    }

    /// Ends with one more reading; all of them in their order.
    pub fn finish(self) -> Vec<Progress> {
        let last = read(self.group);
        self.over.store(true, Ordering::Release);
        let mut samples = self.thread.join().unwrap_or_default();
        samples.retain(|sample| sample.monotonic_ns < last.monotonic_ns);
        samples.push(last);
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any_text::any_text;
    use proptest::prelude::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any_text(&["(", ")", "S", "7"])) {
            let _ = ticks_in_group(&text, 7);
        }
    }

    const STAT: &str = "7 (a) b) c) R 1 42 42 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5";

    #[test]
    fn time_of_a_process_and_of_its_children_is_counted_in_its_group_alone() {
        assert_eq!(ticks_in_group(STAT, 42), Some(4330));
        assert_eq!(ticks_in_group(STAT, 1), None);
        assert_eq!(ticks_in_group("", 42), None);
    }

    /// A shell in a group of its own that has computed, and now waits for its input to end.
    fn shell() -> Child {
        let text = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read end";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
        // It waits once it sleeps: from then on its times stand.
        while fields(shell.id())[2] != "S" {
            thread::yield_now();
        }
        shell
    }

    /// The line of a process whose name has no space.
    fn fields(pid: u32) -> Vec<String> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.split(' ').map(str::to_owned).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2)")]
    fn a_group_has_used_what_the_kernel_says_of_its_process() {
        let before_ns = monotonic_ns();
        let mut shell = shell();
        let found = read(shell.id());
        let fields = fields(shell.id());
        let ticks: u64 = fields[13..17].iter().map(|text| text.parse::<u64>().unwrap()).sum();
        // 100 ticks a second.
        assert_eq!((found.cpu_ns, found.processes), (ticks * 10_000_000, 1));
        assert!(found.cpu_ns > 0, "counting to 200000 takes more than a tick");
        assert!((before_ns..=monotonic_ns()).contains(&found.monotonic_ns));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let gone = read(shell.id());
        assert_eq!((gone.cpu_ns, gone.processes), (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork(2)")]
    fn a_group_is_read_until_there_is_no_more_room_and_at_both_ends() {
        let mut shell = shell();
        let sampler = Sampler::start_with_room(shell.id(), 1, 5).unwrap();
        while !sampler.thread.is_finished() {
            thread::yield_now();
        }
        let samples = sampler.finish();
        assert_eq!(samples.len(), 6);
        assert!(samples.is_sorted_by(|one, next| one.monotonic_ns < next.monotonic_ns));
        assert!(samples.iter().all(|sample| sample.processes == 1));
        let sampler = Sampler::start(shell.id(), u64::MAX).unwrap();
        for _ in 0..20 {
            read(shell.id()); // meanwhile a thread that does not wait would read as well
        }
        assert_eq!(sampler.finish().len(), 2, "not once between");
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
