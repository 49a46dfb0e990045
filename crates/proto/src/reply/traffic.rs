//! What the operations on traffic return: `traffic`, `send`, `sink-finish` and `http-load`.
#![allow(missing_docs)] // the fields are those of docs/protocol.md

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;

/// Buckets of a histogram that are not empty: the largest value in each, and the count.
pub type Buckets = Vec<(u64, u64)>;

/// `traffic`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Traffic {
    #[serde(flatten)]
    pub sent: Sources,
    pub sink: Sink,
    pub interfaces: Vec<InterfaceChange>,
    pub cpu: TrafficCpu,
}

/// `send`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Send {
    #[serde(flatten)]
    pub sent: Sources,
    pub interfaces: Vec<InterfaceChange>,
    pub cpu: SendCpu,
}

/// `sink-finish`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SinkFinish {
    pub sink: Sink,
    pub interfaces: Vec<InterfaceChange>,
    pub cpu: SinkFinishCpu,
}

/// The sources' part.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Sources {
    pub backend: Word,
    pub backend_reason: Option<String>,
    pub frame_size_bytes: u32,
    pub sizes_bytes: Option<Vec<usize>>,
    pub sources: Vec<SentSource>,
}

/// What one source sent.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SentSource {
    pub source: usize,
    pub interface: String,
    pub intended_frames: u64,
    pub offered_frames: u64,
    pub unsent_frames: u64,
    pub refused_frames: u64,
    pub skipped_frames: u64,
    pub late_frames: u64,
    pub start_monotonic_ns: u64,
    pub end_monotonic_ns: u64,
    pub first_sent_monotonic_ns: Option<u64>,
    pub last_sent_monotonic_ns: Option<u64>,
    /// How long its bursts took; none where it took no turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts_ns: Option<u64>,
    pub late_ns_max: u64,
    pub batch_frames: u64,
    pub probe_frames: u64,
    pub gap_ns: Option<Gaps>,
    pub thread: usize,
    pub cpu_ns: u64,
    pub waited_ns: Option<u64>,
}

/// Gaps between the send times of a source.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Gaps {
    #[serde(flatten)]
    pub distribution: Distribution,
    pub p1: u64,
    pub coefficient_of_variation: f64,
}

/// A distribution; the histogram is there only if the request asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Distribution {
    pub count: u64,
    pub minimum: u64,
    pub mean: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub maximum: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Buckets>,
}

/// The sink's part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Sink {
    pub backend: Word,
    pub backend_reason: Option<String>,
    pub per_source: Vec<ArrivedSource>,
    pub seen_frames: u64,
    pub foreign_frames: u64,
    pub late_trial_frames: u64,
    /// Frames that say they are this trial's and have a wrong tag.
    pub forged_frames: u64,
    /// The length of each frame's tag.
    pub tag_bits: u32,
    pub kernel_dropped_frames: u64,
    pub captured_frames: usize,
    pub drained: bool,
    /// Why there are no delays; none if they were measured.
    pub delay_reason: Option<Word>,
}

/// What arrived of one source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ArrivedSource {
    /// None for a sink that does not know its sources.
    pub source: Option<usize>,
    pub forwarded_frames: u64,
    pub duplicate_frames: u64,
    pub reordered_frames: u64,
    pub reordering: Reordering,
    pub lost_frames: u64,
    pub first_received_monotonic_ns: Option<u64>,
    pub last_received_monotonic_ns: Option<u64>,
    /// How long its bursts arrived; none where it took no turns, or the sink does not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts_ns: Option<u64>,
    pub delay_ns: Option<Distribution>,
    pub packet_delay_variation_ns: Option<DelayVariation>,
    pub inter_packet_delay_variation_ns: Option<Distribution>,
}

/// RFC 5481, PDV: the delay above the smallest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct DelayVariation {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub maximum: u64,
}

/// RFC 4737, and RFC 5236 where the sink measures it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Reordering {
    pub extent_frames: ReorderingCounts,
    pub n_reordering: ReorderingCounts,
    pub late_time_ns: LateTime,
    pub displacement: Option<ReorderDensity<i64>>,
    pub buffer_occupancy: Option<ReorderDensity<u64>>,
}

