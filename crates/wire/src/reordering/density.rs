//! Reorder density, RFC 5236, 4: how many frames arrived how many places from where they would have without reordering.

use super::THRESHOLD_FRAMES;

const SPAN: usize = 2 * THRESHOLD_FRAMES + 1;

/// The algorithm of RFC 5236 (4.3) with the threshold DT, one arrival at a time.
///
/// A receive index is given to each arrival in turn, and skips the numbers of frames that were lost; displacement is
/// receive index minus sequence number. Whether a number was lost is known when it does not stand among the DT + 1
/// arrivals of the window, so a frame is decided DT arrivals after it came. While frames come in order the window is
/// a run of numbers from the receive index on, and nothing is stored (`settled`).
#[derive(Clone, Debug)]
pub(crate) struct Density {
    receive_index: u64,
    settled: bool,
    /// Arrivals that are not decided, in order; while settled only their number counts.
    window: [u64; THRESHOLD_FRAMES + 1],
    window_frames: usize,
    /// Early frames whose number no receive index was given to.
    early: [u64; THRESHOLD_FRAMES],
    early_frames: usize,
    /// How many of the last arrivals were each the successor of the one before, it included.
    run_frames: usize,
    displaced: [u64; SPAN],
    beyond: u64,
}

impl Default for Density {
    fn default() -> Self {
        Self {
            receive_index: 0,
            settled: true,
            window: [0; THRESHOLD_FRAMES + 1],
            window_frames: 0,
            early: [0; THRESHOLD_FRAMES],
            early_frames: 0,
            run_frames: 0,
            displaced: [0; SPAN],
            beyond: 0,
        }
    }
}

impl Density {
    /// A first arrival.
    #[inline]
    pub fn enter(&mut self, sequence: u64) {
        if self.settled && sequence == self.receive_index + self.window_frames as u64 {
            if self.window_frames < THRESHOLD_FRAMES {
                self.window_frames += 1;
            } else {
                self.displaced[THRESHOLD_FRAMES] += 1;
                self.receive_index += 1;
            }
            return;
        }
        self.enter_slowly(sequence);
    }

    fn enter_slowly(&mut self, sequence: u64) {
        if sequence < self.receive_index {
            self.beyond += 1;
            return;
        }
        if self.settled {
            self.settled = false;
            self.run_frames = self.window_frames;
            for (place, number) in
                self.window[..self.window_frames].iter_mut().zip(self.receive_index..)
            {
                *place = number;
            }
        }
        let follows = self.window_frames > 0 && self.window[self.window_frames - 1] + 1 == sequence;
        self.run_frames = if follows { self.run_frames + 1 } else { 1 };
        self.window[self.window_frames] = sequence;
        self.window_frames += 1;
        if self.window_frames == self.window.len() {
            self.decide();
        }
        self.settled = self.early_frames == 0
            && self.run_frames >= self.window_frames
            && self.window[0] == self.receive_index;
    }

    /// Gives receive indices until the oldest arrival of the window is decided.
    fn decide(&mut self) {
        let sequence = self.window[0];
        let early = loop {
            let waiting = &self.window[..self.window_frames];
            let early = &self.early[..self.early_frames];
            if let Some(place) = early.iter().position(|number| *number == self.receive_index) {
                break Some(place);
            }
            if waiting.contains(&self.receive_index) {
                break None;
            }
            // Lost: on to the next number that is there. There is one, since no more frames are late than early.
            let ahead = |number: &u64| number.checked_sub(self.receive_index);
            let lost_frames = waiting.iter().chain(early).filter_map(ahead).min();
            self.receive_index += lost_frames.unwrap_or(1);
        };
        self.window.copy_within(1..self.window_frames, 0);
        self.window_frames -= 1;
        let displacement = self.receive_index.wrapping_sub(sequence).cast_signed();
        if displacement.unsigned_abs() > THRESHOLD_FRAMES as u64 {
            self.beyond += 1;
            return;
        }
        self.displaced[(THRESHOLD_FRAMES as i64 + displacement) as usize] += 1;
        if let Some(place) = early {
            self.early_frames -= 1;
            self.early[place] = self.early[self.early_frames];
        }
        if displacement < 0 {
            self.early[self.early_frames] = sequence;
            self.early_frames += 1;
        }
        self.receive_index += 1;
    }

    /// Frames by displacement, those still in the window decided as if no more came; and frames beyond the threshold.
    pub fn counts(&self) -> (Vec<(i64, u64)>, u64) {
        let mut all = self.clone();
        if all.settled {
            all.displaced[THRESHOLD_FRAMES] += all.window_frames as u64;
        } else {
            while all.window_frames > 0 {
                all.decide();
            }
        }
        let first = -(THRESHOLD_FRAMES as i64);
        let counts = (first..).zip(all.displaced).filter(|(_, count)| *count > 0);
        (counts.collect(), all.beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_stored_while_the_window_is_a_run_from_the_receive_index_on(
            numbers in Just((0..300).collect::<Vec<u64>>()).prop_shuffle(), kept in 1_usize..=300, in_order in 0_u64..200,
        ) {
            let mut density = Density::default();
            for number in (0..in_order).chain(numbers.iter().take(kept).map(|number| in_order + number)).chain(in_order + 300..in_order + 600) {
                density.enter(number);
                let window = &density.window[..density.window_frames];
                let run = window.iter().copied().eq((density.receive_index..).take(window.len()));
                prop_assert!(density.settled || density.early_frames > 0 || !run, "{:?}", density);
            }
            prop_assert!(density.settled, "300 frames in order are more than the window");
        }
    }
}
