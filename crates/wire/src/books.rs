//! The sink's books: which frames of which source arrived, each sequence number once.
//!
//! Recording neither allocates nor locks: the bitmap is made before the trial, from the largest number of frames that
//! a source may send, and its pages come into being as they are first touched.

use crate::frame::TestFrame;
use crate::histogram::{Distribution, Histogram};

/// The books of one source.
#[derive(Debug)]
pub struct SourceBook {
    seen: Vec<u64>,
    capacity_frames: u64,
    forwarded: u64,
    duplicate: u64,
    reordered: u64,
    largest: Option<u64>,
    first_received_ns: Option<u64>,
    last_received_ns: Option<u64>,
    delays: Histogram,
}

/// What the sink counted of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceArrivals {
    /// Sequence numbers that arrived.
    pub forwarded_frames: u64,
    /// Arrivals beyond the first of a sequence number.
    pub duplicate_frames: u64,
    /// First arrivals with a number smaller than the largest seen (RFC 4737).
    pub reordered_frames: u64,
    /// `CLOCK_MONOTONIC` of the first arrival.
    pub first_received_monotonic_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` of the last arrival.
    pub last_received_monotonic_ns: Option<u64>,
    /// From send time to receive time, of first arrivals.
    pub delay_ns: Option<Distribution>,
}

impl SourceBook {
    /// Empty books for sequence numbers below `capacity_frames`.
    pub fn new(capacity_frames: u64) -> Self {
        Self {
            seen: vec![0; capacity_frames.div_ceil(64) as usize],
            capacity_frames,
            forwarded: 0,
            duplicate: 0,
            reordered: 0,
            largest: None,
            first_received_ns: None,
            last_received_ns: None,
            delays: Histogram::default(),
        }
    }

    /// Enters an arrival; false if no frame can have that number.
    #[inline]
    pub fn record(&mut self, sequence: u64, sent_ns: u64, received_ns: u64) -> bool {
        if sequence >= self.capacity_frames {
            return false;
        }
        if self.first_received_ns.is_none() {
            self.first_received_ns = Some(received_ns);
        }
        self.last_received_ns = Some(received_ns);
        let bit = 1_u64 << (sequence % 64);
        let word = &mut self.seen[(sequence / 64) as usize];
        if *word & bit != 0 {
            self.duplicate += 1;
            return true;
        }
        *word |= bit;
        self.forwarded += 1;
        match self.largest {
            Some(largest) if sequence < largest => self.reordered += 1,
            _ => self.largest = Some(sequence),
        }
        self.delays.record(received_ns.saturating_sub(sent_ns));
        true
    }

    /// How many numbers of at least `intended_frames` arrived: frames that were never sent.
    pub fn arrived_from(&self, intended_frames: u64) -> u64 {
        let first = (intended_frames / 64) as usize;
        let mask = u64::MAX << (intended_frames % 64);
        let words = self.seen.get(first..).unwrap_or(&[]);
        words
            .iter()
            .enumerate()
            .map(|(index, word)| {
                u64::from((if index == 0 { word & mask } else { *word }).count_ones())
            })
            .sum()
    }

    /// The counts.
    pub fn arrivals(&self) -> SourceArrivals {
        SourceArrivals {
            forwarded_frames: self.forwarded,
            duplicate_frames: self.duplicate,
            reordered_frames: self.reordered,
            first_received_monotonic_ns: self.first_received_ns,
            last_received_monotonic_ns: self.last_received_ns,
            delay_ns: self.delays.distribution(),
        }
    }
}

/// How the sink tells the trial's frames from others.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The trial's number.
    pub trial: u16,
    /// Frame size in bytes.
    pub frame_bytes: usize,
    /// UDP source and destination port of each source, by its number.
    pub ports: Vec<(u16, u16)>,
}

/// What an arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A frame of this trial.
    Test,
    /// A frame of another trial.
    LateTrial,
    /// Anything else.
    Foreign,
}

/// The books of a trial.
#[derive(Debug)]
pub struct Books {
    expectation: Expectation,
    sources: Vec<SourceBook>,
    foreign: u64,
    late_trial: u64,
}

impl Books {
    /// Empty books; `capacities` holds the most frames that each source may send.
    pub fn new(expectation: Expectation, capacities: &[u64]) -> Self {
        let sources = capacities.iter().map(|capacity| SourceBook::new(*capacity)).collect();
        Self { expectation, sources, foreign: 0, late_trial: 0 }
    }

    /// Enters the first bytes of a frame of `frame_bytes` that came at `received_ns` (`CLOCK_MONOTONIC`).
    #[inline]
    pub fn enter(&mut self, captured: &[u8], frame_bytes: usize, received_ns: u64) -> Arrival {
        let arrival = self.classify(captured, frame_bytes, received_ns);
        match arrival {
            Arrival::Test => {}
            Arrival::LateTrial => self.late_trial += 1,
            Arrival::Foreign => self.foreign += 1,
        }
        arrival
    }

    #[inline]
    fn classify(&mut self, captured: &[u8], frame_bytes: usize, received_ns: u64) -> Arrival {
        let Ok(frame) = TestFrame::new(captured, frame_bytes) else { return Arrival::Foreign };
        if frame.trial() != self.expectation.trial {
            return Arrival::LateTrial;
        }
        let source = usize::from(frame.source());
        if frame_bytes != self.expectation.frame_bytes
            || self.expectation.ports.get(source) != Some(&frame.ports())
        {
            return Arrival::Foreign;
        }
        let Some(book) = self.sources.get_mut(source) else { return Arrival::Foreign };
        if book.record(frame.sequence(), frame.sent_monotonic_ns(), received_ns) {
            Arrival::Test
        } else {
            Arrival::Foreign
        }
    }

    /// The books of each source, by its number.
    pub fn sources(&self) -> &[SourceBook] {
        &self.sources
    }

    /// Frames that belong to no trial.
    pub fn foreign_frames(&self) -> u64 {
        self.foreign
    }

    /// Frames of another trial.
    pub fn late_trial_frames(&self) -> u64 {
        self.late_trial
    }
}
