//! Reordering in the terms of RFC 4737 (Type-P-Reordered, extent, late time, n-reordering) and RFC 5236 (reorder density,
//! reorder buffer-occupancy density).
//!
//! [`OutOfOrder`] is what RFC 4737 asks for. It does nothing for a frame that is the next one, a few words for one
//! that skips numbers, and a search for one that is late; `bpf/sink.bpf.c` keeps the same structure by the same steps.
//! [`Density`] and [`Occupancy`] look at frames that are early as well, and are kept in user space alone. All memory is
//! bounded and made before the trial.

use bytemuck::{Pod, Zeroable};

pub(crate) use density::Density;
pub(crate) use occupancy::Occupancy;

mod density;
mod occupancy;

/// The most places that RFC 5236's metrics look back or ahead: a frame further away is taken for lost.
pub const THRESHOLD_FRAMES: usize = 64;
/// How many runs of skipped numbers are remembered; a power of two, and the same in `bpf/sink.bpf.c`.
pub(crate) const GAPS: usize = 256;
/// How many late frames are remembered for n-reordering; the same in `bpf/sink.bpf.c`.
const LOWS: usize = 16;
/// Values below 64 have a bucket each, larger ones an octave each; the same in `bpf/sink.bpf.c`.
const BUCKETS: usize = 122;
const EXACT: u64 = 64;

/// Counts of small numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Counts {
    sum: u64,
    maximum: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Counts {
    fn default() -> Self {
        Self { sum: 0, maximum: 0, buckets: [0; BUCKETS] }
    }
}

impl Counts {
    #[inline]
    fn record(&mut self, value: u64) {
        let bucket = if value < EXACT { value } else { EXACT - 6 + u64::from(value.ilog2()) };
        self.buckets[bucket as usize] += 1;
        self.sum = self.sum.wrapping_add(value);
        self.maximum = self.maximum.max(value);
    }

    fn add(&mut self, other: &Self) {
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.maximum = self.maximum.max(other.maximum);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest; 0 if there was none.
    pub fn maximum(&self) -> u64 {
        self.maximum
    }

    /// Buckets that are not empty: the largest value that counts in it, and how many did.
    pub fn filled(&self) -> Vec<(u64, u64)> {
        let end = |bucket: u64| match bucket {
            0..EXACT => bucket,
            _ => (u64::MAX >> (u64::from(u64::BITS) + EXACT - 7 - bucket)).min(self.maximum),
        };
        (0..)
            .zip(self.buckets)
            .filter(|(_, count)| *count > 0)
            .map(|(at, count)| (end(at), count))
            .collect()
    }
}

/// A run of numbers that were skipped, by its first one, and the arrival that skipped them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Gap {
    first: u64,
    arrival: u64,
    received_ns: u64,
}

/// A late frame, for later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Low {
    sequence: u64,
    arrival: u64,
}

/// The reordering of one source, RFC 4737. The structure is that of `bpf/sink.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct OutOfOrder {
    /// Extents (4.2.3): arrivals since the first one that had a larger number.
    extents: Counts,
    /// n of n-reordering (5.2): arrivals just before, one after the other, that had larger numbers.
    degrees: Counts,
    late_ns_sum: u64,
    late_ns_max: u64,
    forgotten: u64,
    forgotten_degrees: u64,
    gap_count: u64,
    low_count: u64,
    low_dropped_arrival: u64,
    gaps: [Gap; GAPS],
    lows: [Low; LOWS],
}

impl Default for OutOfOrder {
    fn default() -> Self {
        Self {
            extents: Counts::default(),
            degrees: Counts::default(),
            late_ns_sum: 0,
            late_ns_max: 0,
            forgotten: 0,
            forgotten_degrees: 0,
            gap_count: 0,
            low_count: 0,
            low_dropped_arrival: 0,
            gaps: [Gap::default(); GAPS],
            lows: [Low::default(); LOWS],
        }
    }
}

impl OutOfOrder {
    /// A frame that skips numbers from `next` on, as the `arrival`th first arrival (from 1 on).
    pub fn skip(&mut self, next: u64, arrival: u64, received_ns: u64) {
        self.gaps[self.gap_count as usize % GAPS] = Gap { first: next, arrival, received_ns };
        self.gap_count += 1;
    }

    /// A reordered frame: its number was skipped. Arrivals count from 1 on.
    pub fn late(&mut self, sequence: u64, arrival: u64, received_ns: u64) {
        let remembered = self.gap_count.min(GAPS as u64);
        let gap = (1..=remembered)
            .map(|back| self.gaps[(self.gap_count - back) as usize % GAPS])
            .find(|gap| gap.first <= sequence);
        // Frames with smaller numbers than this one: the last of them ends its run of larger ones.
        let lows = &self.lows[..self.low_count as usize];
        let last = lows.iter().rposition(|low| low.sequence < sequence);
        let low = last.map(|place| lows[place].arrival);
        self.low_count = last.map_or(0, |place| place as u64 + 1);
        match gap {
            None => self.forgotten += 1,
            Some(gap) => {
                self.extents.record(arrival - gap.arrival);
                let late_ns = received_ns.saturating_sub(gap.received_ns);
                self.late_ns_sum += late_ns;
                self.late_ns_max = self.late_ns_max.max(late_ns);
                if low.is_none() && self.low_dropped_arrival >= gap.arrival {
                    self.forgotten_degrees += 1;
                } else {
                    self.degrees.record(arrival - gap.arrival.max(low.map_or(0, |last| last + 1)));
                }
            }
        }
        if self.low_count as usize == LOWS {
            self.low_dropped_arrival = self.lows[0].arrival;
            self.lows.copy_within(1.., 0);
            self.low_count -= 1;
        }
        self.lows[self.low_count as usize] = Low { sequence, arrival };
        self.low_count += 1;
    }

