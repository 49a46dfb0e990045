//! A log-linear histogram of delays: exact minimum and maximum, percentiles within 1/64 (1.6 %).

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BUCKET_BITS;
/// How many buckets there are; `bpf/common.h` says the same.
pub(crate) const BUCKETS: usize = (64 - SUB_BUCKET_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of values in nanoseconds. Recording neither allocates nor branches on data beyond a maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    minimum: u64,
    maximum: u64,
}

/// Summary of a distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// The smallest, exactly.
    pub minimum: u64,
    /// Median, to 1.6 %.
    pub p50: u64,
    /// 90th percentile, to 1.6 %.
    pub p90: u64,
    /// 99th percentile, to 1.6 %.
    pub p99: u64,
    /// 99.9th percentile, to 1.6 %.
    pub p999: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// The largest, exactly.
    pub maximum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
            sum: 0,
            minimum: u64::MAX,
            maximum: 0,
        }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.minimum = self.minimum.min(value);
        self.maximum = self.maximum.max(value);
    }

    /// The summary; none if nothing was recorded.
    pub fn distribution(&self) -> Option<Distribution> {
        (self.count > 0).then(|| Distribution {
            count: self.count,
            minimum: self.minimum,
            p50: self.quantile(500),
            p90: self.quantile(900),
            p99: self.quantile(990),
            p999: self.quantile(999),
            mean: (self.sum / u128::from(self.count)) as u64,
            maximum: self.maximum,
        })
    }

    /// Adds what a program counted: its buckets in order, and the exact sum and extremes of its values.
    pub fn add(&mut self, buckets: impl Iterator<Item = u64>, sum: u64, extremes: (u64, u64)) {
        for (own, more) in self.counts.iter_mut().zip(buckets) {
            *own += more;
            if more > 0 {
                self.count += more;
                self.minimum = self.minimum.min(extremes.0);
                self.maximum = self.maximum.max(extremes.1);
            }
        }
        self.sum += u128::from(sum);
    }

    /// Adds all values of another one.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.minimum = self.minimum.min(other.minimum);
        self.maximum = self.maximum.max(other.maximum);
    }

    /// The exact mean. Something was recorded.
    pub(crate) fn mean(&self) -> f64 {
        self.sum as f64 / self.count as f64
    }

    /// Buckets that are not empty: the largest value that counts in it, and how many did.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (upper_end(index).min(self.maximum), *count)).collect()
    }

    /// The upper end of the bucket of rank ceil(permille * count / 1000), within the extremes. Something was recorded.
    pub(crate) fn quantile(&self, permille: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1000) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_end(index).clamp(self.minimum, self.maximum);
            }
        }
        self.maximum
    }
}

/// Values below 128 have a bucket each, larger ones 64 an octave: which octave, and the upper seven bits.
#[inline]
const fn bucket(value: u64) -> usize {
    let octave = (value | SUB_BUCKETS as u64).ilog2() - SUB_BUCKET_BITS;
    octave as usize * SUB_BUCKETS + (value >> octave) as usize
}

