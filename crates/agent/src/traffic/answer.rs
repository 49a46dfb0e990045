//! The counts of a trial as JSON.

use serde_json::{Map, Value, json};
use virtoll_proto::request::Traffic;
use virtoll_wire::backend_selection::Chosen;
use virtoll_wire::netlink::LinkStatistics;
use virtoll_wire::sequence_accounting::SourceArrivals;
use virtoll_wire::trial::{Arrived, InterfaceChange, SinkResult, TrialCounts, TrialPlan};
use virtoll_wire::{Distribution, GapSummary, Sent};

/// Whether the send time in a frame and its receive time were read from one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Sources and sink are one agent's.
    One,
    /// They are of two hosts: no delay can be measured.
    Two,
}

/// The fields of an arrival that are times between send and receive.
const DELAYS: [&str; 3] =
    ["delay_ns", "packet_delay_variation_ns", "inter_packet_delay_variation_ns"];
const TWO_CLOCKS: &str = "generator and sink are on two hosts, whose clocks are not one";

use super::order;

/// The answer to `traffic`; `busy` is what the processors did meanwhile.
pub fn answer(request: &Traffic, plan: &TrialPlan, counts: &TrialCounts, busy: Value) -> Value {
    let mut told = sources(request, plan, &counts.sent);
    let mut cpu = generator_cpu(plan, &counts.sent.value);
    for (name, value) in sink_cpu(plan, &counts.sink).as_object().into_iter().flatten() {
        cpu[name] = value.clone();
    }
    cpu["processors"] = busy;
    told["sink"] = sink(request, &counts.sink, Clock::One);
    told["interfaces"] = interfaces(&counts.interfaces);
    told["cpu"] = cpu;
    told
}

/// The sources' half.
pub fn sources(request: &Traffic, plan: &TrialPlan, all: &Chosen<Vec<Sent>>) -> Value {
    let numbered = all.value.iter().enumerate();
    let told = numbered.map(|(number, one)| sent(number, one, plan, request.histograms));
    json!({
        "backend": all.name,
        "backend_reason": all.reason,
        "frame_size_bytes": request.frame_size_bytes,
        "sizes_bytes": plan.sources.first().map(|source| &source.sizes),
        "sources": told.collect::<Vec<_>>(),
    })
}

/// The sink's half.
pub fn sink(request: &Traffic, sink: &SinkResult, clock: Clock) -> Value {
    let SinkResult { sources, received } = sink;
    let told = |(number, one): (usize, &Arrived)| {
        let mut told = arrived(number, &one.arrivals, one.lost_frames, request.histograms);
        if clock == Clock::Two {
            for name in DELAYS {
                told[name] = Value::Null;
            }
        }
        told
    };
    json!({
        "backend": received.name,
        "backend_reason": received.reason,
        "per_source": sources.iter().enumerate().map(told).collect::<Vec<_>>(),
        "seen_frames": received.counts.seen_frames,
        "foreign_frames": received.counts.foreign_frames,
        "late_trial_frames": received.counts.late_trial_frames,
        "kernel_dropped_frames": received.counts.kernel_dropped_frames,
        "captured_frames": received.counts.captured.len(),
        "drained": received.counts.drained,
        "delay_reason": (clock == Clock::Two).then_some(TWO_CLOCKS),
    })
}

/// How the interfaces' counters grew.
pub fn interfaces(changes: &[InterfaceChange]) -> Value {
    changes.iter().map(change).collect()
}

/// CPU time of the sending threads.
pub fn generator_cpu(plan: &TrialPlan, sent: &[Sent]) -> Value {
    // The cost of a thread that serves several sources counts once.
    let first = |at: usize| sent[..at].iter().all(|one| one.thread != sent[at].thread);
    let generators = || (0..sent.len()).filter(|at| first(*at)).map(|at| sent[at].cost);
    json!({
        "generator_user_ns": generators().map(|cost| cost.cpu.user_ns).sum::<u64>(),
        "generator_system_ns": generators().map(|cost| cost.cpu.system_ns).sum::<u64>(),
        "generator_cpu_ns": generators().map(|cost| cost.cpu_ns).sum::<u64>(),
        "generator_cores": plan.sources.iter().map(|source| source.cpu).collect::<Vec<_>>(),
    })
}