/// Counts of reordered frames by a small number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReorderingCounts {
    pub count: u64,
    pub sum: u64,
    pub maximum: u64,
    pub histogram: Buckets,
    pub unknown_frames: u64,
}

/// Late times of reordered frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct LateTime {
    pub sum: u64,
    pub maximum: u64,
}

/// RFC 5236: frames by displacement or by buffer occupancy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReorderDensity<T> {
    pub threshold_frames: usize,
    pub histogram: Vec<(T, u64)>,
    pub beyond_frames: u64,
}

/// How much an interface's counters grew, by their name in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct InterfaceChange {
    pub interface: String,
    #[serde(flatten)]
    pub counters: BTreeMap<Word, u64>,
}

/// CPU time of the sending threads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GeneratorCpu {
    pub generator_user_ns: u64,
    pub generator_system_ns: u64,
    pub generator_cpu_ns: u64,
    pub generator_cores: Vec<Option<u32>>,
}

/// CPU time of the receiving thread.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SinkCpu {
    pub sink_user_ns: u64,
    pub sink_system_ns: u64,
    pub sink_cpu_ns: u64,
    pub sink_waited_ns: Option<u64>,
    pub sink_core: Option<u32>,
    pub sink_ran_on: Vec<u32>,
}

/// CPU times of `traffic`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TrafficCpu {
    #[serde(flatten)]
    pub generator: GeneratorCpu,
    #[serde(flatten)]
    pub sink: SinkCpu,
    pub processors: Vec<ProcessorTimes>,
    /// Of the processors that were asked for; none otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Vec<ProcessorIdle>>,
}

/// CPU times of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SendCpu {
    #[serde(flatten)]
    pub generator: GeneratorCpu,
    pub processors: Vec<ProcessorTimes>,
}

/// CPU times of `sink-finish`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct SinkFinishCpu {
    #[serde(flatten)]
    pub sink: SinkCpu,
    pub processors: Vec<ProcessorTimes>,
}

/// How long one processor was idle between two readings on that processor itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProcessorIdle {
    pub cpu: u32,
    pub between_ns: u64,
    pub idle_ns: u64,
    pub means: IdleMeans,
}

/// Where an idle time is read, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum IdleMeans {
    /// `/proc/timer_list`: exact, in nanoseconds; a kernel without ticks in idle time, and root.
    #[serde(rename = "timer_list")]
    TimerList,
    /// `/sys/devices/system/cpu/cpu*/cpuidle`: exact, in microseconds.
    #[serde(rename = "cpuidle")]
    Cpuidle,
    /// `/proc/stat`: in steps of 10 ms, and sampled by a kernel that has ticks in idle time.
    #[serde(rename = "stat")]
    Stat,
}

/// Times of one processor, `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ProcessorTimes {
    pub cpu: u32,
    pub user_ns: u64,
    pub nice_ns: u64,
    pub system_ns: u64,
    pub idle_ns: u64,
    pub iowait_ns: u64,
    pub irq_ns: u64,
    pub softirq_ns: u64,
    pub steal_ns: u64,
}

/// `http-load`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpLoad {
    pub intended_requests: u64,
    pub replies: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub timeouts: u64,
    pub unsent_requests: u64,
    pub failures: BTreeMap<Word, u64>,
    pub body_bytes: u64,
    pub connections_opened: u64,
    pub connections_open_maximum: usize,
    pub start_realtime_ns: u64,
    pub start_monotonic_ns: u64,
    pub last_reply_monotonic_ns: Option<u64>,
    pub end_monotonic_ns: u64,
    pub latency_ns: Option<Distribution>,
    pub service_ns: Option<Distribution>,
    pub late_ns: Option<Distribution>,
    pub cpu: HttpLoadCpu,
}

