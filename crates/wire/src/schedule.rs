//! When each frame of a source is due.

/// Due times of the frames of one source.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// `CLOCK_MONOTONIC` of frame 0.
    pub start_ns: u64,
    /// Target rate.
    pub frames_per_second: f64,
    /// Length of the trial.
    pub duration_ns: u64,
    /// A frame that is later than this is not sent.
    pub catch_up_ns: u64,
    /// What is due is sent every so many nanoseconds; none: each frame at its own time.
    pub wake_ns: Option<u64>,
}

impl Schedule {
    /// floor(rate * duration): how many frames are due within the trial.
    pub fn intended_frames(&self) -> u64 {
        intended_frames(self.frames_per_second, self.duration_ns)
    }

    /// When frame `sequence` is due.
    #[inline]
    pub fn due_ns(&self, sequence: u64) -> u64 {
        self.start_ns + (sequence as f64 * 1e9 / self.frames_per_second) as u64
    }

    /// How many frames are due at `now_ns`.
    #[inline]
    pub fn due_frames(&self, now_ns: u64) -> u64 {
        now_ns
            .checked_sub(self.start_ns)
            .map_or(0, |passed| (passed as f64 * self.frames_per_second / 1e9) as u64 + 1)
    }

    /// The gap between two frames as nanoseconds and a 2^32nd part of one: exact to 10^-10 ns a frame.
    pub fn gap(&self) -> (u64, u64) {
        let gap = 1e9 / self.frames_per_second;
        let fraction = ((gap - gap.floor()) * 4_294_967_296.0).round() as u64;
        (gap as u64 + (fraction >> 32), fraction & 0xffff_ffff)
    }
}

/// floor(rate * `duration_ns` / 10^9), in double precision.
pub fn intended_frames(frames_per_second: f64, duration_ns: u64) -> u64 {
    (frames_per_second * duration_ns as f64 / 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(frames_per_second: f64, start_ns: u64) -> Schedule {
        let (duration_ns, catch_up_ns) = (1_500_000_000, 1);
        Schedule { start_ns, frames_per_second, duration_ns, catch_up_ns, wake_ns: None }
    }

    #[test]
    fn a_thousand_frames_a_second_are_due_a_millisecond_apart() {
        let schedule = schedule(1_000.0, 70);
        assert_eq!(schedule.intended_frames(), 1_500);
        assert_eq!(
            [0, 1, 1_500].map(|number| schedule.due_ns(number)),
            [70, 1_000_070, 1_500_000_070]
        );
        let times = [0, 69, 70, 1_000_069, 1_000_070, 1_500_000_070];
        assert_eq!(times.map(|now_ns| schedule.due_frames(now_ns)), [0, 0, 1, 1, 2, 1_501]);
        assert_eq!(schedule.gap(), (1_000_000, 0));
    }

    #[test]
    fn a_frame_whose_time_is_not_over_is_not_intended() {
        assert_eq!(schedule(1.0, 0).intended_frames(), 1);
        assert_eq!(schedule(0.5, 0).intended_frames(), 0);
    }

    #[test]
    fn a_gap_has_a_fraction_of_2_to_the_32nd_parts() {
        assert_eq!(schedule(1e9 / 2.75, 0).gap(), (2, 3 << 30));
        // Nearer to 3 than to 2 and the largest fraction.
        assert_eq!(schedule(1e9 / 2.999_999_999_99, 0).gap(), (3, 0));
    }

    proptest! {
        #[test]
        fn the_exact_gap_adds_up_to_the_due_times(rate in 1.0_f64..5e6, frames in 1_u64..10_000_000) {
            let schedule = schedule(rate, 0);
            let (gap_ns, fraction) = schedule.gap();
            let sum = u128::from(frames) * (u128::from(gap_ns) << 32 | u128::from(fraction));
            prop_assert!(((sum >> 32) as u64).abs_diff(schedule.due_ns(frames)) <= 2 + frames / 1_000_000_000 + (frames as f64 / rate * 1e-6) as u64);
        }

        #[test]
        fn a_frame_is_due_at_its_due_time_and_not_long_before(
            rate in 0.5_f64..5e6, sequence in 0_u64..10_000_000, start_ns in 0_u64..(1 << 50),
        ) {
            let schedule = schedule(rate, start_ns);
            let due_ns = schedule.due_ns(sequence);
            prop_assert!(schedule.due_frames(due_ns + 2) > sequence);
            prop_assert!(schedule.due_frames(due_ns.saturating_sub(2)) <= sequence + 1);
            if start_ns > 0 {
                prop_assert_eq!(schedule.due_frames(start_ns - 1), 0);
            }
        }

        #[test]
        fn a_frame_is_due_no_earlier_than_the_one_before_and_all_within_the_trial(
            rate in prop_oneof![1e-300_f64..1.0, 1.0_f64..1e8], duration_ns in 1_u64..3_600_000_000_000, start_ns in 0_u64..(1 << 60), places in prop::collection::vec(0.0_f64..1.0, 1..20),
        ) {
            let schedule = Schedule { start_ns, frames_per_second: rate, duration_ns, catch_up_ns: 1, wake_ns: None };
            let intended = schedule.intended_frames();
            let mut sequences: Vec<u64> = places.iter().map(|place| (place * intended as f64) as u64).collect();
            sequences.sort_unstable();
            prop_assert!(schedule.gap().1 < 1 << 32);
            if intended > 0 {
                prop_assert_eq!(schedule.due_ns(0), start_ns);
                let due: Vec<u64> = sequences.iter().map(|sequence| schedule.due_ns(*sequence)).collect();
                prop_assert!(due.is_sorted());
                prop_assert!(*due.last().unwrap() <= start_ns + duration_ns);
            }
        }
    }
}