const fn upper_end(index: usize) -> u64 {
    let octave = (index / SUB_BUCKETS).saturating_sub(1);
    let first = (index - octave * SUB_BUCKETS) as u64;
    (first << octave) + ((1 << octave) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_within_its_bucket(value in any::<u64>()) {
            let end = upper_end(bucket(value));
            prop_assert!(end >= value);
            prop_assert!(end - value <= value / 64);
        }

        #[test]
        fn percentiles_are_near_the_sorted_values(mut values in prop::collection::vec(0_u64..10_000_000, 1..500)) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.record(*value);
            }
            values.sort_unstable();
            let reported = histogram.distribution().unwrap();
            let exact = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
            prop_assert_eq!(reported.minimum, values[0]);
            prop_assert_eq!(reported.maximum, *values.last().unwrap());
            for (got, percent) in [(reported.p50, 50), (reported.p90, 90), (reported.p99, 99)] {
                let want = exact(percent);
                prop_assert!(got >= want && got - want <= want / 64, "{} for {}", got, want);
            }
        }
    }

    proptest! {
        #[test]
        fn the_figures_are_those_of_the_sorted_values(
            parts in prop::collection::vec(prop::collection::vec(any_value(), 0..60), 1..4), permille in 0_u64..=1000,
        ) {
            let mut merged = Histogram::default();
            for part in &parts {
                let mut histogram = Histogram::default();
                for value in part {
                    histogram.record(*value);
                }
                merged.merge(&histogram);
            }
            let mut values = parts.concat();
            values.sort_unstable();
            let buckets = merged.buckets();
            prop_assert_eq!(buckets.iter().map(|(_, count)| *count).sum::<u64>(), values.len() as u64);
            prop_assert!(buckets.is_sorted_by(|one, other| one.0 < other.0));
            // Each bucket counts the sorted values between the end of the one before and its own.
            let mut counted = 0;
            for (end, count) in buckets {
                let up_to = values.iter().filter(|value| **value <= end).count() as u64;
                prop_assert_eq!(up_to - counted, count);
                counted = up_to;
            }
            let Some(reported) = merged.distribution() else {
                prop_assert!(values.is_empty());
                return Ok(());
            };
            let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
            prop_assert_eq!(reported.count, values.len() as u64);
            prop_assert_eq!((reported.minimum, reported.maximum), (values[0], *values.last().unwrap()));
            prop_assert_eq!(u128::from(reported.mean), sum / values.len() as u128);
            let wanted = values[(values.len() * permille as usize).div_ceil(1000).max(1) - 1];
            let found = merged.quantile(permille);
            prop_assert!(found >= wanted && found - wanted <= wanted / 64, "{} for {}", found, wanted);
        }
    }

    /// Of any magnitude.
    fn any_value() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift)
    }

    #[test]
    fn a_bucket_ends_before_the_next_one_begins() {
        // Exact below 128; from there on 64 to an octave: two values in each from 128, four from 256.
        for (value, end) in [(0, 0), (64, 64), (127, 127), (128, 129), (255, 255), (256, 259)] {
            assert_eq!(upper_end(bucket(value)), end, "{value}");
        }
        assert_eq!((bucket(u64::MAX), upper_end(BUCKETS - 1)), (BUCKETS - 1, u64::MAX));
    }

    #[test]
    fn percentiles_of_the_numbers_up_to_2001() {
        let mut histogram = Histogram::default();
        (0..=2_001).for_each(|value| histogram.record(value));
        // Ranks 1001, 1802, 1982 and 2000; 8 values to a bucket from 512 on, 16 from 1024 on. The mean is 1000.5.
        let wanted = Distribution {
            count: 2_002,
            minimum: 0,
            p50: 1_007,
            p90: 1_807,
            p99: 1_983,
            p999: 1_999,
            mean: 1_000,
            maximum: 2_001,
        };
        assert_eq!(histogram.distribution(), Some(wanted));
    }

    #[test]
    fn a_program_that_counted_nothing_adds_nothing() {
        let mut histogram = Histogram::default();
        histogram.record(7);
        let before = histogram.distribution();
        histogram.add(std::iter::repeat_n(0, BUCKETS), 0, (0, u64::MAX));
        assert_eq!(histogram.distribution(), before);
    }

    #[test]
    fn adding_buckets_is_recording() {
        let mut recorded = Histogram::default();
        let values = [3_u64, 64, 64, 1_000_000];
        let mut counts = vec![0; BUCKETS];
        for value in values {
            recorded.record(value);
            counts[bucket(value)] += 1;
        }
        let mut added = Histogram::default();
        added.add(counts.into_iter(), values.iter().sum(), (3, 1_000_000));
        assert_eq!(added.distribution(), recorded.distribution());
        assert_eq!(added.buckets(), [(3, 1), (64, 2), (1_000_000, 1)]);
    }

    #[test]
    fn merging_is_recording_in_one() {
        let (mut both, mut parts) =
            (Histogram::default(), [Histogram::default(), Histogram::default()]);
        for (place, value) in [(0, 3), (1, 64), (0, 64), (1, 1_000_000)] {
            both.record(value);
            parts[place].record(value);
        }
        let mut merged = Histogram::default();
        for part in parts.iter().chain([&Histogram::default()]) {
            merged.merge(part);
        }
        assert_eq!(merged.distribution(), both.distribution());
        assert_eq!(merged.buckets(), both.buckets());
    }

    #[test]
    fn nothing_recorded_is_no_distribution() {
        assert_eq!(Histogram::default().distribution(), None);
    }
}
