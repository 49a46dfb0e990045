//! The counts of a trial as the answer tells them.

use serde_json::{Map, Value, json};
use virtoll_proto::request::Traffic;
use virtoll_wire::books::SourceArrivals;
use virtoll_wire::gaps::GapSummary;
use virtoll_wire::histogram::Distribution;
use virtoll_wire::netlink::LinkStatistics;
use virtoll_wire::senders::Sent;
use virtoll_wire::trial::{InterfaceChange, TrialCounts, TrialPlan};

use super::order;

/// The answer to `traffic`; `busy` is what the processors did meanwhile.
pub fn answer(request: &Traffic, plan: &TrialPlan, counts: &TrialCounts, busy: &Value) -> Value {
    let numbered = || counts.sources.iter().enumerate();
    let histograms = request.histograms;
    let sent: Vec<Value> =
        numbered().map(|(number, one)| sent(number, &one.as_sent(), plan, histograms)).collect();
    let arrived: Vec<Value> = numbered()
        .map(|(number, one)| arrived(number, &one.arrived, one.lost_frames, histograms))
        .collect();
    json!({
        "backend": counts.names.backend,
        "backend_reason": counts.names.backend_reason,
        "frame_size_bytes": request.frame_size_bytes,
        "sizes_bytes": plan.sources.first().map(|source| &source.sizes),
        "sources": sent,
        "sink": {
            "backend": counts.names.sink,
            "backend_reason": counts.names.sink_reason,
            "per_source": arrived,
            "seen_frames": counts.seen_frames,
            "foreign_frames": counts.foreign_frames,
            "late_trial_frames": counts.late_trial_frames,
            "kernel_dropped_frames": counts.kernel_dropped_frames,
            "captured_frames": counts.captured.len(),
            "drained": counts.drained,
        },
        "interfaces": counts.interfaces.iter().map(change).collect::<Vec<_>>(),
        "cpu": cpu(plan, counts, busy),
    })
}

fn cpu(plan: &TrialPlan, counts: &TrialCounts, busy: &Value) -> Value {
    // Sources that share a thread are told its cost together.
    let first =
        |at: usize| counts.sources[..at].iter().all(|one| one.thread != counts.sources[at].thread);
    let generators =
        || (0..counts.sources.len()).filter(|at| first(*at)).map(|at| counts.sources[at].cost);
    json!({
        "generator_user_ns": generators().map(|cost| cost.cpu.user_ns).sum::<u64>(),
        "generator_system_ns": generators().map(|cost| cost.cpu.system_ns).sum::<u64>(),
        "generator_cpu_ns": generators().map(|cost| cost.cpu_ns).sum::<u64>(),
        "generator_cores": plan.sources.iter().map(|source| source.cpu).collect::<Vec<_>>(),
        "sink_user_ns": counts.sink_cost.cpu.user_ns,
        "sink_system_ns": counts.sink_cost.cpu.system_ns,
        "sink_cpu_ns": counts.sink_cost.cpu_ns,
        "sink_core": plan.sink_cpu,
        "sink_ran_on": counts.sink_processors,
        "processors": busy,
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
        "reordering": order::told(&arrived.reordering),
        "lost_frames": lost_frames,
        "first_received_monotonic_ns": arrived.first_received_monotonic_ns,
        "last_received_monotonic_ns": arrived.last_received_monotonic_ns,
        "delay_ns": delays,
        "packet_delay_variation_ns": arrived.delay_ns.as_ref().map(above_minimum),
        "inter_packet_delay_variation_ns": arrived.delay_variation_ns.as_ref().map(distribution),
    })
}

fn distribution(told: &Distribution) -> Value {
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
