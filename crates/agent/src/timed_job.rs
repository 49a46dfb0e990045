//! `run`: a built-in workload between its two marks.

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
    let before = process_and_children_cpu();
    tell(channel, id, Edge::Start, monotonic_ns())?;

    let start = Reading::take();
    send(Edge::Start)?;
    // A machine's mark may wait for its virtual CPU to rest: the emulator needs that CPU to send it.
    // Guests that are to begin together are due at one moment, also where one marks late. What
    // one of them then waits for a CPU is part of its job: it shares the CPUs with the others.
    let together = request.delay_ns > 0;
    let paused_from_ns = if together { marks_at_ns } else { start.monotonic_ns };
    let due_ns = paused_from_ns.saturating_add(request.pause_ns);
    sleep_until(due_ns);
    let begun_ns = if together { due_ns } else { monotonic_ns() };
    let pause_ns = begun_ns.saturating_sub(start.monotonic_ns);
    let outcome = repeated(workload.as_ref(), request.repeats);
    let end = Reading::take();
    let sent = send(Edge::End);

    // The end is reported even for a job that failed: the controller waits for both edges.
    tell(channel, id, Edge::End, end.monotonic_ns)?;
    let cpu = process_and_children_cpu().since(before);
    sent?;
    Ok(answer(&start, &end, pause_ns, cpu, outcome?.check()))
}

/// Sleeps until this moment of the guest's monotonic clock; not at all where it has passed.
fn sleep_until(moment_ns: u64) {
    let left_ns = moment_ns.saturating_sub(monotonic_ns());
    if left_ns > 0 {
        thread::sleep(Duration::from_nanos(left_ns));
    }
}

/// Does the work so often; the last time is the one whose answer counts.
fn repeated(workload: &dyn Workload, repeats: NonZeroU32) -> Result<Box<dyn Done>, Error> {
    for _ in 1..repeats.get() {
        workload.run()?;
    }
    workload.run()
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
