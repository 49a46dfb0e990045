//! The replies to operations on traffic, from a trial's counts.

use std::collections::BTreeMap;

use virtoll_proto::reply::Word;
use virtoll_proto::reply::traffic::{
    ArrivedSource, Buckets, DelayVariation, Distribution, Gaps, GeneratorCpu, InterfaceChange,
    ProcessorIdle, ProcessorTimes, SentSource, Sink, SinkCpu, Sources, Traffic as TrafficReply,
    TrafficCpu,
};
use virtoll_proto::request::Traffic;
use virtoll_wire::backend_selection::Chosen;
use virtoll_wire::frame::TAG_BITS;
use virtoll_wire::netlink::LinkStatistics;
use virtoll_wire::sequence_accounting::SourceArrivals;
use virtoll_wire::trial::{self, SinkResult, TrialCounts, TrialPlan};
use virtoll_wire::{GapSummary, Sent};

use super::order;

/// Whether the send time in a frame and its receive time were read from one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Sources and sink are one agent's.
    One,
    /// They are of two hosts: no delay can be measured.
    Two,
}

const TWO_CLOCKS: &str = "generator and sink are on two hosts, whose clocks are not one";

/// The reply to `traffic`; `processors` is what the processors did meanwhile, `idle` how long those asked for were idle.
pub fn answer(
    request: &Traffic,
    plan: &TrialPlan,
    counts: &TrialCounts,
    processors: Vec<ProcessorTimes>,
    idle: Vec<ProcessorIdle>,
) -> TrafficReply {
    let generator = generator_cpu(plan, &counts.sent.value);
    TrafficReply {
        sent: sources(request, plan, &counts.sent),
        sink: sink(request, &counts.sink, Clock::One),
        interfaces: interfaces(&counts.interfaces),
        cpu: TrafficCpu {
            generator,
            sink: sink_cpu(plan, &counts.sink),
            processors,
            idle: (!request.idle_of.is_empty()).then_some(idle),
        },
    }
}

/// The sources' half.
pub fn sources(request: &Traffic, plan: &TrialPlan, all: &Chosen<Vec<Sent>>) -> Sources {
    let numbered = all.value.iter().enumerate();
    Sources {
        backend: all.name.into(),
        backend_reason: all.reason.clone(),
        frame_size_bytes: request.frame_size_bytes,
        sizes_bytes: plan.sources.first().map(|source| source.shape.frame_sizes()),
        sources: numbered
            .map(|(number, one)| sent(number, one, plan, request.histograms))
            .collect(),
    }
}

/// The sink's half.
pub fn sink(request: &Traffic, sink: &SinkResult, clock: Clock) -> Sink {
    let SinkResult { sources, received } = sink;
    let per_source = sources.iter().enumerate().map(|(number, one)| {
        let all = ArrivedSource {
            bursts_ns: one.arrivals.bursts_ns.filter(|_| request.bursts.is_some()),
            ..arrived(Some(number), &one.arrivals, one.lost_frames, request.histograms)
        };
        match clock {
            Clock::One => all,
            Clock::Two => ArrivedSource {
                delay_ns: None,
                packet_delay_variation_ns: None,
                inter_packet_delay_variation_ns: None,
                ..all
            },
        }
    });
    Sink {
        backend: received.name.into(),
        backend_reason: received.reason.clone(),
        per_source: per_source.collect(),
        seen_frames: received.counts.seen_frames,
        foreign_frames: received.counts.foreign_frames,
        late_trial_frames: received.counts.late_trial_frames,
        forged_frames: received.counts.forged_frames,
        tag_bits: TAG_BITS,
        kernel_dropped_frames: received.counts.kernel_dropped_frames,
        captured_frames: received.counts.captured.len(),
        drained: received.counts.drained,
        delay_reason: (clock == Clock::Two).then_some(TWO_CLOCKS.into()),
    }
}

/// How the interfaces' counters grew.
pub fn interfaces(all: &[trial::InterfaceChange]) -> Vec<InterfaceChange> {
    let change = |one: &trial::InterfaceChange| InterfaceChange {
        interface: one.interface.clone(),
        counters: changes(&one.statistics.0, &one.statistics.1),
    };
    all.iter().map(change).collect()
}

/// CPU time of the sending threads.
pub fn generator_cpu(plan: &TrialPlan, sent: &[Sent]) -> GeneratorCpu {
    // The cost of a thread that serves several sources counts once.
    let first = |at: usize| sent[..at].iter().all(|one| one.thread != sent[at].thread);
    let generators = || (0..sent.len()).filter(|at| first(*at)).map(|at| sent[at].cost);
    GeneratorCpu {
        generator_user_ns: generators().map(|cost| cost.cpu.user_ns).sum(),
        generator_system_ns: generators().map(|cost| cost.cpu.system_ns).sum(),
        generator_cpu_ns: generators().map(|cost| cost.cpu_ns).sum(),
        generator_cores: plan.sources.iter().map(|source| source.cpu).collect(),
    }
}