/// CPU times of `http-load`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpLoadCpu {
    pub generator_cpu_ns: u64,
    pub core: Option<u32>,
    pub processors: Vec<ProcessorTimes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text as the agent writes it: `Value` sorts the fields.
    fn text(reply: &impl Serialize) -> String {
        serde_json::to_value(reply).unwrap().to_string()
    }

    fn distribution(histogram: Option<Buckets>) -> Distribution {
        Distribution {
            count: 1,
            minimum: 2,
            mean: 3,
            p50: 4,
            p90: 5,
            p99: 6,
            p999: 7,
            maximum: 8,
            histogram,
        }
    }

    #[test]
    fn a_histogram_is_there_only_if_it_was_asked_for() {
        assert_eq!(
            text(&distribution(None)),
            r#"{"count":1,"maximum":8,"mean":3,"minimum":2,"p50":4,"p90":5,"p99":6,"p999":7}"#
        );
        assert_eq!(
            text(&Gaps {
                distribution: distribution(Some(vec![(8, 1)])),
                p1: 2,
                coefficient_of_variation: 0.5,
            }),
            r#"{"coefficient_of_variation":0.5,"count":1,"histogram":[[8,1]],"maximum":8,"mean":3,"minimum":2,"p1":2,"p50":4,"p90":5,"p99":6,"p999":7}"#
        );
    }

    #[test]
    fn cpu_times_and_counters_are_one_object_each() {
        let generator = GeneratorCpu {
            generator_user_ns: 1,
            generator_system_ns: 2,
            generator_cpu_ns: 3,
            generator_cores: vec![None, Some(1)],
        };
        let sink = SinkCpu {
            sink_user_ns: 4,
            sink_system_ns: 5,
            sink_cpu_ns: 6,
            sink_waited_ns: Some(7),
            sink_core: None,
            sink_ran_on: vec![0],
        };
        let processors = vec![ProcessorTimes { cpu: 0, user_ns: 9, ..ProcessorTimes::default() }];
        assert_eq!(
            text(&TrafficCpu { generator, sink, processors, idle: None }),
            r#"{"generator_cores":[null,1],"generator_cpu_ns":3,"generator_system_ns":2,"generator_user_ns":1,"processors":[{"cpu":0,"idle_ns":0,"iowait_ns":0,"irq_ns":0,"nice_ns":0,"softirq_ns":0,"steal_ns":0,"system_ns":0,"user_ns":9}],"sink_core":null,"sink_cpu_ns":6,"sink_ran_on":[0],"sink_system_ns":5,"sink_user_ns":4,"sink_waited_ns":7}"#
        );
        let change = InterfaceChange {
            interface: "in0".to_owned(),
            counters: BTreeMap::from([("rx_packets".into(), 2), ("tx_packets".into(), 1)]),
        };
        assert_eq!(text(&change), r#"{"interface":"in0","rx_packets":2,"tx_packets":1}"#);
    }

    #[test]
    fn what_a_sink_does_not_measure_is_null() {
        let counts = ReorderingCounts {
            count: 1,
            sum: 2,
            maximum: 2,
            histogram: vec![(2, 1)],
            unknown_frames: 0,
        };
        let mut reordering = Reordering {
            extent_frames: counts.clone(),
            n_reordering: counts,
            late_time_ns: LateTime { sum: 3, maximum: 3 },
            displacement: None,
            buffer_occupancy: None,
        };
        let integers = r#"{"count":1,"histogram":[[2,1]],"maximum":2,"sum":2,"unknown_frames":0}"#;
        assert_eq!(
            text(&reordering),
            format!(
                r#"{{"buffer_occupancy":null,"displacement":null,"extent_frames":{integers},"late_time_ns":{{"maximum":3,"sum":3}},"n_reordering":{integers}}}"#
            )
        );
        let histogram = vec![(-1, 1)];
        reordering.displacement =
            Some(ReorderDensity { threshold_frames: 64, histogram, beyond_frames: 0 });
        assert!(text(&reordering).contains(
            r#""displacement":{"beyond_frames":0,"histogram":[[-1,1]],"threshold_frames":64}"#
        ));
    }
}
