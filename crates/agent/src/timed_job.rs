//! `run`: a built-in workload between its two marks.

use std::num::NonZeroU32;

use virtoll_clock::{
    CpuTime, monotonic_ns, process_and_children_cpu, realtime_ns, sleep_until_monotonic,
};
use virtoll_proto::reply::{self, GuestTimes};
use virtoll_proto::request::Run;
use virtoll_proto::{Edge, Error, Event};

use crate::channel::Channel;
use crate::marks::PreparedMarks;
use crate::sys::ChildSignals;
use crate::workloads::{self, Done, Outcome, Workload};

/// Between the start mark and the job the guest sleeps, so that who carries the mark out of it (a device model on the
/// guest's own CPU) gets that CPU: a job that began at once kept it from the mark for a slice of the scheduler's.
const PAUSE_NS: u64 = 10_000_000;

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
    let workload = workloads::ready(request.job, signals)?;
    let marks = request.marks.as_ref().map(PreparedMarks::new).transpose()?;
    let send = |edge| marks.as_ref().map_or(Ok(()), |marks| marks.send(edge));
    let before = process_and_children_cpu();
    tell(channel, id, Edge::Start, monotonic_ns())?;

    let start = Reading::take();
    send(Edge::Start)?;
    sleep_until_monotonic(start.monotonic_ns + PAUSE_NS);
    let begun_ns = monotonic_ns();
    let outcome = repeated(workload.as_ref(), request.repeats);
    let end = Reading::take();
    let sent = send(Edge::End);

    // The end is reported even for a job that failed: the controller waits for both edges.
    tell(channel, id, Edge::End, end.monotonic_ns)?;
    let cpu = process_and_children_cpu().since(before);
    sent?;
    Ok(answer(&start, begun_ns, &end, cpu, outcome?.check()))
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
    begun_ns: u64,
    end: &Reading,
    cpu: CpuTime,
    outcome: Outcome,
) -> reply::Run {
    let guest = GuestTimes {
        start_monotonic_ns: start.monotonic_ns,
        begun_monotonic_ns: begun_ns,
        end_monotonic_ns: end.monotonic_ns,
        start_realtime_ns: start.realtime_ns,
        end_realtime_ns: end.realtime_ns,
        user_cpu_ns: cpu.user_ns,
        system_cpu_ns: cpu.system_ns,
    };
    reply::Run { guest, result: outcome.result, check: outcome.check }
}
