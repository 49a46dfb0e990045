//! What `run` and `serve-finish` return: the figures of the built-in workloads and of TCP exchanges. Each type of figures
//! is named after its job in `docs/protocol.md`.
#![allow(missing_docs)] // the fields are those of docs/protocol.md

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::traffic::{Buckets, Distribution};
use super::{Empty, Exec, TcpInformation};

/// `run`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Run {
    pub guest: GuestTimes,
    pub result: Figures,
    pub check: String,
}

/// The guest's clocks at the marks of a job, and the CPU time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct GuestTimes {
    pub start_monotonic_ns: u64,
    pub end_monotonic_ns: u64,
    pub start_realtime_ns: u64,
    pub end_realtime_ns: u64,
    /// From the start mark to the job.
    pub pause_ns: u64,
    pub user_cpu_ns: u64,
    pub system_cpu_ns: u64,
}

/// `serve-finish`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ServeFinish {
    pub result: ExchangeFigures,
    pub check: String,
    /// Of the only connection; none where the kernel has no `TCP_INFO`.
    pub tcp: Option<TcpInformation>,
    /// Each of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
}

/// The figures of a job.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Figures {
    SuperPi(SuperPi),
    Masr(Masr),
    Stream(Stream),
    Zfg(Zfg),
    ForkWait(ForkWait),
    Kernel(Kernel),
    ContextSwitch(ContextSwitch),
    IpcBandwidth(IpcBandwidth),
    Tcp(Tcp),
    Program(Exec),
    RoutingTable(RoutingTable),
    Idle(Empty),
}

/// `superpi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SuperPi {
    pub iterations: u32,
    pub digits: u64,
}

/// `masr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Masr {
    pub allocate_ns: u64,
    pub set_ns: u64,
    pub read_ns: u64,
    pub size_bytes: u64,
}

/// `stream`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    pub elements: u64,
    pub rounds: usize,
    pub threads: usize,
    pub kernels: StreamKernels,
    /// Of the three arrays.
    pub relative_errors: [f64; 3],
}

/// The four kernels of `stream`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamKernels {
    pub copy: StreamKernel,
    pub scale: StreamKernel,
    pub add: StreamKernel,
    pub triad: StreamKernel,
}

/// One kernel of `stream`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamKernel {
    /// What a round counts.
    pub bytes: u64,
    pub round_ns: Vec<u64>,
}

/// `zfg`; the lists are by round.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Zfg {
    pub size_bytes: u64,
    pub write_ns: Vec<u64>,
    pub sync_ns: Vec<u64>,
}

/// `forkwait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForkWait {
    pub processes: u64,
    pub reaped: u64,
}

/// `kernel`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    pub operations: u64,
    pub batch_operations: u64,
    pub batches: Series,
    /// Of `signal-handle` alone.
    pub sending: Option<Sending>,
    pub clock: Option<ClockCost>,
}

/// Signals sent that are none: what lmbench subtracts from handling one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sending {
    pub sent: u64,
    pub batches: Series,
}

/// `context-switch`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSwitch {
    pub processes: usize,
    /// None where the guest has one CPU alone.
    pub pinned_cpu: Option<usize>,
    pub laps: Series,
    /// Passing the token without a switch.
    pub pipes: Option<Series>,
    pub clock: Option<ClockCost>,
}

/// `ipc-bandwidth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IpcBandwidth {
    pub chunk_bytes: u64,
    /// By the processes that receive.
    pub received_bytes: u64,
}

/// Durations by the guest's clock. Quantiles are exact; the buckets of the histogram hold its values within 1/64.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub count: usize,
    pub sum_ns: u64,
    pub minimum_ns: Option<u64>,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p999_ns: Option<u64>,
    pub maximum_ns: Option<u64>,
    pub histogram_ns: Buckets,
}

/// What a reading of the guest's clock costs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClockCost {
    pub batch_readings: u32,
    pub batches: Series,
}

/// `tcp`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Tcp {
    #[serde(flatten)]
    pub exchange: ExchangeFigures,
    /// Of the only connection; none where the kernel has no `TCP_INFO`.
    pub tcp: Option<TcpInformation>,
    /// Each of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<Connection>,
}

/// One of several connections of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Connection {
    /// Its part of the whole; the times of transactions without their histogram, which is the whole's.
    #[serde(flatten)]
    pub exchange: ExchangeFigures,
    /// None where the kernel has no `TCP_INFO`.
    pub tcp: Option<TcpInformation>,
}

/// What one end of a TCP exchange did: over its only connection, or over all of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ExchangeFigures {
    Sent(StreamSent),
    Received(StreamReceived),
    Answered(Answered),
    Asked(Asked),
}

/// The end that sends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSent {
    pub bytes: u64,
    pub messages: u64,
    pub start_monotonic_ns: u64,
    /// All bytes are the kernel's.
    pub handed_over_monotonic_ns: u64,
    pub end_monotonic_ns: u64,
}

/// The end that receives a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamReceived {
    pub bytes: u64,
    pub messages: u64,
    pub start_monotonic_ns: u64,
    pub end_monotonic_ns: u64,
}

/// The end that asks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    pub transactions: u64,
    pub start_monotonic_ns: u64,
    pub end_monotonic_ns: u64,
    /// From one answer to the next.
    pub transaction_ns: Option<Distribution>,
}

/// The end that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    pub transactions: u64,
    pub start_monotonic_ns: u64,
    pub end_monotonic_ns: u64,
}

/// `routing-table`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingTable {
    pub routes: u32,
    pub changed_routes: u32,
    pub memory_before: RouterMemory,
    pub memory_after: RouterMemory,
}

/// The kernel's memory, and the size of its table of routes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RouterMemory {
    /// Bytes by the name in `/proc/meminfo`; none where the kernel has no such file.
    pub kernel: Option<BTreeMap<String, u64>>,
    pub trie: Option<RoutingTrie>,
}

/// The kernel's trie of routes, `/proc/net/fib_triestat`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RoutingTrie {
    pub prefixes: u64,
    pub leaves: u64,
    pub internal_nodes: u64,
    pub mean_depth: f64,
    pub maximum_depth: u64,
    pub bytes: u64,
}
