//! The gaps between the send times of one source's frames: how even its pace was.

use crate::histogram::{Distribution, Histogram};

/// Gaps counted in user space.
#[derive(Clone, Debug)]
pub struct Gaps {
    nominal_ns: u64,
    last_sent_ns: Option<u64>,
    squares: u128,
    histogram: Histogram,
}

/// Summary of the gaps.
#[derive(Clone, Debug)]
pub struct GapSummary {
    /// Their distribution in nanoseconds; its maximum is the longest gap.
    pub distribution: Distribution,
    /// 1st percentile, to 1.6 %.
    pub p1: u64,
    /// Standard deviation over mean: 0 for an even pace, 1 for a random (Poisson) one.
    pub coefficient_of_variation: f64,
    /// Buckets that are not empty: the largest value in it, and the count.
    pub histogram: Vec<(u64, u64)>,
}

impl Gaps {
    /// None yet; deviations are taken from `nominal_ns`.
    pub fn new(nominal_ns: u64) -> Self {
        Self { nominal_ns, last_sent_ns: None, squares: 0, histogram: Histogram::default() }
    }

    /// One more frame.
    #[inline]
    pub fn record(&mut self, sent_ns: u64) {
        if let Some(last) = self.last_sent_ns {
            let gap = sent_ns.saturating_sub(last);
            self.squares += u128::from(gap.abs_diff(self.nominal_ns)).pow(2);
            self.histogram.record(gap);
        }
        self.last_sent_ns = Some(sent_ns);
    }

    /// The summary; none with fewer than two frames.
    pub fn summary(&self) -> Option<GapSummary> {
        summary(&self.histogram, self.nominal_ns, self.squares)
    }
}

/// The summary of a histogram of gaps; `squares` is the sum of the squared differences from `nominal_ns`.
pub fn summary(histogram: &Histogram, nominal_ns: u64, squares: u128) -> Option<GapSummary> {
    let distribution = histogram.distribution()?;
    let mean = histogram.mean();
    // The variance about another point than the mean is larger by the square of their distance.
    let variance = squares as f64 / distribution.count as f64 - (mean - nominal_ns as f64).powi(2);
    let coefficient_of_variation = if mean > 0.0 { variance.max(0.0).sqrt() / mean } else { 0.0 };
    Some(GapSummary {
        distribution,
        p1: histogram.quantile(10),
        coefficient_of_variation,
        histogram: histogram.buckets(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_of_one_and_three_vary_by_half_their_mean() {
        let mut gaps = Gaps::new(5);
        assert!(gaps.summary().is_none());
        gaps.record(100);
        assert!(gaps.summary().is_none(), "one frame has no gap");
        for sent_ns in [101, 104, 105, 108] {
            gaps.record(sent_ns);
        }
        let summary = gaps.summary().unwrap();
        assert!((summary.coefficient_of_variation - 0.5).abs() < 1e-9);
        assert_eq!((summary.p1, summary.histogram), (1, vec![(1, 2), (3, 2)]));
    }

    #[test]
    fn frames_of_one_moment_have_a_variation_that_is_a_number() {
        let mut gaps = Gaps::new(5);
        (0..3).for_each(|_| gaps.record(100));
        let variation = gaps.summary().unwrap().coefficient_of_variation;
        assert!(variation.abs() < 1e-9, "{variation}");
    }

    proptest! {
        #[test]
        fn the_variation_is_that_of_the_gaps(gaps in prop::collection::vec(1_u64..1_000_000, 2..200), nominal in 1_u64..1_000_000) {
            let mut counted = Gaps::new(nominal);
            let mut time = 5;
            counted.record(time);
            for gap in &gaps {
                time += gap;
                counted.record(time);
            }
            let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let reported = counted.summary().unwrap();
            prop_assert!((reported.coefficient_of_variation - variance.sqrt() / mean).abs() < 1e-6);
            let mut sorted = gaps.clone();
            sorted.sort_unstable();
            prop_assert_eq!(reported.distribution.maximum, *sorted.last().unwrap());
            let wanted = sorted[sorted.len().div_ceil(100) - 1];
            prop_assert!(reported.p1 >= wanted && reported.p1 - wanted <= wanted / 64);
        }
    }
}
