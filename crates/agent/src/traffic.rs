//! `traffic`: turns a request into a trial of `virtoll-wire` and its counts into the answer.

use serde_json::{Value, json};
use virtoll_proto::request::{Source, Traffic};
use virtoll_proto::{Error, ErrorKind};
use virtoll_wire::af_packet;
use virtoll_wire::backend::{Quiet, SourcePlan};
use virtoll_wire::frame::{MAXIMUM_FRAME_BYTES, MINIMUM_FRAME_BYTES, TestFrameRepr};
use virtoll_wire::histogram::Distribution;
use virtoll_wire::trial::{
    self, MINIMUM_QUIET_NS, SourceResult, TrialCounts, TrialError, TrialPlan, limit_frames,
};

use crate::marks::parse_mac;

const MOST_SOURCES: usize = 16;
const MOST_SINKS: usize = 16;
const MOST_RATE: f64 = 1e8;
/// 2^32 sequence numbers: half a gigabyte of books.
const MOST_FRAMES: u64 = 1 << 32;
const MOST_DURATION_NS: u64 = 3_600_000_000_000;

/// Carries the request out.
///
/// # Errors
/// `bad-request` for values outside their range, `limit` for a trial that is too long, `system` for a call that failed
/// or books that do not balance.
pub fn run(request: &Traffic) -> Result<Value, Error> {
    let plan = plan(request)?;
    let counts = trial::run(&plan).map_err(|cause| match cause {
        TrialError::System(what, cause) => Error::system(what, &cause),
        TrialError::Books(sentence) => Error::new(ErrorKind::System, sentence),
    })?;
    Ok(answer(&plan, &counts))
}

fn plan(request: &Traffic) -> Result<TrialPlan, Error> {
    let frame_bytes = request.frame_size_bytes as usize;
    if !(MINIMUM_FRAME_BYTES..=MAXIMUM_FRAME_BYTES).contains(&frame_bytes) {
        return Err(Error::bad_request("frame_size_bytes must be 64 to 1518"));
    }
    if !(1..=MOST_SOURCES).contains(&request.sources.len()) {
        return Err(Error::bad_request(format!("sources must be 1 to {MOST_SOURCES}")));
    }
    if !(1..=MOST_SINKS).contains(&request.sink.interfaces.len()) {
        return Err(Error::bad_request(format!("sink.interfaces must be 1 to {MOST_SINKS}")));
    }
    if !(1..=MOST_DURATION_NS).contains(&request.duration_ns) {
        return Err(Error::bad_request("duration_ns must be 1 to 3600000000000"));
    }
    let sources = request
        .sources
        .iter()
        .enumerate()
        .map(|(number, source)| source_plan(request, number as u8, source))
        .collect::<Result<_, _>>()?;
    Ok(TrialPlan {
        trial: request.trial,
        frame_bytes,
        sources,
        sink_interfaces: request.sink.interfaces.clone(),
        sink_cpu: request.sink.cpu,
        quiet: Quiet {
            quiet_ns: request.quiet_ns.max(MINIMUM_QUIET_NS),
            limit_ns: request.drain_limit_ns.max(MINIMUM_QUIET_NS),
        },
    })
}

fn source_plan(request: &Traffic, number: u8, source: &Source) -> Result<SourcePlan, Error> {
    let rate = source.rate_frames_per_second;
    if rate.is_some_and(|rate| !(rate > 0.0 && rate <= MOST_RATE)) {
        return Err(Error::bad_request("rate_frames_per_second must be above 0 and at most 1e8"));
    }
    let limit_frames = limit_frames(rate, request.duration_ns);
    if limit_frames > MOST_FRAMES {
        return Err(Error::new(
            ErrorKind::Limit,
            "the trial has more than 2^32 frames of a source",
        ));
    }
    Ok(SourcePlan {
        interface: source.interface.clone(),
        frame: TestFrameRepr {
            source_mac: parse_mac(&source.source_mac)?,
            destination_mac: parse_mac(&source.destination_mac)?,
            source_address: source.source_address,
            destination_address: source.destination_address,
            source_port: source.source_port,
            destination_port: source.destination_port,
            trial: request.trial,
            source: number,
            sequence: 0,
            sent_monotonic_ns: 0,
            frame_bytes: request.frame_size_bytes as usize,
        },
        frames_per_second: rate,
        duration_ns: request.duration_ns,
        limit_frames,
        cpu: source.cpu,
    })
}

fn answer(plan: &TrialPlan, counts: &TrialCounts) -> Value {
    let numbered = || counts.sources.iter().enumerate();
    json!({
        "backend": af_packet::NAME,
        "frame_size_bytes": plan.frame_bytes,
        "sources": numbered().map(|(number, source)| sent(number, source)).collect::<Vec<_>>(),
        "sink": {
            "per_source": numbered().map(|(number, source)| arrived(number, source)).collect::<Vec<_>>(),
            "foreign_frames": counts.foreign_frames,
            "late_trial_frames": counts.late_trial_frames,
            "kernel_dropped_frames": counts.kernel_dropped_frames,
            "drained": counts.drained,
        },
        "cpu": {
            "generator_user_ns": counts.generator_cpu.user_ns,
            "generator_system_ns": counts.generator_cpu.system_ns,
            "sink_user_ns": counts.sink_cpu.user_ns,
            "sink_system_ns": counts.sink_cpu.system_ns,
        },
    })
}

fn sent(number: usize, source: &SourceResult) -> Value {
    json!({
        "source": number,
        "intended_frames": source.sent.intended_frames,
        "offered_frames": source.sent.offered_frames,
        "unsent_frames": source.sent.unsent_frames,
        "start_monotonic_ns": source.sent.start_monotonic_ns,
        "end_monotonic_ns": source.sent.end_monotonic_ns,
        "late_ns_max": source.sent.late_ns_max,
        "batch_frames": source.sent.batch_frames,
    })
}

fn arrived(number: usize, source: &SourceResult) -> Value {
    json!({
        "source": number,
        "forwarded_frames": source.arrived.forwarded_frames,
        "duplicate_frames": source.arrived.duplicate_frames,
        "reordered_frames": source.arrived.reordered_frames,
        "lost_frames": source.lost_frames,
        "first_received_monotonic_ns": source.arrived.first_received_monotonic_ns,
        "last_received_monotonic_ns": source.arrived.last_received_monotonic_ns,
        "delay_ns": source.arrived.delay_ns.map(delays),
    })
}

fn delays(told: Distribution) -> Value {
    json!({
        "count": told.count,
        "minimum": told.minimum,
        "p50": told.p50,
        "p90": told.p90,
        "p99": told.p99,
        "maximum": told.maximum,
    })
}
