//! The sink program's data: the structures of `bpf/sink.bpf.c`.

use bytemuck::{Pod, Zeroable};

use crate::backend::MOST_SOURCES;
use crate::frame::{Begun, Words};
use crate::pcap::CapturedPacket;
use crate::sequence_accounting::{Expectation, SourceArrivals};

const SIZE_WORDS: usize = 32;
const CAPTURED_BYTES: usize = 1536;

/// What one source may send.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Expected {
    key: Words,
    first_word: u64,
    capacity_frames: u64,
    first_port: u16,
    flows: u16,
    destination_port: u16,
    unused: u16,
}

/// The program's configuration.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Configuration {
    ip_sizes: [u64; SIZE_WORDS],
    expected: [Expected; MOST_SOURCES],
    sources: u32,
    capture_frames: u32,
    trial: u16,
    /// The program relies on it.
    zero: u16,
    unused: [u16; 2],
}

/// Counts of one source on one receive queue.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Arrivals {
    pub(crate) forwarded: u64,
    pub(crate) duplicate: u64,
    pub(crate) reordered: u64,
    next_sequence: u64,
    first_ns: u64,
    last_ns: u64,
    burst_first_ns: u64,
    bursts_ns: u64,
    delay_count: u64,
    pub(crate) delay_min_ns: u64,
    pub(crate) delay_max_ns: u64,
    pub(crate) delay_sum_ns: u64,
    variation_count: u64,
    pub(crate) variation_max_ns: u64,
    pub(crate) variation_sum_ns: u64,
    earlier_sequence: u64,
    earlier_delay_ns: u64,
    begun: Begun,
}

/// Counts of one receive queue.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Queue {
    pub(crate) frames: u64,
    pub(crate) foreign: u64,
    pub(crate) late: u64,
    pub(crate) forged: u64,
    pub(crate) probes: u64,
    pub(crate) processors: u64,
    pub(crate) captured: u64,
}

/// A frame that was kept.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CapturedFrame {
    received_ns: u64,
    frame_bytes: u32,
    kept_bytes: u32,
    bytes: [u8; CAPTURED_BYTES],
}

impl Configuration {
    pub(crate) fn new(expectation: &Expectation, capture_frames: u32) -> Self {
        let mut own = Self {
            ip_sizes: [0; SIZE_WORDS],
            expected: [Expected::default(); MOST_SOURCES],
            sources: expectation.capacities.len() as u32,
            capture_frames,
            trial: expectation.trial,
            zero: 0,
            unused: [0; 2],
        };
        for bytes in &expectation.ip_bytes {
            own.ip_sizes[bytes / 64] |= 1 << (bytes % 64);
        }
        let mut first_word = 0;
        let sources = expectation.ports.iter().zip(&expectation.capacities).zip(&expectation.keys);
        for (place, ((ports, capacity), key)) in own.expected.iter_mut().zip(sources) {
            *place = Expected {
                key: key.words(),
                first_word,
                capacity_frames: *capacity,
                first_port: ports.first_source,
                flows: ports.flows,
                destination_port: ports.destination,
                unused: 0,
            };
            first_word += capacity.div_ceil(64);
        }
        own
    }
}

impl Arrivals {
    /// Adds these counts to those of other queues.
    pub(crate) fn add_to(&self, sum: &mut SourceArrivals) {
        sum.forwarded_frames += self.forwarded;
        sum.duplicate_frames += self.duplicate;
        sum.reordered_frames += self.reordered;
        let first =
            sum.first_received_monotonic_ns.map_or(self.first_ns, |ns| ns.min(self.first_ns));
        sum.first_received_monotonic_ns = Some(first);
        sum.last_received_monotonic_ns = sum.last_received_monotonic_ns.max(Some(self.last_ns));
        // Of a source whose frames come on several queues at once, the longest.
        let bursts_ns = self.bursts_ns + (self.last_ns - self.burst_first_ns);
        sum.bursts_ns = sum.bursts_ns.max(Some(bursts_ns));
    }
}

impl Queue {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            foreign: self.foreign + other.foreign,
            late: self.late + other.late,
            forged: self.forged + other.forged,
            probes: self.probes + other.probes,
            processors: self.processors | other.processors,
            captured: self.captured + other.captured,
        }
    }
}

impl CapturedFrame {
    pub(crate) fn packet(&self) -> CapturedPacket {
        let kept = (self.kept_bytes as usize).min(CAPTURED_BYTES);
        CapturedPacket {
            monotonic_ns: self.received_ns,
            frame_bytes: self.frame_bytes,
            bytes: self.bytes[..kept].to_vec(),
        }
    }
}
