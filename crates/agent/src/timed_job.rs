//! `run`: a built-in workload between its two marks.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

use virtoll_clock::{CpuTime, monotonic_ns, process_and_children_cpu, realtime_ns};
use virtoll_proto::reply::{self, GuestTimes};
use virtoll_proto::request::Run;
use virtoll_proto::{Edge, Error, Event};

use crate::channel::Channel;
use crate::marks::PreparedMarks;
use crate::sys::ChildSignals;
use crate::workloads::{self, Done, Outcome, Workload};

/// How often the guest pauses before its job, at most.
const MOST_PAUSES: u32 = 4;
/// By how much a pause may be longer than requested.
const PAUSE_SLACK_NS: u64 = 1_000_000;
/// For so many repeats there is room before the job begins.
const MOST_ROOM: u32 = 4_096;

/// The guest's clocks at an edge, read just before the mark leaves, so that the way of the mark cancels out.
struct Reading {
    realtime_ns: u64,
    monotonic_ns: u64,
}

impl Reading {
    fn take() -> Self {
        Self { realtime_ns: realtime_ns(), monotonic_ns: monotonic_ns() }
    }
}

/// Carries the request out.
///
/// # Errors
/// `bad-request` for a parameter outside its range, `system` for a mark that cannot be sent, or the job's own.
pub fn run(
    id: u64,
    request: Run,
    channel: &mut Channel,
    signals: &ChildSignals,
) -> Result<reply::Run, Error> {
    let taken_ns = monotonic_ns();
    let workload = workloads::ready(request.job, signals)?;
    let marks = request.marks.as_ref().map(PreparedMarks::new).transpose()?;
    let send = |edge| marks.as_ref().map_or(Ok(()), |marks| marks.send(edge));
    let marks_at_ns = taken_ns.saturating_add(request.delay_ns);
    sleep_until(marks_at_ns);
    let mut mark_start = || {
        let before = process_and_children_cpu();
        tell(channel, id, Edge::Start, monotonic_ns())?;
        let start = Reading::take();
        send(Edge::Start)?;
        Ok((before, start))
    };
    // A machine's mark may wait for its virtual CPU to rest: the emulator needs that CPU to send it.
    let (before, start, pause_ns) = if request.delay_ns > 0 {
        // Guests that are to begin together are due at one moment, also where one marks late. What
        // one of them then waits for a CPU is part of its job: it shares the CPUs with the others.
        let (before, start) = mark_start()?;
        let due_ns = marks_at_ns.saturating_add(request.pause_ns);
        sleep_until(due_ns);
        let pause_ns = due_ns.saturating_sub(start.monotonic_ns);
        (before, start, pause_ns)
    } else {
        paused(request.pause_ns, mark_start)?
    };
    let mut earlier = Vec::with_capacity(request.repeats.get().min(MOST_ROOM) as usize);
    let last = repeated(workload.as_ref(), request.repeats, &mut earlier);
    let end = Reading::take();
    let sent = send(Edge::End);

    // The end is reported even for a job that failed: the controller waits for both edges.
    tell(channel, id, Edge::End, end.monotonic_ns)?;
    let cpu = process_and_children_cpu().since(before);
    sent?;
    Ok(answer(&start, &end, pause_ns, cpu, checked(&earlier, last?)))
}

/// Marks the start and sleeps; once more if the sleep was too long, as on a busy host: the last mark is the one that
/// counts. The controller takes off no more of a pause than it requested.
fn paused(
    pause_ns: u64,
    mut mark_start: impl FnMut() -> Result<(CpuTime, Reading), Error>,
) -> Result<(CpuTime, Reading, u64), Error> {
    let mut left = MOST_PAUSES;
    loop {
        let (before, start) = mark_start()?;
        sleep_until(start.monotonic_ns.saturating_add(pause_ns));
        let slept_ns = monotonic_ns().saturating_sub(start.monotonic_ns);
        left -= 1;
        if left == 0 || pause_ns == 0 || slept_ns <= pause_ns.saturating_add(PAUSE_SLACK_NS) {
            return Ok((before, start, slept_ns));
        }
    }
}

