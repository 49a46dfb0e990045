//! The sink's books: which frames of which source arrived, each sequence number once.
//!
//! Recording neither allocates nor locks: the bitmap is made before the trial, from the largest number of frames that
//! a source may send, and its pages come into being as they are first touched.

use crate::frame::{ETHERTYPE_PROBE, Key, TestFrame, delay_ns};
use crate::histogram::{Distribution, Histogram};
use crate::reordering::{Densities, Density, Occupancy, OutOfOrder, Reordering};

/// What the sink counted of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceArrivals {
    /// Sequence numbers that arrived.
    pub forwarded_frames: u64,
    /// Arrivals beyond the first of a sequence number.
    pub duplicate_frames: u64,
    /// First arrivals with a number below the next expected one, which is the largest seen and one (RFC 4737, 3.3,
    /// Type-P-Reordered). Divided by `forwarded_frames` it is the reordered ratio (4.1).
    pub reordered_frames: u64,
    /// How far these were from their places.
    pub reordering: Reordering,
    /// `CLOCK_MONOTONIC` of the first arrival.
    pub first_received_monotonic_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` of the last arrival.
    pub last_received_monotonic_ns: Option<u64>,
    /// How long frames arrived, without the times of more than 10 ms in which none did; none if the sink does not know.
    pub bursts_ns: Option<u64>,
    /// From send time to receive time, of first arrivals with a send time of their own.
    pub delay_ns: Option<Distribution>,
    /// The buckets of these delays: the largest value in it, and the count.
    pub delay_histogram: Vec<(u64, u64)>,
    /// Difference of the delays of frames with numbers next to each other (RFC 5481, IPDV), without its sign.
    pub delay_variation_ns: Option<Distribution>,
}

/// The books of one source.
#[derive(Debug)]
pub struct SourceBook {
    seen: Vec<u64>,
    capacity_frames: u64,
    counts: SourceArrivals,
    next: u64,
    out_of_order: Box<OutOfOrder>,
    density: Density,
    occupancy: Occupancy,
    delays: Histogram,
    variations: Histogram,
    earlier: Option<(u64, u64)>,
}

impl SourceBook {
    /// Empty books for sequence numbers below `capacity_frames`.
    pub fn new(capacity_frames: u64) -> Self {
        let seen = vec![0; capacity_frames.div_ceil(64) as usize];
        Self::counted(seen, SourceArrivals::default(), capacity_frames)
    }

    /// Books that were kept elsewhere: a bit for each sequence number, and the counts.
    pub fn counted(seen: Vec<u64>, counts: SourceArrivals, capacity_frames: u64) -> Self {
        Self {
            seen,
            capacity_frames,
            counts,
            next: 0,
            out_of_order: Box::default(),
            density: Density::default(),
            occupancy: Occupancy::default(),
            delays: Histogram::default(),
            variations: Histogram::default(),
            earlier: None,
        }
    }

    /// Enters an arrival; false if no frame can have that number. `sent_ns` is as in the frame
    /// ([`TestFrame::sent_ns`]), and none where it is not the frame's own.
    #[inline]
    pub fn record(&mut self, sequence: u64, sent_ns: Option<u64>, received_ns: u64) -> bool {
        if sequence >= self.capacity_frames {
            return false;
        }
        if self.counts.first_received_monotonic_ns.is_none() {
            self.counts.first_received_monotonic_ns = Some(received_ns);
        }
        self.counts.last_received_monotonic_ns = Some(received_ns);
        let bit = 1_u64 << (sequence % 64);
        let word = &mut self.seen[(sequence / 64) as usize];
        if *word & bit != 0 {
            self.counts.duplicate_frames += 1;
            return true;
        }
        *word |= bit;
        self.counts.forwarded_frames += 1;
        self.record_order(sequence, received_ns);
        if let Some(sent_ns) = sent_ns {
            self.record_delay(sequence, delay_ns(sent_ns, received_ns));
        }
        true
    }

    #[inline]
    fn record_order(&mut self, sequence: u64, received_ns: u64) {
        let arrival = self.counts.forwarded_frames;
        if sequence < self.next {
            self.counts.reordered_frames += 1;
            self.out_of_order.late(sequence, arrival, received_ns);
        } else {
            if sequence > self.next {
                self.out_of_order.skip(self.next, arrival, received_ns);
            }
            self.next = sequence + 1;
        }
        self.density.enter(sequence);
        self.occupancy.enter(sequence, &self.seen);
    }

    #[inline]
    fn record_delay(&mut self, sequence: u64, delay_ns: u64) {
        self.delays.record(delay_ns);
        if let Some((earlier, earlier_delay_ns)) = self.earlier
            && earlier + 1 == sequence
        {
            self.variations.record(delay_ns.abs_diff(earlier_delay_ns));
        }
        self.earlier = Some((sequence, delay_ns));
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

    /// The largest number that arrived.
    pub fn largest(&self) -> Option<u64> {
        let word = self.seen.iter().rposition(|word| *word != 0)?;
        Some(word as u64 * 64 + u64::from(self.seen[word].ilog2()))
    }

    /// How many numbers arrived.
    pub fn forwarded_frames(&self) -> u64 {
        self.counts.forwarded_frames
    }

    /// Whether the bits and the count say the same.
    pub fn agrees(&self) -> bool {
        self.arrived_from(0) == self.counts.forwarded_frames
    }

    /// The counts.
    pub fn arrivals(&self) -> SourceArrivals {
        let mut counts = self.counts.clone();
        if let Some(delays) = self.delays.distribution() {
            counts.delay_ns = Some(delays);
            counts.delay_histogram = self.delays.buckets();
            counts.delay_variation_ns = self.variations.distribution();
        }
        // Books that were kept elsewhere come with what was found there.
        if self.next > 0 {
            let (displacements, beyond_frames) = self.density.counts();
            let (occupancies, given_up_frames) = self.occupancy.counts();
            let densities =
                Densities { displacements, beyond_frames, occupancies, given_up_frames };
            counts.reordering =
                Reordering { out_of_order: self.out_of_order.clone(), densities: Some(densities) };
        }
        counts
    }
}

/// The UDP ports of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first source port.
    pub first_source: u16,
    /// How many source ports there are.
    pub flows: u16,
    /// The destination port.
    pub destination: u16,
}

/// How the sink recognises the trial's frames.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The trial's number.
    pub trial: u16,
    /// Lengths of the IP packets in bytes: what a VLAN tag that is put on or taken off on the way does not change.
    pub ip_bytes: Vec<usize>,
    /// The ports of each source, by its number.
    pub ports: Vec<Ports>,
    /// The secret of each source.
    pub keys: Vec<Key>,
    /// The most frames that each source may send.
    pub capacities: Vec<u64>,
}

/// What an arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A frame of this trial.
    Test,
    /// A frame of another trial.
    LateTrial,
    /// It says that it is one of this trial, and its tag is wrong: who wrote or changed it has no key.
    Forged,
    /// A generator asked whether frames pass; counted nowhere.
    Probe,
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
    forged: u64,
}

impl Books {
    /// Empty books.
    pub fn new(expectation: Expectation) -> Self {
        let sources =
            expectation.capacities.iter().map(|capacity| SourceBook::new(*capacity)).collect();
        Self { expectation, sources, foreign: 0, late_trial: 0, forged: 0 }
    }

    /// Enters the first bytes of a frame of `frame_bytes` that came at `received_ns` (`CLOCK_MONOTONIC`).
    #[inline]
    pub fn enter(&mut self, captured: &[u8], frame_bytes: usize, received_ns: u64) -> Arrival {
        let arrival = self.classify(captured, frame_bytes, received_ns);
        match arrival {
            Arrival::Test | Arrival::Probe => {}
            Arrival::LateTrial => self.late_trial += 1,
            Arrival::Forged => self.forged += 1,
            Arrival::Foreign => self.foreign += 1,
        }
        arrival
    }

    #[inline]
    fn classify(&mut self, captured: &[u8], frame_bytes: usize, received_ns: u64) -> Arrival {
        let Ok(frame) = TestFrame::new(captured, frame_bytes) else {
            let probe = captured.get(12..14) == Some(&ETHERTYPE_PROBE.to_be_bytes()[..]);
            return if probe { Arrival::Probe } else { Arrival::Foreign };
        };
        if frame.trial() != self.expectation.trial {
            return Arrival::LateTrial;
        }
        let source = usize::from(frame.source());
        let ip_bytes = frame_bytes - frame.layout().ip();
        let expected = self.expectation.ports.get(source).is_some_and(|ports| {
            let (port, destination) = frame.ports();
            port.wrapping_sub(ports.first_source) < ports.flows && destination == ports.destination
        });
        if !expected || !self.expectation.ip_bytes.contains(&ip_bytes) {
            return Arrival::Foreign;
        }
        let Some(book) = self.sources.get_mut(source) else { return Arrival::Foreign };
        if !self.expectation.keys.get(source).is_some_and(|key| frame.is_of(key)) {
            return Arrival::Forged;
        }
        let sent_ns = frame.is_timed().then(|| frame.sent_ns());
        if book.record(frame.sequence(), sent_ns, received_ns) {
            Arrival::Test
        } else {
            Arrival::Foreign
        }
    }

    /// The books of each source, by its number.
    pub fn sources(&self) -> &[SourceBook] {
        &self.sources
    }

    /// The books of each source, handed over.
    pub(crate) fn into_sources(self) -> Vec<SourceBook> {
        self.sources
    }

    /// Frames that belong to no trial.
    pub fn foreign_frames(&self) -> u64 {
        self.foreign
    }

    /// Frames that say they are this trial's and have a wrong tag.
    pub fn forged_frames(&self) -> u64 {
        self.forged
    }

    /// Frames that say they are another trial's.
    pub fn late_trial_frames(&self) -> u64 {
        self.late_trial
    }
}
