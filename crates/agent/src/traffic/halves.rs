//! `sink-open`, `send`, `sink-finish`: the two halves of a trial, on two hosts.
//!
//! Both sides are given the same request, so that they cannot disagree about what is sent. What the sink must know of
//! the sources' counts at the end, the controller carries over.

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::SinkOpen;
use virtoll_proto::reply::traffic::{self, SendCpu, SinkFinishCpu};
use virtoll_proto::request::{SinkFinish, Traffic};
use virtoll_proto::{Error, ErrorKind};
use virtoll_wire::trial::{self, SinkHalf, SourceTotals, TrialError, TrialPlan, Watched};
use virtoll_wire::{SessionPriority, one_sided};

use super::queued::Queued;
use super::{answer, failed, plan, write_capture};
use crate::processors::Processors;

const MOST_DELAY_NS: u64 = 60_000_000_000;

/// A sink that counts while the session goes on.
pub struct OpenSink {
    half: SinkHalf,
    request: Traffic,
    plan: TrialPlan,
    watched: Watched,
    processors: Processors,
    _priority: SessionPriority,
}

impl OpenSink {
    /// Opens the sink of a trial; it counts from here on.
    ///
    /// # Errors
    /// As [`super::run`].
    pub fn open(request: Traffic) -> Result<(Self, SinkOpen), Error> {
        let plan = plan(&request)?;
        let watched = watch(plan.sink_interfaces.iter().cloned())?;
        let sink = trial::open_sink(&plan).map_err(failed)?;
        let answer = SinkOpen { backend: sink.name.into(), backend_reason: sink.reason.clone() };
        let (processors, priority) = (Processors::read(), SessionPriority::raise());
        let half = trial::receive(&plan, sink).map_err(failed)?;
        Ok((Self { half, request, plan, watched, processors, _priority: priority }, answer))
    }

    /// All sources have stopped: waits for quiet and closes the books.
    ///
    /// # Errors
    /// What made receiving impossible, or books that do not balance with the sources' totals.
    pub fn finish(self, totals: &SinkFinish) -> Result<traffic::SinkFinish, Error> {
        let sources: Vec<_> = totals
            .sources
            .iter()
            .map(|one| SourceTotals {
                intended_frames: one.intended_frames,
                offered_frames: one.offered_frames,
                unsent_frames: one.unsent_frames,
            })
            .collect();
        let offered_frames: Vec<u64> = sources.iter().map(|one| one.offered_frames).collect();
        let received = self.half.finish(Some(&offered_frames)).map_err(failed)?;
        let changes = self.watched.changes().map_err(|cause| unread(&cause))?;
        let processors = self.processors.since_then();
        let sink = received.balance(&sources).map_err(failed)?;
        if let Some(capture) = &self.request.capture {
            write_capture(&capture.path, &sink.received.counts.captured)?;
        }
        let cpu = SinkFinishCpu { sink: answer::sink_cpu(&self.plan, &sink), processors };
        Ok(traffic::SinkFinish {
            sink: answer::sink(&self.request, &sink, answer::Clock::Two),
            interfaces: answer::interfaces(&changes),
            cpu,
        })
    }

    /// Stops counting; waits for the thread, and so for the interface to be free again.
    pub fn close(self) {
        // What it counted belongs to no trial, and so nothing is missing.
        let _ = self.half.finish(None);
    }
}

/// Carries `send` out: the sources' half.
///
/// # Errors
/// As [`super::run`].
pub fn send(request: &Traffic) -> Result<traffic::Send, Error> {
    let asked_ns = monotonic_ns();
    let plan = plan(request)?;
    let delay_ns = request.delay_ns.unwrap_or(0);
    if delay_ns > MOST_DELAY_NS {
        return Err(Error::bad_request("delay_ns must be at most 60000000000"));
    }
    let _queued = Queued::frames_of(plan.source_interfaces());
    let watched = watch(plan.source_interfaces())?;
    let processors = Processors::read();
    let sent = one_sided::send(plan.generator, &plan.sources, asked_ns + delay_ns)
        .map_err(|refused| failed(TrialError::refused("send on", refused)))?;
    let processors = processors.since_then();
    let changes = watched.changes().map_err(|cause| unread(&cause))?;
    Ok(traffic::Send {
        sent: answer::sources(request, &plan, &sent),
        interfaces: answer::interfaces(&changes),
        cpu: SendCpu { generator: answer::generator_cpu(&plan, &sent.value), processors },
    })
}

fn watch(names: impl IntoIterator<Item = String>) -> Result<Watched, Error> {
    Watched::read(names).map_err(|cause| unread(&cause))
}

fn unread(cause: &std::io::Error) -> Error {
    Error::new(ErrorKind::System, format!("read counters: {cause}"))
}
