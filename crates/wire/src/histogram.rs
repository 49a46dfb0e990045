//! A log-linear histogram of delays: exact minimum and maximum, percentiles within 1/64 (1.6 %).

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BUCKET_BITS;
const BUCKETS: usize = (64 - SUB_BUCKET_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of values in nanoseconds. Recording neither allocates nor branches on data beyond a maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    minimum: u64,
    maximum: u64,
}

/// What is told of a distribution, in nanoseconds.
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
    /// The largest, exactly.
    pub maximum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            count: 0,
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
        self.minimum = self.minimum.min(value);
        self.maximum = self.maximum.max(value);
    }

    /// The summary; none if nothing was recorded.
    pub fn distribution(&self) -> Option<Distribution> {
        (self.count > 0).then(|| Distribution {
            count: self.count,
            minimum: self.minimum,
            p50: self.quantile(50),
            p90: self.quantile(90),
            p99: self.quantile(99),
            maximum: self.maximum,
        })
    }

    /// The upper end of the bucket that holds the value of rank ceil(percent * count / 100), within the extremes.
    fn quantile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1) as u64;
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

#[inline]
const fn bucket(value: u64) -> usize {
    let magnitude = (value | (SUB_BUCKETS as u64 - 1)).ilog2();
    let shift = (magnitude + 1).saturating_sub(SUB_BUCKET_BITS + 1);
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let row = (magnitude - SUB_BUCKET_BITS + 1) as usize;
    row * SUB_BUCKETS + ((value >> shift) as usize & (SUB_BUCKETS - 1))
}

const fn upper_end(index: usize) -> u64 {
    let row = index / SUB_BUCKETS;
    let column = (index % SUB_BUCKETS) as u64;
    if row == 0 {
        return column;
    }
    let shift = row as u32 - 1;
    ((SUB_BUCKETS as u64 + column) << shift) + ((1_u64 << shift) - 1)
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
            let told = histogram.distribution().unwrap();
            let exact = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
            prop_assert_eq!(told.minimum, values[0]);
            prop_assert_eq!(told.maximum, *values.last().unwrap());
            for (got, percent) in [(told.p50, 50), (told.p90, 90), (told.p99, 99)] {
                let want = exact(percent);
                prop_assert!(got >= want && got - want <= want / 64, "{} for {}", got, want);
            }
        }
    }

    #[test]
    fn nothing_recorded_is_no_distribution() {
        assert_eq!(Histogram::default().distribution(), None);
    }
}