/// Sleeps until this moment of the guest's monotonic clock; not at all where it has passed.
fn sleep_until(moment_ns: u64) {
    let left_ns = moment_ns.saturating_sub(monotonic_ns());
    if left_ns > 0 {
        thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// Does the work so often. Earlier repeats are kept: making their check values is not part of the work.
fn repeated(
    workload: &dyn Workload,
    repeats: NonZeroU32,
    earlier: &mut Vec<Box<dyn Done>>,
) -> Result<Box<dyn Done>, Error> {
    for _ in 1..repeats.get() {
        earlier.push(workload.run()?);
    }
    workload.run()
}

/// The last repeat's outcome. If the repeats' check values differ, all of them are its check value, which is wrong then.
fn checked(earlier: &[Box<dyn Done>], last: Box<dyn Done>) -> Outcome {
    let mut values: BTreeSet<_> = earlier.iter().filter_map(|done| done.value()).collect();
    let mut outcome = last.check();
    values.insert(outcome.check.clone());
    if values.len() > 1 {
        outcome.check = values.into_iter().collect::<Vec<_>>().join(" and ");
    }
    outcome
}

fn tell(channel: &mut Channel, id: u64, edge: Edge, guest_monotonic_ns: u64) -> Result<(), Error> {
    channel
        .event(&Event::Mark { id, edge, guest_monotonic_ns })
        .map_err(|cause| Error::system("write a mark to the channel", &cause))
}

fn answer(
    start: &Reading,
    end: &Reading,
    pause_ns: u64,
    cpu: CpuTime,
    outcome: Outcome,
) -> reply::Run {
    let guest = GuestTimes {
        start_monotonic_ns: start.monotonic_ns,
        end_monotonic_ns: end.monotonic_ns,
        start_realtime_ns: start.realtime_ns,
        end_realtime_ns: end.realtime_ns,
        pause_ns,
        user_cpu_ns: cpu.user_ns,
        system_cpu_ns: cpu.system_ns,
    };
    reply::Run { guest, result: outcome.result, check: outcome.check }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use virtoll_proto::reply::Empty;
    use virtoll_proto::reply::figures::Figures;

    use super::*;

    /// How many marks there were, and the last pause; each mark was read so long before its sleep began.
    fn marks_and_pause(pause_ns: u64, ages_ns: &[u64]) -> (usize, u64) {
        let mut marks = 0;
        let outcome = paused(pause_ns, || {
            let mut start = Reading::take();
            start.monotonic_ns -= ages_ns[marks];
            marks += 1;
            Ok((process_and_children_cpu(), start))
        });
        (marks, outcome.unwrap().2)
    }

    #[test]
    fn a_pause_that_was_too_long_begins_again_with_its_mark() {
        let late_ns = 40_000_000;
        let (marks, pause_ns) = marks_and_pause(5_000_000, &[late_ns, 0, 0, 0]);
        assert!(marks >= 2 && pause_ns >= 5_000_000);
        let (marks, pause_ns) = marks_and_pause(5_000_000, &[late_ns; 4]);
        assert_eq!(marks, 4, "a busy guest may never be in time");
        assert!(pause_ns >= late_ns);
    }

    struct Answered(String);

    impl Done for Answered {
        fn value(&self) -> Option<String> {
            Some(self.0.clone())
        }

        fn check(self: Box<Self>) -> Outcome {
            Outcome { result: Figures::Idle(Empty {}), check: self.0 }
        }
    }

    /// Answers one value after the other.
    struct Answering(Cell<usize>, &'static [&'static str]);

    impl Workload for Answering {
        fn run(&self) -> Result<Box<dyn Done>, Error> {
            let number = self.0.replace(self.0.get() + 1);
            Ok(Box::new(Answered(self.1[number].to_owned())))
        }
    }

    #[test]
    fn one_wrong_repeat_makes_the_check_value_wrong() {
        for (values, check) in [
            (&["23"][..], "23"),
            (&["23", "23", "23"], "23"),
            (&["22", "23", "23"], "22 and 23"),
            (&["23", "24", "23"], "23 and 24"),
            (&["23", "23", "22"], "22 and 23"),
        ] {
            let mut earlier = Vec::new();
            let repeats = NonZeroU32::new(values.len() as u32).unwrap();
            let last = repeated(&Answering(Cell::new(0), values), repeats, &mut earlier);
            assert_eq!(checked(&earlier, last.unwrap()).check, check);
        }
    }

    #[test]
    fn without_a_pause_there_is_one_mark() {
        assert_eq!(marks_and_pause(0, &[40_000_000]).0, 1);
    }
}
