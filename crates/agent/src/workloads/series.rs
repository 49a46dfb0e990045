//! Durations by this guest's own clock: each one kept until the end mark has left, and what reading that clock costs.

use virtoll_clock::monotonic_ns;
use virtoll_proto::reply::figures::{ClockCost, Series};
use virtoll_proto::{Error, ErrorKind};
use virtoll_wire::Histogram;

/// 32 MB of durations.
pub const MOST: u64 = 1 << 22;
const CLOCK_BATCHES: usize = 200;
const CLOCK_READS: u32 = 50;

/// Durations in ns, in the order measured. Its memory is there and touched before the first one.
#[derive(Default)]
pub struct Durations {
    values: Vec<u64>,
    used: usize,
}

impl Durations {
    /// Room for `count` of them.
    ///
    /// # Errors
    /// `bad-request` for none, `limit` for more than `MOST`.
    pub fn of(count: u64, what: &str) -> Result<Self, Error> {
        match count {
            0 => Err(Error::bad_request(format!("{what} must be at least 1"))),
            // Not zeros: those would be pages that the first write brings into being.
            1..=MOST => Ok(Self { values: vec![u64::MAX; count as usize], used: 0 }),
            _ => {
                Err(Error::new(ErrorKind::Limit, format!("{what} must be at most {MOST} in a job")))
            }
        }
    }

    /// How many there is room for.
    pub fn room(&self) -> usize {
        self.values.len()
    }

    /// Forgets all of them; the room stays.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Keeps one; beyond the room none is.
    #[inline]
    pub fn push(&mut self, duration_ns: u64) {
        if let Some(place) = self.values.get_mut(self.used) {
            *place = duration_ns;
            self.used += 1;
        }
    }

    /// Count, sum, extremes and quantiles, all exact (the value of rank ceil(q n)), and a histogram of buckets
    /// [largest value, count], each within 1/64.
    pub fn summary(mut self) -> Series {
        self.values.truncate(self.used);
        self.values.sort_unstable();
        let values = &self.values;
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(*value);
        }
        let quantile = |permille: usize| {
            values.get((values.len() * permille).div_ceil(1000).max(1) - 1).copied()
        };
        Series {
            count: values.len(),
            sum_ns: values.iter().sum(),
            minimum_ns: values.first().copied(),
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            maximum_ns: values.last().copied(),
            histogram_ns: histogram.buckets(),
        }
    }
}

/// What a reading of the clock costs: batches of readings, each batch timed by the same clock.
pub fn clock_cost() -> Option<ClockCost> {
    let mut durations = Durations::of(CLOCK_BATCHES as u64, "batches").ok()?;
    for _ in 0..CLOCK_BATCHES {
        let begin = monotonic_ns();
        for _ in 1..CLOCK_READS {
            std::hint::black_box(monotonic_ns());
        }
        durations.push(monotonic_ns() - begin);
    }
    Some(ClockCost { batch_readings: CLOCK_READS, batches: durations.summary() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_values_of_their_ranks() {
        let mut durations = Durations::of(1000, "x").unwrap();
        for value in (1..=1000_u64).rev() {
            durations.push(value * 1_000_003);
        }
        durations.push(7); // no room
        let reported = durations.summary();
        for (name, value, rank) in [
            ("minimum_ns", reported.minimum_ns, 1),
            ("p50_ns", reported.p50_ns, 500),
            ("p99_ns", reported.p99_ns, 990),
            ("p999_ns", reported.p999_ns, 999),
            ("maximum_ns", reported.maximum_ns, 1000),
        ] {
            assert_eq!(value, Some(rank * 1_000_003_u64), "{name}");
        }
        assert_eq!(reported.sum_ns, 500_500 * 1_000_003_u64);
        let counted: u64 = reported.histogram_ns.iter().map(|bucket| bucket.1).sum();
        assert_eq!(counted, 1000);
    }

    #[test]
    fn none_and_too_many_are_refused() {
        assert!(Durations::of(0, "x").is_err());
        assert!(Durations::of(MOST + 1, "x").is_err());
    }

    #[test]
    fn reading_the_clock_takes_time() {
        let cost = clock_cost().unwrap();
        assert_eq!(cost.batches.count, CLOCK_BATCHES);
        assert!(cost.batches.sum_ns > 0);
    }
}