    /// Adds the counts of another receive queue; what is remembered stays each one's own.
    pub(crate) fn add(&mut self, other: &Self) {
        self.extents.add(&other.extents);
        self.degrees.add(&other.degrees);
        self.late_ns_sum += other.late_ns_sum;
        self.late_ns_max = self.late_ns_max.max(other.late_ns_max);
        self.forgotten += other.forgotten;
        self.forgotten_degrees += other.forgotten_degrees;
    }

    /// Extents of reordered frames, RFC 4737, 4.2.3, in frames.
    pub fn extents(&self) -> &Counts {
        &self.extents
    }

    /// Degrees of reordered frames: the largest n for which a frame is n-reordered, RFC 4737, 5.2; 0: for none.
    pub fn degrees(&self) -> &Counts {
        &self.degrees
    }

    /// Sum and largest of the late times, RFC 4737, 4.3: since the arrival that the extent counts from, ns.
    pub fn late_ns(&self) -> (u64, u64) {
        (self.late_ns_sum, self.late_ns_max)
    }

    /// Reordered frames whose extent (and late time), and whose degree, is not known: longer ago than is remembered.
    pub fn forgotten(&self) -> (u64, u64) {
        (self.forgotten, self.forgotten + self.forgotten_degrees)
    }
}

/// Reordering metrics of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// RFC 4737.
    pub out_of_order: Box<OutOfOrder>,
    /// RFC 5236: frames by displacement, and by frames in the buffer. None: the sink does not look at early
    /// frames, or there was none.
    pub densities: Option<Densities>,
}

/// RFC 5236, as counts that are not divided by their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Densities {
    /// Frames by displacement in places (RD): early is negative, late positive; none but those that are not 0.
    pub displacements: Vec<(i64, u64)>,
    /// Frames that no displacement within the threshold was found for.
    pub beyond_frames: u64,
    /// Frames by how many stood in the buffer after their arrival (RBD).
    pub occupancies: Vec<(u64, u64)>,
    /// Frames that came when they had been given up.
    pub given_up_frames: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_bucket_counts_the_sorted_values_up_to_its_end(
            parts in prop::collection::vec(prop::collection::vec((any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift), 0..60), 1..3),
        ) {
            let mut all = Counts::default();
            for part in &parts {
                let mut counts = Counts::default();
                for value in part {
                    counts.record(*value);
                }
                all.add(&counts);
            }
            let values = parts.concat();
            prop_assert_eq!(all.count(), values.len() as u64);
            prop_assert_eq!(all.maximum(), values.iter().copied().max().unwrap_or(0));
            prop_assert_eq!(all.sum(), values.iter().fold(0, |sum: u64, value| sum.wrapping_add(*value)));
            let mut counted = 0;
            for (end, count) in all.filled() {
                let up_to = values.iter().filter(|value| **value <= end).count() as u64;
                prop_assert_eq!(up_to - counted, count, "up to {}", end);
                prop_assert!(end >= EXACT || values.iter().filter(|value| **value == end).count() as u64 == count);
                counted = up_to;
            }
            prop_assert_eq!(counted, values.len() as u64);
        }
    }

    /// One late frame, of the first number: extent and degree are the arrivals between, each 10 ns after the other.
    fn one_late(arrivals_between: u64) -> OutOfOrder {
        let mut order = OutOfOrder::default();
        order.skip(0, 1, 10);
        order.late(0, 1 + arrivals_between, 10 + 10 * arrivals_between);
        order
    }

    #[test]
    fn queues_add_up() {
        let mut sum = one_late(3);
        sum.add(&one_late(5));
        sum.add(&one_late(2));
        for counts in [sum.extents(), sum.degrees()] {
            assert_eq!((counts.count(), counts.sum(), counts.maximum()), (3, 10, 5));
            assert_eq!(counts.filled(), [(2, 1), (3, 1), (5, 1)]);
        }
        assert_eq!((sum.late_ns(), sum.forgotten()), ((100, 50), (0, 0)));
    }

    #[test]
    fn unknown_degrees_add_up() {
        // Number 1 ends the run of larger ones before 2, and is no longer remembered after 16 later ones.
        let mut unknown = OutOfOrder::default();
        unknown.skip(0, 1, 0);
        unknown.late(1, 2, 0);
        (3..=18).for_each(|number| unknown.late(number, number, 0));
        unknown.late(2, 19, 0);
        assert_eq!(unknown.forgotten(), (0, 1));
        let mut sum = unknown;
        sum.add(&unknown);
        assert_eq!(sum.forgotten(), (0, 2));
    }

    #[test]
    fn what_queues_have_forgotten_adds_up() {
        // A late frame of a number that no gap is known for.
        let mut forgetful = OutOfOrder::default();
        forgetful.late(0, 2, 10);
        let mut sum = forgetful;
        sum.add(&forgetful);
        assert_eq!(sum.forgotten(), (2, 2));
    }
}