/// CPU time of the receiving thread.
pub fn sink_cpu(plan: &TrialPlan, sink: &SinkResult) -> Value {
    let cost = &sink.received.cost;
    json!({
        "sink_user_ns": cost.cpu.user_ns,
        "sink_system_ns": cost.cpu.system_ns,
        "sink_cpu_ns": cost.cpu_ns,
        "sink_core": plan.sink_cpu,
        "sink_ran_on": sink.received.counts.processors,
    })
}

/// A source's side.
pub fn sent(number: usize, source: &Sent, plan: &TrialPlan, histograms: bool) -> Value {
    let sent = &source.counts;
    let between = sent.sent_between_ns;
    json!({
        "source": number,
        "interface": plan.sources[number].interface,
        "intended_frames": sent.intended_frames,
        "offered_frames": sent.offered_frames,
        "unsent_frames": sent.unsent_frames,
        "refused_frames": sent.refused_frames,
        "skipped_frames": sent.skipped_frames,
        "late_frames": sent.late_frames,
        "start_monotonic_ns": sent.start_monotonic_ns,
        "end_monotonic_ns": sent.end_monotonic_ns,
        "first_sent_monotonic_ns": between.map(|between| between.0),
        "last_sent_monotonic_ns": between.map(|between| between.1),
        "late_ns_max": sent.late_ns_max,
        "batch_frames": sent.batch_frames,
        "gap_ns": sent.gaps.as_ref().map(|gaps| gap(gaps, histograms)),
        "thread": source.thread,
        "cpu_ns": source.cost.cpu_ns,
    })
}

fn gap(gaps: &GapSummary, histograms: bool) -> Value {
    let mut told = distribution(&gaps.distribution);
    told["p1"] = json!(gaps.p1);
    told["coefficient_of_variation"] = json!(gaps.coefficient_of_variation);
    if histograms {
        told["histogram"] = json!(gaps.histogram);
    }
    told
}

/// The sink's side of a source.
pub fn arrived(
    number: usize,
    arrived: &SourceArrivals,
    lost_frames: u64,
    histograms: bool,
) -> Value {
    let delays = arrived.delay_ns.as_ref().map(|told| {
        let mut told = distribution(told);
        if histograms {
            told["histogram"] = json!(arrived.delay_histogram);
        }
        told
    });
    json!({
        "source": number,
        "forwarded_frames": arrived.forwarded_frames,
        "duplicate_frames": arrived.duplicate_frames,
        "reordered_frames": arrived.reordered_frames,
        "reordering": order::to_json(&arrived.reordering),
        "lost_frames": lost_frames,
        "first_received_monotonic_ns": arrived.first_received_monotonic_ns,
        "last_received_monotonic_ns": arrived.last_received_monotonic_ns,
        "delay_ns": delays,
        "packet_delay_variation_ns": arrived.delay_ns.as_ref().map(above_minimum),
        "inter_packet_delay_variation_ns": arrived.delay_variation_ns.as_ref().map(distribution),
    })
}

/// A distribution in the protocol's words.
pub fn distribution(told: &Distribution) -> Value {
    json!({
        "count": told.count,
        "minimum": told.minimum,
        "mean": told.mean,
        "p50": told.p50,
        "p90": told.p90,
        "p99": told.p99,
        "p999": told.p999,
        "maximum": told.maximum,
    })
}

/// RFC 5481, PDV: the delay above the smallest one.
fn above_minimum(told: &Distribution) -> Value {
    json!({
        "p50": told.p50 - told.minimum,
        "p90": told.p90 - told.minimum,
        "p99": told.p99 - told.minimum,
        "p999": told.p999 - told.minimum,
        "maximum": told.maximum - told.minimum,
    })
}

fn change(interface: &InterfaceChange) -> Value {
    let (before, after) = &interface.statistics;
    let mut told = changes(before, after);
    told.insert("interface".to_owned(), json!(interface.interface));
    Value::Object(told)
}

/// How much each counter grew.
pub fn changes(before: &LinkStatistics, after: &LinkStatistics) -> Map<String, Value> {
    let pairs = before.named().into_iter().zip(after.named());
    pairs.map(|((name, old), (_, new))| (name.to_owned(), json!(new.wrapping_sub(old)))).collect()
}