/// CPU time of the receiving thread.
pub fn sink_cpu(plan: &TrialPlan, sink: &SinkResult) -> SinkCpu {
    let cost = &sink.received.cost;
    SinkCpu {
        sink_user_ns: cost.cpu.user_ns,
        sink_system_ns: cost.cpu.system_ns,
        sink_cpu_ns: cost.cpu_ns,
        sink_waited_ns: cost.waited_ns,
        sink_core: plan.sink_cpu,
        sink_ran_on: sink.received.counts.processors.clone(),
    }
}

/// A source's side.
pub fn sent(number: usize, source: &Sent, plan: &TrialPlan, histograms: bool) -> SentSource {
    let sent = &source.counts;
    let between = sent.sent_between_ns;
    SentSource {
        source: number,
        interface: plan.sources[number].interface.clone(),
        intended_frames: sent.intended_frames,
        offered_frames: sent.offered_frames,
        unsent_frames: sent.unsent_frames,
        refused_frames: sent.refused_frames,
        skipped_frames: sent.skipped_frames,
        late_frames: sent.late_frames,
        start_monotonic_ns: sent.start_monotonic_ns,
        end_monotonic_ns: sent.end_monotonic_ns,
        first_sent_monotonic_ns: between.map(|between| between.0),
        last_sent_monotonic_ns: between.map(|between| between.1),
        bursts_ns: plan.sources[number].bursts.map(|_| sent.bursts_ns),
        late_ns_max: sent.late_ns_max,
        batch_frames: sent.batch_frames,
        probe_frames: sent.probe_frames,
        gap_ns: sent.gaps.as_ref().map(|gaps| gap(gaps, histograms)),
        thread: source.thread,
        cpu_ns: source.cost.cpu_ns,
        waited_ns: source.cost.waited_ns,
    }
}

fn gap(gaps: &GapSummary, histograms: bool) -> Gaps {
    Gaps {
        distribution: distribution(&gaps.distribution, histograms.then(|| gaps.histogram.clone())),
        p1: gaps.p1,
        coefficient_of_variation: gaps.coefficient_of_variation,
    }
}

/// The sink's side of a source.
pub fn arrived(
    number: Option<usize>,
    arrived: &SourceArrivals,
    lost_frames: u64,
    histograms: bool,
) -> ArrivedSource {
    let histogram = || histograms.then(|| arrived.delay_histogram.clone());
    let delays = arrived.delay_ns.as_ref();
    let variations = arrived.delay_variation_ns.as_ref();
    ArrivedSource {
        source: number,
        forwarded_frames: arrived.forwarded_frames,
        duplicate_frames: arrived.duplicate_frames,
        reordered_frames: arrived.reordered_frames,
        reordering: order::reordering(&arrived.reordering),
        lost_frames,
        first_received_monotonic_ns: arrived.first_received_monotonic_ns,
        last_received_monotonic_ns: arrived.last_received_monotonic_ns,
        bursts_ns: None,
        delay_ns: delays.map(|delays| distribution(delays, histogram())),
        packet_delay_variation_ns: delays.map(above_minimum),
        inter_packet_delay_variation_ns: variations.map(|all| distribution(all, None)),
    }
}

/// A distribution in the protocol's words.
pub fn distribution(
    summary: &virtoll_wire::Distribution,
    histogram: Option<Buckets>,
) -> Distribution {
    Distribution {
        count: summary.count,
        minimum: summary.minimum,
        mean: summary.mean,
        p50: summary.p50,
        p90: summary.p90,
        p99: summary.p99,
        p999: summary.p999,
        maximum: summary.maximum,
        histogram,
    }
}

fn above_minimum(delays: &virtoll_wire::Distribution) -> DelayVariation {
    DelayVariation {
        p50: delays.p50 - delays.minimum,
        p90: delays.p90 - delays.minimum,
        p99: delays.p99 - delays.minimum,
        p999: delays.p999 - delays.minimum,
        maximum: delays.maximum - delays.minimum,
    }
}

/// How much each counter grew.
pub fn changes(before: &LinkStatistics, after: &LinkStatistics) -> BTreeMap<Word, u64> {
    let pairs = before.named().into_iter().zip(after.named());
    pairs.map(|((name, old), (_, new))| (name.into(), new.wrapping_sub(old))).collect()
}
